"""``gpucost db``: the database's state, its schema, and the embedded server."""

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
    """The database: status, upgrade, start, stop."""


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
        after = migrate.current(url)
    render.say(f"schema {after}" + (" (already)" if before == after else f", was {before}"))


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
