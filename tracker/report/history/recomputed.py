"""The estimates on record of a job, worked out anew with what is known now.

What is on record stays as it is: a past point keeps the version that it was made with. A change is
a new version, from now on (tracker/report/history/versions.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.domain.gpu import Catalogue
from tracker.domain.job import Job
from tracker.report.costing import ways_on
from tracker.report.history.provenance import RECOMPUTED, causes, provenance
from tracker.report.history.versions import digest_of, plain_ways
from tracker.report.measured import measured
from tracker.store import job_estimates
from tracker.store.job_estimates import RecordedEstimate

if TYPE_CHECKING:
    import psycopg


class Recomputed(NamedTuple):
    """A GPU and size of machine of a job: as on record, and as of now. ``causes``: what made the
    difference, as far as it can be told."""

    job: str
    stored: RecordedEstimate
    fresh: RecordedEstimate
    causes: tuple[str, ...]

    @property
    def changed(self) -> bool:
        """Whether there is a new version to write."""
        return self.stored.ways != self.fresh.ways


class Pair(NamedTuple):
    """A way to run the job on ``gpus`` GPUs, as stored and as of now; None: there is none."""

    gpus: int
    stored: Mapping[str, Any] | None
    fresh: Mapping[str, Any] | None

    @property
    def percent(self) -> Decimal | None:
        """By how much the hours have changed; None where one side has none."""
        if self.stored is None or self.fresh is None:
            return None
        before, now = Decimal(self.stored["hours"]), Decimal(self.fresh["hours"])
        return round(100 * (now / before - 1), 2)


def recomputed(
    connection: psycopg.Connection[Any], job: Job, catalogue: Catalogue, now: datetime
) -> list[Recomputed]:
    """Every GPU and size of machine that *job* has estimates on record for; none: it has none."""
    on_record = job_estimates.newest(connection, digest_of(job))
    if not on_record:
        return []
    known = measured(connection, job)
    return [_recomputed(known, stored, catalogue, now) for stored in on_record]


def _recomputed(
    job: Job, stored: RecordedEstimate, catalogue: Catalogue, now: datetime
) -> Recomputed:
    ways = plain_ways(ways_on(job, stored.gpu_key, stored.machine_gpus, catalogue))
    made = provenance(job, stored.gpu_key, catalogue, RECOMPUTED)
    fresh = stored._replace(
        ways=ways, version=str(int(stored.version) + 1), recorded_at=now, provenance=made
    )
    if ways == stored.ways:
        return Recomputed(job.name, stored, stored, ())
    why = causes(stored.provenance, made, (stored.ways, ways))
    return Recomputed(job.name, stored, fresh._replace(provenance={**made, "causes": why}), why)


def pairs(one: Recomputed) -> Iterator[Pair]:
    """The ways that differ, by the number of GPUs."""
    stored, fresh = ({way["gpus"]: way for way in on.ways} for on in (one.stored, one.fresh))
    for gpus in sorted({*stored, *fresh}):
        before, now = stored.get(gpus), fresh.get(gpus)
        if before != now:
            yield Pair(gpus, before, now)
