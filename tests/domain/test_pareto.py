"""The Pareto set and the choice, against definitions written out in full."""

from __future__ import annotations

import random
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.pareto import Choice, Goal, Option, Range, choose, pareto

D = Decimal


def option(name: str, usd: str | None, hours: str, evidence: str | None = None) -> Option[str]:
    cost = None if usd is None else Range.exact(D(usd))
    return Option(name, name.encode(), cost, Range.exact(D(hours)), evidence)


def wide(name: str, low: str, usd: str, high: str, evidence: str | None = None) -> Option[str]:
    return Option(name, name.encode(), Range(D(usd), D(low), D(high)), Range.exact(D(1)), evidence)


A100 = option("a100", "16", "12")
H100 = option("h100", "20", "4")
EIGHT = option("8xh100", "60", "1")
BAD = option("bad", "70", "5")
UNKNOWN = option("unknown", None, "0.5")
ALL = [BAD, EIGHT, UNKNOWN, A100, H100]


def names(options: tuple[Option[str], ...]) -> list[str]:
    return [one.item for one in options]


def chosen(options: list[Option[str]], goal: Goal) -> Choice[str]:
    got = choose(options, goal)
    assert got is not None
    return got


def test_the_set_leaves_out_what_is_dearer_and_slower() -> None:
    assert names(pareto(ALL)) == ["a100", "h100", "8xh100"]


@pytest.mark.parametrize(
    ("goal", "best"),
    [(Goal.CHEAPEST, "a100"), (Goal.FASTEST, "8xh100"), (Goal.BALANCED, "8xh100")],
)
def test_each_goal_has_its_choice(goal: Goal, best: str) -> None:
    # Products of cost and hours: 192, 80, 60.
    got = chosen(ALL, goal)
    assert (got.best.item, got.ties) == (best, ())


def test_balanced_takes_neither_end_where_the_middle_is_good_at_both() -> None:
    dear = option("dear", "100", "1")
    got = chosen([A100, H100, dear], Goal.BALANCED)
    assert got.best.item == "h100"  # 192, 80, 100


def test_an_unknown_cost_is_never_chosen() -> None:
    assert choose([UNKNOWN], Goal.FASTEST) is None
    assert choose([], Goal.CHEAPEST) is None
    assert pareto([UNKNOWN]) == ()


def test_ranges_that_overlap_are_a_tie() -> None:
    a, b, c = wide("a", "8", "10", "12"), wide("b", "11", "13", "15"), wide("c", "13", "16", "20")
    got = chosen([c, b, a], Goal.CHEAPEST)
    assert (got.best.item, names(got.ties)) == ("a", ["b"])


def test_the_same_estimate_at_two_prices_is_no_tie() -> None:
    a, b = wide("a", "8", "10", "12", "H100 x1"), wide("b", "9", "11", "13", "H100 x1")
    other = wide("c", "9", "11", "13", "A100 x1")
    got = chosen([b, other, a], Goal.CHEAPEST)
    assert (got.best.item, names(got.ties)) == ("a", ["c"])
    same = wide("d", "8", "10", "12", "H100 x1")
    assert names(chosen([same, a], Goal.CHEAPEST).ties) == ["d"]


numbers = st.decimals("1", "20", places=0)


@st.composite
def ranges(draw: st.DrawFn) -> Range:
    point = draw(numbers)
    return Range(point, point - draw(st.integers(0, 3)) / D(4), point + draw(st.integers(0, 12)))


@st.composite
def many(draw: st.DrawFn) -> list[Option[int]]:
    rows = draw(st.lists(st.tuples(st.none() | ranges(), ranges()), max_size=12))
    evidence = st.sampled_from([None, "x", "y"])
    return [
        Option(i, bytes([i]), usd, hours, draw(evidence)) for i, (usd, hours) in enumerate(rows)
    ]


@given(many())
def test_the_set_is_what_nothing_beats(options: list[Option[int]]) -> None:
    def point(one: Option[int]) -> tuple[Decimal, Decimal]:
        assert one.usd is not None
        return one.usd.point, one.hours.point

    priced = [one for one in options if one.usd is not None]
    undominated = {
        point(a)
        for a in priced
        if not any(
            b[0] <= point(a)[0] and b[1] <= point(a)[1] and b != point(a)
            for b in map(point, priced)
        )
    }
    got = pareto(options)
    assert [point(one) for one in got] == sorted(undominated)
    for one in got:  # of equals the first by key
        assert one.key == min(o.key for o in priced if point(o) == point(one))


@given(many(), st.sampled_from(Goal), st.integers())
def test_the_choice_is_in_the_set_and_knows_no_order(
    options: list[Option[int]], goal: Goal, seed: int
) -> None:
    got = choose(options, goal)
    shuffled = list(options)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - an order
    assert choose(shuffled, goal) == got
    if got is None:
        assert all(one.usd is None for one in options)
        return
    assert got.best in pareto(options)
    assert got.best not in got.ties

    def measure(one: Option[int], which: str) -> Decimal:
        assert one.usd is not None
        usd, hours = getattr(one.usd, which), getattr(one.hours, which)
        both = {Goal.CHEAPEST: usd, Goal.FASTEST: hours, Goal.BALANCED: usd * hours}
        return D(both[goal])

    priced = [one for one in options if one.usd is not None]
    best = measure(got.best, "point")
    assert best == min(measure(one, "point") for one in priced)
    for one in priced:
        apart = one.evidence is not None and one.evidence == got.best.evidence
        overlaps = measure(one, "low") <= measure(got.best, "high") and not apart
        expected = one is not got.best and (overlaps or measure(one, "point") == best)
        assert (one in got.ties) is expected
