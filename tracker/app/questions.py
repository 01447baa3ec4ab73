"""What a question about a job reads, and its answer, on an open database."""

from __future__ import annotations

import errno
import stat
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app import kept
from tracker.app.asked import BadQuestion
from tracker.app.jobs import job_names
from tracker.app.kept import MAX_JOB_BYTES
from tracker.domain.job import Job, JobError, is_slice
from tracker.domain.job_download import Downloads, check_pace
from tracker.domain.job_text import parse_hours
from tracker.domain.pareto import Goal
from tracker.domain.set_up_time import Download

if TYPE_CHECKING:
    import psycopg

    from tracker.app.root import App
    from tracker.report.asked import Asked
    from tracker.report.cheapest import CheapestReport
    from tracker.report.discounts import DiscountBook
    from tracker.report.filters import Filters
    from tracker.store.beginnings import Beginning


SLICES = 3  # parts of GPUs that an answer about whole ones names beside them


def wanted_job(app: App, name: str | None, options: Mapping[str, Any]) -> Job:
    """The job that the argument and the options describe. Raises JobError and BadQuestion."""
    hours_text = ",".join(options["hours_texts"]) if options["hours_texts"] else None
    if name is not None:
        job = named_job(name, app)
    elif hours_text is not None:
        job = Job(name="hours", title="Job", hours={})
    else:
        raise BadQuestion(None, "name a job such as bert-large, or give {hours} A100=12,H100=4")
    if hours_text is not None:
        # Hours typed beside --gpus are those that so many GPUs take together.
        hours = parse_hours(hours_text, app.catalogue)
        together = options["gpus"] or job.gpus_needed
        job = replace(job, hours={k: replace(h, gpus=together) for k, h in hours.items()})
    changes = {
        field: options[option]
        for option, field in (("gpus", "gpus_needed"), ("disk", "disk_gb"),
                              ("egress", "egress_gb"), ("setup", "setup_hours"))
        if options[option] is not None
    }  # fmt: skip
    if options["gpus"] is not None and job.task is not None:
        changes["count_given"] = True
    job = _downloading(replace(job, **changes), options)
    if options["deadline"] is None:
        return job
    from tracker.domain.job_limits import Limits

    limits = (job.limits or Limits())._replace(deadline_hours=options["deadline"])
    return replace(job, limits=limits)


def _downloading(job: Job, options: Mapping[str, Any]) -> Job:
    """*job* with the download that the options tell of."""
    gb, assumed = options["download"], options["assume_network"]
    known = job.download
    if gb is not None:
        before = None if known is None else known.assumed_mbps
        known = Downloads(Download(data_gb=gb), before) if gb else None
    if assumed is not None:
        if known is None:
            raise BadQuestion("assume_network", "nothing is downloaded; give {download} GB")
        known = known._replace(assumed_mbps=assumed)
        try:
            check_pace(known, "")
        except JobError as error:
            raise BadQuestion("assume_network", str(error).removeprefix(": ")) from None
    return replace(job, download=known)


def named_job(name: str, app: App) -> Job:
    """The job called *name*, or in a file of that name. Raises JobError."""
    if name.lower() not in job_names():
        readable(name, app)
    return app.job(name)


def readable(name: str, app: App) -> None:
    """Refuse a path that is no ordinary small file before anybody reads it. Raises JobError."""
    if not name.strip():
        raise JobError("no job is named: give a job's name or a job file")
    try:
        found = Path(name).expanduser().stat()
    except (OSError, ValueError, RuntimeError) as error:
        if getattr(error, "errno", None) == errno.ENAMETOOLONG:
            raise JobError(f"no job is called {name[:40]}…: too long a name") from None
        return  # no file: a job's name, or a path whose reading tells what is wrong
    if stat.S_ISDIR(found.st_mode) and name.lower() not in {*job_names(), *kept.names(app)}:
        raise JobError(f"{name}: is a folder; name a job file in it")
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise JobError(f"{name}: not an ordinary file")
    if found.st_size > MAX_JOB_BYTES:
        raise JobError(f"{name}: larger than {MAX_JOB_BYTES >> 10} KiB: not a job file")


def answer_on(
    connection: psycopg.Connection[Any],
    app: App,
    job: Job,
    filters: Filters,
    options: Mapping[str, Any],
) -> CheapestReport:
    """The answer from what an open database holds. Raises UnknownGpu and BadQuestion."""
    from tracker.report.cheapest import cheapest_report

    now = options["as_of"] or datetime.now(UTC)
    one = look(connection, app, job, filters, options, now)
    report = cheapest_report(
        one.asked.offers, one.job, one.filters, app.catalogue, now,
        top=None if options["show_all"] else options["top"],
        total_offers=one.asked.total, left_out=one.asked.left_out, shelves=one.asked.shelves,
        discounts=one.discounts, prepared=one.asked.prepared,
        compare=_pair(app, one.job, options["compare"]),
        goal=Goal(options.get("goal", Goal.CHEAPEST)), pareto="goal" in options,
    )  # fmt: skip
    report = app.at_site(_with_slices(report, connection, app, job, filters, options, now))
    if options["as_of"] is None and one.asked.total:
        return report
    return report._replace(record=record_of(connection, app, one.filters))


def record_of(
    connection: psycopg.Connection[Any], app: App, filters: Filters
) -> tuple[Beginning, ...]:
    """Since when prices of the GPUs and providers that *filters* name are on record."""
    from tracker.store.beginnings import beginnings

    keys = None
    if filters.gpus:
        keys = frozenset().union(*(app.catalogue.select(name) for name in filters.gpus))
    return beginnings(connection, keys, filters.providers or None)


def _with_slices(
    report: CheapestReport,
    connection: psycopg.Connection[Any],
    app: App,
    job: Job,
    filters: Filters,
    options: Mapping[str, Any],
    now: datetime,
) -> CheapestReport:
    """*report* with the cheapest parts of GPUs on which a job that computes little would run, too.

    They are ranked among themselves: a slice is another thing than a whole GPU.
    """
    from tracker.report.cheapest import cheapest_report

    if job.task is None or job.gpus_needed > 1 or "goal" not in options or all_slices(app, filters):
        return report
    families = {key.split("-", 1)[0] for name in filters.gpus for key in app.catalogue.select(name)}
    keys = frozenset(
        gpu.key
        for gpu in app.catalogue.gpus()
        if gpu.is_slice and (not families or gpu.family in families)
    )
    every = filters._replace(gpus=(), include_slices=True)
    one = look(connection, app, job, every, options, now, keys)
    found = cheapest_report(
        one.asked.offers, one.job, one.filters, app.catalogue, now, top=SLICES,
        total_offers=one.asked.total, left_out=one.asked.left_out, shelves=one.asked.shelves,
        discounts=one.discounts, prepared=one.asked.prepared, goal=Goal(options["goal"]),
    )  # fmt: skip
    return report._replace(slices=found.rows)


def all_slices(app: App, filters: Filters) -> bool:
    """Whether the filters name slices of GPUs, and nothing else."""
    keys = {key for name in filters.gpus for key in app.catalogue.select(name)}
    return bool(keys) and all(is_slice(key) for key in keys)


class Looked(NamedTuple):
    """A job with what was measured of it, filters with its needs, and the offers they are of."""

    job: Job
    filters: Filters
    asked: Asked
    discounts: DiscountBook


def look(
    connection: psycopg.Connection[Any],
    app: App,
    job: Job,
    filters: Filters,
    options: Mapping[str, Any],
    now: datetime,
    keys: frozenset[str] | None = None,
) -> Looked:
    """Read what a question about *job* needs: offers of *keys*, unless given of the GPUs that the
    filters or the job name. Raises UnknownGpu."""
    from tracker.report.discounts import DiscountBook
    from tracker.report.needs import with_needs

    as_of = options["as_of"]
    filters = with_needs(filters, job)
    if all_slices(app, filters):
        filters = filters._replace(include_slices=True)
    app.check_names(connection, filters)
    if not options["hours_texts"]:  # hours that are typed are what somebody wants to see used
        job = app.measured(connection, job)
    # A job that can be estimated is about all GPUs, one with hours about those that have some.
    names = filters.gpus or (tuple(job.hours) if job.task is None else ())
    wanted = keys
    if wanted is None and names:
        wanted = frozenset().union(*(app.catalogue.select(name) for name in names))
    asked = app.ask(connection, filters, wanted, now, as_of)
    asked = app.with_owned(asked, wanted, now, past=as_of is not None)
    discounts = DiscountBook.at(app.discounts(connection, now), now)
    return Looked(job, filters._replace(gpus=names), asked, discounts)


def _pair(app: App, job: Job, asked: tuple[str, ...] | None) -> tuple[str, str] | None:
    if asked is None:
        known = job.task is not None or {"H100", "A100"} <= job.hours.keys()
        return ("H100", "A100") if known else None
    if len(asked) != 2:
        raise BadQuestion("compare", "name two GPUs, such as H100,A100")
    if app.catalogue.select(asked[0]) & app.catalogue.select(asked[1]):
        raise BadQuestion("compare", "name two different GPUs")
    return asked[0], asked[1]
