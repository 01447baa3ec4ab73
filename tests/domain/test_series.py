"""Step functions with gaps: their minimum, buckets in local days, and what must always hold."""

from __future__ import annotations

import itertools
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain import series
from tracker.domain.series import Step
from tracker.domain.series_buckets import Calendar, bucket_edges, bucket_lowest, buckets

T0 = datetime(2026, 3, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
BERLIN = ZoneInfo("Europe/Berlin")


def at(hours: float) -> datetime:
    return T0 + hours * HOUR


def steps(*parts: tuple[float, float, str]) -> list[Step]:
    """Steps of (start, end, value), in hours."""
    return [Step(at(start), at(end), Decimal(value)) for start, end, value in parts]


@st.composite
def any_series(draw: st.DrawFn) -> list[Step]:
    """A series within 12 hours, with gaps."""
    moments = sorted(draw(st.sets(st.integers(0, 12), max_size=8)))
    made = [
        Step(at(one), at(other), Decimal(draw(st.integers(1, 4))))
        for one, other in itertools.pairwise(moments)
        if draw(st.booleans()) or draw(st.booleans())
    ]
    return series.joined(made)


SEVERAL = st.lists(any_series(), max_size=4)


@given(SEVERAL)
def test_the_lowest_is_the_minimum_at_every_moment(several: list[list[Step]]) -> None:
    low = series.lowest(several)
    series.check(low)
    assert low == series.joined(low)
    for half in range(-1, 26):
        known = [series.value_at(one, at(half / 2)) for one in several]
        assert series.value_at(low, at(half / 2)) == min(
            (value for value in known if value is not None), default=None
        )


@given(SEVERAL)
def test_together_tells_all_values_at_every_moment(several: list[list[Step]]) -> None:
    parts = list(series.together(several))
    for half in range(-1, 26):
        moment = at(half / 2)
        values = tuple(series.value_at(one, moment) for one in several)
        here = [part.values for part in parts if part.start <= moment < part.end]
        assert here == ([values] if any(v is not None for v in values) else [])


@given(any_series(), st.integers(0, 12), st.integers(0, 12))
def test_a_cut_has_the_same_values_within_and_none_outside(
    one: list[Step], start: int, end: int
) -> None:
    part = series.cut(one, at(start), at(end))
    series.check(part)
    for hour in range(13):
        inside = start <= hour < end
        assert series.value_at(part, at(hour)) == (
            series.value_at(one, at(hour)) if inside else None
        )


def test_steps_that_overlap_or_are_empty_are_refused() -> None:
    with pytest.raises(ValueError, match="before the one before"):
        series.check(steps((0, 2, "1"), (1, 3, "1")))
    with pytest.raises(ValueError, match="not after its start"):
        series.check(steps((1, 1, "1")))


def test_values_are_mapped_and_what_touches_at_one_value_is_one_step() -> None:
    halved = series.mapped(steps((0, 1, "2"), (1, 2, "3"), (3, 4, "3")), lambda v: v // 2)
    assert halved == steps((0, 2, "1"), (3, 4, "1"))


@given(any_series())
def test_buckets_tell_the_extremes_and_the_mean_of_what_is_known(one: list[Step]) -> None:
    edges = [at(hour) for hour in (-2, 0, 1, 4, 5, 11, 20)]
    found = buckets(one, edges)
    assert [bucket.low for bucket in found] == bucket_lowest([one], edges)
    for bucket in found:
        inside = series.cut(one, bucket.start, bucket.end)
        assert bucket.known == series.known_for(inside)
        if not inside:
            assert bucket[2:] == (None, None, None, timedelta())
            continue
        assert bucket.high == max(step.value for step in inside)
        weighed = sum(step.value * ((step.end - step.start) // HOUR) for step in inside)
        assert bucket.mean == pytest.approx(weighed / (bucket.known // HOUR))


def test_days_of_a_zone_have_23_and_25_hours() -> None:
    march = bucket_edges(
        datetime(2026, 3, 28, 12, tzinfo=UTC), datetime(2026, 3, 30, 12, tzinfo=UTC),
        Calendar.DAY, BERLIN,
    )  # fmt: skip
    assert [(b - a) / HOUR for a, b in itertools.pairwise(march)] == [24, 23, 24]
    assert march[0] == datetime(2026, 3, 27, 23, tzinfo=UTC)
    october = bucket_edges(
        datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 25, 23, tzinfo=UTC),
        Calendar.DAY, BERLIN,
    )  # fmt: skip
    assert [(b - a) / HOUR for a, b in itertools.pairwise(october)] == [25]


def test_a_day_of_25_hours_has_25_buckets_of_an_hour_and_a_short_one_of_six() -> None:
    day = datetime(2026, 10, 24, 22, tzinfo=UTC), datetime(2026, 10, 25, 23, tzinfo=UTC)
    assert len(bucket_edges(*day, HOUR, BERLIN)) == 26
    six = bucket_edges(*day, 6 * HOUR, BERLIN)
    assert [(b - a) / HOUR for a, b in itertools.pairwise(six)] == [6, 6, 6, 6, 1]


def test_hours_of_a_zone_at_half_an_hour_begin_at_its_full_hours() -> None:
    edges = bucket_edges(at(0), at(2), HOUR, ZoneInfo("Asia/Kolkata"))
    assert [edge.minute for edge in edges] == [30, 30, 30, 30]


def test_a_day_that_a_zone_left_out_is_no_bucket() -> None:
    # Samoa went from 29 to 31 December 2011.
    apia = ZoneInfo("Pacific/Apia")
    edges = bucket_edges(
        datetime(2011, 12, 29, 12, tzinfo=UTC), datetime(2012, 1, 1, tzinfo=UTC), Calendar.DAY, apia
    )
    days = [edge.astimezone(apia).date() for edge in edges]
    assert days == [date(2011, 12, 29), date(2011, 12, 31), date(2012, 1, 1), date(2012, 1, 2)]


def test_a_midnight_that_the_clock_skips_is_when_it_does_so() -> None:
    cairo = ZoneInfo("Africa/Cairo")  # 2024-04-26: from 00:00 to 01:00
    edges = bucket_edges(
        datetime(2024, 4, 25, 12, tzinfo=UTC), datetime(2024, 4, 26, 12, tzinfo=UTC),
        Calendar.DAY, cairo,
    )  # fmt: skip
    assert [(b - a) / HOUR for a, b in itertools.pairwise(edges)] == [24, 23]


def test_weeks_begin_on_monday_and_months_on_the_first() -> None:
    weeks = bucket_edges(at(0), at(24), Calendar.WEEK)  # 2026-03-01 is a Sunday
    assert weeks == [datetime(2026, 2, 23, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)]
    months = bucket_edges(at(-1), at(24), Calendar.MONTH)
    assert [edge.month for edge in months] == [2, 3, 4]


@given(
    st.integers(-10_000 * 24, 1500 * 24).map(at),
    st.integers(1, 5000),
    st.sampled_from([*Calendar, HOUR, 6 * HOUR, timedelta(minutes=15)]),
    st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "America/Havana"]),
)
def test_edges_rise_and_cover_the_window_and_no_more(start, minutes, every, zone) -> None:
    end = start + timedelta(minutes=minutes)
    edges = bucket_edges(start, end, every, ZoneInfo(zone))
    assert all(one < other for one, other in itertools.pairwise(edges))
    assert edges[0] <= start < edges[1]
    assert edges[-2] < end <= edges[-1]


def test_other_lengths_of_buckets_are_refused() -> None:
    for every in (timedelta(hours=5), timedelta(days=2), timedelta(0), -HOUR):
        with pytest.raises(ValueError, match="divide a day"):
            bucket_edges(at(0), at(1), every)
    with pytest.raises(ValueError, match="after the start"):
        bucket_edges(at(1), at(1), HOUR)
