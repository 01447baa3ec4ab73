"""Offers in racks of those alike: a job looks at racks, and at few offers of each.

Those of a rack differ by their price alone as far as bounds of bills go. The answers are those of
``Listed``, which looks at every offer: a test holds one against the other.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from decimal import Decimal
from heapq import heapify, heappop, heapreplace
from typing import Any, NamedTuple

from tracker.domain.cost import Bill, bill
from tracker.domain.exact import EXACT
from tracker.domain.job import Job
from tracker.domain.pareto import Goal
from tracker.domain.rank import Ranked, Ranking
from tracker.domain.terms import Market
from tracker.report.costing import TOO_LITTLE_DISK, Costing, apart, no_way
from tracker.report.discounts import DiscountBook
from tracker.report.goals import BOUND, Measure, measure
from tracker.report.priced import Priced, candidate_of
from tracker.report.runs import KindKey, Run, Runs, runs_on, standing_on
from tracker.store.reads import StoredOffer

# The price of a machine for an hour that no bill is below, the offer's place among all, the offer.
Placed = tuple[Decimal, int, StoredOffer]


class Rack:
    """Offers alike in what hours depend on, by price.

    ``first`` is the least of their places; ``is_spot``: they may be interrupted. Never changed.
    """

    __slots__ = ("_disks_gb", "_least_disk", "_least_egress", "_most_included_gb", "first",
                 "is_spot", "key", "limits_hours", "offers")  # fmt: skip

    def __init__(self, key: KindKey, offers: Iterable[Placed]) -> None:
        """*offers* of one kind, one or more, in any order."""
        self.key, self.offers = key, sorted(offers)
        o = self.offers[0][2]
        self.first = min(place for _, place, _ in self.offers)
        self.is_spot = o.market == Market.SPOT
        # The least prices of a GB-hour of disk and of a GB that leaves, None: not known of any.
        self._least_disk = _least(one.disk_usd_per_gb_hour for _, _, one in self.offers)
        self._least_egress = _least(one.egress_usd_per_gb for _, _, one in self.offers)
        limits = (one.max_duration_hours for _, _, one in self.offers)
        self.limits_hours = sorted(limit for limit in limits if limit is not None)
        self._disks_gb: Sequence[Decimal] | None = None
        self._most_included_gb = max(one.disk_included_gb or _NONE for _, _, one in self.offers)

    def partial(self, job: Job) -> bool:
        """Whether a part of every bill of *job* is not known, for sure."""
        if job.egress_gb and self._least_egress is None:
            return True
        return self._least_disk is None and job.disk_gb > self._most_included_gb

    def least_beside_usd(self, job: Job, machine_hours: Decimal) -> Decimal:
        """What disk and egress of *job* come to at least, for so many hours of machines."""
        usd = _NONE
        if self._least_disk and job.disk_gb > self._most_included_gb:
            missing = EXACT.subtract(job.disk_gb, self._most_included_gb)
            usd = BOUND.multiply(BOUND.multiply(machine_hours, missing), self._least_disk)
        if self._least_egress and job.egress_gb:
            usd = BOUND.add(usd, BOUND.multiply(job.egress_gb, self._least_egress))
        return usd

    def with_too_little_disk(self, job: Job) -> int:
        """How many of them say that they have less disk than *job* needs."""
        if not job.disk_gb:
            return 0
        disks = self._disks_gb
        if disks is None:
            told = (one.disk_gb for _, _, one in self.offers)
            disks = self._disks_gb = sorted(disk for disk in told if disk is not None)
        return bisect_left(disks, job.disk_gb)


_NONE = Decimal(0)


def _least(prices: Iterable[Decimal | None]) -> Decimal | None:
    """The least of *prices*, which offers of a rack have all or none."""
    return min((price for price in prices if price is not None), default=None)


def kind_of_bill(o: StoredOffer) -> KindKey:
    """What offers of a rack have in common."""
    return (
        o.gpu_key, o.gpu_count, o.commitment_hours, o.commitment_unknown, o.market,
        o.native_id if o.is_slice else None,
        o.disk_usd_per_gb_hour is None, o.egress_usd_per_gb is None,
    )  # fmt: skip


class _On(NamedTuple):
    """A rack on which the job can be run: ``so_many`` of its offers have a bill, those that it
    ``does``. ``partial``: of each of their bills a part is not known, for sure. ``beside_usd``:
    what each of them is at least beside its hours."""

    all_offers: Sequence[Placed]
    runs: Runs
    so_many: int
    partial: bool
    beside_usd: Decimal
    does: Callable[[StoredOffer], bool] | None  # None: all of them

    @property
    def offer(self) -> StoredOffer:
        """One of them."""
        return self.all_offers[0][2]

    def next(self, at: int) -> int | None:
        """Where the first one that has a bill stands, from *at* on; None: there is no more."""
        offers, does = self.all_offers, self.does
        if does is not None:
            while at < len(offers) and not does(offers[at][2]):
                at += 1
        return at if at < len(offers) else None


# How far a bill is down a ranking at least: whether it is partial, what ranks; and where the offer
# is found: its place, the number of its rack, how far down that it stands.
_Start = tuple[bool, Measure, int, int, int]


class Racked:
    """The offers that have a bill; see ``Listed``.

    Amounts are compared, and bills made of those alone that are asked for.
    """

    def __init__(
        self, costing: Costing, racks: Sequence[_On], discounts: DiscountBook,
        bills: dict[tuple[int, int], Ranked[Priced]] | None = None,
    ) -> None:  # fmt: skip
        self._costing, self._job = costing, costing.job
        self._racks = racks
        self._discounts = discounts
        # One for all parts of an answer: by offer and way.
        self._bills: dict[tuple[int, int], Ranked[Priced]] = {} if bills is None else bills

    def __len__(self) -> int:
        return sum(rack.so_many for rack in self._racks)

    def first(self, top: int, goal: Goal | None = None) -> Ranking[Priced]:
        """The *top* for *goal*, the question's own unless given."""
        goal = self._costing.goal if goal is None else goal
        heap = [
            start
            for number, rack in enumerate(self._racks)
            if (start := self._start(rack, number, 0, goal)) is not None
        ]
        heapify(heap)
        best: list[tuple[tuple[Any, ...], int, StoredOffer, Run]] = []
        looked_at = 0
        while heap:
            partial, least, _, number, at = heap[0]
            if len(best) == top and (partial, least) > best[-1][0][:2]:
                break
            rack = self._racks[number]
            after = self._start(rack, number, at + 1, goal)
            if after is None:
                heappop(heap)
            else:
                heapreplace(heap, after)
            o = rack.all_offers[at][2]
            found = self._best(rack, o, goal)
            if found is not None and (len(best) < top or found[0] < best[-1][0]):
                looked_at += 1
                insort(best, (found[0], looked_at, o, found[1]))
                del best[top:]
        return Ranking(tuple(self._ranked(o, run) for _, _, o, run in best))

    def _start(self, rack: _On, number: int, at: int, goal: Goal) -> _Start | None:
        found = rack.next(at)
        if found is None:
            return None
        hour, place, _ = rack.all_offers[found]
        usd = BOUND.add(BOUND.multiply(hour, rack.runs.machine_hours), rack.beside_usd)
        least = (usd,) if goal is Goal.CHEAPEST else measure(goal, usd, rack.runs.done_hours)
        return rack.partial, least, place, number, found

    def _best(self, rack: _On, o: StoredOffer, goal: Goal) -> tuple[tuple[Any, ...], Run] | None:
        """The best way for *goal* on *o*, behind what ranks it; see ``goals.key_of``."""
        percent = self._discounts.percent_for(o) if self._discounts.by_provider else None
        best: tuple[tuple[Any, ...], Run] | None = None
        for run in rack.runs.ways:
            amount = run.amount(o, self._job, percent)
            if amount is None:
                continue
            of_goal = measure(goal, amount.at_least_usd, run.done_hours)
            order = (amount.partial, of_goal, run.machines, run.estimate.hours)
            if best is None or order < best[0]:
                best = order, run
        if best is None:
            return None
        (partial, of_goal, _, _), run = best
        return (partial, of_goal, run.estimate.lower_bound, standing_on(o)), run

    def _ranked(self, o: StoredOffer, run: Run) -> Ranked[Priced]:
        """The bill itself."""
        known = self._bills.get((o.offer_id, id(run)))
        if known is None:
            candidate = candidate_of(o, run.estimate, self._discounts)
            found = bill(candidate.inputs, self._job, run.estimate)
            assert isinstance(found, Bill)  # noqa: S101 - what has an amount has a bill
            known = self._bills[o.offer_id, id(run)] = Ranked(candidate, found)
        return known

    def unbeaten(self) -> tuple[Ranked[Priced], ...]:
        """The ways that no other beats in both cost and hours, cheapest first."""
        by_hours: dict[Decimal, list[tuple[_On, int]]] = {}
        for rack in self._racks:
            if not rack.partial:
                for way, run in enumerate(rack.runs.ways):
                    if not run.estimate.lower_bound:
                        by_hours.setdefault(run.done_hours, []).append((rack, way))
        best: Decimal | None = None
        found: list[tuple[Decimal, StoredOffer, Run]] = []
        for hours in sorted(by_hours):
            one = self._cheapest_way(by_hours[hours], best)
            if one is not None:
                best = one[0]
                found.append(one)
        return tuple(self._ranked(o, run) for _, o, run in reversed(found))

    def _cheapest_way(
        self, ways: Iterable[tuple[_On, int]], below: Decimal | None
    ) -> tuple[Decimal, StoredOffer, Run] | None:
        """The cheapest complete bill of *ways* that comes to less than *below*; of equal ones that
        with the lower bound, then that of the first place."""
        starts: list[tuple[Decimal, int, int, int, _On]] = []
        for rack, way in ways:
            if (at := rack.next(0)) is not None:
                least = BOUND.multiply(rack.all_offers[at][0], rack.runs.ways[way].machine_hours)
                if below is None or least < below:
                    starts.append((least, rack.all_offers[at][1], way, at, rack))
        heapify(starts)
        found = None
        while starts and (below is None or starts[0][0] < below):
            _, _, way, at, rack = starts[0]
            o, run = rack.all_offers[at][2], rack.runs.ways[way]
            if (after := rack.next(at + 1)) is None:
                heappop(starts)
            else:
                hour, place, _ = rack.all_offers[after]
                least = BOUND.multiply(hour, run.machine_hours)
                heapreplace(starts, (least, place, way, after, rack))
            percent = self._discounts.percent_for(o) if self._discounts.by_provider else None
            amount = run.amount(o, self._job, percent)
            if amount is None or amount.partial:
                continue
            if below is None or amount.at_least_usd < below:
                below = amount.at_least_usd
                found = below, o, run
        return found

    def by_family(self) -> list[Racked]:
        """Those of each family of GPUs."""
        found: dict[str, list[_On]] = {}
        for rack in self._racks:
            found.setdefault(rack.offer.gpu_family, []).append(rack)
        return [self._of(racks) for racks in found.values()]

    def of(self, gpu_keys: Collection[str]) -> Racked:
        """Those of some GPUs."""
        return self._of([rack for rack in self._racks if rack.offer.gpu_key in gpu_keys])

    def _of(self, racks: Sequence[_On]) -> Racked:
        return Racked(self._costing, racks, self._discounts, self._bills)

    def on_demand(self) -> dict[tuple[str, Decimal], Decimal]:
        """The least price of an hour on demand, by GPU and how many a machine has."""
        found: dict[tuple[str, Decimal], Decimal] = {}
        for rack in self._racks:
            o = rack.offer
            if o.market == Market.ON_DEMAND and (at := rack.next(0)) is not None:
                machine, usd = (o.gpu_key, o.gpu_count), rack.all_offers[at][0]
                found[machine] = min(found.get(machine, usd), usd)
        return found


def racked(
    costing: Costing, racks: Sequence[Rack], discounts: DiscountBook, excluded: Counter[str],
    known: dict[KindKey, Runs],
) -> Racked:  # fmt: skip
    """What of *racks* has a bill; the others are counted in *excluded*, as ``bounded`` does.

    *known* holds what was worked out for the job before; it is added to.
    """
    job = costing.job
    known = known if job.download is None else {}
    found: list[_On] = []
    for rack in racks:
        for key, part in _told_apart(rack, job):
            runs = known.get(key)
            if runs is None:
                o = part.offers[0][2]
                runs = known[key] = runs_on(o, job, costing.ways_on(o))
            if not runs.ways:
                excluded[runs.problem] += len(part.offers)
                continue
            does, count = _doing(part, job, runs, excluded)
            if count:
                beside = rack.least_beside_usd(job, runs.machine_hours)
                found.append(_On(part.offers, runs, count, rack.partial(job), beside, does))
    return Racked(costing, found, discounts)


def _doing(
    rack: Rack, job: Job, runs: Runs, excluded: Counter[str]
) -> tuple[Callable[[StoredOffer], bool] | None, int]:
    """Which offers of a rack, and how many, are there for long enough and have the disk."""
    count = len(rack.offers)
    if rack.limits_hours and bisect_left(rack.limits_hours, runs.longest_hours):
        kept, ways = set(), [run.estimate for run in runs.ways]
        for _, _, o in rack.offers:
            problem = no_way(o, job, ways)
            if problem is None:
                kept.add(o.offer_id)
            else:
                excluded[problem] += 1
        return lambda o: o.offer_id in kept, len(kept)
    small = rack.with_too_little_disk(job)
    if not small:
        return None, count
    excluded[TOO_LITTLE_DISK] += small
    need = job.disk_gb
    return lambda o: o.disk_gb is None or o.disk_gb >= need, count - small


def _told_apart(rack: Rack, job: Job) -> Iterator[tuple[KindKey, Rack]]:
    """Of a rack the offers on which the job takes the same hours, together."""
    if job.download is None and not (job.spot is not None and rack.is_spot):
        yield rack.key, rack
        return
    groups: dict[tuple[object, ...], list[Placed]] = {}
    for one in rack.offers:
        groups.setdefault(apart(one[2], job), []).append(one)
    for key, offers in groups.items():
        yield (*rack.key, key), Rack(rack.key, offers)
