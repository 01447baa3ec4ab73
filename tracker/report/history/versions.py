"""Which estimate of a job a past moment is priced with: the one that was known then.

An estimate changes when the calibration does, when somebody measures, or when the hours of a job
file are edited. What was on screen then would otherwise be another number now. A job is known by
its name; hours that are typed for one question have none, and no versions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from hashlib import blake2b
from typing import Any, NamedTuple, TypeAlias

from tracker.domain.gpu import Catalogue
from tracker.domain.job import Basis, Job, NoEstimate, RuntimeEstimate
from tracker.report.costing import known_ways
from tracker.report.history.provenance import NOTICED, provenance
from tracker.store.job_estimates import RecordedEstimate
from tracker.store.reads import StoredOffer

Known: TypeAlias = tuple[RuntimeEstimate, ...] | NoEstimate

NONE_THEN = NoEstimate("the job had no estimate then", "with no estimate for the GPU")


def digest_of(job: Job) -> bytes:
    """What estimates of *job* are filed under."""
    return blake2b(job.name.encode(), digest_size=16).digest()


def machine_gpus(job: Job, offer: StoredOffer) -> int:
    """How many GPUs of a machine matter to the estimate: 1 where the hours are given."""
    return max(1, int(offer.gpu_count)) if job.task is not None else 1


def plain_ways(known: Known) -> list[dict[str, Any]]:
    """*known* as values for the store: what a bill and a reader need of each way."""
    if isinstance(known, NoEstimate):
        return []
    return [
        {
            "hours": str(way.hours), "basis": str(way.basis), "gpus": way.gpus,
            "lower_bound": way.lower_bound, "note": way.note, "source": way.source,
            "low_hours": None if way.low_hours is None else str(way.low_hours),
            "high_hours": None if way.high_hours is None else str(way.high_hours),
            "version": way.version,
            **({} if way.low_gpus is None else
               {"low_gpus": way.low_gpus, "high_gpus": way.high_gpus}),
        }
        for way in known
    ]  # fmt: skip


def ways_from(values: Iterable[Mapping[str, Any]]) -> Known:
    """The other way round."""
    ways = tuple(
        RuntimeEstimate(**{
            **value, "hours": Decimal(value["hours"]), "basis": Basis(value["basis"]),
            "low_hours": None if value["low_hours"] is None else Decimal(value["low_hours"]),
            "high_hours": None if value["high_hours"] is None else Decimal(value["high_hours"]),
        })
        for value in values
    )  # fmt: skip
    return ways or NONE_THEN


class Versions(NamedTuple):
    """Estimates by GPU and size of machine, each with the moment from which it holds. In order."""

    of: Mapping[tuple[str, int], tuple[tuple[datetime, Known], ...]] = {}

    @classmethod
    def read(cls, recorded: Iterable[RecordedEstimate]) -> Versions:
        """From what is on record, oldest first."""
        found: dict[tuple[str, int], list[tuple[datetime, Known]]] = {}
        for one in recorded:
            entry = one.recorded_at, ways_from(one.ways)
            found.setdefault((one.gpu_key, one.machine_gpus), []).append(entry)
        return cls({key: tuple(entries) for key, entries in found.items()})

    def changes(self, start: datetime, end: datetime) -> list[datetime]:
        """The moments within the window at which an estimate became another one."""
        moments = {
            at for entries in self.of.values() for at, _ in entries[1:] if start < at < end
        }  # fmt: skip
        return sorted(moments)

    def at(self, gpu_key: str, gpus: int, moment: datetime) -> Known | None:
        """What was known at *moment*; before the first record the oldest one. None: no record."""
        entries = self.of.get((gpu_key, gpus))
        if not entries:
            return None
        held = [known for at, known in entries if at <= moment]
        return held[-1] if held else entries[0][1]

    @property
    def first(self) -> datetime | None:
        """When the first estimate was put on record."""
        return min((entries[0][0] for entries in self.of.values()), default=None)


def estimates_now(
    job: Job, offers: Iterable[StoredOffer], catalogue: Catalogue, now: datetime
) -> list[RecordedEstimate]:
    """The estimates of *job* on the machines of *offers*, to be put on record.

    Slices are left out: what part of a GPU one is depends on the offer.
    """
    found = {}
    for offer in offers:
        key = offer.gpu_key, machine_gpus(job, offer)
        if key not in found and not offer.is_slice and offer.gpu_count >= 1:
            ways = plain_ways(known_ways(job, offer, catalogue))
            made = provenance(job, offer.gpu_key, catalogue, NOTICED)
            found[key] = RecordedEstimate(*key, ways, "", now, made)
    return list(found.values())
