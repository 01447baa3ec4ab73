"""The month's bill of several recurring jobs, on the offers that suit them together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from tracker.domain.cost import Bill
from tracker.domain.job import Job
from tracker.domain.money import HOURS_PER_MONTH
from tracker.domain.month_plan import alone, plan
from tracker.domain.pareto import Goal
from tracker.domain.rank import Ranked
from tracker.domain.recurring import MonthBill, Recurring, month_bill
from tracker.report.cheapest import Row, row_of
from tracker.report.costing import Bounded, Costing
from tracker.report.priced import Priced

# Of the offers by the month those that are cheapest for some job, of each GPU and count.
_MOST_SHARED = 40


class Wanted(NamedTuple):
    """A job that runs ``runs`` (> 0) times a month, with the offers that could run it.

    ``stale_would_do``: none of them is fresh enough, and stale ones could.
    """

    job: Job
    runs: Decimal
    costing: Costing
    bounded: Sequence[Bounded]
    excluded: Counter[str]
    total_offers: int
    stale_would_do: bool = False


class Placed(NamedTuple):
    """A job on the offer that was chosen for it. ``row`` is None where no offer could run it.

    ``alone`` is the month's bill if it were the only job.
    """

    job: Job
    runs: Decimal
    row: Row | None
    by_the_month: bool = False
    alone: MonthBill | None = None


class MonthReport(NamedTuple):
    """The plan and its bill. ``alone_usd``: the sum if each job were by itself, on its best offer;
    None where a part of one is not known."""

    now: datetime
    jobs: tuple[Placed, ...]
    bill: MonthBill
    alone_usd: Decimal | None
    excluded: Counter[str]
    total_offers: int
    only_stale: bool = False  # every job without an offer would have one among the stale

    @property
    def missing(self) -> tuple[str, ...]:
        """Jobs that no offer can run: the bill is without them."""
        return tuple(one.job.name for one in self.jobs if one.row is None)


def month_report(wanted: Sequence[Wanted], now: datetime) -> MonthReport:
    """Choose an offer for each job, so that the month's bill of all is the lowest found."""
    shared = _shared(wanted)
    options = [_options(one, shared) for one in wanted]
    running = [index for index, of_job in enumerate(options) if of_job]
    chosen = dict(zip(running, plan([[o for o, _ in options[i]] for i in running]), strict=True))
    placed = []
    for index, one in enumerate(wanted):
        found = chosen.get(index)
        if found is None:
            placed.append(Placed(one.job, one.runs, None))
            continue
        ranked = next(ranked for o, ranked in options[index] if o is found)
        by_itself = month_bill([alone([o for o, _ in options[index]])])
        row = row_of(index + 1, ranked, one.costing, now)
        placed.append(Placed(one.job, one.runs, row, found.by_the_month, by_itself))
    excluded: Counter[str] = Counter()
    for one in wanted:
        excluded |= one.excluded  # the most that any of the jobs leaves out
    bills = [one.alone for one in placed if one.alone is not None]
    without = [one for one, place in zip(wanted, placed, strict=True) if place.row is None]
    return MonthReport(
        now=now,
        jobs=tuple(placed),
        bill=month_bill([chosen[index] for index in running]),
        alone_usd=(
            None
            if any(bill.partial for bill in bills)
            else sum((bill.at_least_usd for bill in bills), Decimal(0))
        ),
        excluded=excluded,
        total_offers=max((one.total_offers for one in wanted), default=0),
        only_stale=bool(without) and all(one.stale_would_do for one in without),
    )


_Option = tuple[Recurring, Ranked[Priced]]


def _options(one: Wanted, shared: frozenset[bytes]) -> list[_Option]:
    """The cheapest offer by the run, and the offers by the month that all the jobs may share."""
    by_run = [b for b in one.bounded if not _by_month(b)]
    best = one.costing.first(by_run, 1, Goal.CHEAPEST).rows
    months = [b for b in one.bounded if b.offer.key in shared]
    every = one.costing.first(months, max(1, len(months)), Goal.CHEAPEST).rows
    return [(_recurring(one, ranked), ranked) for ranked in (*best, *every)]


def _shared(wanted: Iterable[Wanted]) -> frozenset[bytes]:
    """The offers by the month to try: of each GPU and count the cheapest of every job."""
    keys: dict[bytes, Decimal] = {}
    for one in wanted:
        months = [b for b in one.bounded if _by_month(b)]
        kinds: dict[tuple[str, Decimal], list[Bounded]] = {}
        for b in months:
            kinds.setdefault((b.offer.gpu_key, b.offer.gpu_count), []).append(b)
        for kind in kinds.values():
            for ranked in one.costing.first(kind, 1, Goal.CHEAPEST).rows:
                usd = ranked.bill.at_least_usd
                key = ranked.candidate.key
                keys[key] = min(keys.get(key, usd), usd)
    return frozenset(sorted(keys, key=lambda key: (keys[key], key))[:_MOST_SHARED])


def _by_month(b: Bounded) -> bool:
    return (b.offer.commitment_hours or 0) >= HOURS_PER_MONTH


def _recurring(one: Wanted, ranked: Ranked[Priced]) -> Recurring:
    offer, bill = ranked.candidate.item.offer, ranked.bill
    assert isinstance(bill, Bill)  # noqa: S101 - what is ranked has one
    return Recurring(one.job.name, one.runs, bill, offer.key, offer.commitment_hours or 0)
