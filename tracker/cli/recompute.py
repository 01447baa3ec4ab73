"""``gpucost jobs recompute``: estimates on record, worked out anew with what is known now."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import completing, render
from tracker.cli.cheapest import readable
from tracker.cli.exits import EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.domain.job import Job, JobError

if TYPE_CHECKING:
    from tracker.app.recomputing import Recomputing
    from tracker.report.history.recomputed import Pair, Recomputed

_COLUMNS = (
    render.Column("JOB"), render.Column("GPU"), render.Column("OF", 2, right=True),
    render.Column("GPUS", 1, right=True), render.Column("STORED h", right=True),
    render.Column("NEW h", right=True), render.Column("CHANGE", right=True),
    render.Column("BASIS", 3), render.Column("VERSION", 4, right=True),
    render.Column("CAUSE", right=True),
)  # fmt: skip


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("jobs", nargs=-1, metavar="[JOB…]", shell_complete=completing.jobs)
@click.option("--dry-run", is_flag=True, help="Show what would change; write nothing.")
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="What to print.",
)  # fmt: skip
@click.pass_obj
def recompute(obj: dict[str, Any], /, jobs: tuple[str, ...], dry_run: bool, output: str) -> None:
    """Work the estimates on record of JOBS out anew: with the model, catalogue and measurements of
    now. Of all jobs that have some, unless named.

    What has changed is a new version, from now on. Those on record stay as they are, and the past
    keeps the one that it was made with.
    """
    from tracker.app.recomputing import recompute as work_out

    app = App(obj["config"])
    asked = [_read(app, name) for name in jobs]
    try:
        found = work_out(app, asked, datetime.now(UTC), write=not dry_run)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no estimate is on record: nothing was recorded yet") from None
    if not found.found:
        raise Exit(EXIT_NO_MATCH, _nothing(found))
    if output == "json":
        render.print_json(_document(found, dry_run=dry_run))
        return
    if found.changed:
        why = list(dict.fromkeys(one.causes for one in found.changed))  # few, of many rows
        render.print_table(
            _COLUMNS,
            [_cells(one, pair, why.index(one.causes) + 1)
             for one in found.changed for pair in _pairs(one)],
        )  # fmt: skip
        render.say()
        for number, causes in enumerate(why, 1):
            render.say(f"Cause {number}: {'; '.join(causes)}.")
    for line in _said(found, dry_run=dry_run):
        render.say(line)


def _read(app: App, name: str) -> Job:
    readable(name, app)
    try:
        return app.job(name)
    except JobError as error:
        raise Exit(EXIT_USAGE, str(error)) from None


def _nothing(found: Recomputing) -> str:
    of = f" of {', '.join(found.unrecorded)}" if found.unrecorded else ""
    text = f"no estimate is on record{of}: the daemon records those of the jobs of alert rules"
    return f"{text}; {_nameless(found)}" if found.nameless else text


def _nameless(found: Recomputing) -> str:
    jobs = render.counted(found.nameless, "job")
    return f"those of {jobs} on record are left out: no name leads to them here, name their files"


def _pairs(one: Recomputed) -> Iterator[Pair]:
    from tracker.report.history.recomputed import pairs

    return pairs(one)


def _said(found: Recomputing, *, dry_run: bool) -> Iterator[str]:
    jobs = len({one.job for one in found.found})
    of = f"{render.counted(len(found.found), 'estimate')} of {render.counted(jobs, 'job')}"
    changed = len(found.changed)
    if not changed:
        yield f"Nothing has changed: {of} on record are as they would be now. Nothing is written."
    elif dry_run:
        yield f"{changed} of {of} would get a new version. Nothing is written: it is a dry run."
    else:
        yield f"{found.written} of {of} got a new version; those before stay as they are."
    for name in found.unrecorded:
        yield f"{name}: no estimate is on record."
    if found.nameless:
        yield f"Estimates: {_nameless(found)}."


def _cells(one: Recomputed, pair: Pair, cause: int) -> list[str]:
    before, now = pair.stored, pair.fresh
    bases = dict.fromkeys(str(way["basis"]) if way else render.DASH for way in (before, now))
    return [
        one.job, one.stored.gpu_key, str(one.stored.machine_gpus), str(pair.gpus),
        _hours(before), _hours(now),
        render.DASH if pair.percent is None else f"{pair.percent:+,.1f} %",
        " -> ".join(bases), f"{one.stored.version} -> {one.fresh.version}", str(cause),
    ]  # fmt: skip


def _hours(way: Any) -> str:
    if way is None:
        return render.DASH
    hours = Decimal(way["hours"])
    return f"{hours:,.2f}" if hours >= Decimal("0.1") else render.hours(hours).removesuffix(" h")


def _document(found: Recomputing, *, dry_run: bool) -> dict[str, Any]:
    return {
        "dry_run": dry_run,
        "looked_at": len(found.found),
        "changed": len(found.changed),
        "written": found.written,
        "unrecorded": list(found.unrecorded),
        "nameless": found.nameless,
        "changes": [_values(one, pair) for one in found.changed for pair in _pairs(one)],
    }


def _values(one: Recomputed, pair: Pair) -> dict[str, Any]:
    return {
        "job": one.job, "gpu": one.stored.gpu_key, "machine_gpus": one.stored.machine_gpus,
        "gpus": pair.gpus, "change_percent": render.quantity(pair.percent),
        "causes": list(one.causes),
        "stored": _way(one.stored, pair.stored), "new": _way(one.fresh, pair.fresh),
    }  # fmt: skip


def _way(on: Any, way: Any) -> dict[str, Any]:
    """A version of a way, as plain values."""
    number = {key: None if way is None or way[key] is None else render.quantity(Decimal(way[key]))
              for key in ("hours", "low_hours", "high_hours")}  # fmt: skip
    return {
        "version": on.version, "recorded_at": on.recorded_at, **number,
        "basis": None if way is None else way["basis"],
        "provenance": None if on.provenance is None else dict(on.provenance),
    }  # fmt: skip
