"""The order of offers for a job: what it costs, then risk, then names, so that no two are equal.

Bills with an unknown part come after all complete ones: their total is only an "at least", and an
unknown must never win. A bill on lower-bound hours stands among the others by its amount, for the
hours are the user's own, and loses every tie against one that is certain. What a job does not use
cannot be unknown: an offer without an egress price has a complete bill for a job without egress.
"""

from __future__ import annotations

import heapq
from bisect import insort
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from tracker.domain.cost import Bill, CostInputs, Unpriceable, bill, lower_bound_usd
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.terms import Availability, Market

if TYPE_CHECKING:
    from tracker.domain.offer import Offer

T = TypeVar("T")
S = TypeVar("S")

_ZERO = Decimal(0)
# Found by the words of a table, too: the members of these enums are equal to them.
_MARKET_RISK: Mapping[str, int] = {
    Market.ON_DEMAND: 0, Market.RESERVED: 1, Market.MONTHLY: 1, Market.CAPACITY_BLOCK: 1,
    Market.SPOT: 2,
}  # fmt: skip
_AVAILABILITY_RISK: Mapping[str, int] = {
    Availability.YES: 0, Availability.UNKNOWN: 1, Availability.NO: 2,
}  # fmt: skip

# The providers' own words for a trust class. A tier not named here is neither vetted nor warned of.
_TIER_RISK = {"secure": 0, "verified": 0, "dedicated": 0, "standard": 0, "deverified": 2}

Standing = tuple[int, int, int, bool, Decimal, str, str, str, bytes]


class Candidate(NamedTuple, Generic[T]):
    """An offer with the hours of the job on it. ``item`` is the caller's own object for it.

    ``reliability`` is the provider's score in 0..1. ``key`` makes the order total: unique.
    """

    item: T
    inputs: CostInputs
    estimate: RuntimeEstimate
    provider: str
    source_id: str
    key: bytes
    tier: str
    region: str | None = None
    availability: Availability = Availability.UNKNOWN
    reliability: Decimal | None = None

    @property
    def standing(self) -> Standing:
        """What decides between equal costs: less risk, then provider, region, id and key."""
        return standing_of(
            (self.inputs.market, self.availability, self.tier), self.reliability,
            (self.provider, self.region, self.source_id, self.key),
        )  # fmt: skip


def standing_of(
    risks: tuple[str, str, str], reliability: Decimal | None,
    names: tuple[str, str | None, str, bytes],
) -> Standing:  # fmt: skip
    """``Candidate.standing`` of a market, availability and tier (*risks*), and of a provider,
    region, id and key (*names*)."""
    market, availability, tier = risks
    provider, region, source_id, key = names
    return (
        _MARKET_RISK[market],
        _AVAILABILITY_RISK[availability],
        _TIER_RISK.get(tier, 1),
        reliability is None,
        -(reliability or _ZERO),
        provider,
        region or "",
        source_id,
        key,
    )


def candidate(offer: Offer, estimate: RuntimeEstimate) -> Candidate[Offer]:
    """The candidate for a normalised offer."""
    listed = offer.listed
    return Candidate(
        item=offer,
        inputs=CostInputs.of(offer),
        estimate=estimate,
        provider=offer.provider,
        source_id=listed.source_id,
        key=offer.key,
        tier=listed.tier,
        region=listed.region,
        availability=listed.extras.availability,
        reliability=listed.extras.reliability,
    )


class Ranked(NamedTuple, Generic[T]):
    """A candidate with its bill."""

    candidate: Candidate[T]
    bill: Bill


class LeftOut(NamedTuple, Generic[T]):
    """A candidate that has no bill, and why."""

    candidate: Candidate[T]
    reason: str


class Ranking(NamedTuple, Generic[T]):
    """Cheapest first. ``left_out`` are those met that have no bill; ``not_costed`` counts those
    whose bill was not worked out because it cannot be among the cheapest asked for."""

    rows: tuple[Ranked[T], ...]
    left_out: tuple[LeftOut[T], ...] = ()
    not_costed: int = 0


Order = tuple[bool, Decimal, bool, Standing]


def order(candidate: Candidate[T], bill: Bill) -> Order:
    """The sort key of a ranking: complete before partial, cost, certain hours before a lower bound
    of them, then the candidate's standing."""
    return (bool(bill.partial), bill.at_least_usd, bill.lower_bound, candidate.standing)


def rank(
    candidates: Iterable[Candidate[T]],
    job: Job,
    key: Callable[[Candidate[T], Bill], tuple[Any, ...]] = order,
) -> Ranking[T]:
    """Every candidate's bill, by *key*. The result does not depend on the order given."""
    rows: list[tuple[tuple[Any, ...], Ranked[T]]] = []
    left_out: list[LeftOut[T]] = []
    for one in candidates:
        cost = bill(one.inputs, job, one.estimate)
        if isinstance(cost, Unpriceable):
            left_out.append(LeftOut(one, cost.reason))
        else:
            rows.append((key(one, cost), Ranked(one, cost)))
    rows.sort(key=lambda row: row[0])
    left_out.sort(key=lambda out: out.candidate.standing)
    return Ranking(tuple(row for _, row in rows), tuple(left_out))


def cheapest(candidates: Iterable[Candidate[T]], job: Job, top: int) -> Ranking[T]:
    """The first *top* rows of ``rank``, without working out every bill."""
    return cheapest_bills(
        candidates,
        cost=lambda one: bill(one.inputs, job, one.estimate),
        lower_bound=lambda one: lower_bound_usd(one.inputs, job, one.estimate),
        top=top,
    )


def cheapest_bills(
    candidates: Iterable[Candidate[T]],
    *,
    cost: Callable[[Candidate[T]], Bill | Unpriceable],
    lower_bound: Callable[[Candidate[T]], Decimal],
    top: int,
) -> Ranking[T]:
    """``cheapest`` with another way to cost; *lower_bound* must never exceed the bill."""
    return cheapest_of(
        ((lower_bound(one), one) for one in candidates),
        costed=lambda one: (one, cost(one)),
        top=top,
    )


def cheapest_of(
    bounded: Iterable[tuple[Any, S]],
    *,
    costed: Callable[[S], tuple[Candidate[T], Bill | Unpriceable]],
    top: int,
    key: Callable[[Candidate[T], Bill], tuple[Any, ...]] = order,
) -> Ranking[T]:
    """The *top* (> 0) cheapest of things with a lower bound, looking at few of them closely.

    What ranks is the second part of *key*, which like ``order`` begins with whether the bill is
    partial; bounds are of that. *costed* makes the candidate of a thing and its exact bill, which
    is never below the bound. It is asked in the order of the bounds; once *top* complete bills are
    known and the next bound is above the dearest of them, no other can be among them (an equal one
    could, by its standing). A partial bill never stops the search: any complete one, however dear,
    goes before it.
    """
    heap = [(bound, index, one) for index, (bound, one) in enumerate(bounded)]
    heapq.heapify(heap)
    count, looked_at = len(heap), 0

    def ascending() -> Iterator[tuple[tuple[bool, Any], S]]:
        while heap:
            bound, _, one = heapq.heappop(heap)
            yield (False, bound), one

    def counted(one: S) -> tuple[Candidate[T], Bill | Unpriceable]:
        nonlocal looked_at
        looked_at += 1
        return costed(one)

    ranking = cheapest_of_ascending(ascending(), costed=counted, top=top, key=key)
    return ranking._replace(not_costed=count - looked_at)


def cheapest_of_ascending(
    bounded: Iterable[tuple[tuple[bool, Any], S]],
    *,
    costed: Callable[[S], tuple[Candidate[T], Bill | Unpriceable]],
    top: int,
    key: Callable[[Candidate[T], Bill], tuple[Any, ...]] = order,
) -> Ranking[T]:
    """``cheapest_of`` things that come in the order of their bounds, without ``not_costed``.

    A bound is of the first two parts of *key*: whether the bill is partial for sure, what ranks.
    """
    if top < 1:
        raise ValueError("top must be at least 1")
    best: list[tuple[tuple[Any, ...], int, Ranked[T]]] = []
    left_out: list[LeftOut[T]] = []
    for index, (bound, one) in enumerate(bounded):
        if len(best) == top and bound > best[-1][0][:2]:
            break
        candidate, exact = costed(one)
        if isinstance(exact, Unpriceable):
            left_out.append(LeftOut(candidate, exact.reason))
            continue
        insort(best, (key(candidate, exact), index, Ranked(candidate, exact)))
        del best[top:]
    left_out.sort(key=lambda out: out.candidate.standing)
    return Ranking(tuple(row for _, _, row in best), tuple(left_out))
