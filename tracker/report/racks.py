"""Offers that were selected once, in racks of those alike: the same for every job.

What a question leaves of the offers, and their order by price, is worked out once for each set of
filters and kept while the database says nothing new (``Prepared``). A job then looks at racks, not
at offers: those of a rack differ by their price alone as far as bounds of bills go. The answers are
those of ``Listed``, which looks at every offer: a test holds one against the other.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from heapq import merge
from operator import itemgetter
from typing import Any, NamedTuple

from tracker.domain.cost import hour_at_least_usd, least_machine_hours, setup_hours
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate
from tracker.domain.pareto import Goal
from tracker.domain.rank import Ranked, Ranking, cheapest_of_ascending
from tracker.domain.terms import Market
from tracker.report.costing import TOO_LITTLE_DISK, Bounded, Costing, Known, apart, no_way
from tracker.report.discounts import DiscountBook
from tracker.report.filters import Filters, gives_way, select
from tracker.report.goals import BOUND, Way, done_hours, key_of, measure, unbeaten
from tracker.report.priced import Priced, counted, hour_usd, whole_month_usd
from tracker.store.reads import Shelf, StoredOffer

# The price of a machine for an hour that no bill is below, the offer's place among all, the offer.
Placed = tuple[Decimal, int, StoredOffer]

MOST_JOBS = 32  # of which estimates are kept


class Rack(NamedTuple):
    """Offers alike in what hours depend on, by price. ``disks_gb`` and ``limits_hours``, ascending,
    are the disks that they have and for how long they are offered, of those that say so.
    ``most_included_gb``: the most disk that comes with one, where more has no known price (else
    None); ``egress_known``: the price of egress is known.
    """

    offers: Sequence[Placed]
    is_spot: bool
    disks_gb: Sequence[Decimal]
    limits_hours: Sequence[Decimal]
    most_included_gb: Decimal | None
    egress_known: bool

    def partial(self, job: Job) -> bool:
        """Whether a part of every bill of *job* is not known, for sure."""
        if job.egress_gb and not self.egress_known:
            return True
        return self.most_included_gb is not None and job.disk_gb > self.most_included_gb


def racks_of(
    kept: Sequence[StoredOffer], discounts: DiscountBook, hours_usd: dict[int, Decimal]
) -> list[Rack]:
    """*kept* in racks. *hours_usd* keeps the price of an hour of each offer, before discounts."""
    groups: dict[tuple[object, ...], list[Placed]] = {}
    for place, o in enumerate(kept):
        alike = (
            o.gpu_key, o.gpu_count, o.commitment_hours, o.commitment_unknown, o.market,
            o.native_id if o.is_slice else None,
            o.disk_usd_per_gb_hour is None, o.egress_usd_per_gb is None,
        )  # fmt: skip
        percent = discounts.percent_for(o) if discounts.by_provider else None
        hour = hours_usd.get(o.offer_id) if percent is None else None
        if hour is None:
            hour = hour_at_least_usd(hour_usd(o, percent), whole_month_usd(o, percent))
            if percent is None:
                hours_usd[o.offer_id] = hour
        groups.setdefault(alike, []).append((hour, place, o))
    return [_rack(offers) for offers in groups.values()]


def _rack(offers: list[Placed]) -> Rack:
    offers.sort(key=itemgetter(0, 1))
    disks = sorted(o.disk_gb for _, _, o in offers if o.disk_gb is not None)
    limits = sorted(o.max_duration_hours for _, _, o in offers if o.max_duration_hours is not None)
    o = offers[0][2]
    included = None
    if o.disk_usd_per_gb_hour is None:
        included = max(one.disk_included_gb or Decimal(0) for _, _, one in offers)
    return Rack(
        offers, o.market == Market.SPOT, disks, limits, included, o.egress_usd_per_gb is not None
    )


class _Ways(NamedTuple):
    """A rack on which the job can be run, in these ways: a bill is never below an offer's price of
    an hour x ``machine_hours``. ``so_many`` of the offers have a bill: those that it ``does``."""

    all_offers: Sequence[Placed]
    ways: tuple[RuntimeEstimate, ...]
    machine_hours: Decimal
    so_many: int
    partial: bool  # each of them, for sure
    does: Callable[[StoredOffer], bool] | None  # None: all of them

    @property
    def offer(self) -> StoredOffer:
        """One of them."""
        return self.all_offers[0][2]

    def offers(self) -> Iterator[Placed]:
        """Those that have a bill."""
        does = self.does
        return iter(self.all_offers) if does is None else (
            one for one in self.all_offers if does(one[2])
        )  # fmt: skip


class Racked:
    """The offers that have a bill; see ``Listed``."""

    def __init__(self, costing: Costing, racks: Sequence[_Ways]) -> None:
        self._costing = costing
        self._racks = racks

    def __len__(self) -> int:
        return sum(rack.so_many for rack in self._racks)

    def first(self, top: int, goal: Goal | None = None) -> Ranking[Priced]:
        """The *top* for *goal*, the question's own unless given."""
        costing, job = self._costing, self._costing.job
        goal = costing.goal if goal is None else goal

        def ascending(rack: _Ways) -> Iterator[tuple[tuple[bool, Any], int, StoredOffer]]:
            hours = min(done_hours(job, way) for way in rack.ways)
            for hour, place, o in rack.offers():
                usd = BOUND.multiply(hour, rack.machine_hours)
                least = usd if goal is Goal.CHEAPEST else measure(goal, usd, hours)
                yield (rack.partial, least), place, o

        merged = merge(*map(ascending, self._racks))
        return cheapest_of_ascending(
            ((bound, o) for bound, _, o in merged),
            costed=lambda o: costing.costed(o, goal), top=top, key=key_of(goal, job),
        )  # fmt: skip

    def unbeaten(self) -> tuple[Ranked[Priced], ...]:
        """The ways that no other beats in both cost and hours, cheapest first."""
        job = self._costing.job
        ways = (
            Way(done_hours(job, way), _machine_hours(rack.offer, job, (way,)), way, rack.offers())
            for rack in self._racks
            if not rack.partial
            for way in rack.ways
        )
        return unbeaten(ways, self._costing.on)

    def by_family(self) -> list[Racked]:
        """Those of each family of GPUs."""
        found: dict[str, list[_Ways]] = {}
        for rack in self._racks:
            found.setdefault(rack.offer.gpu_family, []).append(rack)
        return [Racked(self._costing, racks) for racks in found.values()]

    def of(self, gpu_keys: Collection[str]) -> Racked:
        """Those of some GPUs."""
        racks = [rack for rack in self._racks if rack.offer.gpu_key in gpu_keys]
        return Racked(self._costing, racks)

    def on_demand(self) -> dict[tuple[str, Decimal], Decimal]:
        """The least price of an hour on demand, by GPU and how many a machine has."""
        found: dict[tuple[str, Decimal], Decimal] = {}
        for rack in self._racks:
            o = rack.offer
            if o.market == Market.ON_DEMAND:
                machine, usd = (o.gpu_key, o.gpu_count), next(rack.offers())[0]
                found[machine] = min(found.get(machine, usd), usd)
        return found


class Listed:
    """The offers that have a bill, one by one. Both this and ``Racked`` are what a report asks."""

    def __init__(self, costing: Costing, bounded: Sequence[Bounded]) -> None:
        self._costing = costing
        self._bounded = bounded

    def __len__(self) -> int:
        return len(self._bounded)

    def first(self, top: int, goal: Goal | None = None) -> Ranking[Priced]:
        """See ``Racked``."""
        return self._costing.first(self._bounded, top, goal)

    def all(self) -> Ranking[Priced]:
        """All of them, by exact bills."""
        return self._costing.all(self._bounded)

    def unbeaten(self) -> tuple[Ranked[Priced], ...]:
        """See ``Racked``."""
        return self._costing.unbeaten(self._bounded)

    def by_family(self) -> list[Listed]:
        """See ``Racked``."""
        found: dict[str, list[Bounded]] = {}
        for one in self._bounded:
            found.setdefault(one.offer.gpu_family, []).append(one)
        return [Listed(self._costing, of_family) for of_family in found.values()]

    def of(self, gpu_keys: Collection[str]) -> Listed:
        """See ``Racked``."""
        of_keys = [one for one in self._bounded if one.offer.gpu_key in gpu_keys]
        return Listed(self._costing, of_keys)

    def on_demand(self) -> dict[tuple[str, Decimal], Decimal]:
        """See ``Racked``."""
        found: dict[tuple[str, Decimal], Decimal] = {}
        for _, o, usd in self._bounded:
            if o.market == Market.ON_DEMAND:
                machine = (o.gpu_key, o.gpu_count)
                found[machine] = min(found.get(machine, usd), usd)
        return found


def racked(costing: Costing, racks: Sequence[Rack], excluded: Counter[str]) -> Racked:
    """What of *racks* has a bill; the others are counted in *excluded*, as ``bounded`` does."""
    job = costing.job
    found: list[_Ways] = []
    for rack in racks:
        for part in _told_apart(rack, job):
            o = part.offers[0][2]
            known = costing.ways_on(o)
            if isinstance(known, NoEstimate):
                excluded[known.short] += len(part.offers)
                continue
            if problem := no_way(o._replace(max_duration_hours=None, disk_gb=None), job, known):
                excluded[problem] += len(part.offers)
                continue
            does, count = _doing(part, job, known, excluded)
            if count:
                least = _machine_hours(o, job, known)
                found.append(_Ways(part.offers, known, least, count, rack.partial(job), does))
    return Racked(costing, found)


def _doing(
    rack: Rack, job: Job, ways: Sequence[RuntimeEstimate], excluded: Counter[str]
) -> tuple[Callable[[StoredOffer], bool] | None, int]:
    """Which offers of a rack, and how many, are there for long enough and have the disk."""
    count = len(rack.offers)
    longest = max(setup_hours(job, way) + way.hours for way in ways)
    if bisect_left(rack.limits_hours, longest):
        kept = set()
        for _, _, o in rack.offers:
            problem = no_way(o, job, ways)
            if problem is None:
                kept.add(o.offer_id)
            else:
                excluded[problem] += 1
        return lambda o: o.offer_id in kept, len(kept)
    small = bisect_left(rack.disks_gb, job.disk_gb) if job.disk_gb else 0
    if not small:
        return None, count
    excluded[TOO_LITTLE_DISK] += small
    need = job.disk_gb
    return lambda o: o.disk_gb is None or o.disk_gb >= need, count - small


def _machine_hours(o: StoredOffer, job: Job, ways: Sequence[RuntimeEstimate]) -> Decimal:
    return min(least_machine_hours(counted(o), o.commitment_hours, job, way) for way in ways)


def _told_apart(rack: Rack, job: Job) -> Iterator[Rack]:
    """Of a rack the offers on which the job takes the same hours, together."""
    if job.download is None and not (job.spot is not None and rack.is_spot):
        yield rack
        return
    groups: dict[tuple[object, ...], list[Placed]] = {}
    for one in rack.offers:
        groups.setdefault(apart(one[2], job), []).append(one)
    yield from map(_rack, groups.values())


# --- kept for the questions to come --------------------------------------------------------------


class _Selected(NamedTuple):
    """What was selected at ``at``, which stays the same ``until`` then for the same of the rest."""

    excluded: Counter[str]
    filters: Filters
    shelves: frozenset[Shelf]
    discounts: DiscountBook
    racks: list[Rack]
    at: datetime
    until: datetime


class KnownWays:
    """The estimates of the last jobs that were asked about; may be asked by several threads."""

    def __init__(self) -> None:
        self._kept: list[tuple[Job, Known]] = []

    def of(self, job: Job) -> Known:
        """What is known of *job*, to be added to: none of it depends on its disk and its egress."""
        alike = replace(job, disk_gb=Decimal(0), egress_gb=Decimal(0), download=None)
        for one, known in self._kept:
            if one == alike:
                return known
        known = {}
        self._kept = [(alike, known), *self._kept[: MOST_JOBS - 1]]
        return known


class Prepared:
    """What one set of filters leaves of one state of the market; may be asked by several threads.

    *offers* are those of ``report.asked.Asked``, which never change; *hours_usd* is that of
    ``racks_of``, one for all selections of these offers.
    """

    def __init__(
        self, offers: list[StoredOffer], left_out: Counter[str], hours_usd: dict[int, Decimal],
        known: KnownWays,
    ) -> None:  # fmt: skip
        self.offers, self.left_out, self._hours_usd = offers, left_out, hours_usd
        self.known = known
        self.giving_way = frozenset(o.provider for o in offers if gives_way(o))
        self._selected: _Selected | None = None
        self._selecting = threading.Lock()

    def __len__(self) -> int:
        return len(self.offers)

    def bounds(
        self, costing: Costing, filters: Filters, now: datetime, total: int,
        shelves: frozenset[Shelf], discounts: DiscountBook,
    ) -> tuple[Racked, Counter[str]]:  # fmt: skip
        """What has a bill, and the reasons of the others."""
        alike = filters._replace(gpus=())  # which GPUs they are of stands in the offers
        with self._selecting:
            found = self._selected
            if (
                found is None
                or found[1:4] != (alike, shelves, discounts)
                or not (found.at <= now < found.until)
            ):
                found = self._selected = self._select(
                    costing, filters, now, total, shelves, discounts
                )
        excluded = Counter(found.excluded)
        return racked(costing, found.racks, excluded), excluded

    def _select(
        self, costing: Costing, filters: Filters, now: datetime, total: int,
        shelves: frozenset[Shelf], discounts: DiscountBook,
    ) -> _Selected:  # fmt: skip
        selection = select(
            self.offers, filters, costing.catalogue, now,
            total_offers=total, left_out=self.left_out, shelves=shelves,
        )  # fmt: skip
        racks = racks_of(selection.kept, discounts, self._hours_usd)
        until = now if filters.max_age is not None else _changes_at(self.offers, now)
        alike = filters._replace(gpus=())
        return _Selected(selection.excluded, alike, shelves, discounts, racks, now, until)


def _changes_at(offers: Sequence[StoredOffer], now: datetime) -> datetime:
    """When the next offer becomes stale: a selection stays the same until then."""
    never = datetime.max.replace(tzinfo=now.tzinfo)
    return min((o.stale_at for o in offers if o.stale_at > now), default=never)


def suits(job: Job) -> bool:
    """Whether racks can answer for *job*: a budget must look at every offer's bill."""
    return job.limits is None or job.limits.budget_usd is None
