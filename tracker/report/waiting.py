"""Start a job now, or wait? What its own cost history says of that (see ``domain.waiting``)."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from tracker.domain.series import Step, known_for
from tracker.domain.series_statistics import time_below
from tracker.domain.waiting import Judged, judged, outcomes
from tracker.report.goals import done_hours
from tracker.report.history.answer import HistoryReport
from tracker.report.history.steps import CostStep, series_of

MOST_STARTS = 4000  # moments of the past at which it is played
LEAST_APART = timedelta(hours=1)


class NoTimeToWait(Exception):
    """The job takes as long as the deadline leaves; the message says so."""


class NothingKnown(Exception):
    """No complete bill of the job is known in the window."""


class Waiting(NamedTuple):
    """The answer. One may ``wait`` so long: the deadline less the ``hours`` (set-up too) of the
    slowest of the ways that were ever the cheapest.

    ``now`` is the cheapest way at the end, None where no price is known then; the job cost less
    than that for ``below`` of the time ``known`` for. ``starts`` moments, ``apart`` from each
    other, were played between ``begin`` and ``end``; of ``lost_starts`` nothing is known.
    """

    report: HistoryReport
    deadline: timedelta
    hours: Decimal
    wait: timedelta
    now: CostStep | None
    begin: datetime
    end: datetime
    known: timedelta
    below: timedelta | None
    starts: int
    lost_starts: int
    apart: timedelta
    judged: Judged

    @property
    def latest_start(self) -> datetime:
        """When the job must have started to be done by the deadline."""
        return self.end + self.wait

    @property
    def target_usd(self) -> Decimal | None:
        """What to wait for, by the rule that was chosen; None where there is none, or no price."""
        chosen = self.judged.earlier
        if chosen is None or self.now is None:
            return None
        return self.now.usd * (100 - chosen.drop_percent) / 100


def waiting(report: HistoryReport, deadline: timedelta) -> Waiting:
    """Whether to wait, by the steps of the cheapest way of all that *report* holds.

    Raises NoTimeToWait, and NothingKnown where no complete bill is known at any time.
    """
    steps = [step for step in report.overall if not step.cost.partial]
    if not steps:
        raise NothingKnown
    series = series_of(steps)
    job = report.question.job
    hours = max(done_hours(job, step.cost.line.estimate) for step in steps)
    wait = deadline - timedelta(hours=float(hours))
    if wait < LEAST_APART:
        raise NoTimeToWait(
            f"the job takes up to {hours.normalize():f} h, set-up included: a deadline of"
            f" {deadline / timedelta(hours=1):g} h leaves no time to wait"
        )
    begin, end = series[0].start, report.end
    apart = max(LEAST_APART, (end - begin) / MOST_STARTS)
    starts = _grid(begin, end - wait, apart)
    found = outcomes(series, starts, wait)
    now = steps[-1] if steps[-1].end >= end else None
    return Waiting(
        report, deadline, hours, wait, now, begin, end, known_for(series),
        None if now is None else time_below(series, now.usd), len(found),
        _known_starts(series, starts) - len(found), apart, judged(found, wait),
    )  # fmt: skip


def _grid(begin: datetime, end: datetime, apart: timedelta) -> list[datetime]:
    return [begin + i * apart for i in range(max(0, (end - begin) // apart + 1))]


def _known_starts(series: Sequence[Step], starts: Sequence[datetime]) -> int:
    count = turn = 0
    for start in starts:
        while turn < len(series) and series[turn].end <= start:
            turn += 1
        count += turn < len(series) and series[turn].start <= start
    return count
