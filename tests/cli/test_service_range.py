"""A service's bill has the range of its speed: fewer machines or more, by hand and at any rate."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.cheapest_market import _monthly
from tests.cli.harness import A100, H100, by_id, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import Market, Terms

SERVICE = """
name = "chat"
egress_gb = 10
disk_gb = 50
[workload]
kind = "inference"
model = "Llama 3.1 8B"
input_tokens = 1024
output_tokens = 256
request_rate = {rate}
utilisation = 0.8
[spot]
interruptions_per_month = 5
checkpoint_minutes = 60
"""


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    egress = Terms(egress_usd_per_gb=Decimal("0.1"), disk_usd_per_gb_hour=Decimal("0.0001"))
    offers = [
        make_offer("one", "3", gpu=H100, terms=egress),
        make_offer("eight", "20", gpu=H100, gpu_count=Decimal(8), terms=egress),
        make_offer("a100", "1.2", gpu=A100),
        make_offer("cheap", "0.6", gpu=A100, market=Market.SPOT),
        _monthly("server", "730", A100),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


@pytest.fixture
def job(tmp_path: Path) -> Any:
    def write(rate: str) -> str:
        path = tmp_path / "chat.toml"
        path.write_text(SERVICE.format(rate=rate))
        return str(path)

    return write


@pytest.mark.parametrize("rate", ["0.3", "9", "11.2", "12", "40", "333"])
def test_the_range_contains_the_bill(job: Any, rate: str) -> None:
    rows = run("cheapest", job(rate), "--market", "any", "--all", "-o", "json").json()["rows"]
    assert len(rows) == 5
    for row in rows:
        usd, ends = Decimal(row["at_least_usd"]), (row["low_usd"], row["high_usd"])
        assert Decimal(ends[0]) <= usd <= Decimal(ends[1]), (row["offer_id"], usd, ends)
        # What has a range is the machines, not the hours for which the service is kept up.
        assert (row["runtime_low_hours"], row["runtime_high_hours"]) == (None, None)
    small, large = by_id(rows)["one"], by_id(rows)["eight"]
    if rate == "0.3":  # one GPU does it at either end: there is nothing to be unsure of
        assert small["low_usd"] == small["high_usd"] == small["total_usd"]
    if rate == "40":  # of machines that are larger than needed no more are taken
        assert large["low_usd"] == large["high_usd"]
        assert small["low_usd"] != small["high_usd"]


def test_the_ends_are_the_machines_that_the_rate_takes_there(job: Any, tmp_path: Path) -> None:
    # The speed of a copy and its range, from the same job done once.
    batch = tmp_path / "batch.toml"
    text = SERVICE.replace("request_rate = {rate}", 'requests = "1M"')
    batch.write_text(text.replace("utilisation = 0.8\n", "").split("[spot]")[0])
    one = ("--gpu", "H100-SXM-80GB", "--gpus", "1")
    asked = run("estimate", str(batch), *one, "-o", "json").json()
    [once] = asked["estimates"]
    rates = [1_000_000 / 3600 / once[key] for key in ("high_hours", "hours", "low_hours")]
    found = run("cheapest", job("40"), "-o", "json").json()
    row = by_id(found["rows"])["one"]
    slow, point, fast = (math.ceil(40 / (rate * 0.8)) for rate in rates)
    assert (row["machines"], fast < point < slow) == (point, True)
    # $3 an hour, 50 GB at $0.0001 an hour, 10 GB out.
    usd = [n * 730 * (3 + Decimal("0.005")) + 1 for n in (fast, point, slow)]
    assert [Decimal(row[key]) for key in ("low_usd", "total_usd", "high_usd")] == usd


def test_the_range_is_in_the_table_and_in_the_explanation(job: Any) -> None:
    answer = run("cheapest", job("40"), "--gpu", "H100", "--explain")
    row = by_id(run("cheapest", job("40"), "-o", "json").json()["rows"])["one"]
    low, high = (f"${Decimal(row[key]):,.2f}" for key in ("low_usd", "high_usd"))
    assert "RANGE" in answer.out
    assert f"{low} to {high}" in answer.out
    assert (
        f"    range: {low} to {high}, for 2 to 5 machines by the range of the speed" in answer.out
    )
    assert "Machines are modelled; a range is one that held 8 of 10" in answer.out
    estimated = run("estimate", job("40"), "--gpu", "H100-SXM-80GB")
    assert "the bill at both ends of the speed" in estimated.out


def test_ends_that_are_the_same_are_told_once(job: Any) -> None:
    """A bill "to" itself is no range."""
    answer = run("cheapest", job("0.3"), "--gpu", "H100", "--explain", "--compare", "H100,A100")
    [usd] = {r["low_usd"] for r in run("cheapest", job("0.3"), "-o", "json").json()["rows"]
             if r["offer_id"] == "one"}  # fmt: skip
    assert f"{Decimal(usd):,.2f} to" not in answer.out
    assert f"chat: ${Decimal(usd):,.2f} on 1 x H100" in answer.out
    assert f"    range: ${Decimal(usd):,.2f}, for 1 machine by the range of the speed" in answer.out
    compared = run("compare", "H100", "A100", job("0.3"))
    assert f"${Decimal(usd):,.2f} to" not in compared.out


def test_two_services_are_not_compared_by_their_speed() -> None:
    """Both run all month: "1.00 times as fast, and would need 1.37" is no reason."""
    text = run("compare", "H100", "A100", "llama-3.1-8b-service", "--market", "on-demand").out
    assert "both take as long and the H100-SXM-80GB costs" in text
    assert "times as fast" not in text
    text = run("cheapest", "llama-3.1-8b-service", "--market", "on-demand").out
    assert "that. It costs " in text
    assert "times as fast" not in text
