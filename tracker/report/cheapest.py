"""The main question: what is the cheapest way to run a job?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from tracker.domain.break_even import BreakEven, SpeedUp, break_even, speed_up
from tracker.domain.cost import (
    Bill,
    bill,
)
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate
from tracker.domain.rank import Ranked, order
from tracker.report.costing import Bounded, Costing, End, Priced
from tracker.report.discounts import DiscountBook
from tracker.report.filters import NOTHING, STALE, Filters, is_stale, select
from tracker.report.needs import with_needs
from tracker.store.reads import Shelf, StoredOffer

if TYPE_CHECKING:
    from tracker.report.beside import Beside


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
    costing = Costing(job, catalogue, discounts or DiscountBook(), end)
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


def _row(position: int, ranked: Ranked[Priced], costing: Costing, now: datetime) -> Row:
    priced, job = ranked.candidate.item, costing.job
    estimate = ranked.candidate.estimate
    return Row(
        position, priced.offer, ranked.bill, estimate,
        is_stale(priced.offer, now), priced.discount_percent,
        low_usd=_at(estimate.low_hours, ranked, job),
        high_usd=_at(estimate.high_hours, ranked, job),
        beside=_beside(ranked, costing),
    )  # fmt: skip


def _beside(ranked: Ranked[Priced], costing: Costing) -> Beside | None:
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
    costing: Costing, bounded: Iterable[Bounded], rows: Sequence[Row], now: datetime
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
    costing: Costing, bounded: Sequence[Bounded], now: datetime, pair: tuple[str, str] | None
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
