"""``gpucost db``: the database's state, its schema, what it keeps, and the embedded server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from tracker.app import App
from tracker.cli import render
from tracker.cli.exits import EXIT_USAGE, Exit

if TYPE_CHECKING:
    from tracker.store.status import DatabaseSize

_CONTEXT = {"help_option_names": ["-h", "--help"]}


@click.group(context_settings=_CONTEXT)
def db() -> None:
    """The database: its state and schema, what it keeps, the embedded server."""


@db.command()
@click.option(
    "-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True,
    help="What to print.",
)  # fmt: skip
@click.pass_obj
def status(obj: dict[str, Any], output: str) -> None:
    """Where the database is, of which version, and what it holds."""
    app = App(obj["config"])
    facts = _status(app)
    if output == "json":
        render.print_json(facts)
        return
    for name, value in facts.items():
        if isinstance(value, dict):
            value = ", ".join(f"{table} {rows:,}" for table, rows in value.items()) or None
        shown = render.DASH if value is None else value
        render.say(f"{name.replace('_', ' '):<16} {shown}")


def _status(app: App) -> dict[str, Any]:
    from tracker.store import migrate, reads
    from tracker.store.dsn import public_url
    from tracker.store.engine import read_connection

    facts: dict[str, Any] = {"kind": "embedded" if app.embedded else "server"}
    if app.embedded is not None:
        server = app.embedded.status()
        facts |= {"data": str(server.data), "running": server.running, "kept_running": server.kept}
        if not server.data.exists():
            return {**facts, "schema": "none yet; the first poll makes it"}
        programs = app.embedded.programs()
        facts |= {"url": server.url, "programs": None if programs is None else str(programs)}
    else:
        facts["url"] = public_url(str(app.boot.database_url))
    with app.database() as url, read_connection(url) as connection:
        revision = migrate.read_revision(connection)
        facts |= {"schema": revision, "schema_wanted": migrate.head()}
        if revision == migrate.head():
            facts |= _contents(reads.database_size(connection))
    return facts


def _contents(size: DatabaseSize) -> dict[str, Any]:
    from tracker.store import migrate

    rows = {name: table.rows for name, table in size.tables.items()
            if table.rows and name != migrate.VERSION_TABLE}  # fmt: skip
    return {
        "megabytes": round(size.bytes / 2**20), "live_offers": size.live_offers,
        "first_poll": render.iso(size.since),
        "rows": rows,
    }  # fmt: skip


@db.command()
@click.pass_obj
def upgrade(obj: dict[str, Any]) -> None:
    """Bring the schema to this version (safe to run twice, and by two at once)."""
    from tracker.store import migrate

    app = App(obj["config"])
    with app.database() as url:
        before = migrate.current(url)
        migrate.upgrade(url)
        _build_floors(url)
        after = migrate.current(url)
    render.say(f"schema {after}" + (" (already)" if before == after else f", was {before}"))


def _build_floors(url: str) -> None:
    """Of prices that were recorded before there were floors: once, after an upgrade."""
    from tracker.store import floor_rebuild
    from tracker.store.engine import connect, translated

    with translated(), connect(url, statement_timeout_s=0) as connection:
        for source in floor_rebuild.unbuilt(connection):
            render.say(f"working out the cheapest prices of {source} …")
            floor_rebuild.rebuild(connection, source)


@db.command("rebuild-floor")
@click.option("--source", metavar="NAME", help="Only what this provider or import told.")
@click.pass_obj
def rebuild_floor(obj: dict[str, Any], source: str | None) -> None:
    """Work out the cheapest prices of the past anew from every single offer's.

    They are kept up to date by every poll: this is for an older database, or for doubts. Polls of
    a provider wait meanwhile.
    """
    from tracker.store import floor_rebuild, migrate
    from tracker.store.engine import connect, translated

    app = App(obj["config"])
    with app.database() as url:
        migrate.check(url)
        with translated(), connect(url, statement_timeout_s=0) as connection:
            try:
                rebuilt = floor_rebuild.rebuild(connection, source)
            except LookupError:
                raise Exit(
                    EXIT_USAGE,
                    f"nothing was ever recorded from {source!r}: gpucost providers lists who told",
                ) from None
    steps = sum(found.steps + found.open_steps for found in rebuilt.values())
    keys = sum(found.keys for found in rebuilt.values())
    render.say(f"{steps:,} steps of {keys:,} price floors, from {len(rebuilt):,} sources")


@db.command()
@click.option("--dry-run", is_flag=True, help="Say what would go; change nothing.")
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table",
              show_default=True, help="What to print.")  # fmt: skip
@click.pass_obj
def retention(obj: dict[str, Any], dry_run: bool, output: str) -> None:
    """Forget the prices of single offers that are older than [retention] span_months.

    The cheapest prices of that time stay. The daemon does this once a day.
    """
    from datetime import UTC, datetime

    from tracker.store import migrate
    from tracker.store import retention as kept
    from tracker.store.engine import connect, translated

    app = App(obj["config"])
    months, now = app.settings.retention.span_months, datetime.now(UTC)
    with app.database() as url:
        migrate.check(url)
        with translated(), connect(url, statement_timeout_s=0) as connection:
            gone = (kept.expired if dry_run else kept.forget)(connection, now, months)
    oldest = kept.horizon(now, months)
    if output == "json":
        told = [
            {"month": f"{m.month:%Y-%m}", "prices_about": m.spans, "bytes": m.bytes} for m in gone
        ]
        kept_from = None if oldest is None else f"{oldest:%Y-%m}"
        render.print_json({"dry_run": dry_run, "kept_from": kept_from, "months": told})
        return
    if oldest is None:
        render.say("single offers' prices are kept for ever ([retention] span_months = 0)")
        return
    for month in gone:
        size = f"about {month.spans:,} prices, {month.bytes / 2**20:,.0f} MB"
        render.say(f"{month.month:%Y-%m}: {size}{' would go' if dry_run else ' forgotten'}")
    if not gone:
        render.say(f"nothing to forget: no prices of single offers are older than {oldest:%Y-%m}")


@db.command()
@click.pass_obj
def start(obj: dict[str, Any]) -> None:
    """Start the embedded server and leave it running until `gpucost db stop`."""
    url = _embedded(App(obj["config"])).start()
    render.say(f"running: {url}")


@db.command()
@click.option("--force", is_flag=True, help="Even while other processes use it.")
@click.pass_obj
def stop(obj: dict[str, Any], force: bool) -> None:
    """Stop the embedded server."""
    stopped = _embedded(App(obj["config"])).stop(force=force)
    render.say("stopped" if stopped else "was not running")


def _embedded(app: App) -> Any:
    if app.embedded is None:
        raise Exit(EXIT_USAGE, "a database URL is configured: there is no embedded server to run")
    return app.embedded
