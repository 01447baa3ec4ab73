"""Interruptible machines: the closed form against a simulation, and what must hold of it."""

from __future__ import annotations

import dataclasses
import math
import random
from decimal import Decimal

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from tracker.domain.exact import BadFigure
from tracker.domain.money import PerMachineHour
from tracker.domain.spot import (
    LEAST_CHANCE,
    Checkpoints,
    Expected,
    Plan,
    Refused,
    advisor_rate,
    break_even_rate,
    chance_within,
    expect,
    interruption_rate,
    reliability_rate,
    stated_rate,
)

D = Decimal


def expected(plan: Plan, per_hour: float) -> Expected:
    result = expect(plan, stated_rate(per_hour))
    assert isinstance(result, Expected), result
    return result


# --- the oracle: hour by hour, machine by machine -------------------------------------------


def one_run(plan: Plan, per_hour: float, rng: random.Random) -> tuple[float, float, int]:
    """Billed hours, wall-clock hours and interruptions of one run of *plan*."""
    every = plan.checkpoints
    step = float(every.interval_hours) if every else math.inf
    cost = float(every.cost_hours) if every else 0.0
    setup, restart = float(plan.setup_hours), float(plan.restart_hours)
    billed = wall = saved = 0.0
    cuts, starting, work = 0, setup, float(plan.work_hours)
    alive = min(rng.expovariate(per_hour) for _ in range(plan.machines))
    while True:
        # Until the next checkpoint or the end, set-up included.
        chunk = min(step, work - saved)
        last = saved + chunk >= work - 1e-9
        need = starting + chunk + (0.0 if last else cost)
        if alive >= need:
            billed, wall, alive = billed + need, wall + need, alive - need
            saved, starting = saved + chunk, 0.0
            if last:
                return billed, wall, cuts
            continue
        billed, wall = billed + alive, wall + alive + float(plan.wait_hours)
        cuts, starting = cuts + 1, setup + restart
        alive = min(rng.expovariate(per_hour) for _ in range(plan.machines))


NO_CHECKPOINTS = Plan(D(10), setup_hours=D("0.2"), restart_hours=D("0.1"), wait_hours=D("0.5"))
OFTEN = Plan(
    D(48), setup_hours=D("0.25"), restart_hours=D("0.05"), wait_hours=D(1),
    checkpoints=Checkpoints(D(2), D("0.05")),
)  # fmt: skip
FOUR = dataclasses.replace(OFTEN, machines=4, work_hours=D("12.5"))
ONCE = Plan(D(6), checkpoints=Checkpoints(D(4), D("0.5")))


@pytest.mark.parametrize(
    ("plan", "per_hour", "count"),
    [
        (NO_CHECKPOINTS, 0.15, 60_000),
        (OFTEN, 0.2, 15_000),
        (FOUR, 0.1, 15_000),
        (ONCE, 0.3, 60_000),
        (Plan(D(1)), 1.0, 60_000),
    ],
    ids=["no checkpoints", "every 2 h", "four machines", "one checkpoint", "bare"],
)
def test_the_closed_form_is_within_a_percent_of_a_simulation(
    plan: Plan, per_hour: float, count: int
) -> None:
    rng = random.Random(20)  # noqa: S311 - a simulation
    runs = [one_run(plan, per_hour, rng) for _ in range(count)]
    got = expected(plan, per_hour)
    billed, wall, cuts = (math.fsum(column) / len(runs) for column in zip(*runs, strict=True))
    assert float(got.billed_hours) == pytest.approx(billed, rel=0.01)
    assert float(got.wall_hours) == pytest.approx(wall, rel=0.01)
    assert got.interruptions == pytest.approx(cuts, rel=0.01)
    for times in (1.1, 1.5, 2, 4):
        deadline = plan.plain_hours * D(str(times))
        in_time = sum(run[1] <= float(deadline) for run in runs) / len(runs)
        chance = chance_within(plan, stated_rate(per_hour), deadline)
        assert chance == pytest.approx(in_time, abs=0.01), times
    assert got.chance == chance


@given(st.floats(0.001, 2), st.decimals("0.1", "50", places=2), st.floats(0, 1), st.integers(1, 4))
def test_the_chance_of_little_delay_has_a_simple_form(
    per_hour: float, work: Decimal, delay: float, machines: int
) -> None:
    # With nothing to set up, the work lost until a delay of y <= W is a Poisson process's time:
    # P(delay <= y) = exp(-L W) (1 + L y).
    rate = per_hour * machines
    assume(rate * float(work) < 30)
    plan = Plan(work, machines=machines)
    late = D(repr(delay)) * work
    exact = math.exp(-rate * float(work)) * (1 + rate * float(late))
    got = chance_within(plan, stated_rate(per_hour), work + late)
    assert got == pytest.approx(exact, abs=3e-4)


def test_without_interruptions_nothing_is_added_but_checkpoints() -> None:
    plan = Plan(D(9), setup_hours=D("0.1"), checkpoints=Checkpoints(D(3), D("0.5")))
    got = expected(plan, 0)
    assert (got.plain_hours, got.billed_hours, got.wall_hours) == (D("9.1"), D("10.1"), D("10.1"))
    assert (got.interruptions, got.chance, got.rerun_hours) == (0, 1, 1)
    assert expected(Plan(D(9), setup_hours=D("0.1")), 0).billed_hours == D("9.1")


def test_two_days_without_checkpoints_take_months_and_are_refused() -> None:
    got = expect(Plan(D(48)), stated_rate(0.125))
    assert isinstance(got, Refused)
    assert got.chance == pytest.approx(0.0466, abs=1e-4)
    assert "4.7% chance to be done within 4 times the 48 h" in got.reason
    assert "without checkpoints" in got.reason
    saved = expected(Plan(D(48), checkpoints=Checkpoints(D("0.25"), D("0.01"))), 0.125)
    assert 50 < saved.billed_hours < 52
    # What it would take: (exp(6) - 1) / 0.125 hours.
    assert saved.billed_hours < D(str((math.exp(6) - 1) / 0.125)) / 60


def test_a_job_is_refused_just_below_a_chance_of_ten_percent() -> None:
    plan, low, high = Plan(D(10)), 0.3, 0.7
    for _ in range(40):
        middle = (low + high) / 2
        if chance_within(plan, stated_rate(middle), D(40)) >= LEAST_CHANCE:
            low = middle
        else:
            high = middle
    assert isinstance(expect(plan, stated_rate(low - 1e-3)), Expected)
    assert isinstance(expect(plan, stated_rate(high + 1e-3)), Refused)


def test_a_hopeless_rate_is_refused_and_not_an_overflow() -> None:
    for machines in (1, 1000):
        got = expect(Plan(D(48), machines=machines), stated_rate(1e4))
        assert isinstance(got, Refused)
        assert got.chance == 0


def test_the_assumptions_are_said() -> None:
    notes = expected(Plan(D(1)), 0.01).notes
    assert notes == (
        "spot: 0.01 interruptions per hour, as stated",
        "no checkpoints: an interruption costs all the work done",
        "another machine is taken to be had at once",
    )
    assert len(expected(OFTEN, 0.01).notes) == 1


# --- what must hold of every plan -----------------------------------------------------------

hours = st.decimals("0.01", "200", places=2)
some = st.decimals("0", "2", places=2)
rates = st.floats(0, 0.5)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    checkpoints = draw(st.none() | st.builds(Checkpoints, st.decimals("0.1", "5", places=1), some))
    return Plan(
        draw(hours), draw(some), draw(some), draw(some), checkpoints, draw(st.integers(1, 8))
    )


def billed(plan: Plan, per_hour: float) -> Decimal:
    got = expect(plan, stated_rate(per_hour))
    return got.billed_hours if isinstance(got, Expected) else D("Infinity")


NOISE = D(1) + D("1e-11")


@given(plans(), rates, st.floats(1, 3))
@example(Plan(D("0.01"), setup_hours=D("0.5")), 5e-324, 2.0)
def test_more_interruptions_never_cost_less(plan: Plan, per_hour: float, times: float) -> None:
    rarer, oftener = billed(plan, per_hour), billed(plan, per_hour * times)
    assert rarer <= oftener * NOISE


@given(plans(), rates, some, st.integers(0, 3))
def test_more_of_anything_never_costs_less(
    plan: Plan, per_hour: float, more: Decimal, machines: int
) -> None:
    base = billed(plan, per_hour)
    for longer in (
        dataclasses.replace(plan, setup_hours=plan.setup_hours + more),
        dataclasses.replace(plan, restart_hours=plan.restart_hours + more),
        dataclasses.replace(plan, machines=plan.machines + machines),
    ):
        got = expect(longer, stated_rate(per_hour))
        # Longer plain hours allow more time: what was refused may then be priced.
        if isinstance(got, Expected) and base.is_finite():
            assert base <= got.billed_hours * NOISE


@given(plans(), rates, hours)
def test_more_work_never_costs_less(plan: Plan, per_hour: float, more: Decimal) -> None:
    longer = dataclasses.replace(plan, work_hours=plan.work_hours + more)
    short, long = expect(plan, stated_rate(per_hour)), expect(longer, stated_rate(per_hour))
    if isinstance(short, Expected) and isinstance(long, Expected):
        assert short.billed_hours <= long.billed_hours * NOISE


@given(plans(), rates)
def test_never_below_the_plain_hours(plan: Plan, per_hour: float) -> None:
    got = expect(plan, stated_rate(per_hour))
    if isinstance(got, Refused):
        assert got.chance < LEAST_CHANCE
        return
    assert got.wall_hours >= got.billed_hours >= got.plain_hours == plan.plain_hours
    assert got.rerun_hours == got.billed_hours - got.plain_hours >= 0
    assert LEAST_CHANCE <= got.chance <= 1
    assert got.interruptions >= 0


@given(plans(), st.floats(0.001, 0.5), st.floats(1, 4), st.floats(1, 2))
def test_more_time_is_never_less_of_a_chance(
    plan: Plan, per_hour: float, times: float, more: float
) -> None:
    rate, deadline = stated_rate(per_hour), plan.plain_hours * D(repr(times))
    sooner = chance_within(plan, rate, deadline)
    later = chance_within(plan, rate, deadline * D(repr(more)))
    oftener = chance_within(plan, stated_rate(per_hour * 1.5), deadline)
    assert 0 <= sooner <= later + 3e-4 <= 1 + 3e-4
    assert oftener <= sooner + 3e-4


# --- rates ----------------------------------------------------------------------------------


def test_the_advisors_classes_are_read_as_a_share_lost_in_a_month() -> None:
    per_hour = [advisor_rate(percent).per_hour for percent in (5, 10, 15, 20, 100)]
    assert per_hour == sorted(per_hour)
    assert per_hour[0] == pytest.approx(-math.log(0.95) / 730)
    assert advisor_rate(20).percent_per_month == pytest.approx(20)
    assert advisor_rate(100).percent_per_month == pytest.approx(60)
    assert "taken for 60 %" in advisor_rate(100).basis
    assert "up to 5 %" in advisor_rate(5).basis


def test_a_score_is_read_as_the_chance_of_a_month() -> None:
    rate = reliability_rate(D("0.98"))
    assert rate is not None
    assert rate.percent_per_month == pytest.approx(2)
    assert "outbid" in rate.basis
    perfect = reliability_rate(D(1))
    assert perfect is not None
    assert perfect.per_hour == 0
    assert reliability_rate(D(0)) is None


def test_the_users_word_goes_before_the_class_and_that_before_the_score() -> None:
    known = {"advisor_percent_max": 10, "reliability": D("0.9")}
    stated = interruption_rate(stated_per_hour=0.5, **known)  # type: ignore[arg-type]
    assert stated is not None
    assert stated.per_hour == 0.5
    by_class = interruption_rate(**known)  # type: ignore[arg-type]
    assert by_class == advisor_rate(10)
    assert interruption_rate(reliability=D("0.9")) == reliability_rate(D("0.9"))
    assert interruption_rate() is None


@pytest.mark.parametrize("bad", [-1, math.nan, math.inf])
def test_a_rate_that_cannot_be_is_refused(bad: float) -> None:
    with pytest.raises(BadFigure, match="interruptions per hour must be 0 or more"):
        stated_rate(bad)


def test_figures_that_cannot_be_are_refused() -> None:
    for percent in (0, 101):
        with pytest.raises(BadFigure, match="between 1 and 100"):
            advisor_rate(percent)
    with pytest.raises(BadFigure, match="between 0 and 1"):
        reliability_rate(D("1.1"))
    with pytest.raises(BadFigure, match="hours of work must be above 0"):
        Plan(D(0))
    with pytest.raises(BadFigure, match="hours between checkpoints must be above 0"):
        Plan(D(1), checkpoints=Checkpoints(D(0)))
    with pytest.raises(BadFigure, match="hours of set-up must be 0 or more"):
        Plan(D(1), setup_hours=D(-1))
    with pytest.raises(BadFigure, match="1 machine or more"):
        Plan(D(1), machines=0)


# --- the break-even -------------------------------------------------------------------------


def usd(price: str) -> PerMachineHour:
    return PerMachineHour(D(price))


def test_the_break_even_rate_makes_both_bills_equal() -> None:
    at = break_even_rate(OFTEN, usd("1"), usd("2.5"))
    assert at is not None
    got = expected(OFTEN, at.per_hour)
    assert float(got.billed_hours) == pytest.approx(float(OFTEN.plain_hours) * 2.5)
    assert got.interruptions == pytest.approx(at.interruptions)
    assert at.percent_per_month == pytest.approx(100 * (1 - math.exp(-730 * at.per_hour)))


def test_a_few_interruptions_erase_the_discount_of_a_job_without_checkpoints() -> None:
    # 12 h at 30 % of the price: exp(x) - 1 = x / 0.3 holds at x = 2.1.
    at = break_even_rate(Plan(D(12)), usd("0.6"), usd("2"))
    assert at is not None
    x = at.per_hour * 12
    assert math.expm1(x) == pytest.approx(x / 0.3)
    assert at.interruptions == pytest.approx(x / 0.3)


def test_spot_that_is_never_cheaper_has_no_break_even() -> None:
    assert break_even_rate(Plan(D(12)), usd("2"), usd("1.99")) is None
    dear = Plan(D(12), checkpoints=Checkpoints(D(1), D("0.5")))
    assert break_even_rate(dear, usd("1"), usd("1.2")) is None
    with pytest.raises(BadFigure, match="spot price must be above 0"):
        break_even_rate(Plan(D(1)), usd("0"), usd("1"))


@given(plans(), st.floats(1.01, 10))
def test_spot_pays_up_to_the_break_even_rate_and_not_beyond(plan: Plan, discount: float) -> None:
    on_demand = PerMachineHour(D(repr(discount)))
    at = break_even_rate(plan, usd("1"), on_demand)
    if at is None:
        free = expect(plan, stated_rate(0))
        assert isinstance(free, Refused) or free.billed_hours > plan.plain_hours * on_demand.usd
        return
    for factor, cheaper in ((0.999, True), (1.001, False)):
        got = expect(plan, stated_rate(at.per_hour * factor))
        if isinstance(got, Expected) and at.per_hour > 1e-9:
            bill = got.billed_hours
            assert (bill <= plan.plain_hours * on_demand.usd + D("1e-8")) is cheaper or (
                bill == pytest.approx(plan.plain_hours * on_demand.usd, rel=D("1e-6"))
            )
