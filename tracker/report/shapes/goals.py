"""What is said of a ranking's goal, and of the ways that no other beats in both cost and hours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from tracker.domain.pareto import Goal
from tracker.report.shapes import texts

if TYPE_CHECKING:
    from tracker.report.cheapest import CheapestReport, Row

UNBEATEN = "^"
BETTER = {Goal.CHEAPEST: "cheaper", Goal.FASTEST: "faster", Goal.BALANCED: "better"}

_RANKINGS = {
    Goal.CHEAPEST: "the bill",
    Goal.FASTEST: "the hours until the job is done (set-up, runtime, interruptions to expect), of "
    "equal ones by the bill",
    Goal.BALANCED: "the bill times the hours until the job is done: twice as dear is made good by "
    "twice as fast",
}
_MOST = 8


def ranking(goal: Goal) -> str:
    """By what the rows are ranked, in a line."""
    return f"Ranked by {_RANKINGS[goal]}; a bill with an unknown part comes after all others."


def unbeaten(report: CheapestReport) -> Iterable[str]:
    """The ways that no other beats in both cost and hours, also those that are not ranked."""
    if not report.unbeaten:
        return
    ways = [_way(row) for row in report.unbeaten]
    more = f"; and {len(ways) - _MOST} more (-o json names them)" if len(ways) > _MOST else ""
    yield f"{UNBEATEN} not beaten in both cost and hours: {'; '.join(ways[:_MOST])}{more}."


def done(row: Row) -> str:
    """The hours until the job is done."""
    least = "at least " if row.bill.lower_bound else ""
    return f"{least}{texts.hours(row.done_hours)}"


def _way(row: Row) -> str:
    if row.rank:
        place = f"#{row.rank}"
    else:
        o, b = row.offer, row.bill
        gpus = f"{texts.count(o.gpu_count)} x {o.gpu_key}"
        place = gpus if b.machines == 1 else f"{b.machines} x {gpus}"
        place += f" at {o.provider} ({o.key.hex()[:10]})"
    return f"{place} {done(row)}, {texts.usd(row.bill.at_least_usd)}"
