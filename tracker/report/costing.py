"""What a question's bills rest on: an offer's ways to run a job, and the cheapest of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from tracker.domain.cost import (
    Bill,
    Unpriceable,
    bill,
    hour_at_least_usd,
    least_machine_hours,
    setup_hours,
)
from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate, runtime_for
from tracker.domain.pareto import Goal
from tracker.domain.rank import Candidate, Ranked, Ranking, cheapest_of, rank
from tracker.domain.terms import OWN, Market
from tracker.report.discounts import DiscountBook
from tracker.report.filters import Selection
from tracker.report.goals import BOUND, Measure, Way, done_hours, key_of, measure, unbeaten
from tracker.report.priced import Priced, candidate_of, counted, hour_usd, whole_month_usd
from tracker.store.reads import TERM_MARKETS, StoredOffer

LATE = "over the job's deadline"
TOO_LITTLE_DISK = "with too little disk"
OWNED_TOO_FEW = "of your own, with too few GPUs"

_LAST = 2**62

End: TypeAlias = Literal["low", "high"]
# The ways to run a job by what of an offer decides them.
Known: TypeAlias = dict[tuple[object, ...], tuple[RuntimeEstimate, ...] | NoEstimate]


class Bounded(NamedTuple):
    """An offer that has a bill, never below ``usd``; a machine-hour is never below ``hour_usd``."""

    usd: Decimal
    offer: StoredOffer
    hour_usd: Decimal


class Costing:
    """What one question's bills rest on. Most offers need no bill, only a bound of it."""

    def __init__(
        self, job: Job, catalogue: Catalogue, discounts: DiscountBook, end: End | None = None,
        goal: Goal = Goal.CHEAPEST, known: Known | None = None,
    ) -> None:  # fmt: skip
        """*known* may hold what was worked out for the same job before; it is added to."""
        self.job = job
        self.goal = goal
        self.catalogue = catalogue
        self._discounts = discounts
        self._end = end
        self._ways: Known = {} if known is None or end is not None else known

    def bounded(self, selection: Selection) -> list[Bounded]:
        """The offers that have a bill, each with an amount in USD that it is never below.

        The others are counted, here and not one by one as their bills are worked out, so that
        the counts do not depend on how many rows are asked for.
        """
        found: list[Bounded] = []
        least_hours: dict[tuple[object, ...], Decimal] = {}
        budget = self.job.limits.budget_usd if self.job.limits is not None else None
        for o in selection.kept:
            ways = self.ways_on(o)
            if isinstance(ways, NoEstimate):
                selection.excluded[ways.short] += 1
            elif problem := no_way(o, self.job, ways):
                selection.excluded[problem] += 1
            else:
                # Of several counts, interruptions and a slow download may leave fewer.
                alike = (o.gpu_key, o.gpu_count, o.commitment_hours, *apart(o, self.job))
                hours = least_hours.get(alike)
                if hours is None:
                    hours = least_hours[alike] = min(
                        least_machine_hours(counted(o), o.commitment_hours, self.job, way)
                        for way in ways
                    )
                percent = self._discounts.percent_for(o)
                hour = hour_at_least_usd(hour_usd(o, percent), whole_month_usd(o, percent))
                usd = BOUND.multiply(hour, hours)
                if budget is not None and self._over(o, usd, budget):
                    selection.excluded["over the job's budget"] += 1
                else:
                    found.append(Bounded(usd, o, hour))
        return found

    def _over(self, o: StoredOffer, bound: Decimal, budget: Decimal) -> bool:
        if bound > budget:
            return True
        exact = self.costed(o, Goal.CHEAPEST)[1]
        return isinstance(exact, Bill) and exact.at_least_usd > budget

    def first(
        self, bounded: Iterable[Bounded], top: int, goal: Goal | None = None
    ) -> Ranking[Priced]:
        """The *top* of them for *goal* (the question's own unless given), by exact bills."""
        goal = self.goal if goal is None else goal
        bounds: Iterable[tuple[Any, StoredOffer]] = (
            ((usd, o) for usd, o, _ in bounded)
            if goal is Goal.CHEAPEST
            else ((self._bound(one, goal), one.offer) for one in bounded)
        )

        def costed(o: StoredOffer) -> tuple[Candidate[Priced], Bill | Unpriceable]:
            return self.costed(o, goal)

        return cheapest_of(bounds, costed=costed, top=top, key=key_of(goal, self.job))

    def all(self, bounded: Iterable[Bounded]) -> Ranking[Priced]:
        """All of them, by exact bills."""
        candidates = (self._candidate(one.offer) for one in bounded)
        return rank(candidates, self.job, key_of(self.goal, self.job))

    def unbeaten(self, bounded: Iterable[Bounded]) -> tuple[Ranked[Priced], ...]:
        """The ways that no other beats in both cost and hours, cheapest first."""
        return unbeaten(self._each_way(bounded), self.on)

    def _each_way(self, bounded: Iterable[Bounded]) -> Iterable[Way]:
        groups: dict[tuple[object, ...], list[tuple[Decimal, int, StoredOffer]]] = {}
        for _, o, hour in bounded:
            alike = (o.gpu_key, o.gpu_count, o.commitment_hours, *apart(o, self.job))
            groups.setdefault(alike, []).append((hour, place_of(o), o))
        for offers in groups.values():
            offers.sort(key=itemgetter(0, 1))
            o = offers[0][2]  # what the ways rest on is the same of all of them
            for way in self._known_ways(o):
                least = least_machine_hours(counted(o), o.commitment_hours, self.job, way)
                yield Way(done_hours(self.job, way), least, way, offers)

    def _bound(self, one: Bounded, goal: Goal) -> Measure:
        hours = min(done_hours(self.job, way) for way in self._known_ways(one.offer))
        return measure(goal, one.usd, hours)

    def _candidate(self, o: StoredOffer) -> Candidate[Priced]:
        ways = self._known_ways(o)
        if len(ways) == 1:
            return candidate_of(o, ways[0], self._discounts)
        return self.costed(o, self.goal)[0]

    def on(
        self, o: StoredOffer, way: RuntimeEstimate
    ) -> tuple[Candidate[Priced], Bill | Unpriceable]:
        """The bill of *o*, run in this way."""
        one = candidate_of(o, way, self._discounts)
        if problem := _unbillable(o, self.job, way):
            return one, Unpriceable(problem)
        found = bill(one.inputs, self.job, way)
        over = isinstance(found, Bill) and not _within_budget(found, self.job)
        return one, Unpriceable("over the job's budget") if over else found

    def costed(self, o: StoredOffer, goal: Goal) -> tuple[Candidate[Priced], Bill | Unpriceable]:
        """The bill of *o* in its best way for *goal*."""
        return best_way(o, self._known_ways(o), self.job, self._discounts, goal)

    def _known_ways(self, o: StoredOffer) -> tuple[RuntimeEstimate, ...]:
        ways = self.ways_on(o)
        assert not isinstance(ways, NoEstimate)  # noqa: S101 - bounded() left out the others
        return ways

    def ways_on(self, o: StoredOffer) -> tuple[RuntimeEstimate, ...] | NoEstimate:
        """The ways to run the job on *o*."""
        count = max(1, int(o.gpu_count))
        # How many GPUs a machine has matters to estimates only.
        alike: tuple[object, ...] = (o.gpu_key, count if self.job.task is not None else 1)
        if o.is_slice:
            alike = (o.gpu_key, o.gpu_count, o.native_id)
        known = self._ways.get(alike)
        if known is None:
            known = _known_on(self.job, o, self.catalogue)
            if self._end is not None and not isinstance(known, NoEstimate):
                known = tuple(_at_end(way, self._end) for way in known)
            self._ways[alike] = known
        return _on_offer(known, o, self.job)


def _known_on(
    job: Job, o: StoredOffer, catalogue: Catalogue
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """``ways_on`` the machines of *o*, or on the slice of a GPU that it is."""
    if not o.is_slice or job.task is None:
        return ways_on(job, o.gpu_key, max(1, int(o.gpu_count)), catalogue)
    from tracker.domain import slices

    share = slices.share_of(o.native_id, o.gpu_count)
    found = slices.runtime_on(job, o.gpu_key, share, catalogue)
    if isinstance(found, NoEstimate):
        return found
    deadline = job.limits.deadline_hours if job.limits is not None else None
    late = deadline is not None and job.setup_hours + found.hours > deadline
    return NoEstimate(f"takes {found.hours} h on {o.gpu_key}", LATE) if late else (found,)


def _at_end(way: RuntimeEstimate, end: End) -> RuntimeEstimate:
    return (way.at_low() if end == "low" else way.at_high()) or way


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
        return NoEstimate(f"takes {estimate.hours} h on {gpu_key}", LATE)
    return (estimate,)


def _on_offer(
    ways: tuple[RuntimeEstimate, ...] | NoEstimate, o: StoredOffer, job: Job
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """*ways* with the set-up and the interruptions to expect on *o*; of a machine that one owns,
    those that it has the GPUs for."""
    if job.download is not None and not isinstance(ways, NoEstimate):
        ways = _set_up(ways, o, job)
    if o.source == OWN and not isinstance(ways, NoEstimate):
        return _with_so_many(ways, o, job)
    if job.spot is None or o.market != Market.SPOT or isinstance(ways, NoEstimate):
        return ways
    from tracker.report.spot import interrupted

    return interrupted(ways, o, job)


def _set_up(
    ways: Sequence[RuntimeEstimate], o: StoredOffer, job: Job
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """*ways* with what it takes to download what the job needs, less those that are then late."""
    from tracker.domain.job_download import set_up

    if job.download is None:
        return tuple(ways)
    setup = set_up(job.download, job.setup_hours, o.network_down_mbps)
    deadline = job.limits.deadline_hours if job.limits is not None else None
    longest = None if deadline is None else deadline - (setup.hours or 0)
    kept = tuple(
        replace(way, setup=setup) for way in ways if longest is None or way.hours <= longest
    )
    return kept or NoEstimate(f"is set up in {setup.hours} h on {o.gpu_key}", LATE)


def _with_so_many(
    ways: tuple[RuntimeEstimate, ...], o: StoredOffer, job: Job
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    have = o.gpu_count * (o.stock_count or 1)
    kept = tuple(way for way in ways if max(way.gpus, job.gpus_needed) <= have)
    return kept or NoEstimate(f"you own {have} x {o.gpu_key}, too few", OWNED_TOO_FEW)


def place_of(o: StoredOffer) -> int:
    """What decides between offers of equal cost and equal hours: the older one comes first, what
    one owns last. Not the order in which a table told them, which any change may turn."""
    return _LAST if o.source == OWN else o.offer_id


def apart(o: StoredOffer, job: Job) -> tuple[object, ...]:
    """What of an offer, beside its GPUs and its term, decides the hours on it."""
    down = o.network_down_mbps if job.download is not None else None
    return (o.native_id if o.is_slice else None, down, *_interruptions(o, job))


def _interruptions(o: StoredOffer, job: Job) -> tuple[object, ...]:
    if o.source == OWN:
        return OWN, o.stock_count
    if job.spot is None or o.market != Market.SPOT:
        return ()
    # Of the reliability no more than a thousandth counts: see domain/job_spot.py.
    return o.interruption_percent_max, o.reliability and int(o.reliability * 1000)


def best_way(
    o: StoredOffer, ways: Sequence[RuntimeEstimate], job: Job, discounts: DiscountBook,
    goal: Goal = Goal.CHEAPEST,
) -> tuple[Candidate[Priced], Bill | Unpriceable]:  # fmt: skip
    """The best of several ways to run *job* on *o*; of equal ones that with fewer machines, then
    the faster one."""
    found = []
    for way in ways:
        one = candidate_of(o, way, discounts)
        found.append((one, bill(one.inputs, job, way)))
    if len(found) == 1:
        return found[0]
    billed = [(one, cost) for one, cost in found if isinstance(cost, Bill)]
    if not billed:
        return found[0]
    # Of several counts the faster ones may be over the budget.
    billed = [f for f in billed if _within_budget(f[1], job)] or billed

    def order(f: tuple[Candidate[Priced], Bill]) -> tuple[Any, ...]:
        one, cost = f
        of_goal = measure(goal, cost.at_least_usd, done_hours(job, one.estimate))
        return bool(cost.partial), of_goal, cost.machines, cost.runtime_hours

    return min(billed, key=order)


def _within_budget(cost: Bill, job: Job) -> bool:
    budget = job.limits.budget_usd if job.limits is not None else None
    return budget is None or cost.at_least_usd <= budget


def no_way(o: StoredOffer, job: Job, ways: Sequence[RuntimeEstimate]) -> str | None:
    """Why none of *ways* can be billed on *o*; None where one can."""
    problem = None
    for way in ways:
        problem = _unbillable(o, job, way)
        if problem is None:
            return None
    return problem


def _unbillable(o: StoredOffer, job: Job, estimate: RuntimeEstimate) -> str | None:
    """Why the job cannot be run, or its bill not be known, on *o*."""
    if o.gpu_count < 1 and not (o.is_slice and job.task is not None):
        return "sold as a slice of a GPU"
    if o.commitment_unknown or (o.market in TERM_MARKETS and o.commitment_hours is None):
        return "sold for a term that is not stated"
    used = setup_hours(job, estimate) + estimate.hours
    if o.max_duration_hours is not None and o.max_duration_hours < used:
        return "offered for less time than the job takes"
    if job.disk_gb and o.disk_gb is not None and o.disk_gb < job.disk_gb:
        return TOO_LITTLE_DISK
    return None


def known_ways(
    job: Job, offer: StoredOffer, catalogue: Catalogue
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """The estimates of *job* on machines such as *offer*, whatever they cost."""
    return _known_on(job, offer, catalogue)


def billable_ways(
    offer: StoredOffer, job: Job, known: tuple[RuntimeEstimate, ...] | NoEstimate
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """Those of the estimates *known* that can be billed on *offer*, with what to expect there."""
    ways = _on_offer(known, offer, job)
    if isinstance(ways, NoEstimate):
        return ways
    kept = tuple(way for way in ways if _unbillable(offer, job, way) is None)
    problem = no_way(offer, job, ways) if not kept else None
    return NoEstimate(problem, problem) if problem else kept


def bill_now(
    offer: StoredOffer, job: Job, catalogue: Catalogue, discounts: DiscountBook
) -> Bill | None:
    """The bill of *job* on one offer whatever the filters say; None when it has none."""
    ways = _on_offer(_known_on(job, offer, catalogue), offer, job)
    if isinstance(ways, NoEstimate) or no_way(offer, job, ways):
        return None
    found = best_way(offer, ways, job, discounts)[1]
    return found if isinstance(found, Bill) else None
