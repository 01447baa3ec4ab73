"""``estimate`` and ``cheapest`` answer one question: each gives a GPU the same bill."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cli.harness import A100, H100, RTX4090, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.gpu import Gpu
from tracker.domain.terms import Market, Terms

A6000 = Gpu("A6000-48GB", "A6000", None, 48)
KEYS = (H100.key, A100.key, RTX4090.key, A6000.key)
JOBS = (
    "bert-large", "bert-base-inference", "llama-3.1-70b-inference", "llama-3.1-8b-lora",
    "llama-3.1-8b-service", "llama-3.1-70b-qlora", "resnet-50",
)  # fmt: skip
SAME = ("at_least_usd", "total_usd", "provider", "market", "machines", "low_usd", "high_usd")


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    """Whole machines of eight beside single GPUs, some of them by the month."""
    month = {"market": Market.MONTHLY, "terms": Terms(commitment_hours=730)}
    offers = [
        make_offer("h8", "18.40", gpu=H100, gpu_count=8), make_offer("h1", "2.99", gpu=H100),
        make_offer("a8", "13.20", gpu=A100, gpu_count=8),
        make_offer("a2", "3.10", gpu=A100, gpu_count=2),
        make_offer("r", "0.34", gpu=RTX4090), make_offer("r8", "3.00", gpu=RTX4090, gpu_count=8),
        make_offer("w4", "1.90", gpu=A6000, gpu_count=4),
        make_offer("w", "0.30", gpu=A6000, **month),
    ]  # fmt: skip
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _here(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def _asked(command: str, *argv: str) -> dict[str, Any]:
    answer = run(command, *argv, "-o", "json")
    assert answer.code in (0, 3), answer.err
    document: dict[str, Any] = answer.json()
    return document


@pytest.mark.parametrize("job", JOBS)
def test_each_gpu_has_the_bill_that_cheapest_gives_it(job: str) -> None:
    found = {e["gpu"]: e for e in _asked("estimate", job, "--gpu", ",".join(KEYS))["estimates"]}
    billed = 0
    for key in KEYS:
        rows = _asked("cheapest", job, "--gpu", key, "--top", "1")["rows"]
        entry = found[key]
        if not rows:
            assert entry.get("at_least_usd") is None
            continue
        billed += 1
        [row] = rows
        assert {name: entry[name] for name in SAME} == {name: row[name] for name in SAME}
        assert entry["hours"] == pytest.approx(row["runtime_hours"], rel=1e-5)
        assert entry["billed_hours"] == pytest.approx(row["billed_hours"], rel=1e-5)
        assert entry["gpus"] <= entry["machines"] * entry["gpus_per_machine"]
        if "steps" in entry and entry["low_gpus"] is None:  # the way is to those hours
            last = [step["value"] for step in entry["steps"] if step["name"] == "runtime"]
            assert not last or last[-1] == pytest.approx(entry["hours"], rel=1e-4)
    assert billed > 1


@pytest.mark.parametrize("job", JOBS)
def test_what_it_calls_cheapest_is_the_cheapest(job: str) -> None:
    estimates = _asked("estimate", job, "--gpu", ",".join(KEYS))["estimates"]
    best = min(float(e["at_least_usd"]) for e in estimates if e.get("at_least_usd"))
    [row] = _asked("cheapest", job, "--gpu", ",".join(KEYS), "--top", "1")["rows"]
    assert best == pytest.approx(float(row["at_least_usd"]))


def test_a_count_that_is_asked_for_is_kept() -> None:
    asked = _asked("estimate", "llama-3.1-8b-lora", "--gpu", H100.key, "--gpus", "2")
    [entry] = asked["estimates"]
    # Two machines of one GPU have no known network between them.
    assert (entry["gpus"], entry["machines"], entry["gpus_per_machine"]) == (2, 1, 8)


def test_the_fastest_still_comes_first_and_the_table_says_what_is_rented() -> None:
    shown = run("estimate", "llama-3.1-70b-inference", "--gpu", ",".join(KEYS))
    assert shown.code == 0, shown.err
    rows = [line.split() for line in shown.out.splitlines() if line.startswith(KEYS)]
    hours = [float(row[2].replace(",", "")) for row in rows]
    assert hours == sorted(hours)
    assert re.search(r"1 x 8 +on-demand", shown.out)
