"""``gpucost import``: prices that somebody else has kept, made a part of history."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App
from tracker.cli import render
from tracker.cli.exits import EXIT_ALL_FAILED, EXIT_NO_MATCH, EXIT_USAGE, Exit
from tracker.cli.options import Duration, Moment

if TYPE_CHECKING:
    from tracker.collect.importing.observation import Report
    from tracker.collect.importing.opening import Request
    from tracker.collect.importing.run import Outcome

FORMATS = ("gpuhunt", "skypilot", "csv", "ndjson", "parquet")
MAX_SHOWN = 12


@click.command(name="import", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("format", type=click.Choice(FORMATS), metavar="FORMAT")
@click.argument("source")
@click.option("--mapping", type=click.Path(dir_okay=False, exists=True), metavar="FILE",
              help="What the columns of a table that is not ours mean (TOML).")  # fmt: skip
@click.option("--since", type=Moment(), help="Only what was observed from then on.")
@click.option("--until", type=Moment(), help="Only what was observed before then.")
@click.option("--at", type=Moment(), help="When a catalogue without a date was read.")
@click.option("--hold", type=Duration(), help="How long an observation holds: 8d; not for exports.")
@click.option("--name", metavar="NAME", help="Record it as the source import-NAME.")
@click.option("--dry-run", is_flag=True, help="Read and judge everything, but write nothing.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table",
              show_default=True, help="What to print.")  # fmt: skip
@click.pass_obj
def import_(obj: dict[str, Any], /, **options: Any) -> None:
    """Import price history. An interrupted import goes on when it is called again.

    \b
    FORMAT and SOURCE:
      gpuhunt   public (its bucket), a URL, or a folder of catalog.zip
      skypilot  a git checkout of its catalogue, or a folder or file with --at
      csv, ndjson, parquet  an export of gpucost, or any table with --mapping
    """
    from tracker.collect.importing.source import BadSource, ImportFailed

    app = App(obj["config"])
    try:
        outcome = _import(app, _request(options), dry=options["dry_run"])
    except BadSource as error:
        raise Exit(EXIT_USAGE, str(error)) from None
    except ImportFailed as error:
        raise Exit(EXIT_ALL_FAILED, str(error)) from None
    if options["output"] == "json":
        render.print_json(document(outcome))
    else:
        _print(outcome)
    if not outcome.report.kept:
        raise Exit(EXIT_NO_MATCH, "no row of it could be kept; see the reasons above")


def _request(options: dict[str, Any]) -> Request:
    import re

    from tracker.collect.importing.opening import Request

    if options["mapping"] and options["format"] in ("gpuhunt", "skypilot"):
        raise click.UsageError("--mapping is for tables; gpuhunt and skypilot need none")
    if options["at"] and options["format"] != "skypilot":
        raise click.UsageError("--at is for skypilot: everything else says its dates")
    if options["since"] and options["until"] and options["since"] >= options["until"]:
        raise click.UsageError("--since must lie before --until")
    if options["name"] and not re.fullmatch(r"[a-z0-9][a-z0-9.-]{0,39}", options["name"]):
        raise click.BadParameter("small letters, digits, dots and dashes", param_hint="--name")
    return Request(
        options["format"], options["source"], datetime.now(UTC), options["since"],
        options["until"], options["at"], options["hold"],
        Path(options["mapping"]) if options["mapping"] else None, options["name"],
    )  # fmt: skip


def _import(app: App, request: Request, *, dry: bool) -> Outcome:
    """Read the source into the database, or on a *dry* run into nothing."""
    from tracker.collect.importing.opening import open_source
    from tracker.collect.importing.run import Judging, dry_run, run_import
    from tracker.collect.importing.web import Web
    from tracker.http.factory import make_download_client

    judging = Judging(app.catalogue, app.rules(), request.since, request.until)
    with Web(make_download_client(app.settings, app.redactor)) as web:
        source = open_source(request, web.fetch)
        with render.long_progress(f"importing {request.format}") as progress:
            if dry:
                return dry_run(source, judging, progress)
            with app.database(upgrade=True) as url:
                from tracker.store import migrate

                migrate.check(url)
                return run_import(url, source, judging, progress)


# Else a reader adds up, and finds more or fewer than were read.
_MIXED = " (a row may hold two prices, on demand and spot, or a part of one)"


def document(outcome: Outcome) -> dict[str, Any]:
    """An import as plain values."""
    report = outcome.report
    return {
        "run": outcome.run, "dry_run": outcome.run is None, "resumed": outcome.resumed,
        "repeated": outcome.repeated, "rows": report.rows, "kept": report.kept,
        "refused": [
            {"reason": reason, "rows": rows, "sample": report.samples.get(reason)}
            for reason, rows in report.refused.most_common()
        ],
        "providers": dict(sorted(report.sellers.items())),
        "gpus": dict(sorted(report.gpus.items())),
        "days": len(report.days), "first": report.first, "last": report.last,
        "absent": report.absent, "spans": outcome.spans, "replaced": outcome.replaced,
    }  # fmt: skip


def _print(outcome: Outcome) -> None:
    report = outcome.report
    refused = sum(report.refused.values())
    mixed = "" if report.rows == report.kept + refused else _MIXED
    render.say(f"{render.counted(report.rows, 'row')} read, {render.counted(report.kept, 'price')}"
               f" kept, {refused:,} refused" + mixed)  # fmt: skip
    if report.absent:
        render.say(f"{render.counted(report.absent, 'day')} without a catalogue")
    if report.first and report.last:
        render.say(f"{render.counted(len(report.days), 'day')} from {report.first:%Y-%m-%d}"
                   f" to {report.last:%Y-%m-%d}")  # fmt: skip
        render.say(f"providers: {_most(report.sellers)}")
        render.say(f"GPUs: {_most(report.gpus)}")
    _print_refused(report)
    if outcome.repeated:
        render.say("imported before, with the same content: nothing to do")
    elif outcome.run is None:
        render.say("dry run: nothing was written")
    else:
        render.say(f"{render.counted(outcome.spans or 0, 'price span')} written"
                   + (f", {outcome.replaced:,} replaced" if outcome.replaced else ""))  # fmt: skip


def _most(counts: dict[str, int]) -> str:
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    text = ", ".join(f"{name} {rows:,}" for name, rows in ranked[:MAX_SHOWN])
    return text + (f" and {len(ranked) - MAX_SHOWN} more" if len(ranked) > MAX_SHOWN else "")


def _print_refused(report: Report) -> None:
    if not report.refused:
        return
    render.say("refused:")
    for reason, rows in report.refused.most_common():
        render.say(f"{rows:,} {reason}", indent=2)
        if sample := report.samples.get(reason):
            render.say(f"such as {sample[:160]}", indent=6)
