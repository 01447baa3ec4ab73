"""Start now, or wait for a lower price? What waiting was worth in the past. Pure.

A job that must have started within some time can be started now, or one can wait: until the price
is so and so much lower than now, and when it never is, start at the last moment at whatever it
costs then. ``outcomes`` plays that at many moments of a series of the job's cost; ``judged`` says
what came of it, and whether that is evidence enough to wait.

Windows that overlap are no evidence of their own: as many moments as lie in one window see the same
prices. What is said of how sure one can be therefore counts windows that do not overlap.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Context, Decimal
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.series import Series

DROPS_PERCENT = tuple(map(Decimal, (1, 2, 5, 10, 20, 30)))
"""What may be waited for: so much less than now."""
LEAST_WINDOWS = 8
"""Windows side by side below which nothing is said."""
EARLIER = 2 / 3  # of the windows choose what to wait for; what comes after them checks it
Z = 1.6449  # of the normal distribution: one end of an interval that holds 90 %

_DIGITS = Context(prec=28)


class Advice(StrEnum):
    """GO: start now. WAIT: it has paid, before and when checked. UNKNOWN: too little history."""

    GO = "go"
    WAIT = "wait"
    UNKNOWN = "unknown"


class Outcome(NamedTuple):
    """Waiting from *start* on, in USD: what starting then cost, the lowest that was to be had until
    the last moment (known only afterwards), what the last moment cost, and what each rule paid."""

    start: datetime
    now_usd: Decimal
    lowest_usd: Decimal
    last_usd: Decimal
    paid_usd: tuple[Decimal, ...]


class Spread(NamedTuple):
    """Amounts as shares of what starting at once cost: 0.9 is a tenth less. Nearest ranks."""

    p10: Decimal
    median: Decimal
    p90: Decimal
    mean: Decimal


class Rule(NamedTuple):
    """How it went to wait for ``drop_percent`` less. ``lost`` counts the times at which more was
    paid than at once, ``gained`` those at which less was; ``sure_gained`` is what can be relied
    on of the share of gains, with no more trials than there are windows side by side."""

    drop_percent: Decimal
    paid: Spread
    times: int
    gained: int
    lost: int
    sure_gained: float


class Judged(NamedTuple):
    """The answer. ``windows``: how many do not overlap. ``lowest`` and ``last`` are of all
    outcomes; ``rules`` too. ``chosen`` is the best rule of the earlier ``windows``, with how it
    did there (``earlier``) and in the later ones (``later``); None where there is too little."""

    advice: Advice
    reason: str
    windows: int
    lowest: Spread | None
    last: Spread | None
    last_lost: int
    rules: tuple[Rule, ...]
    earlier: Rule | None = None
    later: Rule | None = None


def outcomes(
    series: Series,
    starts: Sequence[datetime],
    wait: timedelta,
    drops_percent: Sequence[Decimal] = DROPS_PERCENT,
) -> list[Outcome]:
    """What waiting for at most *wait* would have come to at each of *starts* (rising).

    *series* is in order and does not overlap. Left out are moments at which no cost is known then
    or a *wait* later, when one who waited in vain must start: what that would have cost nobody
    knows, and to count the others alone would make waiting look better than it was.
    """
    if wait <= timedelta(0):
        raise ValueError("there must be some time to wait")
    begins, ends = [step.start for step in series], [step.end for step in series]
    lowest = _Lowest([step.value for step in series])
    found = []
    for start in starts:
        first, last = _at(begins, ends, start), _at(begins, ends, start + wait)
        if first is None or last is None:
            continue
        now = series[first].value
        paid = []
        for drop in drops_percent:
            target = now * (100 - drop) / 100
            place = lowest.first_at_most(target, first, last + 1)
            paid.append(series[last if place is None else place].value)
        found.append(
            Outcome(
                start, now, lowest.within(first, last + 1), series[last].value, tuple(paid)
            )
        )  # fmt: skip
    return found


def _at(begins: Sequence[datetime], ends: Sequence[datetime], moment: datetime) -> int | None:
    place = bisect_right(begins, moment) - 1
    return place if place >= 0 and moment < ends[place] else None


class _Lowest:
    """Minima of ranges, by a table of those of lengths that are powers of two."""

    def __init__(self, values: Sequence[Decimal]) -> None:
        self._levels = [list(values)]
        while len(self._levels[-1]) > 1 << (len(self._levels) - 1):
            below, half = self._levels[-1], 1 << (len(self._levels) - 1)
            self._levels.append(
                [min(a, b) for a, b in zip(below, below[half:], strict=False)]
            )  # fmt: skip

    def within(self, first: int, end: int) -> Decimal:
        """The lowest of the places from *first* until before *end*."""
        level = (end - first).bit_length() - 1
        row = self._levels[level]
        return min(row[first], row[end - (1 << level)])

    def first_at_most(self, target: Decimal, first: int, end: int) -> int | None:
        """The first place from *first* until before *end* whose value is at most *target*."""
        if self.within(first, end) > target:
            return None
        for level in range(len(self._levels) - 1, -1, -1):
            size = 1 << level
            if first + size <= end and self._levels[level][first] > target:
                first += size
        return first


def side_by_side(starts: Sequence[datetime], wait: timedelta) -> list[int]:
    """The places in *starts* (rising) of windows that do not overlap: each the next there is."""
    chosen: list[int] = []
    at = 0
    while at < len(starts):
        chosen.append(at)
        at = bisect_left(starts, starts[at] + wait, lo=at + 1)
    return chosen


def judged(
    found: Sequence[Outcome], wait: timedelta, drops_percent: Sequence[Decimal] = DROPS_PERCENT
) -> Judged:
    """What *found* says: wait, or go?

    The rule that paid least on average over the earlier two thirds of the time is checked on the
    rest; no earlier window reaches into that. WAIT takes that the rule paid less than starting at
    once on average in both parts, and that one can rely on its gaining more often than not
    (``sure_gained``, over all of history).
    """
    windows = len(side_by_side([one.start for one in found], wait))
    rules = tuple(
        rule_of(found, place, drop, wait) for place, drop in enumerate(drops_percent)
    ) if found else ()  # fmt: skip
    lowest = spread([one.lowest_usd / one.now_usd for one in found]) if found else None
    last = spread([one.last_usd / one.now_usd for one in found]) if found else None
    lost = sum(one.last_usd > one.now_usd for one in found)
    plain = Judged(Advice.UNKNOWN, "", windows, lowest, last, lost, rules)
    early, late = parts(found, wait)
    enough = all(len(side_by_side([o.start for o in p], wait)) >= 2 for p in (early, late))
    if windows < LEAST_WINDOWS or not enough:
        reason = (
            f"history holds {windows} waits of that length side by side; it takes {LEAST_WINDOWS},"
            " two of them in its last third"
        )
        return plain._replace(reason=reason)
    tried = [rule_of(early, place, drop, wait) for place, drop in enumerate(drops_percent)]
    best = min(range(len(tried)), key=lambda place: tried[place].paid.mean)
    later = rule_of(late, best, drops_percent[best], wait)
    overall = rules[best]
    advice, reason = Advice.GO, ""
    if tried[best].paid.mean >= 1:
        reason = "no waiting paid in the earlier part of history"
    elif later.paid.mean >= 1:
        reason = "what paid in the earlier part of history did not in the later one"
    elif overall.sure_gained <= 0.5:
        reason = "waiting may well have paid by chance: there were too few times to tell"
    else:
        advice, reason = Advice.WAIT, "waiting paid in both parts of history"
    return plain._replace(advice=advice, reason=reason, earlier=tried[best], later=later)


def parts(found: Sequence[Outcome], wait: timedelta) -> tuple[Sequence[Outcome], Sequence[Outcome]]:
    """The outcomes that were over by the time that two thirds of them had begun, and those that
    began from then on."""
    if not found:
        return (), ()
    middle = found[min(int(len(found) * EARLIER), len(found) - 1)].start
    return (
        [one for one in found if one.start + wait <= middle],
        [one for one in found if one.start >= middle],
    )


def rule_of(found: Sequence[Outcome], place: int, drop: Decimal, wait: timedelta) -> Rule:
    """How the rule in *place* of ``paid_usd`` did in *found*, which must hold some."""
    gained = sum(one.paid_usd[place] < one.now_usd for one in found)
    # The share is that of all moments (windows side by side may all begin at one hour of the day),
    # the weight that of as many trials as there are windows side by side.
    windows = len(side_by_side([one.start for one in found], wait))
    return Rule(
        drop, spread([one.paid_usd[place] / one.now_usd for one in found]), len(found),
        gained, sum(one.paid_usd[place] > one.now_usd for one in found),
        sure_share(gained / len(found), windows),
    )  # fmt: skip


def spread(shares: Sequence[Decimal]) -> Spread:
    """The figures of *shares*, which must hold some."""
    ranked = sorted(shares)

    def rank(tenths: int) -> Decimal:
        return ranked[max(0, math.ceil(len(ranked) * tenths / 10) - 1)]

    mean = _DIGITS.divide(sum(ranked, Decimal(0)), Decimal(len(ranked)))
    return Spread(rank(1), rank(5), rank(9), mean)


def sure_share(share: float, trials: int) -> float:
    """What can be relied on of a *share* seen in so many independent trials: the lower end of
    Wilson's score interval (E. B. Wilson, JASA 22, 1927) of 90 %. 0 for no trials."""
    if not trials:
        return 0.0
    z2 = Z * Z
    middle = share + z2 / (2 * trials)
    reach = Z * math.sqrt(share * (1 - share) / trials + z2 / (4 * trials * trials))
    return max(0.0, (middle - reach) / (1 + z2 / trials))
