"""``gpucost jobs``: the jobs there are, what they assume, whether a file is one, and one's own."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from tracker.app import App
from tracker.app.jobs import listed_jobs
from tracker.app.measuring import measurements_of
from tracker.cli import completing, keeping, render
from tracker.cli.cheapest import readable
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.cli.options import Positive
from tracker.cli.recompute import recompute
from tracker.domain.job import Job, JobError, RuntimeEstimate
from tracker.report.shapes.jobs import document, kind, listed_row
from tracker.report.shapes.jobs import measured as measured_rows

_CONTEXT = {"help_option_names": ["-h", "--help"]}
_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="What to print.",
)  # fmt: skip
_PERCENT = click.FloatRange(0, 100)
_COLUMNS = (
    render.Column("JOB"), render.Column("KIND", 1), render.Column("FROM", 2),
    render.Column("TITLE"),
)  # fmt: skip


@click.group(context_settings=_CONTEXT)
def jobs() -> None:
    """Jobs: the built-in ones and your own, what one assumes, and whether a file is one."""


@jobs.command("list")
@_OUTPUT
@click.pass_obj
def list_(obj: dict[str, Any], output: str) -> None:
    """The jobs known by name: the built-in ones, and those that you keep."""
    found = list(listed_jobs(App(obj["config"])))
    if output == "json":
        rows = [listed_row(*one) for one in found]
        render.print_json({"jobs": rows})
        return
    cells = [
        [name, render.DASH, origin, f"cannot be used: {problem}"] if job is None
        else [name, kind(job), origin, job.title]
        for name, origin, job, problem in found
    ]  # fmt: skip
    render.print_table(_COLUMNS, cells)


@jobs.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE|JOB…")
@click.option("--name", help="Keep it under this name instead of its own.")
@click.option("--replace", is_flag=True, help="Put it in the place of one that is kept.")
@click.pass_obj
def add(obj: dict[str, Any], files: tuple[str, ...], name: str | None, replace: bool) -> None:
    """Keep jobs, so that they are known by name from then on.

    Each FILE is judged first, and all are kept or none. With --name a copy of a built-in JOB can be
    kept, to be changed.
    """
    app = App(obj["config"])
    for file in files:
        readable(file, app)
    for line in keeping.add(app, files, name, replace=replace):
        render.say(line)


@jobs.command()
@click.argument("names", nargs=-1, required=True, metavar="NAME…")
@click.pass_obj
def remove(obj: dict[str, Any], names: tuple[str, ...]) -> None:
    """Forget jobs that were kept. The file that one was added from is not touched."""
    for line in keeping.remove(App(obj["config"]), names):
        render.say(line)


@jobs.command()
@click.argument("job", shell_complete=completing.jobs)
@_OUTPUT
@click.pass_obj
def show(obj: dict[str, Any], job: str, output: str) -> None:
    """What JOB (a name or a file) is, what it assumes, and what was measured of it."""
    app = App(obj["config"])
    found = _read(app, job)
    runs, remark = measurements_of(app, found)
    measured = measured_rows(found, runs)
    if output == "json":
        render.print_json({**document(found), "measurements": measured, "remark": remark})
        return
    _show(found)
    if measured:
        render.say()
        render.say("Measured")
        for gpu, text in keeping.measured_lines(found, measured):
            render.say(f"{gpu:<20} {text}", indent=2)
    if remark:
        render.say()
        render.say(remark)


def _show(found: Job) -> None:
    render.say(found.name if found.title == found.name else f"{found.name}: {found.title}")
    if found.description:
        render.say(found.description)
    for section in ("needs", "workload", "limits"):
        values = document(found)[section]
        if values:
            render.say()
            render.say(section.capitalize())
            for name, value in values.items():
                render.say(f"{name.replace('_', ' '):<20} {_shown(value)}", indent=2)
    if found.hours:
        render.say()
        render.say("Hours")
        for gpu, given in found.hours.items():
            at_least = ">= " if given.lower_bound else ""
            text = f"{at_least}{render.hours(given.hours)} on {given.gpus}, {given.basis}"
            render.say(f"{gpu:<20} {text}", indent=2)
            for extra in filter(None, (given.note, given.source)):
                render.say(f"{'':<20} {extra}", indent=2)


@jobs.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE…")
@_OUTPUT
@click.pass_obj
def check(obj: dict[str, Any], files: tuple[str, ...], output: str) -> None:
    """Whether each FILE is a job that can be used; a line for each mistake says what to change."""
    app = App(obj["config"])
    found = [_checked(app, file) for file in files]
    wrong, unfit = (sum(bool(one[name]) for one in found) for name in ("mistakes", "runs_nowhere"))
    if output == "json":
        render.print_json({"files": found})
    for one in found if output == "table" else ():
        for line in one["mistakes"]:
            render.say(f"{one['file']}: not usable: {line}")
        if one["usable"]:
            why = one["runs_nowhere"]
            render.say(f"{one['file']}: ok: {one['summary']}" + (f"; {why}" if why else ""))
    if wrong:
        raise Exit(EXIT_USAGE, f"{wrong} of {render.counted(len(files), 'file')} cannot be used")
    if unfit:
        runs = "runs" if unfit == 1 else "run"
        raise Exit(
            EXIT_NO_MATCH, f"{unfit} of {render.counted(len(files), 'file')} {runs} on no known GPU"
        )


def _checked(app: App, file: str) -> dict[str, Any]:
    """What is to be said of one file: its mistakes, or what it is and whether it runs anywhere."""
    told: dict[str, Any] = {"file": file, "usable": True, "summary": None, "mistakes": [],
                            "runs_nowhere": None}  # fmt: skip
    try:
        found = _read(app, file)
    except Exit as error:
        lines = _mistakes(app, file) or [error.message or ""]
        return told | {
            "usable": False, "mistakes": [line.removeprefix(f"{file}: ") for line in lines],
        }  # fmt: skip
    return told | {"summary": _summary(app, found), "runs_nowhere": keeping.nowhere(app, found)}


@jobs.command()
@click.argument("job", shell_complete=completing.jobs)
@click.option("--gpu", required=True, help="The exact GPU that it ran on: H100-SXM-80GB.")
@click.option(
    "--gpus", type=click.IntRange(1, 10_000), default=1, show_default=True, metavar="N",
    help="How many worked together.",
)  # fmt: skip
@click.option("--hours", type=Positive(unit="hours"), help="Hours of the whole job.")
@click.option("--tokens-per-second", type=Positive(), help="Of all GPUs together.")
@click.option("--samples-per-second", type=Positive(), help="Of all GPUs together.")
@click.option("--requests-per-second", type=Positive(), help="Of all GPUs together.")
@click.option("--gpu-percent", type=_PERCENT, help="Utilisation of the GPUs.")
@click.option("--vram-percent", type=_PERCENT, help="Of the memory.")
@click.option("--bandwidth-percent", type=_PERCENT, help="Of the memory bandwidth.")
@click.option("--communication-percent", type=_PERCENT, help="Of the time, between GPUs.")
@click.option("--note", help="What else should be known of the run.")
@click.pass_obj
def measure(obj: dict[str, Any], /, job: str, **options: Any) -> None:
    """Record what JOB took on a GPU: it replaces the estimate there and scales all others.

    A later measurement on the same GPU replaces an earlier one, which is kept as its version.
    """
    from tracker.cli.measuring import record

    app = App(obj["config"])
    render.say(record(app, _read(app, job), options))


jobs.add_command(recompute)


def _mistakes(app: App, file: str) -> list[str]:
    """All that is wrong with a file, where it can be read at all."""
    from tracker.app.jobs import mistakes_in

    try:
        readable(file, app)
        return mistakes_in(file, app)
    except (Exit, JobError):
        return []


def _read(app: App, name: str) -> Job:
    readable(name, app)
    try:
        return app.job(name)
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def _summary(app: App, job: Job) -> str:
    """The kind, and on how many of the usual GPUs it has hours."""
    from tracker.report.estimates import estimates, gpu_keys

    found = estimates(job, gpu_keys((), job, app.catalogue), app.catalogue)
    runs = sum(isinstance(on.hours, RuntimeEstimate) for on in found)
    return f"{kind(job)}, hours on {runs} of {render.counted(len(found), 'GPU')} tried"


def _shown(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.4g}"
    if isinstance(value, Decimal):
        return render.number(value)
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)
