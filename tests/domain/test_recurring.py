"""The month's bill of jobs that run again and again."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.domain.test_cost import billed, hours, inputs, job
from tracker.domain.cost import Bill, LineKind
from tracker.domain.exact import BadFigure, ratio_up
from tracker.domain.recurring import Recurring, month_bill
from tracker.domain.terms import Market

D = Decimal

MONTH = {"commitment_hours": 730, "disk_usd_per_gb_hour": D("0.0001"),
         "disk_included_gb": D(50), "egress_usd_per_gb": D("0.1")}  # fmt: skip


def monthly(runtime: str, price: str = "2", count: str = "1", **needs: object) -> Bill:
    offer = inputs(price, count, market=Market.MONTHLY, **MONTH)
    return billed(offer, job(**needs), hours(runtime))


def test_runs_are_multiplied() -> None:
    nightly = billed(inputs("2", billing_increment_seconds=3600), job(), hours("1.5"))
    weekly = billed(inputs("10", billing_increment_seconds=1), job(), hours("0.5"))
    got = month_bill(
        [Recurring("nightly", D(30), nightly, b"a"), Recurring("weekly", D("4.3"), weekly, b"b")]
    )
    assert [(line.label, line.amount_usd) for line in got.lines] == [
        ("nightly, run", D(120)),
        ("weekly, run", D("21.5")),
    ]
    assert got.total_usd == D("141.5")


def test_a_month_is_paid_for_once_by_all_the_jobs_on_it() -> None:
    train = monthly("20", disk_gb=D(150), egress_gb=D(5))
    score = monthly("0.5", disk_gb=D(100))
    got = month_bill(
        [Recurring("train", D(10), train, b"m", 730), Recurring("score", D(100), score, b"m", 730)]
    )
    assert [(line.label, line.amount_usd) for line in got.lines] == [
        ("train, score: machines by the month", D(1460)),
        ("train, score: disk", D("7.3")),  # the larger disk, 100 GB beyond what is included
        ("train: egress", D(5)),
    ]
    assert got.total_usd == D("1472.3")
    assert got.notes == (
        "train, score: 250 of 730 machine-hours are used (34.2 %); the runs wait for one another",
    )
    # Two bills by the run would have paid for 110 months.
    assert got.total_usd < train.at_least_usd + score.at_least_usd


def test_what_does_not_fit_into_a_month_takes_another_machine() -> None:
    for runs, machines in ((D(73), 1), (D("73.1"), 2), (D(200), 3)):
        got = month_bill([Recurring("j", runs, monthly("10"), b"m", 730)])
        assert got.total_usd == machines * 1460
    wide = monthly("1", gpus_needed=4)
    assert month_bill([Recurring("wide", D(1), wide, b"m", 730)]).total_usd == 4 * 1460


def test_wide_runs_go_in_whole_lanes() -> None:
    """200 runs of 15 h on 7 machines: 21,000 machine-hours would fit on 29, but 29 machines hold no
    more than 4 such runs at once, and 4 lanes of 730 h no more than 194 of them."""
    wide = monthly("15", gpus_needed=7)
    assert month_bill([Recurring("wide", D(200), wide, b"m", 730)]).total_usd == 35 * 1460
    # Of 35 machines five lanes are left idle for 650 h each time round: narrow runs go there.
    narrow = Recurring("narrow", D(100), monthly("10"), b"m", 730)
    both = month_bill([Recurring("wide", D(200), wide, b"m", 730), narrow])
    assert both.total_usd == 35 * 1460


@pytest.mark.parametrize("each", [3, 7, 9, 11, 13])
def test_runs_that_are_a_month_divided_fit_into_it(each: int) -> None:
    runs = ratio_up(D(730), D(each))  # a trifle more than there are
    assert month_bill([Recurring("j", runs, monthly(str(each)), b"m", 730)]).total_usd == 1460


@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.integers(1, 40), st.integers(1, 120)),
        min_size=1, max_size=4,
    )
)  # fmt: skip
def test_machines_hold_what_each_width_needs(runs: list[tuple[int, int, int]]) -> None:
    """Against the two plain bounds; and runs of one width fit when laid out lane by lane."""
    group = [
        Recurring(f"j{i}", D(count), monthly(str(took), gpus_needed=width), b"m", 730)
        for i, (width, took, count) in enumerate(runs)
    ]
    machines = month_bill(group).at_least_usd / 1460
    assert machines * 730 >= sum(w * h * n for w, h, n in runs)
    for width in {w for w, _, _ in runs}:
        lanes = machines // width
        assert lanes * 730 >= sum(h * n for w, h, n in runs if w >= width)
    if len({w for w, _, _ in runs}) == 1:
        width = runs[0][0]
        assert machines == width * -(-sum(h * n for _, h, n in runs) // 730)


def test_a_commitment_of_years_costs_its_month_and_one_of_hours_every_run() -> None:
    year = billed(inputs("2", market=Market.RESERVED, commitment_hours=8760), job(), hours("10"))
    got = month_bill([Recurring("j", D(3), year, b"y", 8760)])
    assert got.total_usd == 1460
    # A month's price alone would hide what one signs for.
    assert got.notes[1:] == (
        "j: committed to for 8,760 h (12 months of $1,460.00): $17,520.00 in all, used or not",
    )
    day = billed(inputs("2", commitment_hours=24), job(), hours("10"))
    assert month_bill([Recurring("j", D(3), day, b"d", 24)]).total_usd == 3 * 48


def test_an_unknown_part_leaves_no_total() -> None:
    unknown = billed(inputs("2"), job(egress_gb=D(1)), hours("1"))
    got = month_bill([Recurring("j", D(2), unknown, b"a")])
    assert (got.total_usd, got.at_least_usd) == (None, 4)
    assert got.partial == ("j: egress price unknown",)
    # What never runs has no unknown part.
    assert month_bill([Recurring("j", D(0), unknown, b"a")]).total_usd == 0


def test_a_lower_bound_stays_one() -> None:
    least = billed(inputs("2"), job(), hours("1", lower_bound=True))
    assert month_bill([Recurring("j", D(2), least, b"a")]).lower_bound
    assert not month_bill([Recurring("j", D(0), least, b"a")]).lower_bound


def test_one_offer_has_one_price() -> None:
    jobs = [
        Recurring("a", D(1), monthly("1"), b"m", 730),
        Recurring("b", D(1), monthly("1", price="3"), b"m", 730),
    ]
    with pytest.raises(BadFigure, match="a and b name one offer at different terms"):
        month_bill(jobs)
    with pytest.raises(BadFigure, match="runs per month of a must be 0 or more"):
        month_bill([Recurring("a", D(-1), monthly("1"), b"m", 730)])


@st.composite
def recurring(draw: st.DrawFn) -> Recurring:
    runs = draw(st.decimals("0", "200", places=1))
    runtime = str(draw(st.decimals("0.1", "50", places=1)))
    needs = {"disk_gb": D(draw(st.integers(0, 200))), "egress_gb": D(draw(st.integers(0, 9))),
             "gpus_needed": draw(st.integers(1, 3))}  # fmt: skip
    if draw(st.booleans()):
        return Recurring("m", runs, monthly(runtime, **needs), b"m", 730)
    offer = inputs("3", billing_increment_seconds=60, disk_usd_per_gb_hour=D("0.001"),
                   egress_usd_per_gb=D("0.1"))  # fmt: skip
    return Recurring("r", runs, billed(offer, job(**needs), hours(runtime)), b"r")


@given(st.lists(recurring(), max_size=5), recurring())
def test_the_lines_sum_to_the_total_and_more_never_costs_less(
    jobs: list[Recurring], another: Recurring
) -> None:
    got = month_bill(jobs)
    assert got.total_usd == sum(line.amount_usd for line in got.lines)
    for line in got.lines:
        assert line.amount_usd == line.quantity * line.unit_price_usd
    more = month_bill([*jobs, another])
    assert more.at_least_usd >= got.at_least_usd
    if jobs:
        first = jobs[0]._replace(runs_per_month=jobs[0].runs_per_month + 1)
        assert month_bill([first, *jobs[1:]]).at_least_usd >= got.at_least_usd
    # Never below the hours of work at the machine's price.
    work = sum(
        one.runs_per_month * line.amount_usd
        for one in jobs
        for line in one.bill.lines
        if line.kind is LineKind.RUNTIME
    )
    assert got.at_least_usd >= work
