"""``gpucost providers``: each provider's health, and the GPU names nobody knows."""

from __future__ import annotations

from typing import Any

import click

from tracker.app import App, NothingRecorded
from tracker.cli import render
from tracker.cli.exits import EXIT_NO_MATCH, Exit
from tracker.cli.options import output_option

UNMAPPED_COLUMNS = ("provider", "name", "vram", "rows", "sample", "first_seen_at", "last_seen_at")

_TABLE = (
    render.Column("PROVIDER"), render.Column("LAST OK", right=True), render.Column("STATE"),
    render.Column("OFFERS", right=True), render.Column("HELD", 2, right=True),
    render.Column("REJECTED", 3, right=True), render.Column("UNKNOWN", 4, right=True),
    render.Column("USUAL", 5, right=True), render.Column("KEY", 6),
    render.Column("FAILURES", 1, right=True),
)  # fmt: skip
_UNMAPPED_TABLE = (
    render.Column("PROVIDER"), render.Column("NAME"), render.Column("VRAM", 2),
    render.Column("ROWS", 1, right=True), render.Column("SAMPLE"),
)  # fmt: skip


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
    from tracker.app.answers import Answers, Question
    from tracker.report.listing import PROVIDER_COLUMNS

    found = Answers(app).providers(Question.of("providers"))
    now = found.now
    if output not in ("table", "wide"):
        render.print_rows(output, found.rows(), PROVIDER_COLUMNS, found.document())
        return
    asked = found.rows()
    rows = asked[: len(found.health)]
    lines = [
        [
            r["provider"], render.age(r["last_ok_at"], now) if r["last_ok_at"] else "never",
            _state(r), *(figures := _figures(r))[:-1], _usual(r), _key(r), figures[-1],
        ]
        for r in rows
    ]  # fmt: skip
    lines += [
        [r["provider"], "never", _never(r), *[render.DASH] * 5, _key(r), render.DASH]
        for r in asked[len(rows) :]
    ]
    render.print_table(_TABLE, lines, wide=output == "wide")
    render.say()
    for r in rows:
        if r["last_error"] and r["consecutive_failures"]:
            render.say(f"{r['provider']}: {r['last_error']}")
        for reason, number in r["rejects"].items():
            render.say(f"{r['provider']}: {render.counted(number, 'row')} rejected: {reason}")
    if any(r["unmapped"] for r in rows):
        render.say("GPU names nobody knows: gpucost providers --unmapped")
    if any(r["quarantined"] for r in rows):
        render.say("offers held back by a quality gate: gpucost offers --quarantined")


def _figures(r: dict[str, Any]) -> list[str]:
    names = ("offers", "quarantined", "rejected", "unmapped", "consecutive_failures")
    polled = r["last_status"] is not None
    return [render.count(r[name]) if polled else render.DASH for name in names]


def _usual(r: dict[str, Any]) -> str:
    """The coverage against the provider's own past."""
    return render.DASH if r["coverage"] is None else f"{r['coverage'] * 100:.0f}%"


def _key(r: dict[str, Any]) -> str:
    if r["key"] is None:
        return render.DASH
    if r["key"] == "none":
        return "none needed"
    return f"{r['key']}, {'set' if r['key_set'] else 'not set'}: {r['key_variable']}"


def _never(r: dict[str, Any]) -> str:
    return "never polled" if r["configured"] is not False else "not configured"


def _state(r: dict[str, Any]) -> str:
    from tracker.report.health import HIGH_COVERAGE, LOW_COVERAGE

    if r["last_status"] is None:
        return "price book only"
    state = str(r["last_status"])
    if r["retired"]:
        state += ", retired"
    elif r["stale"] and r["last_ok_at"] is not None:
        state += ", stale"
    if r["unchanged_since"] is not None:
        state += f", unchanged since {r['unchanged_since']:%Y-%m-%d}"
    usual = r["coverage"] is None or LOW_COVERAGE <= r["coverage"] <= HIGH_COVERAGE
    if not usual and not r["stale"]:
        state += f", {_usual(r)} of its usual offers"
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
        _UNMAPPED_TABLE,
        [[r["provider"], r["name"], r["vram"], render.count(r["rows"]), r["sample"]] for r in rows],
        wide=output == "wide",
    )
    render.say()
    render.say('To name one, in gpucost.toml:  [aliases]  "THE NAME" = "H100-SXM-80GB"')
