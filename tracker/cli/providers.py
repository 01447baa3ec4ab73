"""``gpucost providers``: each provider's health, and the GPU names nobody knows."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import render
from tracker.cli.exits import EXIT_NO_MATCH, Exit
from tracker.cli.options import output_option

COLUMNS = (
    "provider", "kind", "last_ok_at", "age_seconds", "stale", "last_status", "last_error",
    "consecutive_failures", "offers", "quarantined", "rejected", "unmapped", "unchanged_since",
)  # fmt: skip
UNMAPPED_COLUMNS = ("provider", "name", "vram", "rows", "sample", "first_seen_at", "last_seen_at")


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--unmapped", is_flag=True, help="GPU names that the catalogue does not know.")
@output_option
@click.pass_obj
def providers(obj: dict[str, Any], unmapped: bool, output: str) -> None:
    """Each provider's last good poll, its age, counts and failures; and those never polled."""
    app = App(obj["config"])
    try:
        if unmapped:
            _unmapped(app, output)
        else:
            _health(app, output)
    except NothingRecorded:
        raise Exit(EXIT_NO_MATCH, "no poll recorded yet; start with: gpucost poll") from None


def _health(app: App, output: str) -> None:
    from tracker import registry
    from tracker.report.health import provider_health

    now = datetime.now(UTC)
    with app.reading() as connection:
        health = provider_health(connection, now)
    rows = [h.as_dict(now) for h in health]
    known = {r["provider"] for r in rows}
    never = [name for name in registry.names() if name not in known]
    if output not in ("table", "wide"):
        rows += [dict.fromkeys(COLUMNS) | {"provider": name, "last_status": "never polled"}
                 for name in never]  # fmt: skip
        render.print_rows(output, rows, COLUMNS, {"as_of": now})
        return
    lines = [
        [
            r["provider"], r["kind"],
            render.age(r["last_ok_at"], now) if r["last_ok_at"] else "never",
            _state(r), render.count(r["offers"]), render.count(r["quarantined"]),
            render.count(r["rejected"]), render.count(r["unmapped"]),
            render.count(r["consecutive_failures"]), (r["last_error"] or "")[:90],
        ]
        for r in rows
    ]  # fmt: skip
    lines += [
        [name, render.DASH, "never", "never polled", *[render.DASH] * 5, ""] for name in never
    ]
    columns = ("PROVIDER", "KIND", "LAST OK", "STATE", "OFFERS", "HELD", "REJECTED", "UNMAPPED",
               "FAILURES", "LAST ERROR")  # fmt: skip
    render.print_table(columns, lines, right=frozenset(columns[4:9]))


def _state(r: dict[str, Any]) -> str:
    state = r["last_status"] or "no polls"
    if r["stale"]:
        state += ", stale"
    if r["unchanged_since"] is not None:
        state += f", content unchanged since {render.iso(r['unchanged_since'])}"
    return state


def _unmapped(app: App, output: str) -> None:
    from tracker.store import reads

    with app.reading() as connection:
        found = reads.unmapped(connection)
    rows: list[dict[str, Any]] = [
        {"provider": u.source, "name": u.name, "vram": u.vram_text, "rows": u.rows_last_poll,
         "sample": u.sample, "first_seen_at": u.first_seen_at, "last_seen_at": u.last_seen_at}
        for u in found
    ]  # fmt: skip
    if output not in ("table", "wide"):
        render.print_rows(output, rows, UNMAPPED_COLUMNS, {})
        return
    if not rows:
        render.say("every GPU name seen is known")
        return
    render.print_table(
        ("PROVIDER", "NAME", "VRAM", "ROWS", "SAMPLE"),
        [[r["provider"], r["name"], r["vram"], render.count(r["rows"]), r["sample"][:90]]
         for r in rows],
        right=frozenset({"ROWS"}),
    )  # fmt: skip
    render.say('name one in gpucost.toml:  [aliases]  "THE NAME" = "H100-SXM-80GB"')
