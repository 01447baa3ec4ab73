"""Two GPUs for one job: which is the cheaper way, by how much, and until when.

Each bill is an interval: from the bill at the short end of the hours to that at the long end, open
upwards where a part of it has no known price or the hours are a lower bound. One GPU is the cheaper
one when its whole interval lies below the other's. Where they overlap it is a tie; where one that
is open reaches the other, nobody knows.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.break_even import (
    BreakEven,
    SpeedUp,
    break_even,
    break_even_is_unknown,
    speed_up,
)
from tracker.domain.cost import Bill, LineKind
from tracker.report.cheapest import CheapestReport, Row


class Winner(StrEnum):
    """Which of the two it is."""

    LEFT = "left"
    RIGHT = "right"
    TIE = "tie"  # what is known does not tell them apart
    UNKNOWN = "unknown"  # a part that nobody states decides


class Compared(NamedTuple):
    """The cheapest way on each of two GPUs, and what follows.

    ``break_even`` is the price of the left machine at which both bills are the same, None when no
    price would do or (``break_even_unknown``) when nobody knows it. ``margin_percent`` is how far
    the left price may rise until then; below 0 it has to fall. ``sooner`` is who is done first.
    ``beside`` names what is billed beside the hours used where that, and not the speed for the
    price, makes one the cheaper.
    """

    left: Row
    right: Row
    speed: SpeedUp
    break_even: BreakEven | None
    break_even_unknown: bool
    margin_percent: Decimal | None
    winner: Winner
    sooner: Winner
    beside: tuple[str, ...] = ()

    @property
    def unknown(self) -> tuple[str, ...]:
        """What is not known of either bill, in words."""
        return tuple(text for row in (self.left, self.right) for text in _unknown(row))


class CompareReport(NamedTuple):
    """The answer for both sides; ``compared`` is None when one of them has no offer."""

    left: CheapestReport
    right: CheapestReport
    compared: Compared | None

    @property
    def only_stale(self) -> bool:
        """A side is missing, and stale offers would fill every side that is."""
        return self.compared is None and all(
            side.rows or side.only_stale for side in (self.left, self.right)
        )

    @property
    def only_expired(self) -> bool:
        """``only_stale``, and those are typed prices of one's own, which no poll renews."""
        missing = [side for side in (self.left, self.right) if not side.rows]
        return self.only_stale and all(side.only_expired for side in missing)


def compare_report(left: CheapestReport, right: CheapestReport) -> CompareReport:
    """The first rows of both against one another."""
    if not (left.rows and right.rows):
        return CompareReport(left, right, None)
    return CompareReport(left, right, compare(left.rows[0], right.rows[0]))


def compare(left: Row, right: Row) -> Compared:
    """*left* against *right*: two ways to run one job."""
    speed, even = speed_up(left.bill, right.bill), break_even(left.bill, right.bill)
    winner = _lower(_cost(left), _cost(right))
    return Compared(
        left=left,
        right=right,
        speed=speed,
        break_even=even,
        break_even_unknown=break_even_is_unknown(left.bill, right.bill),
        margin_percent=_margin(even, left.bill),
        winner=winner,
        sooner=_lower(_hours(left), _hours(right)),
        beside=_beside(left.bill, right.bill, speed, winner),
    )


_Interval = tuple[Decimal, Decimal | None]  # None: open upwards


def _lower(left: _Interval, right: _Interval) -> Winner:
    (left_low, left_high), (right_low, right_high) = left, right
    if left_high is not None and left_high < right_low:
        return Winner.LEFT
    if right_high is not None and right_high < left_low:
        return Winner.RIGHT
    return Winner.UNKNOWN if left_high is None or right_high is None else Winner.TIE


def _cost(row: Row) -> _Interval:
    b = row.bill
    low = b.at_least_usd if row.low_usd is None else row.low_usd
    high = b.at_least_usd if row.high_usd is None else row.high_usd
    return low, None if b.partial or b.lower_bound else high


def _hours(row: Row) -> _Interval:
    e = row.estimate
    low = e.hours if e.low_hours is None else e.low_hours
    high = e.hours if e.high_hours is None else e.high_hours
    return low, None if e.lower_bound else high


def _margin(even: BreakEven | None, left: Bill) -> Decimal | None:
    if even is None or not left.price.usd:
        return None
    with localcontext() as context:
        context.prec = 28
        return 100 * (even.price.usd / left.price.usd - 1)


def _beside(left: Bill, right: Bill, speed: SpeedUp, winner: Winner) -> tuple[str, ...]:
    """What is billed beside the hours, where the speed for the price says otherwise."""
    by_speed = Winner.LEFT if speed.had > speed.needed else Winner.RIGHT
    if winner in (Winner.TIE, Winner.UNKNOWN) or winner is by_speed:
        return ()
    lines = (line for b in (left, right) for line in b.lines if line.kind is not LineKind.RUNTIME)
    return tuple(dict.fromkeys(_IN_WORDS[line.kind] for line in lines))


_IN_WORDS = {
    LineKind.SETUP: "set-up",
    LineKind.RERUN: "interruptions",
    LineKind.UNUSED: "hours billed beyond use",
    LineKind.DISK: "disk",
    LineKind.EGRESS: "egress",
}


def _unknown(row: Row) -> list[str]:
    b, gpu = row.bill, row.offer.gpu_key
    found = [f"{gpu}: {part}" for part in b.partial]
    return found + ([f"{gpu}: its hours are a lower bound"] if b.lower_bound else [])
