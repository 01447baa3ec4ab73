"""Two GPUs for one job over time: who was the cheaper one when, and the price that decided it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from tracker.domain.crossings import Crossings, Side, crossings, side_of
from tracker.report.history.answer import HistoryReport
from tracker.report.history.steps import TIE, CostStep, series_of


class Even(NamedTuple):
    """From *start* until before *end* both bills are known and neither changes.

    ``break_even_usd`` is the price of a left GPU for an hour at which its bill would be the right
    one's, None where no price would do; ``ratio`` is the left bill over the right one.
    """

    start: datetime
    end: datetime
    left: CostStep
    right: CostStep
    side: Side

    @property
    def ratio(self) -> Decimal | None:
        """To 28 digits; None where the right bill is nothing."""
        return self.left.usd / self.right.usd if self.right.usd else None

    @property
    def break_even_usd(self) -> Decimal | None:
        """See the class."""
        return self.left.cost.line.even_usd_per_gpu_hour(self.right.usd)


class Versus(NamedTuple):
    """``left`` and ``right`` are the names asked for; ``steps`` the times at which both are known.

    Bills within ``TIE`` of one another are of neither side.
    """

    report: HistoryReport
    left: str
    right: str
    steps: Sequence[Even]
    crossings: Crossings

    @property
    def compared(self) -> timedelta:
        """For how long both are known."""
        return self.crossings.left_lower + self.crossings.right_lower + self.crossings.tied

    def share(self, side: Side) -> Decimal | None:
        """The share of that time in which *side* was the cheaper one (or neither)."""
        found = self.crossings
        times = {Side.LEFT: found.left_lower, Side.RIGHT: found.right_lower, Side.TIE: found.tied}
        if not self.compared:
            return None
        micro = timedelta(microseconds=1)
        return Decimal(times[side] // micro) / Decimal(self.compared // micro)


def versus(report: HistoryReport, left: str, right: str) -> Versus:
    """The series *left* of *report* against its series *right*."""
    one, other = report.series.get(left, ()), report.series.get(right, ())
    found = crossings(series_of(one), series_of(other), TIE)
    return Versus(report, left, right, list(_both(one, other)), found)


def _both(left: Sequence[CostStep], right: Sequence[CostStep]) -> Iterator[Even]:
    """The times at which a whole bill is known of both."""
    left = [step for step in left if not step.cost.partial]
    right = [step for step in right if not step.cost.partial]
    at = turn = 0
    while at < len(left) and turn < len(right):
        one, other = left[at], right[turn]
        start, end = max(one.start, other.start), min(one.end, other.end)
        if start < end:
            yield Even(start, end, one, other, side_of(one.usd, other.usd, TIE))
        if one.end <= other.end:
            at += 1
        else:
            turn += 1
