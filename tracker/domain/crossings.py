"""Two series against each other over time: which is lower, and when that changed.

Compared by products, not by a rounded ratio: exact ties are real (two clouds list 98.32 against
32.77 for jobs of 4 and 12 hours), and a digit lost flips the answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Context, Decimal
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.exact import EXACT
from tracker.domain.series import Series, Step, together

_DIGITS = Context(prec=28)


class Side(StrEnum):
    """Which of two series is the lower one."""

    LEFT = "left"
    RIGHT = "right"
    TIE = "tie"


class Compared(NamedTuple):
    """From *start* until before *end* both are known, and neither changes."""

    start: datetime
    end: datetime
    left: Decimal
    right: Decimal
    side: Side


class Crossing(NamedTuple):
    """From ``at`` on the other side is the lower one; ``left`` and ``right`` are the values then.

    ``last_seen`` is until when the side before was known to be it. Where that is before ``at``, a
    tie or a gap lies between; ``gap``: for some of that time one of the two was not known, so that
    the change may have been earlier.
    """

    at: datetime
    to: Side
    left: Decimal
    right: Decimal
    last_seen: datetime
    gap: bool


class Crossings(NamedTuple):
    """How two series stood. ``initial`` is the first side seen, from ``since`` on (both None when
    they never differed while both were known); the times are those for which both were known."""

    initial: Side | None
    since: datetime | None
    changes: list[Crossing]
    left_lower: timedelta
    right_lower: timedelta
    tied: timedelta

    @property
    def last(self) -> Side | None:
        """The side at the end; ties keep what was before."""
        return self.changes[-1].to if self.changes else self.initial


def side_of(left: Decimal, right: Decimal, tolerance: Decimal = Decimal(0)) -> Side:
    """The lower one; a tie when they differ by no more than *tolerance*, a share of the larger."""
    allowed = EXACT.multiply(max(left, right), tolerance)
    difference = EXACT.subtract(left, right)
    if abs(difference) <= allowed:
        return Side.TIE
    return Side.LEFT if difference < 0 else Side.RIGHT


def compared(left: Series, right: Series, tolerance: Decimal = Decimal(0)) -> Iterator[Compared]:
    """The intervals in which both are known, with the side."""
    for start, end, (one, other) in together([left, right]):
        if one is not None and other is not None:
            yield Compared(start, end, one, other, side_of(one, other, tolerance))


def ratios(left: Series, right: Series) -> list[Step]:
    """*left* over *right* where both are known and *right* is above 0, to 28 digits."""
    return [
        Step(pair.start, pair.end, _DIGITS.divide(pair.left, pair.right))
        for pair in compared(left, right)
        if pair.right > 0
    ]


def crossings(left: Series, right: Series, tolerance: Decimal = Decimal(0)) -> Crossings:
    """When the lower one changed.

    A crossing is dated at the first moment of the new side. A tie is of neither side: to touch and
    turn back is no crossing. Nothing is filled over a gap.
    """
    initial, since, changes = None, None, list[Crossing]()
    times = dict.fromkeys(Side, timedelta())
    side, last_seen, known_until, gap = None, None, None, False
    for pair in compared(left, right, tolerance):
        times[pair.side] += pair.end - pair.start
        gap |= known_until is not None and pair.start > known_until
        known_until = pair.end
        if pair.side is Side.TIE:
            continue
        if last_seen is None:
            initial, since = pair.side, pair.start
        elif pair.side is not side:
            changes.append(Crossing(pair.start, pair.side, pair.left, pair.right, last_seen, gap))
        side, last_seen, gap = pair.side, pair.end, False
    return Crossings(initial, since, changes, times[Side.LEFT], times[Side.RIGHT], times[Side.TIE])
