"""A run of one's own, judged and written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.app.asked import BadQuestion
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import (
    Basis,
    Job,
    JobError,
    RuntimeEstimate,
    RuntimeHours,
    given_hours,
    is_slice,
)
from tracker.domain.job_fields import MAX_TEXT, hours_at, plain, read_hours
from tracker.domain.measurement import UTILISATIONS, Measurement, subject_of, unit_of

if TYPE_CHECKING:
    from tracker.app.root import App

# Hours of plain hours that are further apart than this from those given are in another unit, or
# of another job; the fastest and the slowest GPUs that one has are some ten times apart.
_TOO_LONG, _TOO_SHORT, _OTHER_GPU = 25, 20, 10

RATES = {"tokens_per_second": "tokens", "samples_per_second": "samples",
         "requests_per_second": "requests"}  # fmt: skip


def record(app: App, one: Measurement) -> int:
    """Write a measurement down; its version. Raises StoreError."""
    from tracker.store import measurements, migrate
    from tracker.store.engine import make_engine, transaction

    with app.database(upgrade=True) as url:
        migrate.check(url)
        engine = make_engine(url)
        try:
            with transaction(engine) as cursor:
                return measurements.add(cursor, one)
        finally:
            engine.dispose()


def measurements_of(app: App, job: Job) -> tuple[list[Measurement], str | None]:
    """What was measured of *job*, oldest first, or why nobody can tell."""
    from tracker.app.root import NothingRecorded
    from tracker.store import measurements
    from tracker.store.errors import StoreError

    try:
        with app.reading() as connection:
            return measurements.of_job(connection, job.name), None
    except NothingRecorded:
        return [], None
    except StoreError as error:
        return [], app.redactor(f"What was measured is not known: {error}")


def measurement(app: App, job: Job, options: Mapping[str, Any]) -> Measurement:
    """The measurement of *job* that *options* tell of (names of ``gpucost jobs measure``).

    Raises BadQuestion for one that cannot be of this job.
    """
    gpus = options["gpus"]
    if gpus < job.gpus_needed:
        raise BadQuestion("gpus", f"{job.name} needs {job.gpus_needed} GPUs")
    note = options["note"]
    if note is not None and len(note) > MAX_TEXT:
        raise BadQuestion("note", f"longer than {MAX_TEXT} characters")
    if gpus == 1 and options["communication_percent"]:
        raise BadQuestion(
            "communication_percent", "one GPU exchanges nothing with others; say how many: {gpus}"
        )
    gpu = _exact_gpu(app, options["gpu"])
    hours = _hours(job, options)
    _plausible(app, job, gpu, gpus, hours)
    unit, amount = unit_of(job)
    told = {name: Decimal(str(options[name])) for name in UTILISATIONS if options[name] is not None}
    return Measurement(
        job=job.name, subject=subject_of(job), gpu=gpu, gpus=gpus, version=0, hours=hours,
        measured_at=datetime.now(UTC), unit=unit, amount=amount, utilisation=told, note=note,
    )  # fmt: skip


def _exact_gpu(app: App, name: str) -> str:
    """The one part that *name* means: hours on "an H100" would hold for several."""
    try:
        found = sorted(key for key in app.catalogue.select(name) if not is_slice(key))
    except UnknownGpu as error:
        raise BadQuestion(None, str(error)) from None
    parts = [key for key in found if app.catalogue.spec(key) is not None]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        raise BadQuestion("gpu", f"{name} says no whole GPU with its form")
    raise BadQuestion("gpu", f"{name} may be {', '.join(parts)}; name one")


def _hours(job: Job, options: Mapping[str, Any]) -> Decimal:
    given = [name for name in ("hours", *RATES) if options[name] is not None]
    if len(given) != 1:
        raise BadQuestion(None, "give {hours} or one rate, such as {tokens_per_second}")
    [name] = given
    if job.task is not None and job.task.service_hours is not None and name == "hours":
        raise BadQuestion(
            name,
            f"{job.name} is a service and runs as long as it is kept up; give what it does: "
            "{requests_per_second} or {tokens_per_second}",
        )
    try:
        if name == "hours":
            return read_hours(options[name], name)
        units = job.task.units if job.task is not None else {}
        amount = units.get(RATES[name])
        if amount is None:
            raise BadQuestion(name, _counts_none(job, RATES[name]))
        return hours_at(amount, options[name], name)
    except JobError as error:
        raise BadQuestion(name, str(error).removeprefix(f"{name}: ")) from None


def _counts_none(job: Job, unit: str) -> str:
    """Why a rate of *unit* says nothing of *job*, and what does."""
    if job.task is None:
        return f"{job.name} is a job of plain hours: it has no {unit}; give {{hours}}"
    rates = {of: rate for rate, of in RATES.items()}
    counted = [f"{{{rates[of]}}}" for of in job.task.units if of in rates]
    instead = " or ".join((*counted, "{hours}"))
    return f"{job.name} does not say how many {unit} there are; give {instead}"


def _plausible(app: App, job: Job, gpu: str, gpus: int, hours: Decimal) -> None:
    """Refuse hours that cannot be of this job, as they would be in its file."""
    if job.task is None:
        _like_those_given(app, job, gpu, gpus, hours)
        return
    from tracker.domain import evidence

    alone = replace(job, hours={gpu: RuntimeHours(hours, gpus, Basis.MEASURED)})
    try:
        evidence.check(alone, app.catalogue)
    except JobError as error:
        raise BadQuestion(None, str(error).removeprefix(f"hours.{gpu}: ")) from None


def _like_those_given(app: App, job: Job, gpu: str, gpus: int, hours: Decimal) -> None:
    """Refuse hours that a job of plain hours contradicts: they are all that is known of it.

    GPU-hours are compared, of that GPU where the job has any for it, else more loosely of all.
    """
    there = given_hours(job, gpu, app.catalogue)
    own = isinstance(there, RuntimeEstimate)
    known = [there] if isinstance(there, RuntimeEstimate) else list(job.hours.values())
    least = sorted(one.hours * one.gpus for one in known)
    certain = [one.hours * one.gpus for one in known if not one.lower_bound]
    taken, factor = hours * gpus, 1 if own else _OTHER_GPU
    if certain and taken > max(certain) * _TOO_LONG * factor:
        unit = "minutes"
    elif taken * _TOO_SHORT * factor < least[0]:
        unit = "days"
    else:
        return
    usual = " to ".join(dict.fromkeys(plain(round(one, 2)) for one in (least[0], least[-1])))
    where = gpu if own else "other GPUs"
    raise BadQuestion(
        "hours",
        f"{plain(hours)} h on {gpus} x {gpu}, where {job.name} takes {usual} GPU-hours on {where}; "
        f"are these {unit}, or is this another job?",
    )
