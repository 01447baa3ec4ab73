"""``gpucost cheapest``: the cheapest way to run a job."""

from __future__ import annotations

import errno
import stat
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from tracker.app import App, NothingRecorded, job_names
from tracker.app.kept import names as kept_names
from tracker.cli import render
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.options import (
    CommaList,
    Positive,
    filter_options,
    filters_from,
    output_option,
    refuse_all_with_top,
    stack,
    top_option,
)
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import MAX_HOURS, Job, JobError, is_slice
from tracker.domain.job_download import MAX_GB as MAX_DOWNLOAD_GB
from tracker.domain.job_download import MAX_MBPS, Downloads
from tracker.domain.job_text import MAX_SETUP_HOURS, parse_hours
from tracker.domain.pareto import Goal
from tracker.domain.set_up_time import Download

if TYPE_CHECKING:
    import psycopg

    from tracker.cli.verify import Verdict
    from tracker.report.asked import Asked
    from tracker.report.cheapest import CheapestReport
    from tracker.report.discounts import DiscountBook
    from tracker.report.filters import Filters

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_TOP = 10
MAX_JOB_BYTES = 256 * 1024
SLICES = 3  # parts of GPUs that an answer about whole ones names beside them


# What is changed of a job on the command line.
job_options: Callable[[F], F] = stack(
    [
        click.option(
            "--hours",
            "hours_texts",
            metavar="GPU=H,...",
            multiple=True,
            help="Hours per GPU, for all the job's GPUs together: A100=12,H100=4.",
        ),
        click.option(
            "--disk", type=Positive(zero=True), help="GB of disk the job needs on each machine."
        ),
        click.option("--egress", type=Positive(zero=True), help="GB that leave the provider."),
        click.option(
            "--setup",
            type=Positive(zero=True, most=MAX_SETUP_HOURS),
            help="Hours of set-up billed on each machine.",
        ),
        click.option(
            "--deadline",
            type=Positive(most=MAX_HOURS),
            metavar="HOURS",
            help="Hours in which set-up and runtime must be done.",
        ),
        click.option(
            "--download",
            type=Positive(zero=True, most=MAX_DOWNLOAD_GB),
            help="GB that each machine downloads before the job starts.",
        ),
        click.option(
            "--assume-network",
            type=Positive(most=MAX_MBPS),
            metavar="MBIT",
            help="Mbit/s to assume for the download where an offer states none.",
        ),
    ]
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job", required=False)
@job_options
@click.option(
    "--compare", type=CommaList(), metavar="A,B", help="Break-even of one GPU against another."
)
@click.option(
    "--goal", type=click.Choice([str(goal) for goal in Goal]), default=str(Goal.CHEAPEST),
    show_default=True, help="What to rank by: the bill, the hours until it is done, or both.",
)  # fmt: skip
@top_option(DEFAULT_TOP)
@click.option("--explain", "explain", is_flag=True, help="The lines of each bill.")
@click.option("--verify", is_flag=True, help="Ask the leading offers' providers again first.")
@filter_options
@output_option
@click.pass_obj
def cheapest(obj: dict[str, Any], /, job: str | None, **options: Any) -> None:
    """The cheapest way to run JOB: a built-in job's name, a job file, or --hours.

    Bills are for whole machines and the hours billed, with disk and egress; the hours of each GPU
    come from the job and say on what they rest.
    """
    app = App(obj["config"])
    refuse_all_with_top(options["show_all"])
    wanted, filters = wanted_job(app, job, options), filters_from(options)
    try:
        report = _answer(app, wanted, filters, options)
        verdicts: list[Verdict] = []
        if options["verify"] and report.rows:
            from tracker.cli.verify import verify

            verdicts = verify(app, report.job, report.rows)
            report = _answer(app, wanted, filters, options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    _print(report, verdicts, options)
    if not report.rows:
        from tracker.report.filters import nothing_left

        if report.only_stale:
            raise Exit(EXIT_ONLY_STALE, "only stale prices match; poll again, or --include-stale")
        raise Exit(EXIT_NO_MATCH, nothing_left(report.excluded))


def wanted_job(app: App, name: str | None, options: Mapping[str, Any]) -> Job:
    """The job that the argument and the options describe. Raises Exit and click.UsageError."""
    hours_text = ",".join(options["hours_texts"]) if options["hours_texts"] else None
    try:
        if name is not None:
            readable(name, app)
            job = app.job(name)
        elif hours_text is not None:
            job = Job(name="hours", title="Job", hours={})
        else:
            raise click.UsageError(
                "name a job (bert-large), a job file, or give --hours A100=12,..."
            )
        if hours_text is not None:
            # Hours typed beside --gpus are those that so many GPUs take together.
            hours = parse_hours(hours_text, app.catalogue)
            together = options["gpus"] or job.gpus_needed
            job = replace(job, hours={k: replace(h, gpus=together) for k, h in hours.items()})
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None
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
            raise click.UsageError("--assume-network: nothing is downloaded; give --download GB")
        known = known._replace(assumed_mbps=assumed)
    return replace(job, download=known)


def readable(name: str, app: App) -> None:
    """Refuse a path that is no ordinary small file before anybody reads it."""
    try:
        found = Path(name).expanduser().stat()
    except (OSError, ValueError, RuntimeError) as error:
        if getattr(error, "errno", None) == errno.ENAMETOOLONG:
            raise Exit(EXIT_USAGE, f"no job is called {name[:40]}…: too long a name") from None
        return  # no file: a job's name, or a path whose reading tells what is wrong
    if stat.S_ISDIR(found.st_mode) and name.lower() not in {*job_names(), *kept_names(app)}:
        raise Exit(EXIT_USAGE, f"{name}: is a folder; name a job file in it")
    if not stat.S_ISREG(found.st_mode) and not stat.S_ISDIR(found.st_mode):
        raise Exit(EXIT_USAGE, f"{name}: not an ordinary file")
    if found.st_size > MAX_JOB_BYTES:
        raise Exit(EXIT_USAGE, f"{name}: larger than {MAX_JOB_BYTES >> 10} KiB: not a job file")


def _answer(app: App, job: Job, filters: Filters, options: Mapping[str, Any]) -> CheapestReport:
    for name in filters.gpus:  # refused before anything is opened
        app.catalogue.select(name)
    with app.reading() as connection:
        return answer_on(connection, app, job, filters, options)


def answer_on(
    connection: psycopg.Connection[Any],
    app: App,
    job: Job,
    filters: Filters,
    options: Mapping[str, Any],
) -> CheapestReport:
    """The answer from what an open database holds. Raises UnknownGpu."""
    from tracker.report.cheapest import cheapest_report
    from tracker.store import reads

    now = options["as_of"] or datetime.now(UTC)
    one = look(connection, app, job, filters, options, now)
    report = cheapest_report(
        one.asked.offers, one.job, one.filters, app.catalogue, now,
        top=None if options["show_all"] else options["top"],
        total_offers=one.asked.total, left_out=one.asked.left_out, shelves=one.asked.shelves,
        discounts=one.discounts,
        compare=_pair(app, one.job, options["compare"]),
        goal=Goal(options.get("goal", Goal.CHEAPEST)), pareto="goal" in options,
    )  # fmt: skip
    report = app.at_site(_with_slices(report, connection, app, job, filters, options, now))
    return report if one.asked.total else report._replace(begins_at=reads.first_poll_at(connection))


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
        discounts=one.discounts, goal=Goal(options["goal"]),
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
    from tracker.report.asked import ask
    from tracker.report.discounts import DiscountBook
    from tracker.report.health import check_providers, check_tiers
    from tracker.report.measured import measured
    from tracker.report.needs import with_needs
    from tracker.store import reads

    as_of = options["as_of"]
    filters = with_needs(filters, job)
    if all_slices(app, filters):
        filters = filters._replace(include_slices=True)
    check_providers(connection, filters.providers)
    check_tiers(connection, filters.tiers)
    if not options["hours_texts"]:  # hours that are typed are what somebody wants to see used
        job = measured(connection, job)
    # A job that can be estimated is about all GPUs, one with hours about those that have some.
    names = filters.gpus or (tuple(job.hours) if job.task is None else ())
    wanted = keys
    if wanted is None and names:
        wanted = frozenset().union(*(app.catalogue.select(name) for name in names))
    asked = ask(connection, filters, wanted, now, as_of)
    asked = app.with_owned(asked, wanted, now, past=as_of is not None)
    discounts = DiscountBook.at(reads.discounts(connection, now), now)
    return Looked(job, filters._replace(gpus=names), asked, discounts)


def _pair(app: App, job: Job, asked: tuple[str, ...] | None) -> tuple[str, str] | None:
    if asked is None:
        known = job.task is not None or {"H100", "A100"} <= job.hours.keys()
        return ("H100", "A100") if known else None
    if len(asked) != 2:
        raise click.BadParameter("name two GPUs, such as H100,A100", param_hint="--compare")
    if app.catalogue.select(asked[0]) & app.catalogue.select(asked[1]):
        raise click.BadParameter("name two different GPUs", param_hint="--compare")
    return asked[0], asked[1]


def _print(report: CheapestReport, verdicts: list[Verdict], options: Mapping[str, Any]) -> None:
    from tracker.cli import bills

    output = options["output"]
    if options["compare"] and report.comparison is None and report.rows:
        click.echo(
            f"no break-even: there must be an offer of both {' and '.join(options['compare'])}",
            err=True,
        )
    if output in ("table", "wide"):
        bills.print_table(report, verdicts, wide=output == "wide", explain=options["explain"])
        return
    footer = render.footer(report.considered, report.total_offers, report.excluded)
    rows = [bills.row(r, report.now) for r in report.rows]
    document = bills.document(report, [v.as_dict() for v in verdicts])
    render.print_rows(output, rows, bills.csv_columns(rows), document, footer)
