"""The bill of a job on one offer: worked examples, then what must hold of every bill."""

from __future__ import annotations

import dataclasses
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tracker.domain.break_even import break_even
from tracker.domain.cost import (
    Bill,
    CostInputs,
    LineKind,
    Unpriceable,
    bill,
    lower_bound_usd,
    machines_needed,
)
from tracker.domain.gpu import Gpu
from tracker.domain.job import Basis, Job, RuntimeEstimate
from tracker.domain.money import PerMachineHour
from tracker.domain.offer import (
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    Offer,
    PriceUnit,
    Terms,
)

D = Decimal


def inputs(
    price: str = "2", count: str = "1", market: Market = Market.ON_DEMAND, **terms: Any
) -> CostInputs:
    return CostInputs(PerMachineHour(D(price)), D(count), market, Terms(**terms))


def job(**needs: Any) -> Job:
    return Job("j", {}, **needs)


def hours(value: str, **more: Any) -> RuntimeEstimate:
    return RuntimeEstimate(D(value), Basis.PUBLISHED, **more)


def billed(*args: Any) -> Bill:
    result = bill(*args)
    assert isinstance(result, Bill), result
    return result


def amounts(result: Bill) -> dict[LineKind, Decimal]:
    return {line.kind: line.amount_usd for line in result.lines}


# --- worked examples ------------------------------------------------------------------------


def test_one_gpu_by_the_second() -> None:
    got = billed(inputs("1.39", billing_increment_seconds=1), job(), hours("12"))
    assert (got.machines, got.billed_hours, got.total_usd) == (1, D(12), D("16.68"))
    assert got.notes == ()


def test_a_machine_larger_than_needed_is_billed_whole() -> None:
    got = billed(inputs("55.04", "8", billing_increment_seconds=1), job(), hours("4"))
    assert (got.machines, got.total_usd) == (1, D("220.16"))
    assert got.notes == ("8 GPUs are rented and 1 used: a machine is billed whole",)


@pytest.mark.parametrize("months", [1, 3, 24])
def test_months_are_billed_at_the_price_of_the_month_to_the_cent(months: int) -> None:
    monthly = NativePrice(D("2099"), "USD", PriceUnit.MACHINE_MONTH).machine_hour(D(1), D(1))
    rounded = PerMachineHour(round(monthly.usd, 6))
    offer = CostInputs(
        rounded, D(1), Market.MONTHLY, Terms(commitment_hours=730 * months), None, D("2099")
    )
    got = billed(offer, job(), hours("12"))
    assert got.total_usd == months * D("2099")
    assert [(ln.quantity, ln.unit, ln.unit_price_usd) for ln in got.lines] == [
        (D(months), "machine-month", D("2099"))
    ]
    assert lower_bound_usd(offer, job(), hours("12")) <= got.at_least_usd
    assert got.billed_hours == 730 * months


@pytest.mark.parametrize("market", [Market.RESERVED, Market.CAPACITY_BLOCK, Market.MONTHLY])
def test_a_price_by_the_month_is_billed_by_the_month_on_whatever_market(market: Market) -> None:
    """Committed to for an hour only, twelve hours of it were billed at a 730th part each."""
    offer = CostInputs(
        PerMachineHour(D("0.958904")), D(1), market, Terms(commitment_hours=1), None, D(700)
    )
    got = billed(offer, job(), hours("12"))
    assert (got.total_usd, got.billed_hours) == (D(700), 730)
    assert got.notes == ("sold by the month: whole months (730 h) are billed",)
    by_the_hour = offer._replace(terms=Terms(commitment_hours=1, billing_increment_seconds=3600))
    assert billed(by_the_hour, job(), hours("12")).billed_hours == 12


@given(cents=st.integers(1, 10**7), used=st.integers(1, 5000), count=st.integers(1, 9))
def test_what_is_sold_by_the_month_never_costs_less_than_its_bound(
    cents: int, used: int, count: int
) -> None:
    month = D(cents) / 100
    hour = PerMachineHour(round(month / 730, 6))
    needs, takes = job(gpus_needed=count), hours(str(used))
    for market in (Market.MONTHLY, Market.ON_DEMAND):
        offer = CostInputs(hour, D(1), market, Terms(commitment_hours=730), None, month)
        got = billed(offer, needs, takes)
        assert lower_bound_usd(offer, needs, takes) <= got.at_least_usd
        assert got.at_least_usd == count * -(-used // 730) * month


def test_machines_are_counted_up_and_each_is_set_up_and_has_its_disk() -> None:
    got = billed(
        inputs("10", "4", disk_usd_per_gb_hour=D("0.0001"), disk_included_gb=D(50),
               egress_usd_per_gb=D("0.09"), billing_increment_seconds=3600),
        job(gpus_needed=10, disk_gb=D(150), egress_gb=D(20), setup_hours=D("0.5")),
        hours("2.25"),
    )  # fmt: skip
    assert (got.machines, got.billed_hours) == (3, D(3))
    assert amounts(got) == {
        LineKind.RUNTIME: D("67.5"),  # 3 machines x 2.25 h x 10
        LineKind.SETUP: D(15),
        LineKind.UNUSED: D("7.5"),
        LineKind.DISK: D("0.09"),  # 3 x 100 GB x 3 h
        LineKind.EGRESS: D("1.8"),
    }
    assert got.total_usd == D("91.89")
    assert got.extras_usd == D("1.89")


def test_hours_measured_on_more_gpus_than_the_job_asks_for_need_that_many() -> None:
    estimate = hours("48", gpus=4)
    assert machines_needed(inputs(count="1"), job(), estimate) == 4
    assert machines_needed(inputs(count="1"), job(gpus_needed=6), estimate) == 6
    assert machines_needed(inputs(count="8"), job(), estimate) == 1


@pytest.mark.parametrize(
    ("terms", "runtime", "expected"),
    [
        ({"billing_increment_seconds": 3600}, "0.1", "1"),
        ({"billing_increment_seconds": 3600}, "1", "1"),
        ({"billing_increment_seconds": 3600}, "1.000000001", "2"),
        ({"billing_increment_seconds": 60}, "0.1251", "0.133333334"),  # 7.506 min -> 8 min
        ({"billing_increment_seconds": 1, "minimum_seconds": 600}, "0.05", "0.166666667"),
        ({"minimum_seconds": 3600}, "0.05", "1"),
        ({"minimum_seconds": 3600}, "1.5", "1.5"),
        ({"commitment_hours": 730}, "12", "730"),
        ({"commitment_hours": 730}, "731", "731"),
        ({}, "0.123456789123", "0.123456790"),
    ],
)
def test_billed_hours(terms: dict[str, Any], runtime: str, expected: str) -> None:
    assert billed(inputs(**terms), job(), hours(runtime)).billed_hours == D(expected)


@pytest.mark.parametrize(
    ("runtime", "commitment", "expected"),
    [("12", 730, 730), ("730", 730, 730), ("800", 730, 1460), ("12", 17_520, 17_520)],
)
def test_a_monthly_server_is_billed_in_whole_months(
    runtime: str, commitment: int, expected: int
) -> None:
    offer = inputs("2", market=Market.MONTHLY, commitment_hours=commitment)
    got = billed(offer, job(), hours(runtime))
    assert got.billed_hours == expected
    assert got.notes == ("sold by the month: whole months (730 h) are billed",)


def test_a_month_paid_for_twelve_hours_shows_what_is_unused() -> None:
    monthly = NativePrice(D(1559), "USD", PriceUnit.MACHINE_MONTH).machine_hour(D(1), D(1))
    offer = CostInputs(monthly, D(1), Market.MONTHLY, Terms(commitment_hours=730))
    got = billed(offer, job(), hours("12"))
    assert round(got.at_least_usd, 6) == 1559
    assert [(line.kind, line.quantity) for line in got.lines] == [
        (LineKind.RUNTIME, D(12)),
        (LineKind.UNUSED, D(718)),
    ]
    assert "commitment of 730 h" in got.lines[1].label


@pytest.mark.parametrize("market", [Market.MONTHLY, Market.RESERVED, Market.CAPACITY_BLOCK])
def test_a_term_that_is_not_stated_cannot_be_priced(market: Market) -> None:
    got = bill(inputs(market=market), job(), hours("12"))
    assert isinstance(got, Unpriceable)
    assert "term" in got.reason


def test_an_unknown_commitment_cannot_be_priced_in_any_market() -> None:
    assert isinstance(bill(inputs(commitment_unknown=True), job(), hours("1")), Unpriceable)


def test_a_machine_that_is_taken_back_too_early_cannot_be_priced() -> None:
    short = inputs()._replace(max_duration_hours=D(12))
    assert isinstance(bill(short, job(), hours("12")), Bill)
    assert bill(short, job(setup_hours=D("0.5")), hours("12")) == Unpriceable(
        "offered for 12 h only, the job takes 12.5 h"
    )


def test_a_fraction_of_a_card_cannot_be_priced() -> None:
    assert isinstance(bill(inputs(count="0.125"), job(), hours("1")), Unpriceable)


@pytest.mark.parametrize(
    ("terms", "needs", "partial"),
    [
        ({}, {}, ()),
        ({}, {"disk_gb": D(10)}, ("disk price unknown",)),
        ({"disk_included_gb": D(10)}, {"disk_gb": D(10)}, ()),
        ({"disk_included_gb": D(9)}, {"disk_gb": D(10)}, ("disk price unknown",)),
        ({"disk_usd_per_gb_hour": D(0)}, {"disk_gb": D(10)}, ()),
        ({}, {"egress_gb": D(1)}, ("egress price unknown",)),
        ({"egress_usd_per_gb": D(0)}, {"egress_gb": D(1)}, ()),
        (
            {},
            {"egress_gb": D(1), "disk_gb": D(1)},
            ("disk price unknown", "egress price unknown"),
        ),
    ],
)
def test_an_unknown_price_leaves_no_total(
    terms: dict[str, Any], needs: dict[str, Any], partial: tuple[str, ...]
) -> None:
    got = billed(inputs("2", **terms), job(**needs), hours("3"))
    assert got.partial == partial
    assert got.at_least_usd == 6
    assert got.total_usd == (None if partial else 6)


def test_disk_without_an_included_amount_stated_is_all_billed() -> None:
    got = billed(inputs("2", disk_usd_per_gb_hour=D("0.01")), job(disk_gb=D(10)), hours("3"))
    assert amounts(got)[LineKind.DISK] == D("0.3")


def test_what_is_assumed_is_said() -> None:
    got = billed(inputs(market=Market.SPOT), job(), hours("3", lower_bound=True))
    assert got.lower_bound
    assert [note.split(":")[0] for note in got.notes] == [
        "the hours are a lower bound, and so is the bill",
        "billing increment not stated",
        "spot",
    ]


def test_the_inputs_of_an_offer_are_its_own() -> None:
    terms = Terms(commitment_hours=3)
    listed = ListedOffer(
        "id", "H100", D(8), NativePrice(D(16), "USD", PriceUnit.MACHINE_HOUR), Market.RESERVED,
        "standard", terms=terms, extras=Extras(max_duration_hours=D(9)),
    )  # fmt: skip
    gpu = Gpu("H100-SXM-80GB", "H100", "SXM", 80)
    offer = Offer("p", "p", gpu, PerMachineHour(D(16)), listed)
    assert CostInputs.of(offer) == CostInputs(
        PerMachineHour(D(16)), D(8), Market.RESERVED, terms, D(9)
    )


def test_several_machines_are_said_to_be_separate() -> None:
    notes = billed(inputs("1"), job(gpus_needed=3), hours("1")).notes
    assert any(note.startswith("3 separate machines: the hours assume") for note in notes)
    assert not any("separate" in note for note in billed(inputs("1"), job(), hours("1")).notes)


# --- what holds of every bill ---------------------------------------------------------------

money = st.decimals("0.000001", "200", places=6)
rates = st.none() | st.decimals("0", "1", places=6)
gigabytes = st.decimals("0", "5000", places=2)
runtimes = st.fractions(Fraction(1, 1000), 5000).map(
    lambda f: Decimal(f.numerator) / Decimal(f.denominator)
)
all_terms = st.builds(
    Terms,
    billing_increment_seconds=st.sampled_from([None, 1, 60, 3600, 7, 2_628_000]),
    minimum_seconds=st.sampled_from([None, 60, 3600, 86_400]),
    commitment_hours=st.sampled_from([None, 1, 730, 17_520]),
    disk_included_gb=st.none() | gigabytes,
    disk_usd_per_gb_hour=rates,
    egress_usd_per_gb=rates,
)
all_inputs = st.builds(
    CostInputs,
    price=st.builds(PerMachineHour, money),
    gpu_count=st.integers(1, 16).map(Decimal),
    market=st.sampled_from([Market.ON_DEMAND, Market.SPOT, Market.MONTHLY]),
    terms=all_terms,
    max_duration_hours=st.none(),
    month_usd=st.none(),
)
all_jobs = st.builds(
    Job,
    name=st.just("j"),
    hours=st.just({}),
    gpus_needed=st.integers(1, 40),
    disk_gb=gigabytes,
    egress_gb=gigabytes,
    setup_hours=st.decimals("0", "10", places=3),
)
all_estimates = st.builds(
    RuntimeEstimate, hours=runtimes, basis=st.just(Basis.PUBLISHED), gpus=st.integers(1, 20)
)


def priced(offer: CostInputs, needs: Job, estimate: RuntimeEstimate) -> Bill:
    result = bill(offer, needs, estimate)
    assume(isinstance(result, Bill))
    assert isinstance(result, Bill)
    return result


@given(all_inputs, all_jobs, all_estimates)
def test_lines_add_up_exactly(offer: CostInputs, needs: Job, estimate: RuntimeEstimate) -> None:
    got = priced(offer, needs, estimate)
    total = sum(Fraction(line.amount_usd) for line in got.lines)
    assert Fraction(got.at_least_usd) == total
    for line in got.lines:
        assert line.amount_usd >= 0
        assert Fraction(line.amount_usd) == Fraction(line.quantity) * Fraction(line.unit_price_usd)
    machine_hours = sum(Fraction(ln.quantity) for ln in got.lines if ln.unit == "machine-hour")
    assert machine_hours == got.machines * Fraction(got.billed_hours)


@given(all_inputs, all_jobs, all_estimates)
def test_never_below_price_times_hours(
    offer: CostInputs, needs: Job, estimate: RuntimeEstimate
) -> None:
    got = priced(offer, needs, estimate)
    used = Fraction(estimate.hours) + Fraction(needs.setup_hours)
    assert Fraction(got.at_least_usd) >= got.machines * Fraction(offer.price.usd) * used
    assert lower_bound_usd(offer, needs, estimate) <= got.at_least_usd
    assert got.machines * offer.gpu_count >= max(needs.gpus_needed, estimate.gpus)
    assert (got.machines - 1) * offer.gpu_count < max(needs.gpus_needed, estimate.gpus)


@given(all_inputs, all_jobs, all_estimates)
def test_billed_hours_are_the_documented_ones(
    offer: CostInputs, needs: Job, estimate: RuntimeEstimate
) -> None:
    got, terms = priced(offer, needs, estimate), offer.terms
    seconds = (Fraction(estimate.hours) + Fraction(needs.setup_hours)) * 3600
    step = terms.billing_increment_seconds
    step = step or (730 * 3600 if offer.market is Market.MONTHLY else None)
    if step:
        seconds = Fraction(-(-seconds // step) * step)
    for least in (terms.minimum_seconds, (terms.commitment_hours or 0) * 3600):
        seconds = max(seconds, Fraction(least or 0))
    excess = Fraction(got.billed_hours) - seconds / 3600
    assert 0 <= excess < Fraction(1, 10**9)


@given(all_inputs, all_jobs, all_estimates, money, runtimes, st.integers(1, 40))
def test_dearer_longer_or_more_gpus_never_costs_less(
    offer: CostInputs,
    needs: Job,
    estimate: RuntimeEstimate,
    more_usd: Decimal,
    more_hours: Decimal,
    more_gpus: int,
) -> None:
    got = priced(offer, needs, estimate)
    dearer = offer._replace(price=PerMachineHour(offer.price.usd + more_usd))
    assert priced(dearer, needs, estimate).at_least_usd > got.at_least_usd
    longer = dataclasses.replace(estimate, hours=estimate.hours + more_hours)
    assert priced(offer, needs, longer).at_least_usd >= got.at_least_usd
    larger = dataclasses.replace(needs, gpus_needed=needs.gpus_needed + more_gpus)
    assert priced(offer, larger, estimate).at_least_usd >= got.at_least_usd


@given(all_inputs, all_inputs, all_jobs, all_estimates, all_estimates)
def test_at_the_break_even_price_both_bills_are_equal(
    a: CostInputs, b: CostInputs, needs: Job, hours_a: RuntimeEstimate, hours_b: RuntimeEstimate
) -> None:
    bill_a, bill_b = priced(a, needs, hours_a), priced(b, needs, hours_b)
    at = break_even(bill_a, bill_b)
    if at is None:
        unknown = bill_a.partial or bill_b.partial
        assert unknown or bill_a.extras_usd > bill_b.at_least_usd
        return
    there = priced(a._replace(price=at.price), needs, hours_a)
    difference = abs(there.at_least_usd - bill_b.at_least_usd)
    assert difference <= Decimal("1e-30") * (1 + bill_b.at_least_usd)


@given(all_inputs, all_jobs, all_estimates, st.integers(4, 12))
def test_the_callers_decimal_context_changes_no_figure(
    offer: CostInputs, needs: Job, estimate: RuntimeEstimate, precision: int
) -> None:
    got = priced(offer, needs, estimate)
    with localcontext() as context:
        context.prec = precision
        assert bill(offer, needs, estimate) == got
