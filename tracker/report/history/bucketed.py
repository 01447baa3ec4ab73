"""Steps in buckets: one figure each, with who had the lowest bill in it."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.series import Step
from tracker.domain.series_buckets import Bucket, buckets
from tracker.domain.series_statistics import quantile
from tracker.report.history.steps import CostStep, series_of


class Stat(StrEnum):
    """Which figure stands for a bucket, over the time of it for which a bill is known."""

    MIN = "min"
    MEDIAN = "median"
    P10 = "p10"
    P90 = "p90"


_SHARES = {Stat.MEDIAN: Decimal("0.5"), Stat.P10: Decimal("0.1"), Stat.P90: Decimal("0.9")}


class Point(NamedTuple):
    """A bucket of a series. ``usd`` is its figure, None where no complete bill is known at all.

    ``best`` is the step with the lowest bill in it, the first of equal ones; where only bills with
    an unknown part are known it is the lowest of those, an "at least".
    """

    bucket: Bucket
    usd: Decimal | None
    best: CostStep | None


def points(steps: Sequence[CostStep], edges: Sequence[datetime], stat: Stat) -> list[Point]:
    """*steps* in the buckets between *edges*, which must rise."""
    series = series_of(steps)
    out, at, turn = list[Point](), 0, 0
    for bucket in buckets(series, edges):
        while at < len(steps) and steps[at].end <= bucket.start:
            at += 1
        while turn < len(series) and series[turn].end <= bucket.start:
            turn += 1
        within = list(_until(steps, at, bucket.end))
        best = min(within, key=lambda step: (step.cost.partial, step.usd), default=None)
        out.append(Point(bucket, _figure(bucket, series, turn, stat), best))
    return out


def _until(steps: Sequence[CostStep], at: int, end: datetime) -> list[CostStep]:
    last = at
    while last < len(steps) and steps[last].start < end:
        last += 1
    return list(steps[at:last])


def _figure(bucket: Bucket, series: Sequence[Step], turn: int, stat: Stat) -> Decimal | None:
    if bucket.low is None or stat is Stat.MIN:
        return bucket.low
    within = []
    while turn < len(series) and series[turn].start < bucket.end:
        step = series[turn]
        start, end = max(step.start, bucket.start), min(step.end, bucket.end)
        within.append(step._replace(start=start, end=end))
        turn += 1
    return quantile(within, _SHARES[stat])
