"""``gpucost when``: start a job now, or wait for a lower price?"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.app.asked import BadQuestion
from tracker.app.past import NOW_ONLY
from tracker.app.waited import waited_on, waiting_window
from tracker.cli import completing, render
from tracker.cli.cheapest import wanted_job
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_ONLY_STALE, EXIT_USAGE, Exit
from tracker.cli.options import Duration, Positive, filters_from, past_filter_options
from tracker.domain.gpu import UnknownGpu
from tracker.domain.job_text import MAX_SETUP_HOURS
from tracker.report.record import before_record
from tracker.report.shapes import waiting

if TYPE_CHECKING:
    from tracker.domain.job import Job
    from tracker.domain.waiting import Spread
    from tracker.report.filters import Filters
    from tracker.report.waiting import Waiting

_COLUMNS = (
    render.Column("START"), render.Column("GAINED", right=True), render.Column("LOST", right=True),
    render.Column("MEAN", right=True), render.Column("P10", 1, right=True),
    render.Column("MEDIAN", 1, right=True), render.Column("P90", 1, right=True),
)  # fmt: skip
# What other commands ask of a job and this one does not.
_UNASKED = {"deadline": None, "download": None, "assume_network": None}


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("job", required=False, shell_complete=completing.jobs)
@click.option("--deadline", "within", type=Duration(), required=True, metavar="DURATION",
              help="The job must be done within this time: 12h, 14d.")  # fmt: skip
@click.option("--hours", "hours_texts", metavar="GPU=H,...", multiple=True,
              help="Hours per GPU, for all the job's GPUs together: A100=12,H100=4.")  # fmt: skip
@click.option("--disk", type=Positive(zero=True, unit="GB"), help="GB of disk on each machine.")
@click.option("--egress", type=Positive(zero=True, unit="GB"), help="GB that leave the provider.")
@click.option("--setup", type=Positive(zero=True, most=MAX_SETUP_HOURS, unit="hours"),
              help="Hours of set-up billed on each machine.")  # fmt: skip
@click.option("--since", metavar="TIME", default="1y", show_default=True,
              help="The history to go by: from so long ago, or a date.")  # fmt: skip
@click.option("--until", metavar="TIME", help="Ask as of then: a date, or so long ago.")
@past_filter_options
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table",
              show_default=True, help="What to print.")  # fmt: skip
@click.pass_obj
def when(obj: dict[str, Any], /, job: str | None, **options: Any) -> None:
    """Start JOB now, or wait for a lower price until it must have started?

    By what waiting was worth in the job's own cost history. JOB is a built-in job's name or a job
    file; without it, give --hours.
    """
    app = App(obj["config"])
    now = datetime.now(UTC)
    start, end = _window(options, now)
    wanted = wanted_job(app, job, {**options, **_UNASKED})
    filters = filters_from({**options, **NOW_ONLY})
    try:
        found = _answer(app, wanted, filters, (start, end, now), options)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no prices yet; ask for some with: gpucost poll") from None
    except UnknownGpu as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    except BadQuestion as error:
        raise Exit(EXIT_USAGE, f"--{error.parameter}: {error.said(str)}") from None
    if options["output"] == "json":
        render.print_json(waiting.document(found))
    else:
        _print(found)
    if found.now is None:
        raise Exit(EXIT_ONLY_STALE, "no price is known now; ask for some with: gpucost poll")


def _window(options: dict[str, Any], now: datetime) -> tuple[datetime, datetime]:
    try:
        return waiting_window(options["since"], options["until"], now)
    except BadQuestion as error:
        raise click.BadParameter(error.said(str), param_hint=f"--{error.parameter}") from None


def _answer(
    app: App, job: Job, filters: Filters, window: tuple[datetime, datetime, datetime],
    options: dict[str, Any],
) -> Waiting:  # fmt: skip
    for name in filters.gpus:  # refused before anything is opened
        app.catalogue.select(name)
    with app.reading() as connection:
        answer = waited_on(
            connection, app, job, filters, window, options["within"],
            hours_typed=bool(options["hours_texts"]),
        )  # fmt: skip
    if answer.found is None:
        since = f"; {answer.begins}" if answer.begins else ""
        raise Exit(EXIT_NO_MATCH, waiting.NOTHING_KNOWN + since)
    return answer.found


# --- for people and programs ------------------------------------------------------------------


def _print(found: Waiting) -> None:
    title = found.report.question.job.title or found.report.question.job.name
    render.say(f"{title}: {_verdict(found)}")
    render.say()
    j = found.judged
    if j.lowest is not None and j.last is not None:
        lines = [_line(f"at {r.drop_percent} % less, or at the last moment", r.paid, r.gained,
                       r.lost, r.times) for r in j.rules]  # fmt: skip
        n = found.starts
        lines += [
            _line("at the last moment", j.last, None, j.last_lost, n),
            _line("at the lowest price (known only afterwards)", j.lowest, None, None, n),
        ]
        render.print_table(_COLUMNS, lines)
        render.say("costs against starting at once: -10 % is a tenth less")
        render.say()
    for line in _remarks(found):
        render.say(line)


def _verdict(found: Waiting) -> str:
    from tracker.domain.waiting import Advice

    j = found.judged
    price = waiting.now_text(found, render.usd)
    if j.advice is Advice.UNKNOWN:
        return f"nobody can tell: {j.reason}; {price}"
    if j.advice is Advice.GO:
        return f"go: {j.reason}; {price}"
    drop = j.earlier.drop_percent if j.earlier else None
    target = found.target_usd
    goal = f"{drop} % less" + (f", {render.usd(target)} or below" if target is not None else "")
    return (
        f"wait for {goal}, and start at the latest at {_moment(found.latest_start)} UTC whatever"
        f" it costs: {j.reason}; {price}"
    )


def _line(
    name: str, paid: Spread, gained: int | None, lost: int | None, times: int
) -> list[str]:  # fmt: skip
    return [
        name, _share(gained, times), _share(lost, times), _change(paid.mean), _change(paid.p10),
        _change(paid.median), _change(paid.p90),
    ]  # fmt: skip


def _share(count: int | None, of: int) -> str:
    return render.DASH if count is None or not of else f"{100 * count / of:.0f} %"


def _length(wait: timedelta) -> str:
    """A length of time, rounded down; of days to the tenth: "2 d" may be all but three."""
    days, rest = divmod(wait, timedelta(days=1))
    if days < 2:
        return render.duration(wait.total_seconds())
    tenth = rest // timedelta(hours=2.4)
    return f"{days}.{tenth} d" if tenth else f"{days} d"


def _change(share: Any) -> str:
    return f"{(share - 1) * 100:+.1f} %"


def _remarks(found: Waiting) -> Iterator[str]:
    j = found.judged
    wait = _length(found.wait)
    yield (
        f"the job takes up to {render.hours(found.hours)}: it can wait for {wait}, until"
        f" {_moment(found.latest_start)} UTC"
    )
    unknown = (
        f"; of {found.lost_starts:,} more nobody knows what the last moment cost"
        if found.lost_starts else ""
    )  # fmt: skip
    yield (
        f"played at {render.counted(found.starts, 'moment')} of {_moment(found.begin)} to"
        f" {_moment(found.end)} UTC, with prices known for {found.known / timedelta(days=1):.0f}"
        f" days of it{unknown}; {render.counted(j.windows, 'time')} to wait do not overlap"
    )
    for part, rule in (("earlier", j.earlier), ("later", j.later)):
        if rule is not None:
            yield (
                f"{part} part: waiting for {rule.drop_percent} % less cost"
                f" {_change(rule.paid.mean)} on average, gained {_share(rule.gained, rule.times)}"
                f" of the times, lost {_share(rule.lost, rule.times)}"
            )
    if found.now is not None and found.below is not None:
        share = 100 * (found.below / found.known)
        yield f"it cost less than now for {share:.0f} % of the time that prices are known for"
    yield from before_record(found.report.record, found.report.question.start)
    yield from waiting.typed(found)
    yield "what prices did says nothing sure of what they will do"


def _moment(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M")
