"""``gpucost cheapest``: the cheapest way to run a job."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

import click

from tracker.app import App, NothingRecorded, questions
from tracker.app.asked import BadQuestion
from tracker.app.questions import answer_on as answer_on
from tracker.app.questions import look as look
from tracker.cli import completing, launching, render
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
    usage,
)
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import MAX_HOURS, Job, JobError
from tracker.domain.job_download import MAX_GB as MAX_DOWNLOAD_GB
from tracker.domain.job_download import MAX_MBPS
from tracker.domain.job_text import MAX_SETUP_HOURS
from tracker.domain.pareto import Goal

if TYPE_CHECKING:
    from tracker.cli.verify import Verdict
    from tracker.report.cheapest import CheapestReport
    from tracker.report.filters import Filters

F = TypeVar("F", bound=Callable[..., Any])

DEFAULT_TOP = 10
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
            "--disk",
            type=Positive(zero=True, unit="GB"),
            help="GB of disk the job needs on each machine.",
        ),
        click.option(
            "--egress", type=Positive(zero=True, unit="GB"), help="GB that leave the provider."
        ),
        click.option(
            "--setup",
            type=Positive(zero=True, most=MAX_SETUP_HOURS, unit="hours"),
            help="Hours of set-up billed on each machine.",
        ),
        click.option(
            "--deadline",
            type=Positive(most=MAX_HOURS, unit="hours"),
            metavar="HOURS",
            help="Hours in which set-up and runtime must be done.",
        ),
        click.option(
            "--download",
            type=Positive(zero=True, most=MAX_DOWNLOAD_GB, unit="GB"),
            help="GB that each machine downloads before the job starts.",
        ),
        click.option(
            "--assume-network",
            type=Positive(most=MAX_MBPS, unit="Mbit/s"),
            metavar="MBIT",
            help="Mbit/s to assume for the download where an offer states none.",
        ),
    ]
)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job", required=False, shell_complete=completing.jobs)
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
@click.option(
    "--as", "tool", type=click.Choice(("skypilot", "dstack", "runpodctl", "vastai")),
    help="Print what launches the best offer that this tool can; launches nothing.",
)  # fmt: skip
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
    if options["tool"]:
        launching.refuse(options)
        options |= {"top": None, "show_all": True}
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
    except BadQuestion as error:
        raise usage(error) from None
    if options["tool"]:
        launching.print_launch(report, verdicts, options["tool"], app.catalogue)
    else:
        _print(report, verdicts, options)
    if not report.rows:
        from tracker.report.filters import nothing_left
        from tracker.report.record import nothing_then
        from tracker.report.shapes import words

        if report.only_stale:
            how = words.renewed_by(expired=report.only_expired)
            raise Exit(EXIT_ONLY_STALE, f"only stale prices match; {how}, or --include-stale")
        why = nothing_then(report.record, report.now)
        raise Exit(EXIT_NO_MATCH, why or nothing_left(report.excluded))


def wanted_job(app: App, name: str | None, options: Mapping[str, Any]) -> Job:
    """The job that the argument and the options describe. Raises Exit and click.UsageError."""
    try:
        return questions.wanted_job(app, name, options)
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    except BadQuestion as error:
        raise usage(error) from None


def readable(name: str, app: App) -> None:
    """Refuse a path that is no ordinary small file before anybody reads it. Raises Exit."""
    try:
        questions.readable(name, app)
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def _answer(app: App, job: Job, filters: Filters, options: Mapping[str, Any]) -> CheapestReport:
    for name in filters.gpus:  # refused before anything is opened
        app.catalogue.select(name)
    with app.reading() as connection:
        return answer_on(connection, app, job, filters, options)


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
