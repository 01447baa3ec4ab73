"""The ways to run a job on offers of one kind: what of their bills neither prices nor disks decide.

Worked out once for all offers of a kind, and kept from one question to the next: a job that asks
for another disk or more egress takes as long.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import NamedTuple

from tracker.domain.amount import (
    Amount,
    billed_for,
    disk_usd,
    egress_usd,
    machines_usd,
    used_hours,
)
from tracker.domain.cost import CostInputs, least_machine_hours, machines_of, setup_hours
from tracker.domain.exact import EXACT
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate
from tracker.domain.money import PerMachineHour
from tracker.domain.rank import Standing, standing_of
from tracker.domain.terms import Market, Terms
from tracker.report.costing import Known, no_way
from tracker.report.goals import done_hours
from tracker.report.priced import counted, hour_usd, whole_month_usd
from tracker.store.reads import StoredOffer

_NO_PRICE = PerMachineHour(Decimal(0))  # hours do not depend on it
MOST_JOBS = 32  # of which estimates are kept
MOST_KINDS = 4_000  # of one job, about 1 kB each: interruptions make many of them
# An offer's kind: what its bills have in common with those of others.
KindKey = tuple[object, ...]


class Run:
    """One way to run a job on offers of one kind.

    ``plain_hours`` are set-up and runtime of a machine, ``done_hours`` those until the job is done,
    ``machine_hours`` those that no bill is below.
    """

    __slots__ = (
        "_billed", "_inputs", "_machines", "_setup_unknown", "_used", "done_hours", "estimate",
        "machine_hours", "plain_hours",
    )  # fmt: skip

    def __init__(self, o: StoredOffer, job: Job, estimate: RuntimeEstimate) -> None:
        self.estimate = estimate
        self.done_hours = done_hours(job, estimate)
        self.plain_hours = EXACT.add(setup_hours(job, estimate), estimate.hours)
        self.machine_hours = least_machine_hours(counted(o), o.commitment_hours, job, estimate)
        self._machines = machines_of(counted(o), job, estimate)
        self._used = used_hours(job, estimate)
        self._setup_unknown = estimate.setup is not None and estimate.setup.hours is None
        # What they have in common; an offer itself would be kept for longer than it lives.
        terms = Terms(commitment_hours=o.commitment_hours)
        self._inputs = CostInputs(_NO_PRICE, counted(o), Market(o.market), terms)
        self._billed: dict[tuple[int | None, int | None, bool], Decimal] = {}

    @property
    def machines(self) -> int:
        """How many are rented."""
        return self._machines

    def amount(self, o: StoredOffer, job: Job, discount_percent: Decimal | None) -> Amount | None:
        """What the bill of *job* on *o*, run so, comes to (``cost.bill``); None: it has none.

        *job* may differ in its disk and its egress from the one that this was made for.
        """
        limit = o.max_duration_hours
        if limit is not None and limit < self.plain_hours:
            return None
        month = whole_month_usd(o, discount_percent)
        terms = (o.billing_increment_seconds, o.minimum_seconds, month is not None)
        billed = self._billed.get(terms)
        if billed is None:
            billed = self._billed[terms] = self._hours(*terms)
        usd = machines_usd(hour_usd(o, discount_percent), month, self._machines, billed)
        unknown = self._setup_unknown
        if job.disk_gb:
            disk = disk_usd(
                job.disk_gb, o.disk_included_gb, o.disk_usd_per_gb_hour, self._machines, billed
            )
            if disk is None:
                unknown = True
            elif disk:
                usd = EXACT.add(usd, disk)
        if job.egress_gb:
            egress = egress_usd(job.egress_gb, o.egress_usd_per_gb)
            if egress is None:
                unknown = True
            elif egress:
                usd = EXACT.add(usd, egress)
        return Amount(usd, unknown)

    def _hours(self, increment: int | None, minimum: int | None, by_the_month: bool) -> Decimal:
        terms = Terms(increment, minimum, self._inputs.terms.commitment_hours)
        month = Decimal(0) if by_the_month else None
        return billed_for(self._inputs._replace(terms=terms, month_usd=month), self._used)


class Runs(NamedTuple):
    """The ways to run a job on offers of a kind; without any, *problem* is why.

    ``longest_hours``: of set-up and runtime. ``machine_hours`` and ``done_hours`` are the least.
    """

    ways: tuple[Run, ...]
    problem: str
    longest_hours: Decimal = Decimal(0)
    machine_hours: Decimal = Decimal(0)
    done_hours: Decimal = Decimal(0)


def runs_on(o: StoredOffer, job: Job, known: Sequence[RuntimeEstimate] | NoEstimate) -> Runs:
    """The ways *known* to run *job* on offers such as *o*, whatever its disk and however long it is
    offered."""
    if isinstance(known, NoEstimate):
        return Runs((), known.short)
    if problem := no_way(o._replace(max_duration_hours=None, disk_gb=None), job, known):
        return Runs((), problem)
    ways = tuple(Run(o, job, way) for way in known)
    return Runs(
        ways, "", max(way.plain_hours for way in ways), min(way.machine_hours for way in ways),
        min(way.done_hours for way in ways),
    )  # fmt: skip


def standing_on(o: StoredOffer) -> Standing:
    """``Candidate.standing`` of an offer."""
    return standing_of(
        (o.market, o.availability, o.tier), o.reliability,
        (o.provider, o.region, o.native_id, o.key),
    )  # fmt: skip


class KnownJob(NamedTuple):
    """What is known of a job: how long it takes by GPU, and its ``runs`` by kind of offer."""

    ways: Known
    runs: dict[KindKey, Runs]


class KnownWays:
    """What is known of the last jobs that were asked about; may be asked by several threads."""

    def __init__(self) -> None:
        self._kept: list[tuple[Job, KnownJob]] = []

    def of(self, job: Job) -> KnownJob:
        """What is known of *job*, to be added to: none of it depends on its disk and its egress."""
        alike = replace(job, disk_gb=Decimal(0), egress_gb=Decimal(0), download=None)
        for one, known in self._kept:
            if one == alike:
                if len(known.runs) > MOST_KINDS:
                    known.runs.clear()
                return known
        known = KnownJob({}, {})
        self._kept = [(alike, known), *self._kept[: MOST_JOBS - 1]]
        return known
