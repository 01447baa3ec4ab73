"""When a rule is looked at in a backtest: after polls, or at a steady pace."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import pairwise

from tracker.store.series.single import Polled

_DAY = timedelta(days=1)


def looks_of(
    sources: Iterable[Polled], every: timedelta, start: datetime, end: datetime
) -> list[datetime]:
    """When a rule is looked at in [start, end): after polls, those within *every* together.

    Of an import it is only known when prices changed: while it lasts there is a look a day.
    """
    sources = list(sources)
    looks = list[datetime]()
    began: datetime | None = None
    for at in sorted({at for one in sources for at in one.attempts if start <= at < end}):
        if began is not None and at - began < every:
            looks[-1] = at
        else:
            looks.append(at)
            began = at
    for one in sources:
        if one.is_import and one.attempts:
            looks = _filled(looks, one.attempts[0], min(one.attempts[-1] + one.ttl, end))
    return looks


def _filled(looks: Sequence[datetime], start: datetime, end: datetime) -> list[datetime]:
    """*looks* with others in between, so that within [start, end) they are about a day apart."""
    filled = list[datetime]()
    for at, following in pairwise([*looks, end]):
        filled.append(at)
        parts = round((following - at) / _DAY)
        if at >= start and following <= end and parts > 1:
            filled += [at + (following - at) * i / parts for i in range(1, parts)]
    return filled


def steady_looks(every: timedelta, start: datetime, end: datetime) -> list[datetime]:
    """A look *every* so often in [start, end), whether there was a poll or not."""
    return [start + i * every for i in range(-((start - end) // every))]
