"""Prices over time as step functions with gaps: exact, and simple rather than fast.

A series is a sequence of half-open steps in order that do not overlap. Where no step is, no price
is known: nothing is carried over a gap, and a gap is never 0. A price is what it is from the start
of its step, so a series has no slopes.

``tracker/store/series`` reduces a year of them quickly; what is here is what that is checked
against, and what the few thousand steps left of it are worked with.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from heapq import heappop, heappush
from typing import NamedTuple, TypeAlias


class Step(NamedTuple):
    """*value* (an amount in USD: a price per hour, or a job's cost) from *start* until before
    *end*; both aware."""

    start: datetime
    end: datetime
    value: Decimal


Series: TypeAlias = Sequence[Step]


def check(series: Series) -> None:
    """Raises ValueError for steps that are empty, overlap or are not in order."""
    for step in series:
        if step.start >= step.end:
            raise ValueError(f"a step ends at {step.end}, which is not after its start")
    for step, after in itertools.pairwise(series):
        if after.start < step.end:
            raise ValueError(f"a step begins at {after.start}, before the one before has ended")


def joined(series: Iterable[Step]) -> list[Step]:
    """The same function in the fewest steps: those that touch at one value are one."""
    out: list[Step] = []
    for step in series:
        if out and out[-1].end == step.start and out[-1].value == step.value:
            out[-1] = out[-1]._replace(end=step.end)
        else:
            out.append(step)
    return out


def cut(series: Series, start: datetime, end: datetime) -> list[Step]:
    """What of *series* lies in [start, end)."""
    return [
        Step(max(step.start, start), min(step.end, end), step.value)
        for step in series
        if max(step.start, start) < min(step.end, end)
    ]


def mapped(series: Series, function: Callable[[Decimal], Decimal]) -> list[Step]:
    """Each value put through *function*: from a price to the cost of a job, say."""
    return joined(step._replace(value=function(step.value)) for step in series)


def value_at(series: Series, moment: datetime) -> Decimal | None:
    """The value at *moment*; None in a gap, before the first and after the last step."""
    for step in series:
        if step.start <= moment < step.end:
            return step.value
    return None


def known_for(series: Series) -> timedelta:
    """For how long a value is known."""
    return sum((step.end - step.start for step in series), timedelta())


def lowest(several: Iterable[Series]) -> list[Step]:
    """The minimum at every moment of what is known there, as one series.

    Moments at which none of the *several* is known are gaps. O(n log n).
    """
    waiting = sorted(step for series in several for step in series)
    moments = sorted({moment for step in waiting for moment in step[:2]})
    open_: list[tuple[Decimal, datetime]] = []  # by value; what has ended is dropped when on top
    out: list[Step] = []
    turn = 0
    for start, end in itertools.pairwise(moments):
        while turn < len(waiting) and waiting[turn].start <= start:
            heappush(open_, (waiting[turn].value, waiting[turn].end))
            turn += 1
        while open_ and open_[0][1] <= start:
            heappop(open_)
        if open_:
            out.append(Step(start, end, open_[0][0]))
    return joined(out)


class Together(NamedTuple):
    """Between *start* and *end* no series changes. ``values`` are those of the series, in their
    order; None where it is not known."""

    start: datetime
    end: datetime
    values: tuple[Decimal | None, ...]


def together(several: Sequence[Series]) -> Iterator[Together]:
    """The intervals between all the moments at which one of the *several* changes.

    Those in which nothing is known are left out.
    """
    moments = sorted({moment for series in several for step in series for moment in step[:2]})
    at = [0] * len(several)
    for start, end in itertools.pairwise(moments):
        values: list[Decimal | None] = []
        for number, series in enumerate(several):
            while at[number] < len(series) and series[at[number]].end <= start:
                at[number] += 1
            known = at[number] < len(series) and series[at[number]].start <= start
            values.append(series[at[number]].value if known else None)
        if any(value is not None for value in values):
            yield Together(start, end, tuple(values))
