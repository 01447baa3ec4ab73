"""The main question: what is the cheapest way to run a job?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, NamedTuple

from tracker.domain.amount import amount
from tracker.domain.break_even import BreakEven, SpeedUp, break_even, speed_up
from tracker.domain.cost import Bill, bill, machines_needed, setup_hours
from tracker.domain.exact import EXACT, ratio_up
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour
from tracker.domain.pareto import Goal
from tracker.domain.rank import Ranked, Ranking
from tracker.domain.terms import OWN, Market
from tracker.report.ages import is_stale
from tracker.report.costing import Bounded, Costing, End
from tracker.report.discounts import DiscountBook
from tracker.report.filters import NOTHING, STALE, Filters, select
from tracker.report.goals import done_hours, key_of
from tracker.report.listed import Listed, looks_at_all
from tracker.report.needs import with_needs
from tracker.report.priced import Priced
from tracker.store.reads import Shelf, StoredOffer

if TYPE_CHECKING:
    from tracker.domain.spot import BreakEvenRate
    from tracker.report.beside import Beside
    from tracker.report.prepared import View
    from tracker.report.racks import Racked
    from tracker.store.beginnings import Beginning


class Row(NamedTuple):
    """One way to run the job. ``rank`` starts at 1 and counts within what the filters left.

    ``low_usd`` and ``high_usd`` are the bill at both ends of an estimate's hours (of a service: of
    the GPUs that it takes), ``low_hours`` and ``high_hours`` the ``done_hours`` (until the job is
    done, see ``goals.done_hours``); None where the hours have no range. ``tie``: the first row may
    be worse for the goal, as far as anybody can tell. ``unbeaten``: no way at all is both no dearer
    and no slower, and better in one of the two.
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
    done_hours: Decimal = Decimal(0)
    low_hours: Decimal | None = None
    high_hours: Decimal | None = None
    unbeaten: bool = False
    spot_break_even: BreakEvenRate | None = None  # against the same machine on demand
    low_machines: int | None = None  # of a service, at both ends of its speed
    high_machines: int | None = None


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
    goal: Goal = Goal.CHEAPEST
    unbeaten: tuple[Row, ...] = ()  # cheapest first; ``rank`` 0: not among the rows
    slices: tuple[Row, ...] = ()  # the cheapest parts of GPUs, ranked among themselves alone
    only_stale: bool = False  # nothing fresh is left, but stale offers would do
    only_expired: bool = False  # and those are typed prices of one's own, which no poll renews
    record: tuple[Beginning, ...] = ()  # since when: of a past moment, or where there is nothing


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
    goal: Goal = Goal.CHEAPEST,
    pareto: bool = False,
    prepared: View | None = None,
) -> CheapestReport:
    """Filter, estimate, bill and rank. ``top`` None ranks all of them.

    *pareto* asks for the ways that no other beats in both cost and hours.

    *offers* may leave out GPUs that the question is not about; *total_offers* counts them all,
    *left_out* those of this question's GPUs and *shelves* are those of all (see ``select``).
    With an *end*, estimates count at that end of their range. *prepared* is what was worked out of
    these *offers* before; the answer is the same without.
    Raises UnknownGpu when a filter names a GPU that nobody knows.
    """
    filters = with_needs(filters, job)
    book = discounts or DiscountBook()
    known = None if prepared is None else prepared.known.of(job)
    costing = Costing(job, catalogue, book, end, goal, known and known.ways)
    bounded: Racked | Listed
    if prepared is not None and top is not None and not looks_at_all(job):
        bounded, excluded = prepared.bounds(
            costing, filters, now, total_offers, frozenset(shelves), book
        )
    else:
        selection = select(
            offers, filters, catalogue, now,
            total_offers=total_offers, left_out=left_out, shelves=shelves,
        )  # fmt: skip
        bounded, excluded = Listed(costing, costing.bounded(selection)), selection.excluded
    ranking = _ranking(bounded, costing, top)
    ranked = [row_of(i, one, costing, now) for i, one in enumerate(ranking.rows, 1)]
    if any(row.offer.market == Market.SPOT for row in ranked):
        ranked = _with_break_even(ranked, bounded.on_demand(), job)
    rows = _ties(ranked, goal)
    best_of_all = bounded.unbeaten() if pareto else ()
    figures = frozenset(_figures(one, job) for one in best_of_all)
    rows = _marked(rows, figures)
    would_do: list[Bounded] = []
    if not bounded and excluded[STALE]:  # is there a stale one that can run it?
        asked = filters._replace(include_stale=True)
        with_stale = select(offers, asked, catalogue, now, shelves=shelves)
        would_do = costing.bounded(with_stale)
    return CheapestReport(
        job=job,
        filters=filters,
        now=now,
        rows=rows,
        best_by_gpu=_marked(_best_by_gpu(costing, bounded, rows, now), figures),
        comparison=_compare(costing, bounded, now, compare),
        considered=len(bounded),
        total_offers=total_offers,
        excluded=excluded,
        goal=goal,
        unbeaten=_marked(_placed(best_of_all, rows, costing, now), figures),
        only_stale=bool(would_do),
        only_expired=bool(would_do)
        and all(one.offer.valid_as_of is not None and not one.offer.fallback for one in would_do),
    )


def _ranking(bounded: Racked | Listed, costing: Costing, top: int | None) -> Ranking[Priced]:
    if top is not None:
        return bounded.first(top)
    assert isinstance(bounded, Listed)  # noqa: S101 - racks are for a few rows
    return bounded.all()


_Figures = tuple[Decimal, Decimal]


def _figures(ranked: Ranked[Priced], job: Job) -> _Figures:
    return ranked.bill.at_least_usd, done_hours(job, ranked.candidate.estimate)


def _marked(rows: Iterable[Row], figures: frozenset[_Figures]) -> tuple[Row, ...]:
    """*rows* with those marked whose cost and hours are of the ways that none beats."""
    return tuple(
        row._replace(unbeaten=True)
        if not (row.bill.partial or row.bill.lower_bound)
        and (row.bill.at_least_usd, row.done_hours) in figures
        else row
        for row in rows
    )


def _placed(
    found: Iterable[Ranked[Priced]], rows: Sequence[Row], costing: Costing, now: datetime
) -> Iterable[Row]:
    """*found* as rows, with the rank that they have among *rows*."""
    place = {(row.offer.key, row.estimate.gpus): row.rank for row in rows}
    for one in found:
        at = place.get((one.candidate.key, one.candidate.estimate.gpus), 0)
        yield row_of(at, one, costing, now)


def row_of(position: int, ranked: Ranked[Priced], costing: Costing, now: datetime) -> Row:
    """A bill as a row, at *position*; neither tied nor marked as unbeaten."""
    priced, job = ranked.candidate.item, costing.job
    estimate = ranked.candidate.estimate
    low, high = (_at(end, ranked, job) for end in (estimate.at_low(), estimate.at_high()))
    return Row(
        position, priced.offer, ranked.bill, estimate,
        is_stale(priced.offer, now), priced.discount_percent,
        low_usd=low.usd, high_usd=high.usd, beside=_beside(ranked, costing),
        done_hours=done_hours(job, estimate), low_hours=low.hours, high_hours=high.hours,
        low_machines=low.machines, high_machines=high.machines,
    )  # fmt: skip


def _with_break_even(
    rows: Iterable[Row], firm: Mapping[tuple[str, Decimal], Decimal], job: Job
) -> list[Row]:
    """*rows*, those on spot with the rate of interruptions that makes them as dear as the cheapest
    such machine on demand, where the question has one: *firm* has their prices."""
    from tracker.domain.job_spot import break_even

    def told(row: Row) -> Row:
        usd = firm.get((row.offer.gpu_key, row.offer.gpu_count))
        if row.offer.market != Market.SPOT or usd is None or not row.bill.price.usd:
            return row
        found = break_even(
            job.spot, row.estimate.hours, setup_hours(job, row.estimate), row.bill.machines,
            (row.bill.price, PerMachineHour(usd)),
        )  # fmt: skip
        return row._replace(spot_break_even=found)

    return [told(row) for row in rows]


def _beside(ranked: Ranked[Priced], costing: Costing) -> Beside | None:
    job, one = costing.job, ranked.candidate
    if job.task is None and job.completes is None:
        return None
    from tracker.report.beside import beside

    month = _month(ranked, job)
    gpu_key = one.item.offer.gpu_key
    term = one.inputs.terms.commitment_hours or 0
    return beside(ranked.bill, one.estimate, gpu_key, job, costing.catalogue, month, term)


def _month(ranked: Ranked[Priced], job: Job) -> Bill | None:
    """The bill of a month of a service, once it is set up, with a month's egress.

    Of a commitment of several months it is one month's share.
    """
    kept = None if job.task is None else job.task.service_hours
    if kept is None:
        return None
    month = replace(ranked.candidate.estimate, hours=HOURS_PER_MONTH)
    estimate = _interrupted(month, ranked, job)
    if estimate is None:
        return None
    egress_gb = ratio_up(EXACT.multiply(job.egress_gb, HOURS_PER_MONTH), kept)
    inputs = ranked.candidate.inputs._replace(max_duration_hours=None)
    if (inputs.terms.commitment_hours or 0) > HOURS_PER_MONTH:
        share = replace(inputs.terms, commitment_hours=int(HOURS_PER_MONTH))
        inputs = inputs._replace(terms=share)
    steady = replace(job, setup_hours=Decimal(0), egress_gb=egress_gb)
    found = bill(inputs, steady, replace(estimate, setup=None))
    return found if isinstance(found, Bill) else None


class _AtEnd(NamedTuple):
    """The bill at an end of the range, and what is other there: the hours until the job is done,
    or of a service the machines."""

    usd: Decimal | None = None
    hours: Decimal | None = None
    machines: int | None = None


def _at(end: RuntimeEstimate | None, ranked: Ranked[Priced], job: Job) -> _AtEnd:
    at = None if end is None else _interrupted(end, ranked, job)
    if at is None:
        return _AtEnd()
    offer = ranked.candidate.item.offer
    if offer.source == OWN:  # nobody has more machines than there are
        at = replace(at, gpus=min(at.gpus, int(offer.gpu_count * (offer.stock_count or 1))))
    inputs = ranked.candidate.inputs._replace(max_duration_hours=None)
    found = amount(inputs, job, at)
    if found is None:
        return _AtEnd()
    if at.low_gpus is not None:
        return _AtEnd(found.at_least_usd, machines=machines_needed(inputs, job, at))
    return _AtEnd(found.at_least_usd, done_hours(job, at))


def _interrupted(at: RuntimeEstimate, ranked: Ranked[Priced], job: Job) -> RuntimeEstimate | None:
    """*at* with the interruptions to expect then; None where it would hardly finish."""
    if ranked.candidate.estimate.interrupted is None:
        return at
    from tracker.report.spot import interrupted_way

    again = interrupted_way(at, ranked.candidate.item.offer, job)
    return None if isinstance(again, NoEstimate) else again


def _ties(rows: Sequence[Row], goal: Goal) -> tuple[Row, ...]:
    """*rows* with those marked that nobody can tell from the first in what the goal is least in.

    Two offers of one GPU and count are off by the same factor: their order stands.
    """
    if not rows:
        return ()
    best = rows[0]
    return tuple(row._replace(tie=_same(best, row, goal)) for row in rows)


def _same(best: Row, row: Row, goal: Goal) -> bool:
    if best.high_usd is None and row.low_usd is None:
        return False
    alike = (best.offer.gpu_key, best.estimate.gpus) == (row.offer.gpu_key, row.estimate.gpus)
    return not alike and _end(row, goal, high=False) <= _end(best, goal, high=True)


def _end(row: Row, goal: Goal, *, high: bool) -> Decimal:
    """What the goal is least in, at one end of the row's range."""
    usd = row.high_usd if high else row.low_usd
    hours = row.high_hours if high else row.low_hours
    usd = row.bill.at_least_usd if usd is None else usd
    hours = row.done_hours if hours is None else hours
    if goal is Goal.BALANCED:
        return EXACT.multiply(usd, hours)
    return usd if goal is Goal.CHEAPEST else hours


def _best_by_gpu(
    costing: Costing, bounded: Racked | Listed, rows: Sequence[Row], now: datetime
) -> tuple[Row, ...]:
    """The best row of each GPU asked for, so that a crowded market hides none of them."""
    best = [ranked for family in bounded.by_family() for ranked in family.first(1).rows]
    key = key_of(costing.goal, costing.job)
    best.sort(key=lambda r: key(r.candidate, r.bill))
    place = {row.offer.key: row.rank for row in rows}
    return tuple(row_of(place.get(r.candidate.key, 0), r, costing, now) for r in best)


def _compare(
    costing: Costing, bounded: Racked | Listed, now: datetime, pair: tuple[str, str] | None
) -> Comparison | None:
    if pair is None:
        return None
    sides: list[Row] = []
    for name in pair:
        ranking = bounded.of(costing.catalogue.select(name)).first(1, Goal.CHEAPEST)
        if not ranking.rows:
            return None
        sides.append(row_of(0, ranking.rows[0], costing, now))
    left, right = sides
    return Comparison(
        left, right, break_even(left.bill, right.bill), speed_up(left.bill, right.bill)
    )
