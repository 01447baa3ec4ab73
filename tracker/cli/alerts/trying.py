"""``gpucost alerts test``: a notice that is marked as a test, the way every notice goes."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App
from tracker.cli import completing, render
from tracker.cli.alerts.common import CONTEXT, Configured, working
from tracker.cli.alerts.evaluating import alert_engine, refuse_empty
from tracker.cli.exits import EXIT_NOT_SENT, EXIT_USAGE, Exit
from tracker.cli.options import CommaList

if TYPE_CHECKING:
    from sqlalchemy import Engine

    from tracker.alert.rules import Rule
    from tracker.store.leader import Leadership
    from tracker.store.outbox_admin import StoredNotice

# A daemon looks at the outbox every few seconds, and a send may take two minutes.
PATIENCE_S = 150.0
PAUSE_S = 0.25

UNKNOWN_THERE = "no channel of this name is configured"  # of who delivers: store/outbox.py

COLUMNS = ("channel", "type", "result", "error")
_TABLE = (render.Column("CHANNEL"), render.Column("TYPE"), render.Column("RESULT"),
          render.Column("ERROR"))  # fmt: skip


@click.command(context_settings=CONTEXT)
@click.argument("rule", shell_complete=completing.rules)
@click.option("--channel", "names", type=CommaList(), multiple=True,
              help="On these channels instead of the rule's own.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table",
              show_default=True, help="What to print.")  # fmt: skip
@click.pass_obj
def test(obj: dict[str, Any], rule: str, names: tuple[tuple[str, ...], ...], output: str) -> None:
    """Send a notice of RULE that is marked as a test, and say for each channel what came of it.

    It goes through the outbox like every notice: the daemon that leads sends it, or this command
    where none does. The rule's state stays as it is.
    """
    app = App(obj["config"])
    wanted = Configured.of(app).rule(rule)
    channels = _channels(app, wanted, [name for group in names for name in group])
    working_ones = [name for name in channels if name in app.channels[0]]
    results = {name: _unusable(app, name) for name in channels if name not in working_ones}
    event_id = None
    if working_ones:
        with working(app) as (url, engine):
            refuse_empty(engine)
            event_id, rows = _send(app, url, engine, wanted, working_ones)
        results |= {row.channel: _result(app, row) for row in rows}
    found = [results[name] for name in channels]
    if output == "json":
        render.print_rows("json", found, COLUMNS, {"rule": wanted.name, "event_id": event_id})
    else:
        render.print_table(_TABLE, [[r[c] or render.DASH for c in COLUMNS] for r in found])
        if event_id is not None:
            render.say(f"event {event_id}")
    failed = [row["channel"] for row in found if row["result"] not in ("sent", "waiting")]
    waiting = [row["channel"] for row in found if row["result"] == "waiting"]
    told = [f"the test did not get through on {', '.join(failed)}"] if failed else []
    told += [f"the test still waits on {', '.join(waiting)}"] if waiting else []
    if told:
        raise Exit(EXIT_NOT_SENT, "; ".join(told))


def _channels(app: App, rule: Rule, asked: Sequence[str]) -> list[str]:
    from tracker.alert.fields import nearest

    known = {*app.channels[0], *(problem.channel for problem in app.channels[1])}
    for name in asked:
        if name not in known:
            raise Exit(EXIT_USAGE, f"no channel is called {name!r}; {nearest(name, known)}")
    return list(dict.fromkeys(asked or rule.channels))


def _unusable(app: App, name: str) -> dict[str, Any]:
    problem = next(p.problem for p in app.channels[1] if p.channel == name)
    return {"channel": name, "type": None, "result": "not usable", "error": app.redactor(problem)}


def _result(app: App, row: StoredNotice) -> dict[str, Any]:
    results = {"sent": "sent", "dead": "failed"}
    error = None if row.status == "sent" else row.last_error
    if row.status not in results and error == UNKNOWN_THERE:
        error = f"{error} in the daemon that leads: let it read its configuration anew (SIGHUP)"
    elif row.status not in results and error is None:
        error = "nothing has come of it yet; see: gpucost alerts outbox"
    return {
        "channel": row.channel, "type": app.channels[0][row.channel].kind,
        "result": results.get(row.status, "waiting"), "error": error and app.redactor(error),
    }  # fmt: skip


def _send(
    app: App, url: str, engine: Engine, rule: Rule, channels: Sequence[str]
) -> tuple[str, list[StoredNotice]]:
    """Write the test and see to its delivery: its event's id, and what became of its rows."""
    from tracker.alert.deliver import holder_name
    from tracker.store.leader import Leadership

    direct = app.settings.daemon.lock_database_url
    lock_url = url if direct is None or app.embedded is not None else direct.get_secret_value()
    leadership = Leadership(lock_url, holder_name())
    try:
        leads = leadership.acquire()
        guard = leadership.guard if leads else None
        event_id = alert_engine(app, engine, rule, guard).test(rule, datetime.now(UTC), channels)
        if not leads:
            click.echo("a daemon leads: it sends the test", err=True)
        rows = _until_done(app, engine, rule, leadership, event_id)
    finally:
        leadership.release()
    return event_id, rows


def _until_done(
    app: App, engine: Engine, rule: Rule, leadership: Leadership, event_id: str
) -> list[StoredNotice]:
    """Wait for the daemon that leads, and send the test ourselves as soon as none does."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        rows = _rows(engine, rule.name, event_id)
        unknown = [row for row in rows if row.last_error and row.status == "pending"]
        waiting = [row for row in rows if row.status in ("pending", "sending")]
        if len(waiting) == len(unknown) or time.monotonic() > deadline:
            return rows
        if leadership.acquire():
            with _logging(app):
                _deliver(app, engine, rule, leadership, event_id)
        time.sleep(PAUSE_S)


def _rows(engine: Engine, rule: str, event_id: str) -> list[StoredNotice]:
    from tracker.store import outbox_admin
    from tracker.store.engine import transaction

    with transaction(engine) as cursor:
        found = outbox_admin.listed(cursor.connection, rule=rule, limit=500)
    return [row for row in found if row.event_id == event_id]


def _deliver(app: App, engine: Engine, rule: Rule, leadership: Leadership, event_id: str) -> None:
    from tracker.alert.deliver import Deliverer

    deliverer = Deliverer(
        engine, app.channels[0], redactor=app.redactor, guard=leadership.guard,
        templates={} if rule.template is None else {rule.name: rule.template},
    )  # fmt: skip
    asyncio.run(deliverer.run_once(event_id=event_id))


@contextmanager
def _logging(app: App) -> Iterator[None]:
    """The log channel needs a log; what the deliverer says of failures is in the table."""
    from tracker.telemetry import setup_logging

    setup_logging(app.settings.log_level, app.settings.log_format, redactor=app.redactor)
    deliverer = logging.getLogger("tracker.alert.deliver")
    before = deliverer.level
    deliverer.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        deliverer.setLevel(before)
