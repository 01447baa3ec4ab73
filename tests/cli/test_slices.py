"""Parts of GPUs: estimated by their share, ranked among themselves, never beside whole ones."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, by_id, filled, polled, run
from tests.support.catalogue import catalogue
from tests.support.estimating import Shipped
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.gpu import Gpu
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate
from tracker.domain.job_text import job_from_text
from tracker.domain.slices import Share, runtime_on, share_of

D = Decimal
SMALL = """
name = "small"
[workload]
kind = "inference"
model = { params = "500M" }
input_tokens = 256
output_tokens = 64
requests = "100k"
"""
A100_SLICE = Gpu("A100-SLICE", "A100", None, None, is_slice=True)
L4_SLICE = Gpu("L4-SLICE", "L4", None, None, is_slice=True)


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    offers = [
        make_offer("whole", "1.6", gpu=A100),
        make_offer("A100 MIG 1g.10gb", "0.2", gpu=A100_SLICE),
        make_offer("A100 MIG 3g.40gb", "0.8", gpu=A100_SLICE),
        make_offer("quarter", "0.2", gpu=L4_SLICE, gpu_count=D("0.25")),
        make_offer("somewhat", "0.1", gpu=A100_SLICE),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)
    (tmp_path / "small.toml").write_text(SMALL)


def _ask(*argv: str) -> dict[str, Any]:
    answer = run("cheapest", "small.toml", *argv, "-o", "json")
    assert answer.code == 0, answer.err
    document: dict[str, Any] = answer.json()
    return document


def test_they_stand_beside_the_ranking_of_whole_ones() -> None:
    document = _ask()
    assert [row["offer_id"] for row in document["rows"]] == ["whole"]
    found = by_id(document["slices"])
    assert set(found) == {"A100 MIG 1g.10gb", "A100 MIG 3g.40gb", "quarter"}
    quarter = found["quarter"]
    # The price is of the quarter, and one is taken.
    assert (quarter["machines"], quarter["price_usd_per_machine_hour"]) == (1, "0.2")
    assert Decimal(quarter["total_usd"]) == pytest.approx(
        D("0.2") * D(str(quarter["runtime_hours"])), rel=D("0.00001")
    )
    assert quarter["runtime_low_hours"] < quarter["runtime_hours"] < quarter["runtime_high_hours"]
    small, large = found["A100 MIG 1g.10gb"], found["A100 MIG 3g.40gb"]
    assert small["runtime_hours"] > large["runtime_hours"] > document["rows"][0]["runtime_hours"]
    [line] = [text for text in document["remarks"] if text.startswith("It also fits a part of a")]
    assert "on L4-SLICE (0.25 of one) at acme" in line
    assert line in run("cheapest", "small.toml").lines


def test_asked_for_by_name_they_are_ranked_and_what_is_unknown_is_counted() -> None:
    document = _ask("--gpu", "A100-SLICE")
    assert {row["offer_id"] for row in document["rows"]} == {"A100 MIG 1g.10gb", "A100 MIG 3g.40gb"}
    assert document["excluded"]["sold as a slice whose share of the GPU is not stated"] == 1
    assert document["slices"] == []


def test_a_family_asks_for_its_own_slices_only() -> None:
    assert {row["gpu"] for row in _ask("--gpu", "A100")["slices"]} == {"A100-SLICE"}


def test_jobs_of_given_hours_and_of_several_gpus_get_none() -> None:
    assert run("cheapest", "bert-large", "-o", "json").json()["slices"] == []
    answer = run("cheapest", "bert-large", "--gpu", "A100-SLICE")
    assert (answer.code, answer.complaint) == (3, "no offer matches")
    answer = run("cheapest", "small.toml", "--gpu", "A100-SLICE", "--gpus", "2")
    assert answer.code == 3


@pytest.mark.parametrize(
    ("native_id", "count", "share"),
    [
        ("anything", "0.25", Share(Fraction(1, 4), Fraction(1, 4))),
        ("NVIDIA A100 80GB MIG 1g.10gb", "1", Share(Fraction(1, 7), gb=10)),
        ("H100-MIG-3G.40GB/2", "1", Share(Fraction(3, 7), gb=40)),
        ("A100", "1", None),
        ("10g.10gb", "1", None),
        ("v1g.10gbit", "1", None),
    ],
)
def test_the_share_is_read_and_never_guessed(
    native_id: str, count: str, share: Share | None
) -> None:
    assert share_of(native_id, D(count)) == share


def _small(more: str = "") -> Job:
    return job_from_text(SMALL + more, catalogue(), Shipped())


def _hours(job: Job, share: Share, key: str = "A100-SLICE") -> RuntimeEstimate:
    found = runtime_on(job, key, share, catalogue())
    assert isinstance(found, RuntimeEstimate), found
    return found


def test_of_the_cards_that_it_may_be_of_the_slowest_counts() -> None:
    # 10 GB are a quarter of an A100 of 40 GB and an eighth of one of 80 GB.
    found = _hours(_small(), Share(Fraction(1, 7), gb=10))
    estimator = Shipped().estimator
    task = _small().task
    assert task is not None
    slowest = max(
        answer.hours  # type: ignore[union-attr]
        for gpu, size in (("A100-SXM-80GB", 80), ("A100-PCIE-80GB", 80), ("A100-SXM-40GB", 40),
                          ("A100-PCIE-40GB", 40))
        if (answer := estimator.estimate_share(task.workload, gpu, 1 / 7, 10 / size))
    )  # fmt: skip
    assert float(found.hours) == pytest.approx(slowest, rel=1e-5)


def test_a_measurement_of_the_job_is_carried_over() -> None:
    plain, share = _small(), Share(Fraction(1, 2), Fraction(1, 2))
    task = plain.task
    assert task is not None
    speed = Shipped().estimator.speed(task.workload, "H100-SXM-80GB")
    assert speed is not None
    twice = _small(f"[hours.H100-SXM-80GB]\nhours = {2 / speed:.6f}\nbasis = 'measured'\n")
    before, after = (_hours(job, share, "L4-SLICE") for job in (plain, twice))
    assert float(after.hours / before.hours) == pytest.approx(2, rel=1e-3)
    assert after.basis == "scaled"


def test_what_does_not_fit_a_slice_says_what_it_has() -> None:
    job = job_from_text(SMALL.replace("500M", "13B"), catalogue(), Shipped())
    found = runtime_on(job, "A100-SLICE", Share(Fraction(1, 7), gb=10), catalogue())
    assert isinstance(found, NoEstimate)
    assert found.short == "on which the job does not fit"
    several = replace(_small(), gpus_needed=2)
    refused = runtime_on(several, "L4-SLICE", Share(Fraction(1, 2), Fraction(1, 2)), catalogue())
    assert isinstance(refused, NoEstimate)
