"""Interruptions of spot offers in the hours of a job that says how it gets over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tracker.domain.cost import machines_of, setup_hours
from tracker.domain.job import Job, NoEstimate, RuntimeEstimate
from tracker.domain.terms import Market
from tracker.report.priced import counted
from tracker.store.reads import StoredOffer

REFUSED = "on spot, where the job would hardly finish"
LATE = "over the job's deadline"


def interrupted(
    ways: Sequence[RuntimeEstimate], o: StoredOffer, job: Job
) -> tuple[RuntimeEstimate, ...] | NoEstimate:
    """*ways* with what is to be expected of interruptions on *o*, less those that would hardly
    finish or would be late; as they are where the rate is not known."""
    found: list[RuntimeEstimate] = []
    why = NoEstimate("no way was given", REFUSED)
    for way in ways:
        one = interrupted_way(way, o, job)
        if isinstance(one, NoEstimate):
            why = one
        else:
            found.append(one)
    return tuple(found) or why


def interrupted_way(
    way: RuntimeEstimate, o: StoredOffer, job: Job
) -> RuntimeEstimate | NoEstimate:  # fmt: skip
    """One way of them."""
    if job.spot is None or o.market != Market.SPOT or counted(o) < 1:
        return way
    from tracker.domain import job_spot
    from tracker.domain.spot import Refused

    rate = job_spot.rate_on(job.spot, o.interruption_percent_max, o.reliability)
    if rate is None:
        return replace(way, interrupted=None)
    machines = machines_of(counted(o), job, way)
    found = job_spot.expected(job.spot, way.hours, setup_hours(job, way), machines, rate)
    if isinstance(found, Refused):
        return NoEstimate(found.reason, REFUSED)
    deadline = job.limits.deadline_hours if job.limits is not None else None
    if deadline is not None and found.wall_hours > deadline:
        return NoEstimate(f"is expected to take {found.wall_hours} h on spot", LATE)
    return replace(way, interrupted=found)
