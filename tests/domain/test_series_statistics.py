"""Figures of series weighed by time, and who was the cheapest for how long."""

from __future__ import annotations

import itertools
import math
import statistics as plain
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.series import Step
from tracker.domain.series_statistics import (
    cheapest_shares,
    quantile,
    statistics,
    time_below,
    volatility,
)

T0 = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


def steps(*parts: tuple[float, float, str]) -> list[Step]:
    """Steps of (start, end, value), in hours."""
    return [Step(T0 + a * HOUR, T0 + b * HOUR, Decimal(value)) for a, b, value in parts]


@st.composite
def known_series(draw: st.DrawFn) -> list[Step]:
    """A series of one step or more in whole hours, with gaps."""
    at, made = 0, []
    for _ in range(draw(st.integers(1, 7))):
        at += draw(st.integers(0, 2))
        length = draw(st.integers(1, 5))
        made += steps((at, at + length, str(draw(st.integers(1, 6)))))
        at += length
    return made


def by_the_hour(series: list[Step]) -> list[Decimal]:
    """The value of each known hour, sorted."""
    return sorted(s.value for s in series for _ in range((s.end - s.start) // HOUR))


@given(known_series())
def test_figures_are_those_of_one_value_an_hour(series: list[Step]) -> None:
    values = by_the_hour(series)
    found = statistics(series)
    assert found is not None
    assert found.known == len(values) * HOUR
    assert (found.low, found.high) == (values[0], values[-1])
    assert found.median == plain.median(values)
    assert found.mean == pytest.approx(plain.mean(values))
    for share, value in ((Decimal("0.1"), found.p10), (Decimal("0.9"), found.p90)):
        assert sum(v <= value for v in values) >= share * len(values)
        assert sum(v < value for v in values) <= share * len(values)


@given(known_series(), st.integers(0, 7))
def test_time_below_counts_the_hours_below(series: list[Step], threshold: int) -> None:
    hours = sum(value < threshold for value in by_the_hour(series))
    assert time_below(series, Decimal(threshold)) == hours * HOUR


def test_nothing_known_has_no_figures() -> None:
    assert statistics([]) is None
    assert volatility([]) is None
    with pytest.raises(ValueError, match="no quantiles"):
        quantile([], Decimal("0.5"))


def test_quantiles_at_the_ends() -> None:
    series = steps((0, 1, "1"), (1, 2, "2"))
    assert [quantile(series, Decimal(share)) for share in (0, "0.5", 1)] == [1, Decimal("1.5"), 2]


def test_volatility_is_of_moves_that_were_seen() -> None:
    moved = [*steps((0, 12, "1"), (12, 24, "1.1"))]
    assert volatility(moved) == pytest.approx(math.log(1.1))
    # Up and back down weigh the same, over as much time as is known: two moves in a day.
    back = steps((0, 8, "1"), (8, 16, "1.1"), (16, 24, "1"))
    assert volatility(back) == pytest.approx(math.sqrt(2) * math.log(1.1))
    # Four days of the same moves a day are as volatile as one.
    four = [step for day in range(4) for step in steps(
        (24 * day, 24 * day + 12, "1"), (24 * day + 12, 24 * day + 24, "1.1"))]  # fmt: skip
    assert volatility(four) == pytest.approx(math.sqrt(7 / 4) * math.log(1.1))
    assert volatility(steps((0, 1, "1"), (2, 3, "9"))) == 0  # nobody saw that happen
    assert volatility(steps((0, 1, "0"), (1, 2, "1"))) is None


def test_changes_are_those_of_value() -> None:
    found = statistics(steps((0, 1, "1"), (1, 2, "1"), (2, 3, "2"), (4, 5, "1")))
    assert found is not None
    assert found.changes == 1


@given(st.lists(known_series(), min_size=1, max_size=4))
def test_shares_are_those_of_one_value_an_hour(several: list[list[Step]]) -> None:
    shares = cheapest_shares(dict(enumerate(several)))
    alone, tied, met = ([0] * len(several) for _ in range(3))
    compared = 0
    end = max(step.end for series in several for step in series)
    for hour in itertools.takewhile(lambda h: T0 + h * HOUR < end, itertools.count()):
        moment = T0 + hour * HOUR
        here = {
            number: step.value
            for number, series in enumerate(several) for step in series
            if step.start <= moment < step.end
        }  # fmt: skip
        if len(here) < 2:
            continue
        compared += 1
        best = [number for number, value in here.items() if value == min(here.values())]
        for number in best:
            (alone if len(best) == 1 else tied)[number] += 1
        for number in here:
            met[number] += 1
    assert shares.compared == compared * HOUR
    assert [share.alone / HOUR for share in shares.of.values()] == alone
    assert [share.tied / HOUR for share in shares.of.values()] == tied
    assert [share.compared / HOUR for share in shares.of.values()] == met


def test_nearly_equal_values_tie() -> None:
    several = {"aws": steps((0, 4, "49.16")), "azure": steps((0, 4, "49.155"))}
    assert cheapest_shares(several).alone("azure") == 1
    close = cheapest_shares(several, tolerance=Decimal("0.001"))
    assert close.alone("azure") == 0
    assert close.of["aws"].tied == 4 * HOUR


def test_the_only_one_known_is_not_the_cheapest() -> None:
    several = {"a": steps((0, 4, "2")), "b": steps((3, 4, "3"))}
    shares = cheapest_shares(several)
    assert shares.compared == HOUR
    assert shares.of["a"].known == 4 * HOUR
    assert cheapest_shares({"a": several["a"]}).alone("a") is None
    assert cheapest_shares(several, at_least=1).of["a"].alone == 4 * HOUR
