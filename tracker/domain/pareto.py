"""Cost against time: which ways to run a job are worth a look, and which one to take.

An option is in the Pareto set when no other is both no dearer and no slower (and better in one of
the two). ``cheapest`` takes the least cost, ``fastest`` the least hours, ``balanced`` the least
product of cost and hours: with each divided by the best there is, twice as dear is made good by
twice as fast. The choice is always in the set. Equal ones are decided by the other measure and then
by the option's key, so that the order given plays no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal
from enum import StrEnum
from typing import Generic, NamedTuple, TypeVar

from tracker.domain.exact import EXACT

T = TypeVar("T")


class Goal(StrEnum):
    """What the choice is to be best in."""

    CHEAPEST = "cheapest"
    FASTEST = "fastest"
    BALANCED = "balanced"


class Range(NamedTuple):
    """A figure and its range: ``low`` <= ``point`` <= ``high``."""

    point: Decimal
    low: Decimal
    high: Decimal

    @classmethod
    def exact(cls, point: Decimal) -> Range:
        """A figure without a range."""
        return cls(point, point, point)


class Option(NamedTuple, Generic[T]):
    """A way to run the job. ``item`` is the caller's own object; ``key`` is unique.

    ``usd`` is None while a part of the bill has no known price: never chosen. ``evidence`` names
    what the hours rest on (GPU, count, basis): the error of options with the same evidence is
    the same, and so their ranges, which move together, make no tie. None: on its own.
    """

    item: T
    key: bytes
    usd: Range | None
    hours: Range
    evidence: str | None = None


def pareto(options: Iterable[Option[T]]) -> tuple[Option[T], ...]:
    """The Pareto set by points, cheapest first. Of options alike in both the first by key."""
    priced = [(o.usd.point, o.hours.point, o.key, o) for o in options if o.usd is not None]
    priced.sort(key=lambda one: one[:3])
    found: list[Option[T]] = []
    for _, hours, _, option in priced:
        if not found or hours < found[-1].hours.point:
            found.append(option)
    return tuple(found)


class Choice(NamedTuple, Generic[T]):
    """The option to take, and those that may be as good: what is known does not tell them apart.

    ``ties`` are in the order of the goal.
    """

    best: Option[T]
    ties: tuple[Option[T], ...]


def choose(options: Sequence[Option[T]], goal: Goal) -> Choice[T] | None:
    """The best for *goal* with its ties; None where no option has a known cost.

    A tie is an option whose range of what the goal measures overlaps the best one's, or whose
    point is the same.
    """
    measured = [
        (_measure(o.usd, o.hours, goal), o.usd.point, o.hours.point, o)
        for o in options
        if o.usd is not None
    ]
    if not measured:
        return None

    def order(one: tuple[Range, Decimal, Decimal, Option[T]]) -> tuple[Decimal, ...]:
        return (one[0].point, one[1], one[2])

    measured.sort(key=lambda one: (order(one), one[3].key))
    top, _, _, best = measured[0]
    ties = [o for m, _, _, o in measured[1:] if _tie(top, best, m, o)]
    return Choice(best, tuple(ties))


def _measure(usd: Range, hours: Range, goal: Goal) -> Range:
    if goal is Goal.CHEAPEST:
        return usd
    if goal is Goal.FASTEST:
        return hours
    return Range(*(EXACT.multiply(cost, time) for cost, time in zip(usd, hours, strict=True)))


def _tie(top: Range, best: Option[T], other: Range, option: Option[T]) -> bool:
    if other.point == top.point:
        return True
    if option.evidence is not None and option.evidence == best.evidence:
        return False
    return other.low <= top.high
