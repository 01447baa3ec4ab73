"""Alerts as the tables hold them: rules with their state, events, outbox rows and silences.

Reads take a connection, like status.py; writes take the cursor of a transaction that somebody else
commits (``outbox.transaction``), so that a state, its events and its notices are one change.
"""

# Statements are put together from constants only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[Any]


class StoredRule(NamedTuple):
    """A rule as it was last evaluated. ``machine`` is State.to_json(), ``evaluation`` the inputs
    of the last evaluation."""

    name: str
    version: int
    definition: dict[str, Any]
    definition_sha256: bytes
    machine: dict[str, Any]
    seq: int
    phase: str
    health: str
    evaluation: dict[str, Any] | None
    evaluated_at: datetime | None
    removed_at: datetime | None


_RULE_SQL = f"SELECT {', '.join(StoredRule._fields)} FROM alert_rule"


def rules(connection: Connection, *, include_removed: bool = False) -> list[StoredRule]:
    """The rules that have been evaluated, by name."""
    where = "" if include_removed else " WHERE removed_at IS NULL"
    return [StoredRule(*row) for row in connection.execute(f"{_RULE_SQL}{where} ORDER BY name")]


def rule(connection: Connection, name: str) -> StoredRule | None:
    """One rule, removed ones too."""
    row = connection.execute(f"{_RULE_SQL} WHERE name = %s", (name,)).fetchone()
    return StoredRule(*row) if row else None


def lock_rule(cursor: Cursor, name: str) -> StoredRule | None:
    """The rule, which nobody else can change before this transaction ends."""
    row = cursor.execute(f"{_RULE_SQL} WHERE name = %s FOR UPDATE", (name,)).fetchone()
    return StoredRule(*row) if row else None


def make_rule(
    cursor: Cursor,
    name: str,
    definition: Mapping[str, Any],
    sha256: bytes,
    machine: Mapping[str, Any],
) -> StoredRule:
    """The row of a rule that is seen for the first time, or of whoever was faster; locked."""
    cursor.execute(
        "INSERT INTO alert_rule (name, version, definition, definition_sha256, machine, phase,"
        " health) VALUES (%s, 1, %s, %s, %s, 'ok', 'good') ON CONFLICT (name) DO NOTHING",
        (name, Jsonb(definition), sha256, Jsonb(machine)),
    )
    made = lock_rule(cursor, name)
    if made is None:
        raise LookupError(f"the rule {name} was deleted while it was made")
    return made


def write_rule(cursor: Cursor, row: StoredRule) -> None:
    """Write a locked rule back."""
    cursor.execute(
        "UPDATE alert_rule SET version = %s, definition = %s, definition_sha256 = %s, machine = %s,"
        " seq = %s, phase = %s, health = %s, evaluation = %s, evaluated_at = %s, removed_at = %s"
        " WHERE name = %s",
        (
            row.version, Jsonb(row.definition), row.definition_sha256, Jsonb(row.machine),
            row.seq, row.phase, row.health, None if row.evaluation is None
            else Jsonb(row.evaluation), row.evaluated_at, row.removed_at, row.name,
        ),
    )  # fmt: skip


class NewEvent(NamedTuple):
    """An event to be written. ``event_id`` is unique for ever: receivers tell repeats by it."""

    event_id: str
    rule: str
    rule_version: int
    seq: int
    firing_seq: int | None
    kind: str
    at: datetime
    value: Decimal | None
    inputs: Mapping[str, Any]
    suppressed_by: str | None


def write_event(
    cursor: Cursor, event: NewEvent, message: Mapping[str, Any], channels: Iterable[str]
) -> None:
    """Write an event, and for each channel a notice of it that is due at once."""
    values = event._replace(inputs=Jsonb(event.inputs))  # type: ignore[arg-type]
    columns = ", ".join(NewEvent._fields)
    marks = ", ".join(["%s"] * len(NewEvent._fields))
    row = cursor.execute(
        f"INSERT INTO alert_event ({columns}) VALUES ({marks}) RETURNING id", values
    ).fetchone()
    id_ = row[0] if row else None
    for channel in dict.fromkeys(channels):
        cursor.execute(
            "INSERT INTO alert_outbox (event, rule, seq, firing_seq, kind, channel, message,"
            " created_at, due_at) VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)",
            (
                id_, event.rule, event.seq, event.firing_seq, event.kind, channel, Jsonb(message),
                event.at, event.at,
            ),
        )  # fmt: skip


def channels_told(cursor: Cursor, rule: str, firing_seq: int) -> list[str]:
    """The channels that a firing was or will be told on, by name."""
    cursor.execute(
        "SELECT DISTINCT channel FROM alert_outbox WHERE rule = %(rule)s"
        " AND kind IN ('fired', 'still_firing') AND coalesce(firing_seq, seq) = %(seq)s ORDER BY 1",
        {"rule": rule, "seq": firing_seq},
    )
    return [channel for (channel,) in cursor]


def next_test_seq(cursor: Cursor, rule: str) -> int:
    """The seq of the next test of a rule: they count downwards, below zero."""
    # Two tests at once would take the same number.
    cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 3))", (f"alert test {rule}",))
    row = cursor.execute(
        "SELECT least(coalesce(min(seq), 0), 0) - 1 FROM alert_event WHERE rule = %s", (rule,)
    ).fetchone()
    return int(row[0]) if row else -1


class StoredEvent(NamedTuple):
    """One line of the history. ``inputs`` holds the evaluation, and under ``event`` what else the
    event says."""

    id: int
    event_id: str
    rule: str
    rule_version: int
    seq: int
    firing_seq: int | None
    kind: str
    at: datetime
    value: Decimal | None
    inputs: dict[str, Any]
    suppressed_by: str | None


def history(
    connection: Connection,
    rule: str | None = None,
    *,
    since: datetime | None = None,
    limit: int = 50,
) -> list[StoredEvent]:
    """The latest events, newest first: of one rule, or of all."""
    cursor = connection.execute(
        f"SELECT {', '.join(StoredEvent._fields)} FROM alert_event"
        " WHERE (%(rule)s::text IS NULL OR rule = %(rule)s)"
        " AND (%(since)s::timestamptz IS NULL OR at >= %(since)s)"
        " ORDER BY at DESC, id DESC LIMIT %(limit)s",
        {"rule": rule, "since": since, "limit": limit},
    )
    return [StoredEvent(*row) for row in cursor]


class Silence(NamedTuple):
    """From ``starts_at`` until before ``until`` no notice goes out of what all matchers match;
    None matches everything. ``rule`` may hold * and ?."""

    id: int
    rule: str | None
    job: str | None
    provider: str | None
    gpu: str | None
    starts_at: datetime
    until: datetime
    author: str
    comment: str


def silences(connection: Connection, at: datetime | None = None) -> list[Silence]:
    """The silences in force at *at*, or all of them; by number."""
    cursor = connection.execute(
        f"SELECT {', '.join(Silence._fields)} FROM alert_silence"
        " WHERE %(at)s::timestamptz IS NULL OR (starts_at <= %(at)s AND until > %(at)s)"
        " ORDER BY id",
        {"at": at},
    )
    return [Silence(*row) for row in cursor]


def add_silence(
    cursor: Cursor,
    *,
    starts_at: datetime,
    until: datetime,
    author: str,
    comment: str,
    rule: str | None = None,
    job: str | None = None,
    provider: str | None = None,
    gpu: str | None = None,
) -> int:
    """Write a silence and return its number."""
    row = cursor.execute(
        "INSERT INTO alert_silence (rule, job, provider, gpu, starts_at, until, author, comment)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s) RETURNING id",
        (rule, job, provider, gpu, starts_at, until, author, comment),
    ).fetchone()
    return int(row[0]) if row else 0


def end_silence(cursor: Cursor, id_: int, at: datetime) -> bool:
    """Let a silence end at *at* (at its start, if that is later). False: none is in force."""
    cursor.execute(
        "UPDATE alert_silence SET until = greatest(starts_at, %(at)s)"
        " WHERE id = %(id)s AND until > %(at)s",
        {"id": id_, "at": at},
    )
    return cursor.rowcount == 1
