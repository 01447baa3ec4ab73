"""``gpucost jobs``: the jobs there are, what they assume, and whether a file is one."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import click

from tracker.app import App, job_names
from tracker.cli import render
from tracker.cli.cheapest import readable
from tracker.cli.exits import EXIT_USAGE, Exit
from tracker.cli.options import Positive
from tracker.domain.job import Job, JobError, RuntimeEstimate

_CONTEXT = {"help_option_names": ["-h", "--help"]}
_OUTPUT = click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="What to print.",
)  # fmt: skip
_PERCENT = click.FloatRange(0, 100)
_COLUMNS = (render.Column("JOB"), render.Column("KIND", 1), render.Column("TITLE"))


@click.group(context_settings=_CONTEXT)
def jobs() -> None:
    """Jobs: the built-in ones, what one assumes, and whether a file is one."""


@jobs.command("list")
@_OUTPUT
@click.pass_obj
def list_(obj: dict[str, Any], output: str) -> None:
    """The built-in jobs."""
    app = App(obj["config"])
    found = [app.job(name) for name in job_names()]
    if output == "json":
        rows = [{"job": job.name, "kind": _kind(job), "title": job.title} for job in found]
        render.print_json({"jobs": rows})
        return
    render.print_table(_COLUMNS, [[job.name, _kind(job), job.title] for job in found])


@jobs.command()
@click.argument("job")
@_OUTPUT
@click.pass_obj
def show(obj: dict[str, Any], job: str, output: str) -> None:
    """What JOB (a name or a file) is, and what it assumes."""
    found = _read(App(obj["config"]), job)
    if output == "json":
        render.print_json(_document(found))
        return
    render.say(f"{found.name}: {found.title}")
    if found.description:
        render.say(found.description)
    for section in ("needs", "workload", "limits"):
        values = _document(found)[section]
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
@click.pass_obj
def check(obj: dict[str, Any], files: tuple[str, ...]) -> None:
    """Whether each FILE is a job that can be used; a line for each mistake says what to change."""
    app = App(obj["config"])
    wrong = 0
    for file in files:
        try:
            found = _read(app, file)
        except Exit as error:
            wrong += 1
            for line in _mistakes(app, file) or [error.message or ""]:
                render.say(f"{file}: not usable: {line.removeprefix(f'{file}: ')}")
        else:
            render.say(f"{file}: ok: {_summary(app, found)}")
    if wrong:
        raise Exit(EXIT_USAGE, f"{wrong} of {render.counted(len(files), 'file')} cannot be used")


@jobs.command()
@click.argument("job")
@click.option("--gpu", required=True, help="The exact GPU that it ran on: H100-SXM-80GB.")
@click.option(
    "--gpus", type=click.IntRange(1, 10_000), default=1, show_default=True, metavar="N",
    help="How many worked together.",
)  # fmt: skip
@click.option("--hours", type=Positive(), help="Hours of the whole job.")
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


def _mistakes(app: App, file: str) -> list[str]:
    """All that is wrong with a file, where it can be read at all."""
    from tracker.app.jobs import mistakes_in

    try:
        readable(file)
        return mistakes_in(file, app)
    except (Exit, JobError):
        return []


def _read(app: App, name: str) -> Job:
    readable(name)
    try:
        return app.job(name)
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def _kind(job: Job) -> str:
    return job.task.kind if job.task is not None else "hours"


def _summary(app: App, job: Job) -> str:
    """The kind, and on how many of the usual GPUs it has hours."""
    from tracker.report.estimates import estimates, gpu_keys

    found = estimates(job, gpu_keys((), job, app.catalogue), app.catalogue)
    runs = sum(isinstance(on.hours, RuntimeEstimate) for on in found)
    return f"{_kind(job)}, hours on {runs} of {render.counted(len(found), 'GPU')} tried"


def _document(job: Job) -> dict[str, Any]:
    needs = {
        "gpus_needed": job.gpus_needed if job.task is None or job.count_given else None,
        "min_vram_gb": job.min_vram_gb, "disk_gb": job.disk_gb or None,
        "egress_gb": job.egress_gb or None, "setup_hours": job.setup_hours or None,
    }  # fmt: skip
    limits = job.limits._asdict() if job.limits is not None else {}
    return {
        "name": job.name,
        "title": job.title,
        "description": job.description,
        "kind": _kind(job),
        "needs": {k: v for k, v in needs.items() if v is not None},
        "workload": _workload(job),
        "limits": {k: v for k, v in limits.items() if v not in (None, (), False)},
        "hours": {
            gpu: {
                "hours": render.quantity(h.hours), "gpus": h.gpus, "basis": h.basis,
                "lower_bound": h.lower_bound, "note": h.note, "source": h.source,
            }
            for gpu, h in job.hours.items()
        },
    }  # fmt: skip


def _workload(job: Job) -> dict[str, Any]:
    """The workload's fields that say something, the model by its sizes."""
    if job.task is None:
        return {}
    from dataclasses import fields

    out: dict[str, Any] = {"kind": job.task.kind}
    for field in fields(job.task.workload):
        value = getattr(job.task.workload, field.name)
        if field.name == "model":
            out |= {"model": value.name, "parameters": value.params}
        elif value is not None and not field.name.startswith("reference"):
            out[field.name] = value
    if job.task.service_hours is not None:
        out["service_hours"] = job.task.service_hours
    return out


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
