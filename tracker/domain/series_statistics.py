"""Figures of series, weighed by time: a price that held for a day counts 24 times one of an hour.

Gaps have no weight: every figure is over the time for which a value is known, which is told beside.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from datetime import timedelta
from decimal import Context, Decimal
from typing import Generic, NamedTuple, TypeVar

from tracker.domain.exact import EXACT
from tracker.domain.series import Series, joined, known_for, together

K = TypeVar("K")

_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_DIGITS = Context(prec=28)


class Statistics(NamedTuple):
    """Figures of one series, over the time ``known`` for.

    ``p10`` is the value that it was at or below for a tenth of the time; ``p90`` and ``median``
    alike (see ``quantile``). ``changes`` are those of value between steps that touch; what happened
    within a gap is not known. ``volatility`` is per square root of a day (see ``volatility``), None
    where nothing is known of it.
    """

    known: timedelta
    low: Decimal
    p10: Decimal
    median: Decimal
    mean: Decimal
    p90: Decimal
    high: Decimal
    changes: int
    volatility: float | None


def statistics(series: Series) -> Statistics | None:
    """The figures of *series*; None when it has no steps."""
    if not series:
        return None
    series = joined(series)
    weights = [(step.end - step.start) // _MICROSECOND for step in series]
    weighed = Decimal(0)
    for step, weight in zip(series, weights, strict=True):
        weighed = EXACT.add(weighed, EXACT.multiply(step.value, Decimal(weight)))
    p10, median, p90 = (quantile(series, Decimal(share)) for share in ("0.1", "0.5", "0.9"))
    return Statistics(
        known=known_for(series),
        low=min(step.value for step in series),
        p10=p10,
        median=median,
        mean=_DIGITS.divide(weighed, Decimal(sum(weights))),
        p90=p90,
        high=max(step.value for step in series),
        changes=sum(a.end == b.start for a, b in itertools.pairwise(series)),
        volatility=volatility(series),
    )


def quantile(series: Series, share: Decimal) -> Decimal:
    """The lowest value that the series was at or below for *share* (0 to 1) of the known time.

    Where that is so for exactly that share, halfway to the next higher value, as for the median of
    an even number. Raises ValueError for a series without steps.
    """
    if not series:
        raise ValueError("a series without a known value has no quantiles")
    time_at: dict[Decimal, int] = {}
    for step in series:
        length = (step.end - step.start) // _MICROSECOND
        time_at[step.value] = time_at.get(step.value, 0) + length
    values = sorted(time_at)
    wanted = EXACT.multiply(share, Decimal(sum(time_at.values())))
    so_far = 0
    for value, above in itertools.pairwise(values):
        so_far += time_at[value]
        if so_far > wanted:
            return value
        if so_far == wanted and wanted:
            return _DIGITS.divide(EXACT.add(value, above), Decimal(2))
    return values[-1]


def time_below(series: Series, threshold: Decimal) -> timedelta:
    """For how long the value was known to be below *threshold* (not at it)."""
    return known_for([step for step in series if step.value < threshold])


def volatility(series: Series) -> float | None:
    """How much the value moves: the root of (the sum of squared changes / days known).

    A change is the natural logarithm of new over old value, so that up and back down weigh the
    same; 0.1 means moves of about 10 % in a day, or of 14 % in two. That is the realised volatility
    of finance (Andersen and Bollerslev, "Answering the Skeptics", International Economic Review 39,
    1998), of one day. A change across a gap is not counted: nobody saw it happen. None for a series
    without steps or with values of 0 or less, which have no logarithm.
    """
    if not series or any(step.value <= 0 for step in series):
        return None
    moves = (
        math.log(after.value / step.value)
        for step, after in itertools.pairwise(series)
        if step.end == after.start
    )
    return math.sqrt(math.fsum(move * move for move in moves) / (known_for(series) / _DAY))


class Share(NamedTuple):
    """For how long one series was known, and within ``Shares.compared`` the cheapest: ``alone``,
    or ``tied`` with others. ``compared`` is how much of that time it was known for."""

    known: timedelta
    alone: timedelta
    tied: timedelta
    compared: timedelta


class Shares(NamedTuple, Generic[K]):
    """Who was the cheapest for how long. ``compared`` is the time at which enough were known."""

    compared: timedelta
    of: dict[K, Share]

    def alone(self, name: K) -> Decimal | None:
        """The share of the compared time in which *name* alone was the cheapest; None for none."""
        if not self.compared:
            return None
        alone = Decimal(self.of[name].alone // _MICROSECOND)
        return _DIGITS.divide(alone, Decimal(self.compared // _MICROSECOND))


def cheapest_shares(
    several: Mapping[K, Series], *, tolerance: Decimal = Decimal(0), at_least: int = 2
) -> Shares[K]:
    """For how long each of the *several* was the cheapest.

    Only moments at which *at_least* so many are known are compared: to be cheapest where nobody
    else was seen says nothing. Values within *tolerance* (a share of the lowest) of the lowest tie.
    """
    names = list(several)
    known, alone, tied, met = ([timedelta()] * len(names) for _ in range(4))
    compared = timedelta()
    for start, end, values in together(list(several.values())):
        length = end - start
        here = [(value, number) for number, value in enumerate(values) if value is not None]
        for _, number in here:
            known[number] += length
        if len(here) < at_least:
            continue
        compared += length
        for _, number in here:
            met[number] += length
        lowest = min(here)[0]
        limit = lowest + EXACT.multiply(lowest, tolerance)
        best = [number for value, number in here if value <= limit]
        for number in best:
            (alone if len(best) == 1 else tied)[number] += length
    shares = (Share(*times) for times in zip(known, alone, tied, met, strict=True))
    return Shares(compared, dict(zip(names, shares, strict=True)))
