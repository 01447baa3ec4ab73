"""Series in buckets: hours, days, weeks, months, with their boundaries spelled out.

A day is a local day: 23 or 25 hours long where the clock changes, and now and then another length.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Context, Decimal
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.exact import EXACT
from tracker.domain.series import Series

_DAY = timedelta(days=1)
_MEAN = Context(prec=28)
# A clock is nowhere more than a day away from UTC.
_FURTHEST = timedelta(days=2)


class Calendar(StrEnum):
    """Buckets whose length is the calendar's. Weeks begin on Monday."""

    DAY = "day"
    WEEK = "week"
    MONTH = "month"


def bucket_edges(
    start: datetime, end: datetime, every: timedelta | Calendar, zone: tzinfo = UTC
) -> list[datetime]:
    """The boundaries (UTC, rising) of the buckets that together cover [start, end).

    The first is at or before *start*, the last at or after *end*. A length (one that divides a day)
    is counted from each local midnight on, so that a day of 25 hours has 25 buckets of an hour;
    what is left of a day that is no multiple of it is a shorter bucket. Raises ValueError for other
    lengths, and when *end* is not after *start*.
    """
    if start >= end:
        raise ValueError("the end must be after the start")
    if isinstance(every, timedelta) and (every <= timedelta() or _DAY % every):
        raise ValueError(
            "the length of a bucket must divide a day: 15m, 1h, 6h; or day, week, month"
        )
    edges = list[datetime]()
    for edge in _all_edges(start - _FURTHEST - 31 * _DAY, every, zone):
        if edges and edge <= start:
            edges.clear()
        if not edges or edge > edges[-1]:  # a day that a zone left out has no length
            edges.append(edge)
        if edge >= end:
            return edges
    raise ValueError("the calendar ends")


def _all_edges(after: datetime, every: timedelta | Calendar, zone: tzinfo) -> Iterator[datetime]:
    day = _first_of(after.astimezone(UTC).date(), every)
    while True:
        following = _next(day, every)
        begin = _midnight(day, zone)
        yield begin
        if isinstance(every, timedelta):
            until, edge = _midnight(following, zone), begin + every
            while edge < until:
                yield edge
                edge += every
        day = following


def _first_of(day: date, every: timedelta | Calendar) -> date:
    if every is Calendar.WEEK:
        return day - day.weekday() * _DAY
    return day.replace(day=1) if every is Calendar.MONTH else day


def _next(day: date, every: timedelta | Calendar) -> date:
    if every is Calendar.WEEK:
        return day + 7 * _DAY
    return (day + 31 * _DAY).replace(day=1) if every is Calendar.MONTH else day + _DAY


def _midnight(day: date, zone: tzinfo) -> datetime:
    """When *day* begins. A midnight that the clock skips is the moment at which it does so; of two
    midnights it is the first."""
    return datetime.combine(day, time.min, zone).astimezone(UTC)


class Bucket(NamedTuple):
    """What is known of [start, end): the lowest and highest value at any instant of it, and the
    mean over the time ``known`` for. All three are None when that is no time at all."""

    start: datetime
    end: datetime
    low: Decimal | None
    high: Decimal | None
    mean: Decimal | None
    known: timedelta


def buckets(series: Series, edges: Sequence[datetime]) -> list[Bucket]:
    """*series* in the buckets between *edges*, which must rise. An empty one is there, as None."""
    out: list[Bucket] = []
    at = 0
    for start, end in itertools.pairwise(edges):
        while at < len(series) and series[at].end <= start:
            at += 1
        low = high = None
        weighed, micros = Decimal(0), 0
        turn = at
        while turn < len(series) and series[turn].start < end:
            step = series[turn]
            low = step.value if low is None else min(low, step.value)
            high = step.value if high is None else max(high, step.value)
            length = (min(step.end, end) - max(step.start, start)) // timedelta(microseconds=1)
            weighed = EXACT.add(weighed, EXACT.multiply(step.value, Decimal(length)))
            micros += length
            turn += 1
        mean = _MEAN.divide(weighed, Decimal(micros)) if micros else None
        out.append(Bucket(start, end, low, high, mean, timedelta(microseconds=micros)))
    return out


def bucket_lowest(several: Sequence[Series], edges: Sequence[datetime]) -> list[Decimal | None]:
    """The lowest value of each bucket over all instants at which some value was known; else None.

    By looking at every step for every bucket: what faster ways are checked against.
    """
    return [
        min(
            (step.value for series in several for step in series
             if step.start < end and step.end > start),
            default=None,
        )
        for start, end in itertools.pairwise(edges)
    ]  # fmt: skip
