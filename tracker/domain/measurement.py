"""What somebody measured of a job: hours on a GPU and count, carried into the job's own hours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from decimal import Decimal, localcontext
from types import MappingProxyType
from typing import NamedTuple

from tracker.domain.job import MAX_HOURS, Basis, Job, RuntimeHours

# Shares of a whole that a measurement may tell beside its hours, in percent.
UTILISATIONS = ("gpu_percent", "vram_percent", "bandwidth_percent", "communication_percent")

# What the hours of a job that come from a measurement name as their source.
SOURCE = "gpucost jobs measure"

_UNITS = ("tokens", "requests", "samples")


class Measurement(NamedTuple):
    """Hours that a job took on ``gpus`` of ``gpu``.

    They are for ``amount`` of ``unit``, where the job counts something. ``subject`` is what was run
    (``subject_of``), ``version`` counts the measurements of the job on that GPU and count.
    """

    job: str
    subject: str
    gpu: str
    gpus: int
    version: int
    hours: Decimal
    measured_at: datetime
    unit: str | None = None
    amount: Decimal | None = None
    utilisation: Mapping[str, Decimal] = MappingProxyType({})
    note: str | None = None


def per_second(one: Measurement) -> Decimal | None:
    """What was done of its unit a second, to six digits; None: nothing was counted."""
    if one.amount is None:
        return None
    return Decimal(f"{float(one.amount / one.hours) / 3600:.6g}")


def subject_of(job: Job) -> str:
    """What of a job must stay for its measurements to hold: kind, model or group, method."""
    if job.task is None:
        return "hours"
    workload = job.task.workload
    model = getattr(workload, "model", None)
    parts = (
        getattr(model, "name", None), getattr(workload, "group", None),
        getattr(workload, "method", None),
    )  # fmt: skip
    return "/".join((job.task.kind, *(str(part) for part in parts if part is not None)))


def unit_of(job: Job) -> tuple[str | None, Decimal | None]:
    """What the job counts, and how much of it there is."""
    units = job.task.units if job.task is not None else {}
    unit = next((unit for unit in _UNITS if unit in units), None)
    if job.task is not None and job.task.kind == "inference":
        unit = "requests"
    return unit, units.get(unit) if unit is not None else None


def with_measurements(job: Job, measurements: Iterable[Measurement]) -> Job:
    """*job* with the newest measurement of each GPU as its hours there, and where it says what it
    computes with the newest at every other count beside it.

    *measurements* are those of this job's name, oldest first. One of another subject, or for fewer
    GPUs than the job needs, is left out. A job that has grown since takes longer in proportion.
    """
    subject = subject_of(job)
    newest: dict[tuple[str, int], RuntimeHours] = {}
    for one in measurements:
        if one.subject != subject or (job.task is None and one.gpus < job.gpus_needed):
            continue
        taken = _hours_now(one, job)
        if taken is not None:
            newest.pop((one.gpu, one.gpus), None)  # the last one in it is the newest of its GPU
            newest[one.gpu, one.gpus] = RuntimeHours(
                taken, one.gpus, Basis.MEASURED, note=_note(one), source=SOURCE
            )
    hours = {**job.hours, **{gpu: made for (gpu, _), made in newest.items()}}
    also = ((gpu, made) for (gpu, _), made in newest.items() if hours[gpu] is not made)
    return replace(
        job,
        hours=MappingProxyType(hours),
        also_measured=tuple(also) if job.task is not None else (),
    )


def _hours_now(one: Measurement, job: Job) -> Decimal | None:
    unit, amount = unit_of(job)
    if one.unit is None or one.amount is None or unit != one.unit or amount is None:
        return one.hours
    with localcontext() as context:
        context.prec = 28
        hours = round(one.hours * amount / one.amount, 9)
    return hours if 0 < hours <= MAX_HOURS else None


def _note(one: Measurement) -> str:
    text = f"measured on {one.measured_at:%Y-%m-%d}, version {one.version}"
    said = [f"{name.removesuffix('_percent')} {value} %" for name, value in one.utilisation.items()]
    return "; ".join(filter(None, (text, ", ".join(said), one.note)))
