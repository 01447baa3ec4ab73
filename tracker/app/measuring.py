"""A run of one's own, judged and written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.app.asked import BadQuestion
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import Basis, Job, JobError, RuntimeHours, is_slice
from tracker.domain.job_fields import MAX_TEXT, hours_at, read_hours
from tracker.domain.measurement import UTILISATIONS, Measurement, subject_of, unit_of

if TYPE_CHECKING:
    from tracker.app.root import App

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


def measurement(app: App, job: Job, options: Mapping[str, Any]) -> Measurement:
    """The measurement of *job* that *options* tell of (names of ``gpucost jobs measure``).

    Raises BadQuestion for one that cannot be of this job.
    """
    if job.task is not None and job.task.service_hours is not None:
        raise BadQuestion(None, f"{job.name} is a service: it runs as long as it is kept up")
    gpus = options["gpus"]
    if gpus < job.gpus_needed:
        raise BadQuestion("gpus", f"{job.name} needs {job.gpus_needed} GPUs")
    note = options["note"]
    if note is not None and len(note) > MAX_TEXT:
        raise BadQuestion("note", f"longer than {MAX_TEXT} characters")
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
    try:
        if name == "hours":
            return read_hours(options[name], name)
        units = job.task.units if job.task is not None else {}
        amount = units.get(RATES[name])
        if amount is None:
            raise BadQuestion(
                None, f"the job does not say how many {RATES[name]} there are; give {{hours}}"
            )
        return hours_at(amount, options[name], name)
    except JobError as error:
        raise BadQuestion(name, str(error).removeprefix(f"{name}: ")) from None


def _plausible(app: App, job: Job, gpu: str, gpus: int, hours: Decimal) -> None:
    """Refuse hours that cannot be of this job, as they would be in its file."""
    if job.task is None:
        return
    from tracker.domain import evidence

    alone = replace(job, hours={gpu: RuntimeHours(hours, gpus, Basis.MEASURED)})
    try:
        evidence.check(alone, app.catalogue)
    except JobError as error:
        raise BadQuestion(None, str(error).removeprefix(f"hours.{gpu}: ")) from None
