"""The main question: what is the cheapest way to run a job?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from decimal import ROUND_FLOOR, Context, Decimal
from typing import NamedTuple

from tracker.domain.cost import (
    Bill,
    BreakEven,
    CostInputs,
    SpeedUp,
    Unpriceable,
    bill,
    break_even,
    least_machine_hours,
    speed_up,
)
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate, runtime_for
from tracker.domain.money import PerMachineHour, from_micro_usd
from tracker.domain.rank import Candidate, Ranked, Ranking, cheapest_of, order, rank
from tracker.domain.terms import Availability, Market, Terms
from tracker.report.discounts import DiscountBook
from tracker.report.filters import NOTHING, STALE, Filters, Selection, is_stale, select
from tracker.store.reads import TERM_MARKETS, Shelf, StoredOffer

# Products of a price and hours are cut, never rounded up: a bound must not exceed the bill.
_BOUND = Context(prec=40, rounding=ROUND_FLOOR)


class Row(NamedTuple):
    """One way to run the job. ``rank`` starts at 1 and counts within what the filters left."""

    rank: int
    offer: StoredOffer
    bill: Bill
    estimate: RuntimeEstimate
    stale: bool
    discount_percent: Decimal | None = None


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
) -> CheapestReport:
    """Filter, estimate, bill and rank. ``top`` None ranks all of them.

    *offers* may leave out GPUs that the question is not about; *total_offers* counts them all,
    *left_out* those of this question's GPUs and *shelves* are those of all (see ``select``).
    Raises UnknownGpu when a filter names a GPU that nobody knows.
    """
    filters = _with_needs(filters, job)
    selection = select(
        offers, filters, catalogue, now,
        total_offers=total_offers, left_out=left_out, shelves=shelves,
    )  # fmt: skip
    costing = _Costing(job, catalogue, discounts or DiscountBook())
    bounded = costing.bounded(selection)
    ranking = costing.all(bounded) if top is None else costing.cheapest(bounded, top)
    rows = tuple(_row(i, ranked, now) for i, ranked in enumerate(ranking.rows, 1))
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


def _with_needs(filters: Filters, job: Job) -> Filters:
    """*filters* with the memory that the job needs."""
    if job.min_vram_gb is None:
        return filters
    least = max(job.min_vram_gb, filters.min_vram_gb or Decimal(0))
    return filters._replace(min_vram_gb=least)


class Priced(NamedTuple):
    """A stored offer with the discount that holds for it."""

    offer: StoredOffer
    discount_percent: Decimal | None


Bounded = tuple[Decimal, StoredOffer]


class _Costing:
    """What one question's bills rest on. Most offers need no bill, only a bound of it."""

    def __init__(self, job: Job, catalogue: Catalogue, discounts: DiscountBook) -> None:
        self.job = job
        self.catalogue = catalogue
        self._discounts = discounts
        self._estimates: dict[str, RuntimeEstimate | NoEstimate] = {}

    def bounded(self, selection: Selection) -> list[Bounded]:
        """The offers that have a bill, each with an amount in USD that it is never below.

        The others are counted, here and not one by one as their bills are worked out, so that
        the counts do not depend on how many rows are asked for.
        """
        found: list[Bounded] = []
        least_hours: dict[tuple[str, Decimal, int | None], Decimal] = {}
        for o in selection.kept:
            estimate = self._estimate(o.gpu_key)
            if isinstance(estimate, NoEstimate):
                selection.excluded["with no hours given for the GPU"] += 1
            elif problem := _unbillable(o, self.job, estimate):
                selection.excluded[problem] += 1
            else:
                alike = (o.gpu_key, o.gpu_count, o.commitment_hours)
                hours = least_hours.get(alike)
                if hours is None:
                    hours = least_hours[alike] = least_machine_hours(
                        o.gpu_count, o.commitment_hours, self.job, estimate
                    )
                usd = _usd(o, self._discounts.percent_for(o))
                found.append((_BOUND.multiply(usd, hours), o))
        return found

    def cheapest(self, bounded: Iterable[Bounded], top: int) -> Ranking[Priced]:
        """The *top* cheapest, by exact bills."""
        return cheapest_of(bounded, costed=self._costed, top=top)

    def all(self, bounded: Iterable[Bounded]) -> Ranking[Priced]:
        """All of them, by exact bills."""
        return rank((self._candidate(o) for _, o in bounded), self.job)

    def _costed(self, o: StoredOffer) -> tuple[Candidate[Priced], Bill | Unpriceable]:
        one = self._candidate(o)
        return one, bill(one.inputs, self.job, one.estimate)

    def _candidate(self, o: StoredOffer) -> Candidate[Priced]:
        estimate = self._estimate(o.gpu_key)
        assert isinstance(estimate, RuntimeEstimate)  # noqa: S101 - bounded() left out the others
        return candidate_of(o, estimate, self._discounts)

    def _estimate(self, gpu_key: str) -> RuntimeEstimate | NoEstimate:
        known = self._estimates.get(gpu_key)
        if known is None:
            known = self._estimates[gpu_key] = runtime_for(self.job, gpu_key, self.catalogue)
        return known


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
            PerMachineHour(usd), o.gpu_count, Market(o.market), terms, o.max_duration_hours
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
    usd = from_micro_usd(o.price_micro_usd)
    return usd if discount_percent is None else usd * (100 - discount_percent) / 100


def _row(position: int, ranked: Ranked[Priced], now: datetime) -> Row:
    priced = ranked.candidate.item
    return Row(
        position, priced.offer, ranked.bill, ranked.candidate.estimate,
        is_stale(priced.offer, now), priced.discount_percent,
    )  # fmt: skip


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
    return tuple(_row(place.get(r.candidate.key, 0), r, now) for r in best)


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
        sides.append(_row(0, ranking.rows[0], now))
    left, right = sides
    return Comparison(
        left, right, break_even(left.bill, right.bill), speed_up(left.bill, right.bill)
    )


def bill_now(
    offer: StoredOffer, job: Job, catalogue: Catalogue, discounts: DiscountBook
) -> Bill | None:
    """The bill of *job* on one offer whatever the filters say; None when it has none."""
    estimate = runtime_for(job, offer.gpu_key, catalogue)
    if isinstance(estimate, NoEstimate) or _unbillable(offer, job, estimate):
        return None
    found = bill(candidate_of(offer, estimate, discounts).inputs, job, estimate)
    return found if isinstance(found, Bill) else None
