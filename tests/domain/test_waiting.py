"""Waiting for a lower price: against brute force, and what may be said of how little."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tracker.domain.series import Step
from tracker.domain.waiting import (
    DROPS_PERCENT,
    Advice,
    Outcome,
    judged,
    outcomes,
    parts,
    side_by_side,
    spread,
    sure_share,
)

START = datetime(2026, 1, 1, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def series_of(*values: tuple[float, int | None]) -> list[Step]:
    """Steps one after the other: (hours, value), None for a gap."""
    steps, at = [], START
    for hours, value in values:
        end = at + hours * HOUR
        if value is not None:
            steps.append(Step(at, end, Decimal(value)))
        at = end
    return steps


def hourly(days: int) -> list[datetime]:
    return [START + i * HOUR for i in range(days * 24)]


def saws(days: int, low: int, high: int) -> list[Step]:
    """High for 20 hours of each day, then low for 4."""
    return series_of(*[piece for _ in range(days) for piece in ((20, high), (4, low))])


# --- the oracle: one who waits looks every quarter of an hour --------------------------------


def _value(series: Sequence[Step], at: datetime) -> Decimal | None:
    return next((s.value for s in series if s.start <= at < s.end), None)


def _by_looking(
    series: Sequence[Step], starts: Sequence[datetime], wait: timedelta
) -> list[Outcome]:
    found = []
    for start in starts:
        looks = [start + i * HOUR / 4 for i in range(int(wait / (HOUR / 4)) + 1)]
        seen = [_value(series, at) for at in looks]
        if seen[0] is None or seen[-1] is None:
            continue
        known = [value for value in seen if value is not None]
        paid = tuple(
            next((v for v in known if v <= seen[0] * (100 - drop) / 100), seen[-1])
            for drop in DROPS_PERCENT
        )
        found.append(Outcome(start, seen[0], min(known), seen[-1], paid))
    return found


_quarters = st.integers(min_value=1, max_value=12).map(lambda n: n / 4)
_steps = st.lists(
    st.tuples(_quarters, st.none() | st.integers(min_value=1, max_value=40)), max_size=25
)


@settings(max_examples=40)
@given(_steps, st.integers(min_value=1, max_value=30), st.data())
def test_every_outcome_is_that_of_one_who_looks_all_the_time(
    pieces: list[tuple[float, int | None]], quarters: int, data: st.DataObject
) -> None:
    series = series_of(*pieces)
    places = st.sets(st.integers(min_value=-4, max_value=200), max_size=20)
    starts = [START + i * HOUR / 4 for i in sorted(data.draw(places))]
    wait = quarters * HOUR / 4
    assert outcomes(series, starts, wait) == _by_looking(series, starts, wait)


@settings(max_examples=30)
@given(st.lists(st.integers(0, 100), unique=True, max_size=30), st.integers(1, 40))
def test_windows_side_by_side_are_the_most_that_there_can_be(hours: list[int], long: int) -> None:
    starts = [START + h * HOUR for h in sorted(hours)]
    wait = long * HOUR
    chosen = [starts[i] for i in side_by_side(starts, wait)]
    assert all(b - a >= wait for a, b in pairwise(chosen))
    most = [0] * (len(starts) + 1)  # of those from each place on
    for i in range(len(starts) - 1, -1, -1):
        after = next((j for j in range(i + 1, len(starts)) if starts[j] >= starts[i] + wait),
                     len(starts))  # fmt: skip
        most[i] = max(most[i + 1], 1 + most[after])
    assert len(chosen) == most[0]


# --- what is said -----------------------------------------------------------------------------


def test_a_price_that_never_moves_is_no_reason_to_wait() -> None:
    found = outcomes(series_of((24 * 100, 10)), hourly(100), 2 * DAY)
    answer = judged(found, 2 * DAY)
    assert answer.advice is Advice.GO
    assert all(rule.gained == rule.lost == 0 for rule in answer.rules)
    assert answer.last == spread([Decimal(1)])


def test_a_price_that_falls_every_night_is_worth_a_day() -> None:
    answer = judged(outcomes(saws(60, 7, 10), hourly(60), DAY), DAY)
    assert answer.advice is Advice.WAIT
    assert answer.earlier is not None
    assert answer.later is not None
    assert answer.earlier.drop_percent == answer.later.drop_percent == 1  # the first of equal ones
    assert answer.later.paid.mean < Decimal("0.8")
    # At night, waiting for less is in vain, and one starts at the same low price in the end.
    assert answer.later.lost == 0


def test_what_paid_once_and_not_when_checked_is_not_advised() -> None:
    rising = [(6, 10 + i) for i in range(30 * 4)]
    series = [*saws(60, 7, 10)]
    at = series[-1].end
    for hours, value in rising:
        series.append(Step(at, at + hours * HOUR, Decimal(value)))
        at += hours * HOUR
    answer = judged(outcomes(series, hourly(90), DAY), DAY)
    assert answer.advice is Advice.GO
    assert "later" in answer.reason
    assert answer.earlier is not None
    assert answer.later is not None
    assert answer.earlier.paid.mean < 1 < answer.later.paid.mean


@pytest.mark.parametrize("days", [0, 1, 5])
def test_little_history_says_nothing(days: int) -> None:
    answer = judged(outcomes(saws(days, 7, 10), hourly(days), DAY), DAY)
    assert answer.advice is Advice.UNKNOWN
    assert answer.earlier is None
    assert "it takes 8" in answer.reason


def test_many_moments_of_one_window_are_no_evidence() -> None:
    # Ten thousand looks within a week of one fall: still only a few windows of two days.
    series = series_of((24 * 5, 10), (24 * 5, 5))
    starts = [START + i * timedelta(minutes=1) for i in range(8 * 24 * 60)]
    answer = judged(outcomes(series, starts, 2 * DAY), 2 * DAY)
    assert answer.rules[0].times > 10_000
    assert answer.windows == 4
    assert answer.advice is Advice.UNKNOWN


def test_windows_whose_end_is_not_known_do_not_count() -> None:
    # It falls at once, and then nothing is known: who did not start in time has no price.
    series = series_of((1, 10), (1, 5), (48, None), (1, 10))
    assert outcomes(series, [START], 10 * HOUR) == []
    assert outcomes(series, [START + 3 * HOUR], HOUR) == []
    [one] = outcomes(series, [START], 50 * HOUR)
    assert (one.lowest_usd, one.last_usd, set(one.paid_usd)) == (5, 10, {Decimal(5)})


def test_no_earlier_window_reaches_into_the_later_part() -> None:
    found = outcomes(saws(60, 7, 10), hourly(60), 3 * DAY)
    early, late = parts(found, 3 * DAY)
    assert early[-1].start + 3 * DAY <= late[0].start
    assert 0 < len(late) < len(early) < len(found)


def test_wilsons_interval_as_it_is_published() -> None:
    # At z = 1.96 and 8 of 10 it is 0.490 to 0.943; here z is that of 90 %: 0.5408.
    assert sure_share(0.5, 0) == 0
    assert sure_share(0.8, 10) == pytest.approx(0.5408, abs=5e-4)
    assert sure_share(1.0, 10) < 1
    assert all(sure_share(0.5, n) < 0.5 for n in (1, 10, 10_000))


def test_there_must_be_some_time_to_wait() -> None:
    with pytest.raises(ValueError, match="time to wait"):
        outcomes(series_of((1, 1)), [START], timedelta(0))
