"""``gpucost cheapest``: the cheapest way to run a job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import render
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.options import CommaList, Positive, filter_options, filters_from, output_option
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import Job, JobError, parse_hours

if TYPE_CHECKING:
    from tracker.cli.verify import Verdict
    from tracker.report.cheapest import CheapestReport
    from tracker.report.filters import Filters

DEFAULT_TOP = 10


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job", required=False)
@click.option("--hours", "hours_text", metavar="GPU=H,...", help="Hours per GPU: A100=12,H100=4.")
@click.option("--disk", type=Positive(), help="GB of disk the job needs on each machine.")
@click.option("--egress", type=Positive(), help="GB that leave the provider.")
@click.option("--setup", type=Positive(), help="Hours of set-up billed on each machine.")
@click.option(
    "--compare", type=CommaList(), metavar="A,B", help="Break-even of one GPU against another."
)
@click.option("--top", type=click.IntRange(1, 100_000), default=DEFAULT_TOP, show_default=True)
@click.option("--all", "show_all", is_flag=True, help="Every offer, not only the cheapest.")
@click.option("--explain", "explain", is_flag=True, help="The lines of each bill.")
@click.option("--verify", is_flag=True, help="Ask the leading offers' providers again first.")
@filter_options
@output_option
@click.pass_obj
def cheapest(
    obj: dict[str, Any], /, job: str | None, hours_text: str | None, **options: Any
) -> None:
    """The cheapest way to run JOB: a built-in job's name, a TOML file, or --hours.

    Bills are for whole machines and the hours billed, with disk and egress; the hours of each GPU
    come from the job and say on what they rest.
    """
    app = App(obj["config"])
    question = _question(app, job, hours_text, options)
    try:
        verdicts: list[Verdict] = []
        if options["verify"]:
            from tracker.cli.verify import verify

            verdicts = verify(app, lambda: _answer(app, question, options))
        report = _answer(app, question, options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    _print(report, verdicts, options)
    if not report.rows:
        if report.only_stale:
            raise Exit(EXIT_ONLY_STALE, "only stale prices match; poll again, or --include-stale")
        raise Exit(EXIT_NO_MATCH, "no offer matches")


def _question(
    app: App, name: str | None, hours_text: str | None, options: dict[str, Any]
) -> tuple[Job, Filters]:
    """The job and the filters that the options describe."""
    try:
        if name is not None:
            job = app.job(name)
        elif hours_text is not None:
            job = Job(name="hours", title="job", hours={})
        else:
            raise click.UsageError(
                "name a job (bert-large), a job file, or give --hours A100=12,..."
            )
        if hours_text is not None:
            job = replace(job, hours=parse_hours(hours_text, app.catalogue))
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    changes: dict[str, Any] = {}
    if options["gpus"] is not None:
        changes["gpus_needed"] = options["gpus"]
    for option, field, none in (
        ("disk", "disk_gb", None), ("egress", "egress_gb", None), ("setup", "setup_hours", None),
    ):  # fmt: skip
        if options[option] is not none:
            changes[field] = options[option]
    return replace(job, **changes), filters_from(options)


def _answer(app: App, question: tuple[Job, Filters], options: Mapping[str, Any]) -> CheapestReport:
    from tracker.report.cheapest import cheapest_report
    from tracker.report.discounts import DiscountBook
    from tracker.store import reads

    job, filters = question
    as_of = options["as_of"]
    now = as_of or datetime.now(UTC)
    names = filters.gpus or tuple(job.hours)
    if not filters.gpus:
        filters = replace(filters, gpus=names)
    wanted = frozenset().union(*(app.catalogue.select(name) for name in names))
    with app.reading() as connection:
        offers = reads.live_offers(connection, gpu_keys=wanted, as_of=as_of)
        total = reads.count_live_offers(connection, as_of=as_of)
        discounts = DiscountBook.at(reads.discounts(connection, now), now)
    return cheapest_report(
        offers, job, filters, app.catalogue, now,
        top=None if options["show_all"] else options["top"],
        total_offers=total, discounts=discounts, compare=_pair(job, options["compare"]),
    )  # fmt: skip


def _pair(job: Job, asked: tuple[str, ...] | None) -> tuple[str, str] | None:
    if asked is not None:
        if len(asked) != 2:
            raise click.BadParameter("name two GPUs, such as H100,A100", param_hint="--compare")
        return asked[0], asked[1]
    return ("H100", "A100") if {"H100", "A100"} <= job.hours.keys() else None


def _print(report: CheapestReport, verdicts: list[Verdict], options: Mapping[str, Any]) -> None:
    from tracker.cli import bills

    output = options["output"]
    if output in ("table", "wide"):
        bills.print_table(report, verdicts, wide=output == "wide", explain=options["explain"])
    else:
        render.print_rows(
            output, [bills.row(r, report.now) for r in report.rows], bills.COLUMNS,
            bills.document(report, verdicts),
        )  # fmt: skip
