"""What a question's bills rest on: an offer's ways to run a job, and the cheapest of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import ROUND_FLOOR, Context, Decimal
from typing import Literal, NamedTuple, TypeAlias

from tracker.domain.cost import (
    Bill,
    CostInputs,
    Unpriceable,
    bill,
    hour_at_least_usd,
    least_machine_hours,
    month_usd,
)
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate, runtime_for
from tracker.domain.money import PerMachineHour, from_micro_usd
from tracker.domain.rank import Candidate, Ranking, cheapest_of, rank
from tracker.domain.terms import OWN, Availability, Market, Terms
from tracker.report.discounts import DiscountBook
from tracker.report.filters import Selection
from tracker.store.reads import TERM_MARKETS, StoredOffer

# Products of a price and hours are cut, never rounded up: a bound must not exceed the bill.
_BOUND = Context(prec=40, rounding=ROUND_FLOOR)

OWNED_TOO_FEW = "of your own, with too few GPUs"

End: TypeAlias = Literal["low", "high"]


class Priced(NamedTuple):
    """A stored offer with the discount that holds for it."""

    offer: StoredOffer
    discount_percent: Decimal | None


Bounded = tuple[Decimal, StoredOffer]


class Costing:
    """What one question's bills rest on. Most offers need no bill, only a bound of it."""

    def __init__(
        self, job: Job, catalogue: Catalogue, discounts: DiscountBook, end: End | None = None
    ) -> None:
        self.job = job
        self.catalogue = catalogue
        self._discounts = discounts
        self._end = end
        self._ways: dict[tuple[str, int], tuple[RuntimeEstimate, ...] | NoEstimate] = {}

    def bounded(self, selection: Selection) -> list[Bounded]:
        """The offers that have a bill, each with an amount in USD that it is never below.

        The others are counted, here and not one by one as their bills are worked out, so that
        the counts do not depend on how many rows are asked for.
        """
        found: list[Bounded] = []
        least_hours: dict[tuple[object, ...], Decimal] = {}
        budget = self.job.limits.budget_usd if self.job.limits is not None else None
        for o in selection.kept:
            ways = self._ways_on(o)
            if isinstance(ways, NoEstimate):
                selection.excluded[ways.short] += 1
            elif problem := _no_way(o, self.job, ways):
                selection.excluded[problem] += 1
            else:
                # Of several counts, interruptions may leave fewer.
                alike = (o.gpu_key, o.gpu_count, o.commitment_hours, *_interruptions(o, self.job))
                hours = least_hours.get(alike)
                if hours is None:
                    hours = least_hours[alike] = min(
                        least_machine_hours(o.gpu_count, o.commitment_hours, self.job, way)
                        for way in ways
                    )
                percent = self._discounts.percent_for(o)
                hour = hour_at_least_usd(_usd(o, percent), _month_usd(o, percent))
                usd = _BOUND.multiply(hour, hours)
                if budget is not None and self._over(o, usd, budget):
                    selection.excluded["over the job's budget"] += 1
                else:
                    found.append((usd, o))
        return found

    def _over(self, o: StoredOffer, bound: Decimal, budget: Decimal) -> bool:
        if bound > budget:
            return True
        exact = self._costed(o)[1]
        return isinstance(exact, Bill) and exact.at_least_usd > budget

    def cheapest(self, bounded: Iterable[Bounded], top: int) -> Ranking[Priced]:
        """The *top* cheapest, by exact bills."""
        return cheapest_of(bounded, costed=self._costed, top=top)

    def all(self, bounded: Iterable[Bounded]) -> Ranking[Priced]:
        """All of them, by exact bills."""
        return rank((self._candidate(o) for _, o in bounded), self.job)

    def _candidate(self, o: StoredOffer) -> Candidate[Priced]:
        ways = self._ways_on(o)
        if not isinstance(ways, NoEstimate) and len(ways) == 1:
            return candidate_of(o, ways[0], self._discounts)
        return self._costed(o)[0]

    def _costed(self, o: StoredOffer) -> tuple[Candidate[Priced], Bill | Unpriceable]:
        ways = self._ways_on(o)
        assert not isinstance(ways, NoEstimate)  # noqa: S101 - bounded() left out the others
        return best_way(o, ways, self.job, self._discounts)

    def _ways_on(self, o: StoredOffer) -> tuple[RuntimeEstimate, ...] | NoEstimate:
        count = max(1, int(o.gpu_count))
        # How many GPUs a machine has matters to estimates only.
        alike = (o.gpu_key, count if self.job.task is not None else 1)
        known = self._ways.get(alike)
        if known is None:
            known = ways_on(self.job, o.gpu_key, count, self.catalogue)
            if self._end is not None and not isinstance(known, NoEstimate):
                known = tuple(_at_end(way, self._end) for way in known)
            self._ways[alike] = known
        return _on_offer(known, o, self.job)


def _at_end(way: RuntimeEstimate, end: End) -> RuntimeEstimate:
    hours = way.low_hours if end == "low" else way.high_hours
    return way if hours is None else replace(way, hours=hours)


def ways_on(
    job: Job, gpu_key: str, gpu_count: int, catalogue: Catalogue
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """The counts of GPUs, with their hours, by which *job* can be run on such machines."""
    if job.task is not None:
        from tracker.domain import evidence

        return evidence.options(job, gpu_key, gpu_count, catalogue)
    estimate = runtime_for(job, gpu_key, catalogue)
    if isinstance(estimate, NoEstimate):
        return estimate
    deadline = job.limits.deadline_hours if job.limits is not None else None
    if deadline is not None and job.setup_hours + estimate.hours > deadline:
        return NoEstimate(f"takes {estimate.hours} h on {gpu_key}", "over the job's deadline")
    return (estimate,)


def _on_offer(
    ways: tuple[RuntimeEstimate, ...] | NoEstimate, o: StoredOffer, job: Job
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """*ways* with the interruptions to expect on *o*; of a machine that one owns, those that it
    has the GPUs for."""
    if o.source == OWN and not isinstance(ways, NoEstimate):
        return _with_so_many(ways, o, job)
    if job.spot is None or o.market != Market.SPOT or isinstance(ways, NoEstimate):
        return ways
    from tracker.report.spot import interrupted

    return interrupted(ways, o, job)


def _with_so_many(
    ways: tuple[RuntimeEstimate, ...], o: StoredOffer, job: Job
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    have = o.gpu_count * (o.stock_count or 1)
    kept = tuple(way for way in ways if max(way.gpus, job.gpus_needed) <= have)
    return kept or NoEstimate(f"you own {have} x {o.gpu_key}, too few", OWNED_TOO_FEW)


def _interruptions(o: StoredOffer, job: Job) -> tuple[object, ...]:
    if o.source == OWN:
        return OWN, o.stock_count
    if job.spot is None or o.market != Market.SPOT:
        return ()
    return o.interruption_percent_max, o.reliability


def best_way(
    o: StoredOffer, ways: Sequence[RuntimeEstimate], job: Job, discounts: DiscountBook
) -> tuple[Candidate[Priced], Bill | Unpriceable]:
    """The cheapest of several ways to run *job* on *o*; of equal ones that with fewer machines,
    then the faster one."""
    found = []
    for way in ways:
        one = candidate_of(o, way, discounts)
        found.append((one, bill(one.inputs, job, way)))
    if len(found) == 1:
        return found[0]
    billed = [(one, cost) for one, cost in found if isinstance(cost, Bill)]
    if not billed:
        return found[0]
    return min(
        billed,
        key=lambda f: (bool(f[1].partial), f[1].at_least_usd, f[1].machines, f[1].runtime_hours),
    )


def _no_way(o: StoredOffer, job: Job, ways: Sequence[RuntimeEstimate]) -> str | None:
    """Why none of *ways* can be billed on *o*; None where one can."""
    problem = None
    for way in ways:
        problem = _unbillable(o, job, way)
        if problem is None:
            return None
    return problem


def _unbillable(o: StoredOffer, job: Job, estimate: RuntimeEstimate) -> str | None:
    """Why the job cannot be run, or its bill not be known, on *o*."""
    if o.gpu_count < 1:
        return "sold as a slice of a GPU"
    if o.commitment_unknown or (o.market in TERM_MARKETS and o.commitment_hours is None):
        return "sold for a term that is not stated"
    if o.max_duration_hours is not None and o.max_duration_hours < job.setup_hours + estimate.hours:
        return "offered for less time than the job takes"
    if job.disk_gb and o.disk_gb is not None and o.disk_gb < job.disk_gb:
        return "with too little disk"
    return None


def candidate_of(
    o: StoredOffer, estimate: RuntimeEstimate, discounts: DiscountBook
) -> Candidate[Priced]:
    """A stored offer with its hours, its discount taken off."""
    percent = discounts.percent_for(o)
    usd = _usd(o, percent)
    terms = Terms(
        billing_increment_seconds=o.billing_increment_seconds,
        minimum_seconds=o.minimum_seconds,
        commitment_hours=o.commitment_hours,
        commitment_unknown=o.commitment_unknown,
        disk_included_gb=o.disk_included_gb,
        disk_usd_per_gb_hour=o.disk_usd_per_gb_hour,
        egress_usd_per_gb=o.egress_usd_per_gb,
    )
    return Candidate(
        item=Priced(o, percent),
        inputs=CostInputs(
            PerMachineHour(usd),
            o.gpu_count,
            Market(o.market),
            terms,
            o.max_duration_hours,
            _month_usd(o, percent),
        ),
        estimate=estimate,
        provider=o.provider,
        source_id=o.native_id,
        key=o.key,
        tier=o.tier,
        region=o.region,
        availability=Availability(o.availability),
        reliability=o.reliability,
    )


def _usd(o: StoredOffer, discount_percent: Decimal | None) -> Decimal:
    """The price of the machine for an hour, less the discount."""
    return _less(from_micro_usd(o.price_micro_usd), discount_percent)


def _month_usd(o: StoredOffer, discount_percent: Decimal | None) -> Decimal | None:
    """The price of the machine for a month, where it is sold so, less the discount."""
    usd = month_usd(o.price_native, o.price_unit, o.gpu_count, o.fx_rate)
    return None if usd is None else _less(usd, discount_percent)


def _less(usd: Decimal, discount_percent: Decimal | None) -> Decimal:
    return usd if discount_percent is None else usd * (100 - discount_percent) / 100


def bill_now(
    offer: StoredOffer, job: Job, catalogue: Catalogue, discounts: DiscountBook
) -> Bill | None:
    """The bill of *job* on one offer whatever the filters say; None when it has none."""
    count = max(1, int(offer.gpu_count))
    ways = _on_offer(ways_on(job, offer.gpu_key, count, catalogue), offer, job)
    if isinstance(ways, NoEstimate) or _no_way(offer, job, ways):
        return None
    found = best_way(offer, ways, job, discounts)[1]
    return found if isinstance(found, Bill) else None
