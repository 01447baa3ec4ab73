"""``gpucost compare``: one GPU against another for a job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.app.asked import BadQuestion
from tracker.cli import completing, render
from tracker.cli.cheapest import answer_on, job_options, wanted_job
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.history import estimates_option
from tracker.cli.options import filter_options_but_gpu, filters_from, output_option, usage
from tracker.domain.gpu import UnknownGpu

if TYPE_CHECKING:
    from tracker.domain.job import Job
    from tracker.report.compare import CompareReport
    from tracker.report.filters import Filters
    from tracker.report.history.versus import Versus


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("left", shell_complete=completing.gpus)
@click.argument("right", shell_complete=completing.gpus)
@click.argument("job", required=False, shell_complete=completing.jobs)
@job_options
@click.option("--explain", "explain", is_flag=True, help="The lines of both bills.")
@click.option("--since", metavar="TIME", help="Over time, too: since 90d or 1y ago, or a date.")
@estimates_option
@filter_options_but_gpu
@output_option
@click.pass_obj
def compare(
    obj: dict[str, Any], /, left: str, right: str, job: str | None, **options: Any
) -> None:  # fmt: skip
    """Which of the GPUs LEFT and RIGHT is the cheaper one for JOB, why, and until what price.

    Each side is the cheapest offer of it that the filters leave. JOB is a built-in job's name or a
    job file; without it, give --hours.
    """
    app = App(obj["config"])
    options["gpu"] = ()
    wanted, filters = wanted_job(app, job, options), filters_from(options)
    try:
        if app.catalogue.select(left) & app.catalogue.select(right):
            raise Exit(EXIT_USAGE, f"{left} and {right} may be the same GPU; name two")
        report, past = _answer(app, wanted, (left, right), filters, options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    except BadQuestion as error:
        raise usage(error) from None
    _print(report, past, options)
    if report.compared is None:
        missing = [
            name
            for name, side in ((left, report.left), (right, report.right))
            if not side.rows
        ]  # fmt: skip
        of = f"of {' and '.join(missing)}"
        if past is not None and past.steps:  # which has been answered
            when = "now" if options["as_of"] is None else "then"
            what = "only stale prices" if report.only_stale else "no offer"
            click.echo(f"{what} {of} match{'' if report.only_stale else 'es'} {when}", err=True)
            return
        if report.only_stale:
            from tracker.report.shapes import words

            how = words.renewed_by(expired=report.only_expired)
            raise Exit(EXIT_ONLY_STALE, f"only stale prices {of} match; {how}, or --include-stale")
        from tracker.report.record import nothing_then

        sides = {left: report.left, right: report.right}
        why = next(filter(None, (nothing_then(sides[n].record, sides[n].now) for n in missing)), "")
        text = f"no offer {of} matches: nothing to compare"
        raise Exit(EXIT_NO_MATCH, f"{text}; {why}" if why else text)


def _answer(
    app: App, job: Job, names: tuple[str, str], filters: Filters, options: dict[str, Any]
) -> tuple[CompareReport, Versus | None]:
    from tracker.report.compare import compare_report

    asked = options | {"compare": None, "show_all": False, "top": 1}
    with app.reading() as connection:
        left, right = (
            answer_on(connection, app, job, filters._replace(gpus=(name,)), asked) for name in names
        )
        past = None
        if options["since"] is not None:
            from tracker.app.past import versus_on

            past = versus_on(connection, app, job, names, filters, options)
    return compare_report(left, right), past


# --- for people and programs ------------------------------------------------------------------


def _print(report: CompareReport, past: Versus | None, options: dict[str, Any]) -> None:
    from tracker.cli import bills
    from tracker.report.shapes import compared, versus

    output, c, now = options["output"], report.compared, report.left.now
    rows = compared.rows(report)
    if output in ("table", "wide"):
        if c is not None:
            render.say(f"{report.left.job.title or report.left.job.name}: {compared.verdict(c)}")
            render.say()
            bills.ranking(rows, now, wide=output == "wide")
            render.say()
            if options["explain"]:
                bills.explain_lines(rows)
            for name, text in compared.figures(c):
                render.say(f"{name:<18}{text}")
            render.say()
            for text in compared.remarks(report):
                render.say(text)
        if past is not None:
            for text in (*versus.lines(past), *versus.remarks(past), ""):
                render.say(text)
        for name, side in (("left", report.left), ("right", report.right)):
            render.say(f"{name}: {compared.footer(side)}")
        return
    footer = "; ".join(
        f"{name}: {compared.footer(side)}"
        for name, side in (("left", report.left), ("right", report.right))
    )
    document = compared.document(report)
    if past is not None:
        document["history"] = versus.document(past)
        if output != "json":
            steps = [versus.step_row(step) for step in past.steps]
            render.print_rows(output, steps, versus.COLUMNS, document, footer)
            return
    values = [bills.row(r, now) for r in rows]
    render.print_rows(output, values, bills.csv_columns(values), document, footer)
