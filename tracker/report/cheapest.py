"""The main question: what is the cheapest way to run a job?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import ROUND_FLOOR, Context, Decimal
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from tracker.domain.cost import (
    Bill,
    BreakEven,
    CostInputs,
    SpeedUp,
    Unpriceable,
    bill,
    break_even,
    hour_at_least_usd,
    least_machine_hours,
    month_usd,
    speed_up,
)
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate, runtime_for
from tracker.domain.money import PerMachineHour, from_micro_usd
from tracker.domain.rank import Candidate, Ranked, Ranking, cheapest_of, order, rank
from tracker.domain.terms import Availability, Market, Terms
from tracker.report.discounts import DiscountBook
from tracker.report.filters import NOTHING, STALE, Filters, Selection, is_stale, select
from tracker.report.needs import with_needs
from tracker.store.reads import TERM_MARKETS, Shelf, StoredOffer

if TYPE_CHECKING:
    from tracker.report.beside import Beside

# Products of a price and hours are cut, never rounded up: a bound must not exceed the bill.
_BOUND = Context(prec=40, rounding=ROUND_FLOOR)

End: TypeAlias = Literal["low", "high"]


class Row(NamedTuple):
    """One way to run the job. ``rank`` starts at 1 and counts within what the filters left.

    ``low_usd`` and ``high_usd`` are the bill at both ends of an estimate's hours; None where the
    hours have no range. ``tie``: the cheapest row may cost more, as far as anybody can tell.
    """

    rank: int
    offer: StoredOffer
    bill: Bill
    estimate: RuntimeEstimate
    stale: bool
    discount_percent: Decimal | None = None
    low_usd: Decimal | None = None
    high_usd: Decimal | None = None
    tie: bool = False
    beside: Beside | None = None  # of a job that says what it computes


class Comparison(NamedTuple):
    """One GPU's best way against another's.

    ``break_even`` is the price at which *left* costs as much as *right* (None when no price would
    do, or when a bill is not fully known).
    """

    left: Row
    right: Row
    break_even: BreakEven | None
    speed: SpeedUp


class CheapestReport(NamedTuple):
    """The answer, with everything that was left out and why."""

    job: Job
    filters: Filters
    now: datetime
    rows: tuple[Row, ...]
    best_by_gpu: tuple[Row, ...]
    comparison: Comparison | None
    considered: int  # offers that could run the job under the filters
    total_offers: int
    excluded: Counter[str]
    begins_at: datetime | None = None  # of history, where nothing was on record

    @property
    def only_stale(self) -> bool:
        """Nothing fresh is left, but stale offers would match."""
        return not self.rows and self.excluded[STALE] > 0


def cheapest_report(
    offers: Sequence[StoredOffer],
    job: Job,
    filters: Filters,
    catalogue: Catalogue,
    now: datetime,
    *,
    top: int | None,
    total_offers: int,
    left_out: Mapping[str, int] = NOTHING,
    shelves: Collection[Shelf] = (),
    discounts: DiscountBook | None = None,
    compare: tuple[str, str] | None = None,
    end: End | None = None,
) -> CheapestReport:
    """Filter, estimate, bill and rank. ``top`` None ranks all of them.

    *offers* may leave out GPUs that the question is not about; *total_offers* counts them all,
    *left_out* those of this question's GPUs and *shelves* are those of all (see ``select``).
    With an *end*, estimates count at that end of their range.
    Raises UnknownGpu when a filter names a GPU that nobody knows.
    """
    filters = with_needs(filters, job)
    selection = select(
        offers, filters, catalogue, now,
        total_offers=total_offers, left_out=left_out, shelves=shelves,
    )  # fmt: skip
    costing = _Costing(job, catalogue, discounts or DiscountBook(), end)
    bounded = costing.bounded(selection)
    ranking = costing.all(bounded) if top is None else costing.cheapest(bounded, top)
    rows = _ties([_row(i, ranked, costing, now) for i, ranked in enumerate(ranking.rows, 1)])
    return CheapestReport(
        job=job,
        filters=filters,
        now=now,
        rows=rows,
        best_by_gpu=_best_by_gpu(costing, bounded, rows, now),
        comparison=_compare(costing, bounded, now, compare),
        considered=len(bounded),
        total_offers=total_offers,
        excluded=selection.excluded,
    )


class Priced(NamedTuple):
    """A stored offer with the discount that holds for it."""

    offer: StoredOffer
    discount_percent: Decimal | None


Bounded = tuple[Decimal, StoredOffer]


class _Costing:
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
    """*ways* with the interruptions to expect on *o*."""
    if job.spot is None or o.market != Market.SPOT or isinstance(ways, NoEstimate):
        return ways
    from tracker.report.spot import interrupted

    return interrupted(ways, o, job)


def _interruptions(o: StoredOffer, job: Job) -> tuple[object, ...]:
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


def _row(position: int, ranked: Ranked[Priced], costing: _Costing, now: datetime) -> Row:
    priced, job = ranked.candidate.item, costing.job
    estimate = ranked.candidate.estimate
    return Row(
        position, priced.offer, ranked.bill, estimate,
        is_stale(priced.offer, now), priced.discount_percent,
        low_usd=_at(estimate.low_hours, ranked, job),
        high_usd=_at(estimate.high_hours, ranked, job),
        beside=_beside(ranked, costing),
    )  # fmt: skip


def _beside(ranked: Ranked[Priced], costing: _Costing) -> Beside | None:
    if costing.job.task is None:
        return None
    from tracker.report.beside import beside

    one = ranked.candidate
    return beside(ranked.bill, one.estimate, one.item.offer.gpu_key, costing.job, costing.catalogue)


def _at(hours: Decimal | None, ranked: Ranked[Priced], job: Job) -> Decimal | None:
    """The bill if the job took *hours*."""
    if hours is None:
        return None
    inputs, estimate = ranked.candidate.inputs, ranked.candidate.estimate
    at = replace(estimate, hours=hours)
    if estimate.interrupted is not None:
        from tracker.report.spot import interrupted_way

        again = interrupted_way(at, ranked.candidate.item.offer, job)
        if isinstance(again, NoEstimate):
            return None
        at = again
    found = bill(inputs._replace(max_duration_hours=None), job, at)
    return found.at_least_usd if isinstance(found, Bill) else None


def _ties(rows: Sequence[Row]) -> tuple[Row, ...]:
    """*rows* with those marked that nobody can tell from the first.

    Two offers of one GPU and count are off by the same factor: their order stands.
    """
    if not rows:
        return ()
    best = rows[0]
    return tuple(row._replace(tie=_same_cost(best, row)) for row in rows)


def _same_cost(best: Row, row: Row) -> bool:
    if best.high_usd is None and row.low_usd is None:
        return False
    alike = (best.offer.gpu_key, best.estimate.gpus) == (row.offer.gpu_key, row.estimate.gpus)
    high = best.bill.at_least_usd if best.high_usd is None else best.high_usd
    low = row.bill.at_least_usd if row.low_usd is None else row.low_usd
    return not alike and low <= high


def _best_by_gpu(
    costing: _Costing, bounded: Iterable[Bounded], rows: Sequence[Row], now: datetime
) -> tuple[Row, ...]:
    """The best row of each GPU asked for, so that a crowded market hides none of them."""
    groups: dict[str, list[Bounded]] = {}
    for one in bounded:
        groups.setdefault(one[1].gpu_family, []).append(one)
    best = [ranked for group in groups.values() for ranked in costing.cheapest(group, 1).rows]
    best.sort(key=lambda r: order(r.candidate, r.bill))
    place = {row.offer.key: row.rank for row in rows}
    return tuple(_row(place.get(r.candidate.key, 0), r, costing, now) for r in best)


def _compare(
    costing: _Costing, bounded: Sequence[Bounded], now: datetime, pair: tuple[str, str] | None
) -> Comparison | None:
    if pair is None:
        return None
    sides: list[Row] = []
    for name in pair:
        keys = costing.catalogue.select(name)
        ranking = costing.cheapest([one for one in bounded if one[1].gpu_key in keys], 1)
        if not ranking.rows:
            return None
        sides.append(_row(0, ranking.rows[0], costing, now))
    left, right = sides
    return Comparison(
        left, right, break_even(left.bill, right.bill), speed_up(left.bill, right.bill)
    )


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
