"""``gpucost jobs measure``: a run of one's own, judged and written down."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from tracker.app import App
from tracker.cli import render
from tracker.cli.exits import EXIT_USAGE, Exit
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import Basis, Job, JobError, RuntimeHours, is_slice
from tracker.domain.job_fields import MAX_TEXT, read_hours
from tracker.domain.measurement import UTILISATIONS, Measurement, subject_of, unit_of

_RATES = {"tokens_per_second": "tokens", "samples_per_second": "samples",
          "requests_per_second": "requests"}  # fmt: skip


def record(app: App, job: Job, options: Mapping[str, Any]) -> str:
    """Write the measurement that *options* tell of, and say what was written. Raises Exit."""
    from tracker.store import measurements, migrate
    from tracker.store.engine import make_engine, transaction

    one = _measurement(app, job, options)
    with app.database(upgrade=True) as url:
        migrate.check(url)
        engine = make_engine(url)
        try:
            with transaction(engine) as cursor:
                version = measurements.add(cursor, one)
        finally:
            engine.dispose()
    return (
        f"{job.name} on {one.gpus} x {one.gpu}: {render.hours(one.hours)} measured, version "
        f"{version}. It holds there, and the other GPUs are scaled from it."
    )


def _measurement(app: App, job: Job, options: Mapping[str, Any]) -> Measurement:
    if job.task is not None and job.task.service_hours is not None:
        raise Exit(EXIT_USAGE, f"{job.name} is a service: it runs as long as it is kept up")
    gpus = options["gpus"]
    if gpus < job.gpus_needed:
        raise Exit(EXIT_USAGE, f"--gpus: {job.name} needs {job.gpus_needed} GPUs")
    note = options["note"]
    if note is not None and len(note) > MAX_TEXT:
        raise Exit(EXIT_USAGE, f"--note: longer than {MAX_TEXT} characters")
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
        raise Exit(EXIT_USAGE, str(error)) from None
    parts = [key for key in found if app.catalogue.spec(key) is not None]
    if len(parts) == 1:
        return parts[0]
    if not parts:
        raise Exit(EXIT_USAGE, f"--gpu: {name} says no whole GPU with its form")
    raise Exit(EXIT_USAGE, f"--gpu: {name} may be {', '.join(parts)}; name one")


def _hours(job: Job, options: Mapping[str, Any]) -> Decimal:
    given = [name for name in ("hours", *_RATES) if options[name] is not None]
    if len(given) != 1:
        raise Exit(EXIT_USAGE, "give --hours or one rate, such as --tokens-per-second")
    [name] = given
    try:
        if name == "hours":
            return read_hours(options[name], "--hours")
        units = job.task.units if job.task is not None else {}
        amount = units.get(_RATES[name])
        if amount is None:
            raise JobError(f"the job does not say how many {_RATES[name]} there are; give --hours")
        option = f"--{name.replace('_', '-')}"
        return read_hours(round(amount / options[name] / 3600, 9), option)
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def _plausible(app: App, job: Job, gpu: str, gpus: int, hours: Decimal) -> None:
    """Refuse hours that cannot be of this job, as they would be in its file."""
    if job.task is None:
        return
    from tracker.domain import evidence

    alone = replace(job, hours={gpu: RuntimeHours(hours, gpus, Basis.MEASURED)})
    try:
        evidence.check(alone, app.catalogue)
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error).removeprefix(f"hours.{gpu}: ")) from None
