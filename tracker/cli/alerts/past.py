"""``gpucost alerts history`` and ``outbox``: what happened, and what became of the notices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click

from tracker.app import App
from tracker.cli import completing, render
from tracker.cli.alerts.common import (
    CONTEXT,
    Configured,
    moment,
    ratio,
    reading,
    unknown_rule,
    working,
)
from tracker.cli.exits import EXIT_NO_MATCH, Exit
from tracker.cli.options import CommaList, Duration, output_option

if TYPE_CHECKING:
    import psycopg

    from tracker.store.alerts import StoredEvent
    from tracker.store.outbox_admin import StoredNotice

DEFAULT_SINCE = timedelta(days=30)
MOST_ROWS = 100_000

EVENT_COLUMNS = (
    "at", "rule", "kind", "phase_from", "phase_to", "value", "label", "previous_label", "found",
    "reason", "notice", "suppressed_by", "seq", "firing_seq", "rule_version", "event_id", "inputs",
)  # fmt: skip
_EVENTS = (
    render.Column("AT"), render.Column("RULE"), render.Column("EVENT"),
    render.Column("VALUE", 1, right=True), render.Column("FIRED BY", 3, right=True),
    render.Column("NOTICE", 1), render.Column("REASON", 2), render.Column("EVENT ID", 4),
)  # fmt: skip
NOTICE_COLUMNS = (
    "id", "rule", "kind", "channel", "status", "attempts", "created_at", "due_at", "ended_at",
    "last_error", "event_id", "seq", "message",
)  # fmt: skip
_NOTICES = (
    render.Column("ID", right=True), render.Column("RULE"), render.Column("EVENT", 1),
    render.Column("CHANNEL"), render.Column("STATUS"), render.Column("TRIES", 2, right=True),
    render.Column("WRITTEN", 2), render.Column("NEXT TRY", 3), render.Column("ENDED", 3),
    render.Column("ERROR", 1),
)  # fmt: skip
# What can be done to notices that were given up; how it is told, what was not so, that none was.
_CHANGES = {
    "retry": (
        "to be tried again: {}; the daemon sends them", "not given up, or its end was told",
        "no notice was given up that can be retried",
    ),
    "dismiss": ("counts no more: {}", "not given up", "no notice was given up"),
}  # fmt: skip


@click.command(context_settings=CONTEXT)
@click.argument("rule", required=False, shell_complete=completing.rules)
@click.option("--since", type=Duration(), default=DEFAULT_SINCE, metavar="DURATION",
              help="Of this time: 12h, 7d. Unless given: 30d.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=50, metavar="N",
              show_default=True, help="Only the latest N.")  # fmt: skip
@output_option
@click.pass_obj
def history(
    obj: dict[str, Any], rule: str | None, since: timedelta, limit: int, output: str
) -> None:
    """What happened to RULE, or to all rules, newest first: every transition with its inputs, and
    whether a notice went out or what kept it back."""
    from tracker.store import alerts

    app = App(obj["config"])
    now = datetime.now(UTC)
    with reading(app) as connection:
        _refuse_unknown(app, connection, rule)
        start = now - min(since, timedelta(days=36_500))
        found = alerts.history(connection, rule, since=start, limit=limit)
    rows = [_event(event) for event in found]
    if output not in ("table", "wide"):
        columns = EVENT_COLUMNS if output != "csv" else EVENT_COLUMNS[:-1]
        render.print_rows(output, rows, columns, {"as_of": now, "since": start})
        return
    if not rows:
        whose = f" to {rule}" if rule else ""
        render.say(f"nothing happened{whose} since {moment(start)} UTC")
        return
    render.print_table(_EVENTS, [_event_line(row) for row in rows], wide=output == "wide")
    if len(rows) == limit:
        render.say(f"the latest {limit}; --limit shows more")


def _refuse_unknown(app: App, connection: psycopg.Connection[Any], rule: str | None) -> None:
    from tracker.store import alerts

    if rule is None:
        return
    kept = {row.name for row in alerts.rules(connection, include_removed=True)}
    if rule not in kept:
        names = Configured.of(app).names
        if rule not in names:
            raise unknown_rule(rule, kept | names)


def _event(event: StoredEvent) -> dict[str, Any]:
    from tracker.alert.context import number_text
    from tracker.domain.rule.types import SILENT_KINDS

    more: Mapping[str, Any] = event.inputs.get("event") or {}
    silent = event.kind in {str(kind) for kind in SILENT_KINDS}
    return {
        **{name: more.get(name) for name in EVENT_COLUMNS}, **event._asdict(),
        "reason": more.get("reason"), "value": number_text(event.value),
        "notice": "none" if silent else "kept_back" if event.suppressed_by else "yes",
        "found": len(more.get("found") or ()) or None,
    }  # fmt: skip


def _event_line(row: Mapping[str, Any]) -> list[str]:
    value = ratio(row["value"])
    if row["label"]:
        value = f"{row['previous_label'] or '?'} -> {row['label']}"
    elif row["found"]:
        value = render.counted(row["found"], "offer")
    kept = row["suppressed_by"]
    return [
        moment(row["at"]), row["rule"], str(row["kind"]).replace("_", " "), value,
        render.DASH if row["firing_seq"] is None else str(row["firing_seq"]),
        f"kept back: {kept}" if kept else render.DASH if row["notice"] == "none" else "yes",
        row["reason"] or "", row["event_id"],
    ]  # fmt: skip


@click.command(context_settings=CONTEXT)
@click.argument("rule", required=False, shell_complete=completing.rules)
@click.option("--dead", is_flag=True, help="Only what was given up.")
@click.option("--waiting", is_flag=True, help="Only what is still to be sent.")
@click.option("--channel", metavar="NAME", help="Only what goes to this channel.")
@click.option("--retry", type=CommaList(), multiple=True, metavar="ID|all",
              help="Try these again that were given up.")  # fmt: skip
@click.option("--dismiss", type=CommaList(), multiple=True, metavar="ID|all",
              help="Count these no more that were given up.")  # fmt: skip
@click.option("--limit", type=click.IntRange(1, MOST_ROWS), default=50, metavar="N",
              show_default=True, help="Only the latest N.")  # fmt: skip
@output_option
@click.pass_obj
def outbox(obj: dict[str, Any], /, rule: str | None, **options: Any) -> None:
    """The notices, of RULE or of all rules, newest first, with their tries and their last error."""
    from tracker.store import outbox_admin

    app = App(obj["config"])
    if options["dead"] and options["waiting"]:
        raise click.UsageError("--dead and --waiting exclude each other")
    changes = {how: [name for group in options[how] for name in group] for how in _CHANGES}
    if any(changes.values()):
        if all(changes.values()):
            raise click.UsageError("--retry and --dismiss exclude each other")
        [(how, names)] = [item for item in changes.items() if item[1]]
        if rule or options["dead"] or options["waiting"]:
            raise click.UsageError(f"--{how} takes ids, or all (of one --channel)")
        _change(app, how, names, options["channel"])
        return
    statuses = ("pending", "sending") if options["waiting"] else ("dead",) * options["dead"]
    with reading(app) as connection:
        _refuse_unknown(app, connection, rule)
        found = outbox_admin.listed(
            connection, statuses=statuses, channel=options["channel"], rule=rule,
            limit=options["limit"],
        )  # fmt: skip
    rows = [_notice(app, notice) for notice in found]
    _print_notices(rows, options["output"], options["limit"])


def _notice(app: App, notice: StoredNotice) -> dict[str, Any]:
    error = notice.last_error
    return notice._asdict() | {"last_error": error and app.redactor(error)}


def _print_notices(rows: Sequence[Mapping[str, Any]], output: str, limit: int) -> None:
    if output not in ("table", "wide"):
        columns = NOTICE_COLUMNS if output != "csv" else NOTICE_COLUMNS[:-1]
        render.print_rows(output, rows, columns, {"as_of": datetime.now(UTC)})
        return
    if not rows:
        render.say("no notice")
        return
    lines = [
        [
            str(r["id"]), r["rule"], str(r["kind"]).replace("_", " "), r["channel"], r["status"],
            str(r["attempts"]), moment(r["created_at"]),
            moment(r["due_at"]) if r["status"] == "pending" else render.DASH,
            moment(r["ended_at"]), r["last_error"] or "",
        ]
        for r in rows
    ]  # fmt: skip
    render.print_table(_NOTICES, lines, wide=output == "wide")
    if any(r["status"] == "dead" for r in rows):
        render.say("to try what was given up again: gpucost alerts outbox --retry ID|all;"
                   " to count it no more: --dismiss ID|all")  # fmt: skip
    if len(rows) == limit:
        render.say(f"the latest {limit}; --limit shows more")


def _change(app: App, how: str, names: Sequence[str], channel: str | None) -> None:
    """Retry or dismiss the notices of these *names* that were given up."""
    from tracker.store import outbox_admin

    ids = None if "all" in names else list(_ids(names, how))
    if ids is None and len(names) > 1:
        raise click.UsageError(f"--{how} all means every one; name no ids beside it")
    if ids is not None and channel is not None:
        raise click.UsageError(f"--channel goes with --{how} all")
    with working(app) as (_, engine):
        if how == "retry":
            done = outbox_admin.retry_dead(engine, datetime.now(UTC), ids=ids, channel=channel)
        else:
            done = outbox_admin.dismiss_dead(engine, ids=ids, channel=channel)
    told, not_so, none = _CHANGES[how]
    if done:
        render.say(told.format(", ".join(map(str, done))))
    left = sorted(set(ids or ()) - set(done))
    if left or not done:
        raise Exit(EXIT_NO_MATCH, f"{not_so}: {', '.join(map(str, left))}" if left else none)


def _ids(names: Sequence[str], how: str) -> Iterator[int]:
    for name in names:
        if not name.isdecimal() or len(name) > 18:
            raise click.BadParameter(f"{name!r} is neither an id nor all", param_hint=f"--{how}")
        yield int(name)
