"""What a ranking is for: the least cost, the least hours, or the least of both together.

The order of each goal, bounds by which few bills are enough for it, and the ways that no other
beats in both cost and hours (tracker.domain.pareto).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from decimal import ROUND_FLOOR, Context, Decimal
from heapq import merge
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
    """A way to run the job on offers that differ by their price alone, as far as bounds go.

    ``hours`` until it is done; an offer's bill is never below its price of an hour x
    ``machine_hours``. ``offers``, ascending: that price, the offer's place among all, the offer.
    """

    hours: Decimal
    machine_hours: Decimal
    estimate: RuntimeEstimate
    offers: Iterable[tuple[Decimal, int, StoredOffer]]


Costed = Callable[[StoredOffer, RuntimeEstimate], tuple[Candidate[Priced], Bill | Unpriceable]]

# Products are cut, never rounded up: a bound must not exceed the bill.
BOUND = Context(prec=40, rounding=ROUND_FLOOR)


def unbeaten(ways: Iterable[Way], costed: Costed) -> tuple[Ranked[Priced], ...]:
    """The ways that no other beats in both cost and hours, cheapest first.

    Bills that are an "at least" (an unknown part, hours that are a lower bound) are not among them
    and beat none: nobody knows. Few offers are looked at: of each way only those whose bound is
    below every bill of the ways that take no longer.
    """
    by_hours: dict[Decimal, list[Iterator[_Bound]]] = {}
    for number, way in enumerate(ways):
        by_hours.setdefault(way.hours, []).append(_ascending(way, number))
    best: Decimal | None = None
    options: list[Option[Ranked[Priced]]] = []
    for hours in sorted(by_hours):
        for least_usd, place, number, offer, estimate in merge(*by_hours[hours]):
            if best is not None and least_usd >= best:
                break
            candidate, bill = costed(offer, estimate)
            if isinstance(bill, Unpriceable) or bill.partial or bill.lower_bound:
                continue
            usd = bill.at_least_usd
            if best is None or usd < best:
                best = usd
                key = place.to_bytes(8, "big") + number.to_bytes(8, "big")
                cost, done = Range.exact(usd), Range.exact(hours)
                options.append(Option(Ranked(candidate, bill), key, cost, done))
    return tuple(option.item for option in pareto(options))


# The number of the way comes before what has no order.
_Bound = tuple[Decimal, int, int, StoredOffer, RuntimeEstimate]


def _ascending(way: Way, number: int) -> Iterator[_Bound]:
    for hour_usd, place, offer in way.offers:
        yield BOUND.multiply(hour_usd, way.machine_hours), place, number, offer, way.estimate
