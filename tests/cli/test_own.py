"""``gpucost own``: figures worked out by hand over a small market, and what is refused."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.harness import A100, H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import Market, Terms

MONTHLY = Terms(billing_increment_seconds=1, commitment_hours=730)
BY_SECOND = Terms(billing_increment_seconds=1)
MACHINE = ("--gpu", "H100-SXM-80GB", "--price", "28000", "--kwh", "0.25", "--watts", "800")


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    offers = [
        make_offer("h100", "2.5", gpu=H100, terms=BY_SECOND),
        make_offer("h100-month", "2", gpu=H100, market=Market.MONTHLY, terms=MONTHLY),
        make_offer("a100", "1.1", gpu=A100, terms=BY_SECOND),
        make_offer("h100-spot", "1", gpu=H100, market=Market.SPOT, terms=BY_SECOND),
    ]
    with filled(database_server, polled("acme", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


def ask(*argv: str, code: int = 0) -> dict[str, Any]:
    answer = run("own", *argv, "-o", "json")
    assert answer.code == code, answer.err
    document: dict[str, Any] = answer.json()
    return document


def test_every_line_is_as_worked_out_by_hand() -> None:
    found = ask(
        "bert-large", *MACHINE, "--pue", "1.5", "--resale", "25%", "--term", "40",
        "--utilisation", "0.4", "--hosting", "30", "--idle-watts", "100", "--grid", "400",
    )  # fmt: skip
    own = found["own"]
    # 800 W x 0.4 + 100 W x 0.6 = 380 W: 277.4 kWh a month.
    assert own["month"] == {
        "hardware_usd": "525",  # (28,000 - 7,000) / 40
        "power_usd": "69.35",
        "cooling_usd": "34.675",
        "hosting_usd": "30",
        "total_usd": "659.025",
    }
    assert own["total_usd"] == "26361"
    assert own["kwh_per_month"] == pytest.approx(277.4 * 1.5)
    assert own["co2_kg_per_month"] == pytest.approx(277.4 * 1.5 * 0.4)
    assert own["runs_per_month"] == 73  # 730 h x 0.4 / 4 h
    assert Decimal(own["usd_per_gpu_hour"]) == round(Decimal("659.025") / 292, 6)
    [rented] = found["rented"]  # of the same GPU: there is no second one to show
    assert rented["offer"]["offer_id"] == "h100"
    assert rented["month_usd"] == "730"  # 73 runs x 4 h x 2.50
    assert rented["total_usd"] == "29200"
    assert rented["verdict"] == "buy"
    # 28,000 / (730 - 134.025) = 46.98: within the term by the resale alone.
    assert rented["break_even_month"] == 40
    assert "buy 1 x H100-SXM-80GB" in found["answer"]
    assert "by month 40" in found["answer"]


def test_what_is_rented_by_the_month_is_paid_once_however_much_it_is_used() -> None:
    full = ask("bert-large", *MACHINE)["rented"][0]
    assert full["offer"]["offer_id"] == "h100-month"
    assert full["by_the_month"] is True
    assert full["month_usd"] == "1460"  # 730 x 2, against 1,825 by the hour
    assert full["break_even_utilisation"] is None
    # 182.5 runs by the hour on A100 would be 182.5 x 12 x 1.1.
    by_hour = ask("bert-large", *MACHINE, "--market", "on-demand")["rented"][0]
    assert (by_hour["offer"]["offer_id"], by_hour["month_usd"]) == ("h100", "1825")
    # 28,000 fixed; an hour used saves 2.50 - 0.20: 28,000 / (36 x 730 x 2.30).
    assert by_hour["break_even_utilisation"] == pytest.approx(28_000 / (36 * 730 * 2.3), abs=1e-5)


def test_several_machines_are_told_as_several() -> None:
    """Eight were paid for, and the answer named the rent of "1 x H100"."""
    text = run("own", "--hours", "H100=4", *MACHINE).out
    assert "for 1 x H100-SXM-80GB at acme" in text
    wide = ("--gpu", "H100-SXM-80GB", "--count", "8", "--price", "250000", "--kwh", "0.25")
    text = run("own", "--hours", "H100=4", *wide).out
    assert "for 8 machines of 1 x H100-SXM-80GB at acme" in text
    assert "rent 8 machines of 1 x H100-SXM-80GB" in text


def test_another_gpu_that_is_cheaper_stands_before_the_machines_own() -> None:
    both = ask("--hours", "H100=4,A100=5", *MACHINE, "--market", "on-demand")["rented"]
    assert [one["offer"]["gpu"] for one in both] == ["A100-SXM-80GB", "H100-SXM-80GB"]
    assert both[0]["month_usd"] == "1003.75"  # 182.5 runs x 5 h x 1.10
    only = ask("--hours", "H100=4,A100=5", *MACHINE, "--rent-gpu", "A100")["rented"]
    assert only[0]["offer"]["gpu"] == "A100-SXM-80GB"
    assert ask("bert-large", *MACHINE, "--market", "spot")["rented"][0]["month_usd"] == "730"


def test_estimates_have_ranges_and_the_same_gpu_has_none_but_the_hosts() -> None:
    machine = ("--gpu", "H100-SXM-80GB", "--price", "28000", "--kwh", "0.25")
    first, same = ask("llama-3.1-8b-lora", *machine, "--market", "on-demand")["rented"]
    assert first["offer"]["gpu"] == "A100-SXM-80GB"
    assert Decimal(first["low_usd"]) < Decimal(first["total_usd"]) < Decimal(first["high_usd"])
    assert same["low_usd"] == same["high_usd"] == same["total_usd"]
    own = ask("llama-3.1-8b-lora", *machine)["own"]
    assert Decimal(own["low_usd"]) < Decimal(own["total_usd"]) < Decimal(own["high_usd"])
    assert own["watts"] == pytest.approx(700 * 0.9 * 1.225)
    assert first["verdict"] == "tie"


def test_runs_that_may_not_fit_into_the_month_are_told_of() -> None:
    machine = ("llama-3.1-8b-lora", "--gpu", "H100-SXM-80GB", "--price", "28000", "--kwh", "0.25")
    own = ask(*machine)["own"]
    share = own["high_hours"] / own["hours_per_run"]
    runs = 730 / own["hours_per_run"]  # as many as fit by the middle of the range
    said = "At the long end of their range the runs take "
    told = [
        line for line in ask(*machine, "--runs", f"{0.9 * runs:.2f}")["remarks"] if said in line
    ]
    assert len(told) == 1
    assert float(told[0].removeprefix(said).split(" %")[0]) == pytest.approx(90 * share, rel=0.002)
    few = ask(*machine, "--runs", f"{0.9 * runs / share:.2f}")["remarks"]
    unasked = ask(*machine, "--utilisation", "0.9")["remarks"]
    assert not any(said in line for line in (*few, *unasked))


def test_the_rent_of_a_service_has_the_range_of_its_speed() -> None:
    found = ask("llama-3.1-8b-service", *MACHINE, "--term", "10")
    best = found["rented"][0]
    assert best["offer"]["offer_id"] == "a100"
    row = best["offer"]
    assert Decimal(row["low_usd"]) < Decimal(row["high_usd"])
    assert [Decimal(best[key]) for key in ("low_usd", "high_usd")] == [
        10 * Decimal(row[key]) for key in ("low_usd", "high_usd")
    ]


def test_runs_and_the_jobs_own_runs_say_the_use() -> None:
    own = ask("bert-large", *MACHINE, "--runs", "73")["own"]
    assert (own["utilisation"], own["runs_per_month"]) == (0.4, 73)
    two = ask("bert-large", *MACHINE, "--count", "2")["own"]
    assert (two["runs_side_by_side"], two["runs_per_month"]) == (2, 365)


def test_people_get_every_line_with_its_way() -> None:
    text = run("own", "bert-large", *MACHINE, "--utilisation", "60%").out
    for part in (
        "hardware", "($28,000.00 - $0.00 resale) / 36 months", "(800 W x 60 %) x 730 h x $0.25/kWh",
        "109.5 run x $10.0000: 4 h x $2.5000/h", "Assumed: --pue not given",
        "Assumed: --idle-watts not given", "by the month:", "by the hour:",
    ):  # fmt: skip
        assert part in text


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (("--price", "28"), "--price: $28 for a machine with 1 x H100-SXM-80GB is implausible"),
        (("--price", "28000000"), "is implausible"),
        (("--kwh", "25"), "dollars, not cents"),
        (("--pue", "30"), "--pue: 30 must be from 1 to 3"),
        (("--watts", "20"), "watts: 20 for the whole machine"),
        (("--watts", "20000"), "is it per GPU, or in another unit?"),
        (("--idle-watts", "5000"), "idle watts are above"),
        (("--resale", "30000"), "--resale: 30000 is above the price"),
        (("--resale", "120%"), "--resale: 120% is above the price"),
        (("--runs", "1000"), "1000 runs a month take 547.9 % of the machine's time"),
        (("--runs", "10", "--utilisation", "0.5"), "say the same thing"),
        (("--utilisation", "60"), "must be above 0 and at most 1"),
        (("--utilisation", "1e999999999"), "is not a share such as 0.6"),
        (("--utilisation", "1e-20"), "--utilisation: a machine used for less than a second"),
        (("--runs", "1e-20"), "--runs: a machine used for less than a second"),
        (("--utilisation", "1e-30"), "is not a share such as 0.6"),
        (("--runs", "1e-30"), "'1e-30' is out of range"),
        (("--price", "1e-999999999"), "'1e-999999999' is out of range"),
        (("--resale", "1e-999999999%"), "'1e-999999999' is out of range"),
        (("--grid", "90000"), "--grid: 90000 must be from 0 to 2000 g per kWh"),
        (("--gpu", "A100"), "name one of A100-PCIE-40GB, A100-PCIE-80GB"),
        (("--gpu", "A100-SLICE"), "--gpu: A100-SLICE is no whole GPU; name one"),
        (("--gpu", "H1000"), "unknown GPU 'H1000'"),
        (("--gpu", "L40S-48GB"), "no hours given for L40S-48GB"),
        (("--provider", "nobody"), "no provider is called 'nobody'"),
        (("--term", "0"), "--term"),
        (("--price", "nan"), "--price"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(argv: tuple[str, ...], said: str) -> None:
    answer = run("own", "bert-large", *MACHINE, *argv)
    assert answer.code == 2
    assert said in answer.complaint


def test_gpus_that_nobody_rents_out_are_named() -> None:
    answer = run("own", "bert-large", *MACHINE, "--rent-gpu", "RTX4090")
    assert "Of RTX4090 nothing is to be rented: it is left out." in answer.out
    assert "is to be rented" not in run("own", "bert-large", *MACHINE, "--rent-gpu", "H100").out


def test_nothing_to_rent_ends_with_3_and_the_costs_of_owning() -> None:
    answer = run("own", "bert-large", *MACHINE, "--provider", "acme", "--market", "capacity-block")
    assert answer.code == 3
    assert "nothing to rent matches" in answer.err
    assert "of one's own is" in answer.out


def test_a_commitment_that_outlasts_the_term_is_told(
    database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Eighteen months of a year's commitment are two years: six months were silently not paid."""
    terms = Terms(commitment_hours=8760)
    offers = [make_offer("year", "2", gpu=H100, market=Market.RESERVED, terms=terms)]
    with filled(database_server, polled("acme", offers)) as url:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", url)
        told = "acme is rented for 12 months at a time: 6 months beyond the term are not counted"
        assert told in ask("bert-large", *MACHINE, "--term", "18")["assumptions"]
        assert told not in ask("bert-large", *MACHINE, "--term", "24")["assumptions"]
