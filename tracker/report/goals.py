"""What a ranking is for: the least cost, the least hours, or the least of both together.

The order of each goal, bounds by which few bills are enough for it, and the ways that no other
beats in both cost and hours (tracker.domain.pareto).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from decimal import Decimal
from typing import Any, NamedTuple

from tracker.domain.cost import Bill, Unpriceable, setup_hours
from tracker.domain.exact import EXACT
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.pareto import Goal, Option, Range, pareto
from tracker.domain.rank import Candidate, Ranked, order
from tracker.report.priced import Priced
from tracker.store.reads import StoredOffer

Measure = tuple[Decimal, ...]
Key = Callable[[Candidate[Priced], Bill], tuple[Any, ...]]


def done_hours(job: Job, estimate: RuntimeEstimate) -> Decimal:
    """Hours until the job is done: set-up and runtime, on spot with what interruptions are expected
    to take, waiting too. Set-up counts as far as it is known."""
    if estimate.interrupted is not None:
        return estimate.interrupted.wall_hours
    return EXACT.add(setup_hours(job, estimate), estimate.hours)


def measure(goal: Goal, usd: Decimal, hours: Decimal) -> Measure:
    """What *goal* is least in, and what decides between equal ones. Grows with both."""
    if goal is Goal.CHEAPEST:
        return (usd,)
    if goal is Goal.FASTEST:
        return hours, usd
    return EXACT.multiply(usd, hours), usd, hours


def key_of(goal: Goal, job: Job) -> Key:
    """The order of a ranking: complete bills before partial ones, the goal, certain hours before a
    lower bound of them, then the offer's standing."""
    if goal is Goal.CHEAPEST:
        return order

    def key(candidate: Candidate[Priced], bill: Bill) -> tuple[Any, ...]:
        hours = done_hours(job, candidate.estimate)
        of_goal = measure(goal, bill.at_least_usd, hours)
        return bool(bill.partial), of_goal, bill.lower_bound, candidate.standing

    return key


class Way(NamedTuple):
    """A way to run the job on an offer, with an amount that its bill is never below."""

    hours: Decimal
    least_usd: Decimal
    offer: StoredOffer
    estimate: RuntimeEstimate


Costed = Callable[[StoredOffer, RuntimeEstimate], tuple[Candidate[Priced], Bill | Unpriceable]]


def unbeaten(ways: Iterable[Way], costed: Costed) -> tuple[Ranked[Priced], ...]:
    """The ways that no other beats in both cost and hours, cheapest first.

    Bills that are an "at least" (an unknown part, hours that are a lower bound) are not among them
    and beat none: nobody knows. Few bills are worked out: that of a way only where its bound is
    below every bill of those that take no longer.
    """
    best: Decimal | None = None
    options: list[Option[Ranked[Priced]]] = []
    for index, way in sorted(enumerate(ways), key=lambda one: (*one[1][:2], one[0])):
        if best is not None and way.least_usd >= best:
            continue
        candidate, bill = costed(way.offer, way.estimate)
        if isinstance(bill, Unpriceable) or bill.partial or bill.lower_bound:
            continue
        usd = bill.at_least_usd
        if best is None or usd < best:
            best = usd
            cost, hours = Range.exact(usd), Range.exact(way.hours)
            key = index.to_bytes(8, "big")
            options.append(Option(Ranked(candidate, bill), key, cost, hours))
    return tuple(option.item for option in pareto(options))
