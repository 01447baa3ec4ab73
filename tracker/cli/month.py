"""``gpucost month``: what several jobs that run again and again come to in a month."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import completing, render
from tracker.cli.cheapest import look, readable
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.options import filter_options, filters_from, output_option
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job import Job, JobError
from tracker.domain.job_limits import MAX_RUNS

if TYPE_CHECKING:
    import psycopg

    from tracker.report.filters import Filters
    from tracker.report.months import MonthReport, Placed, Wanted

COLUMNS = (
    "job", "runs_per_month", "offer", "gpu", "gpus", "machines", "provider", "region", "market",
    "runtime_hours", "basis", "run_usd", "by_the_month", "alone_usd", "age_seconds", "stale",
)  # fmt: skip
_TABLE = (
    render.Column("JOB"), render.Column("RUNS", right=True), render.Column("GPU"),
    render.Column("GPUS", 1, right=True), render.Column("PROVIDER"), render.Column("REGION", 5),
    render.Column("MARKET", 2), render.Column("RUN h", 3, right=True), render.Column("BASIS", 4),
    render.Column("A RUN", right=True), render.Column("PAID", 1), render.Column("OFFER"),
)  # fmt: skip
MOST_JOBS = 50
_LEAST_RUNS = Decimal("0.001")  # once in a lifetime


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument(
    "jobs", nargs=-1, required=True, metavar="JOB=RUNS…", shell_complete=completing.jobs
)
@filter_options
@output_option
@click.pass_obj
def month(obj: dict[str, Any], /, jobs: tuple[str, ...], **options: Any) -> None:
    """What JOBs cost in a month of 730 hours, each run RUNS times, on the offers that suit them.

    A machine by the month is paid for once and shared by the jobs on it. RUNS may be left out where
    the job says runs_per_month, and for a service.
    """
    app = App(obj["config"])
    wanted = [_wanted(app, text) for text in jobs]
    if len(wanted) > MOST_JOBS:
        raise Exit(EXIT_USAGE, f"{len(wanted)} jobs: more than {MOST_JOBS} at once")
    names = [job.name for job, _ in wanted]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice:
        raise Exit(EXIT_USAGE, f"{twice} is named twice; add its runs up")
    wanted = [(_counted(job, options["gpus"]), runs) for job, runs in wanted]
    filters = filters_from(options)
    try:
        for name in filters.gpus:
            app.catalogue.select(name)
        with app.reading() as connection:
            report = _answer(connection, app, wanted, filters, options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    _print(report, options["output"])
    if report.missing:
        what = f"no offer for {', '.join(report.missing)}"
        if report.only_stale:
            raise Exit(EXIT_ONLY_STALE, f"{what} but stale ones; poll again, or --include-stale")
        raise Exit(EXIT_NO_MATCH, f"{what}: the bill is without it")


def _wanted(app: App, text: str) -> tuple[Job, Decimal]:
    """A job and its runs a month, of ``JOB=RUNS`` (or ``JOB*RUNS``)."""
    name, runs = text, None
    for sign in ("=", "*"):
        before, found, after = text.rpartition(sign)
        if found:
            name, runs = before, _runs(after, text)
            break
    try:
        readable(name, app)
        job = app.job(name)
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    if runs is None and job.limits is not None and job.limits.runs_per_month is not None:
        runs = Decimal(job.limits.runs_per_month)
    if runs is None and job.task is not None and job.task.service_hours == 730:
        runs = Decimal(1)
    if runs is None:
        raise Exit(EXIT_USAGE, f"{name}: say how many runs a month, as in {name}=30")
    return job, runs


def _runs(text: str, whole: str) -> Decimal:
    try:
        runs = Decimal(text)
    except InvalidOperation:
        raise Exit(EXIT_USAGE, f"{whole!r}: {text!r} is no number of runs a month") from None
    fits = runs.is_finite() and _LEAST_RUNS <= runs <= MAX_RUNS
    if not fits or len(runs.as_tuple().digits) > 12:
        raise Exit(EXIT_USAGE, f"{whole!r}: runs a month are {_LEAST_RUNS} to {MAX_RUNS:,}")
    return runs


def _counted(job: Job, gpus: int | None) -> Job:
    if gpus is None:
        return job
    from dataclasses import replace

    return replace(job, gpus_needed=gpus, count_given=job.task is not None)


def _answer(
    connection: psycopg.Connection[Any],
    app: App,
    wanted: Sequence[tuple[Job, Decimal]],
    filters: Filters,
    options: Mapping[str, Any],
) -> MonthReport:
    from tracker.report.months import month_report

    now = options["as_of"] or datetime.now(UTC)
    asked = {"hours_texts": (), "as_of": options["as_of"]}
    return month_report(
        [_one(connection, app, job, runs, filters, asked, now) for job, runs in wanted], now
    )


def _one(
    connection: psycopg.Connection[Any],
    app: App,
    job: Job,
    runs: Decimal,
    filters: Filters,
    asked: Mapping[str, Any],
    now: datetime,
) -> Wanted:
    from tracker.report.costing import Costing
    from tracker.report.filters import STALE, select
    from tracker.report.months import Wanted

    one = look(connection, app, job, filters, asked, now)
    selection = select(
        one.asked.offers, one.filters, app.catalogue, now, total_offers=one.asked.total,
        left_out=one.asked.left_out, shelves=one.asked.shelves,
    )  # fmt: skip
    costing = Costing(one.job, app.catalogue, one.discounts)
    bounded = costing.bounded(selection)
    would_do = False
    if not bounded and selection.excluded[STALE]:  # is there a stale one that can run it?
        too = one.filters._replace(include_stale=True)
        would_do = bool(
            costing.bounded(
                select(one.asked.offers, too, app.catalogue, now, shelves=one.asked.shelves)
            )
        )
    return Wanted(one.job, runs, costing, bounded, selection.excluded, one.asked.total, would_do)


# --- for people and programs ------------------------------------------------------------------


def _print(report: MonthReport, output: str) -> None:
    rows = [_values(one, report) for one in report.jobs]
    footer = render.footer(
        sum(one.row is not None for one in report.jobs), report.total_offers, report.excluded
    )
    footer = footer.replace(" of ", " chosen of ", 1)
    if output not in ("table", "wide"):
        render.print_rows(output, rows, COLUMNS, _document(report), footer)
        return
    render.say(sentence(report))
    render.say()
    render.print_table(_TABLE, [_cells(one) for one in report.jobs], wide=output == "wide")
    render.say()
    for line in report.bill.lines:
        quantity = f"{render.number(round(line.quantity, 4))} {line.unit} x "
        quantity += render.usd(line.unit_price_usd, 4)
        render.say(f"{render.usd(line.amount_usd, 2):>14}  {line.label}: {quantity}")
    least = "at least, in all" if _open(report) else "total"
    render.say(f"{render.usd(report.bill.at_least_usd, 2):>14}  {least}")
    render.say()
    for text in remarks(report):
        render.say(text)
    render.say(footer)


def sentence(report: MonthReport) -> str:
    """The answer in a sentence."""
    least = "at least " if _open(report) else ""
    text = f"A month of {render.counted(len(report.jobs), 'job')}: "
    text += f"{least}{render.usd(report.bill.at_least_usd)}"
    alone = report.alone_usd
    if alone is not None and not report.bill.partial and alone > report.bill.at_least_usd:
        text += f"; each by itself they would come to {render.usd(alone)}"
    return text + "."


def _open(report: MonthReport) -> bool:
    return bool(report.bill.partial or report.bill.lower_bound or report.missing)


def remarks(report: MonthReport) -> Iterator[str]:
    """What a reader of the bill must know."""
    for one in report.jobs:
        if one.row is None:
            yield f"{one.job.name}: no offer can run it, and the bill is without it."
    for part in report.bill.partial:
        yield f"Not in the bill: {part}."
    if report.bill.lower_bound:
        yield "The hours of some jobs are lower bounds: so is the bill."
    for note in report.bill.notes:
        yield f"{note}."  # begins with the names of jobs
    for one in report.jobs:
        yield from _of_job(one)
    yield (
        "Offers were chosen for all jobs together: each on its own, or moved onto a machine by the "
        "month while that lowers the bill."
    )


def _of_job(one: Placed) -> Iterable[str]:
    if one.row is None:
        return
    hours = one.row.done_hours * one.runs
    if not one.by_the_month and hours > 730:
        yield (
            f"{one.job.name}: {render.number(round(hours, 1))} h of runs do not fit into a month "
            "one after the other; some run side by side."
        )
    if one.row.low_usd is not None and one.row.high_usd is not None:
        what = "hours" if one.row.low_machines is None else "machines"
        low, high = render.usd(one.row.low_usd), render.usd(one.row.high_usd)
        ends = f"between {low} and {high}" if low != high else f"{low} at both ends of the range"
        yield f"{one.job.name}: {what} are {one.row.bill.basis}; a run is {ends}."
    if one.row.offer.valid_as_of is not None:
        yield f"{one.job.name}: a typed price, read on {one.row.offer.valid_as_of}, not live."


def _values(one: Placed, report: MonthReport) -> dict[str, Any]:
    from tracker.cli import bills

    job = {"job": one.job.name, "title": one.job.title, "runs_per_month": str(one.runs)}
    alone = None if one.alone is None else render.usd_text(one.alone.total_usd)
    if one.row is None:
        return {**dict.fromkeys(COLUMNS), **job, "alone_usd": alone}
    row = bills.row(one.row, report.now)
    kept = {name: row[name] for name in COLUMNS if name in row}
    return {
        **job, **kept,
        "run_usd": row["at_least_usd"], "partial": row["partial"],
        "lower_bound": row["lower_bound"], "low_usd": row["low_usd"], "high_usd": row["high_usd"],
        "by_the_month": one.by_the_month, "alone_usd": alone,
    }  # fmt: skip


def _document(report: MonthReport) -> dict[str, Any]:
    bill = report.bill
    whole = not report.missing
    return {
        "as_of": report.now,
        "answer": sentence(report),
        "total_usd": render.usd_text(bill.total_usd) if whole else None,
        "at_least_usd": render.usd_text(bill.at_least_usd),
        "alone_usd": render.usd_text(report.alone_usd) if whole else None,
        "partial": list(bill.partial),
        "missing": list(report.missing),
        "lower_bound": bill.lower_bound,
        "bill": [
            {"label": line.label, "quantity": render.quantity(line.quantity), "unit": line.unit,
             "unit_price_usd": render.usd_text(line.unit_price_usd),
             "amount_usd": render.usd_text(line.amount_usd)}
            for line in bill.lines
        ],
        "offers_total": report.total_offers,
        "excluded": dict(report.excluded),
        "remarks": list(remarks(report)),
    }  # fmt: skip


def _cells(one: Placed) -> list[str]:
    runs = render.number(one.runs)
    if one.row is None:
        return [one.job.name, runs, *(render.DASH for _ in _TABLE[2:])]
    from tracker.cli import bills
    from tracker.report.shapes import words

    o, b = one.row.offer, one.row.bill
    gpus = render.count(o.gpu_count)
    return [
        one.job.name, runs, o.gpu_key, gpus if b.machines == 1 else f"{b.machines} x {gpus}",
        o.provider, o.region or render.DASH, o.market.replace("_", "-"),
        f"{b.runtime_hours:,.2f}", str(b.basis),
        render.DASH if one.by_the_month else (
            (">= " if words.open_ended(b) else "") + render.usd(b.at_least_usd)
        ),
        "by the month" if one.by_the_month else "by the run", bills.ref(o.key),
    ]  # fmt: skip
