"""The tables of the daemon, of alerts and of measurements, on the metadata of schema.py.

``leader`` and ``schedule`` are the daemon's state, ``alert_rule`` and ``alert_silence`` that of
alerts. ``alert_event`` is append-only; an ``alert_outbox`` row is one event on its way to one
channel. ``measurement`` is append-only too: the newest version is in force.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    CheckConstraint,
    Column,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import JSONB

from tracker.store.schema import metadata

__all__ = ["metadata"]

PHASES = ("ok", "pending", "firing", "recovering")
HEALTHS = ("good", "stale", "no_data", "suspect", "error")
OUTBOX_STATUSES = ("pending", "sending", "sent", "dead", "merged", "dismissed")
BREAKERS = ("closed", "open", "half_open")


def _need(name: str, kind: Any, *rest: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, *rest, nullable=False, **options)


def _instant(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def _one_of(column: str, values: tuple[str, ...]) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


leader = Table(
    # One row for what may only run once. The epoch grows with every change of hands: a write that
    # names an older one comes from somebody who no longer leads.
    "leader",
    metadata,
    _need("name", Text, primary_key=True),
    _need("epoch", BigInteger),
    _need("holder", Text),
    _instant("acquired_at"),
    _instant("beat_at"),
)

schedule = Table(
    # When each provider is due next, and what its last failures ask for.
    "schedule",
    metadata,
    _need("provider", Text, primary_key=True),
    _instant("next_due_at"),
    _need("failures", Integer, server_default=text("0")),  # in a row
    _need("breaker", Text, server_default=text("'closed'")),
    _instant("outage_since", nullable=True),
    Column("reason", Text),
    _instant("updated_at"),
    CheckConstraint("failures >= 0", name="failures"),
    _one_of("breaker", BREAKERS),
    postgresql_with={"fillfactor": "50"},
)

alert_rule = Table(
    # A rule as it was last evaluated. ``machine`` is the state of its state machine; ``phase`` and
    # ``health`` repeat what is asked for most. ``seq`` numbers its transitions, for ever.
    "alert_rule",
    metadata,
    _need("name", Text, primary_key=True),
    _need("version", Integer),
    _need("definition", JSONB),
    _need("definition_sha256", LargeBinary),
    _need("machine", JSONB),
    _need("seq", BigInteger, server_default=text("0")),
    _need("phase", Text),
    _need("health", Text),
    Column("evaluation", JSONB),  # the last one, with its inputs
    _instant("evaluated_at", nullable=True),
    _instant("removed_at", nullable=True),
    CheckConstraint("version > 0 AND seq >= 0", name="numbers"),
    _one_of("phase", PHASES),
    _one_of("health", HEALTHS),
    postgresql_with={"fillfactor": "50"},
)

alert_event = Table(
    # Every transition, notice and change of health with the inputs that led to it. ``firing_seq``
    # is the seq of the firing that it belongs to. Tests count their seq downwards, below zero.
    "alert_event",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("event_id", Text, unique=True),
    _need("rule", Text),
    _need("rule_version", Integer),
    _need("seq", BigInteger),
    Column("firing_seq", BigInteger),
    _need("kind", Text),
    _instant("at"),
    Column("value", Numeric),
    _need("inputs", JSONB),
    Column("suppressed_by", Text),
    UniqueConstraint("rule", "seq", "kind"),
    Index("alert_event_rule_at_idx", "rule", "at"),
)

alert_outbox = Table(
    # ``batch`` is the message that a row goes out in, alone or with others. It is kept until the
    # row ends, so that an attempt whose outcome is unknown is repeated under the same id.
    "alert_outbox",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("event", BigInteger, ForeignKey(alert_event.c.id)),
    _need("rule", Text),
    _need("seq", BigInteger),
    Column("firing_seq", BigInteger),
    _need("kind", Text),
    _need("channel", Text),
    _need("message", JSONB),
    _need("status", Text, server_default=text("'pending'")),
    _need("attempts", Integer, server_default=text("0")),
    _instant("created_at"),
    _instant("due_at"),
    _instant("lease_until", nullable=True),
    Column("lease_by", Text),
    Column("batch", Text),
    _instant("ended_at", nullable=True),
    Column("last_error", Text),
    UniqueConstraint("rule", "seq", "channel", "kind"),
    _one_of("status", OUTBOX_STATUSES),
    Index(
        "alert_outbox_waiting_idx",
        "channel",
        "id",
        postgresql_where=text("status IN ('pending', 'sending')"),
    ),
    postgresql_with={"fillfactor": "70"},
)

alert_silence = Table(
    # What is None matches everything; ``rule`` may hold * and ?.
    "alert_silence",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    Column("rule", Text),
    Column("job", Text),
    Column("provider", Text),
    Column("gpu", Text),
    _instant("starts_at"),
    _instant("until"),
    _need("author", Text),
    _need("comment", Text),
    CheckConstraint("until >= starts_at", name="interval"),
)

measurement = Table(
    # A run of a user's own. Hours are for ``amount`` of ``unit``; ``subject`` says what was run, so
    # that a job that was changed into another one does not inherit them.
    "measurement",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("job", Text),
    _need("subject", Text),
    _need("gpu", Text),
    _need("gpus", Integer),
    _need("version", Integer),
    _need("hours", Numeric),
    Column("unit", Text),
    Column("amount", Numeric),
    _need("utilisation", JSONB),
    Column("note", Text),
    _instant("measured_at"),
    UniqueConstraint("job", "gpu", "gpus", "version"),
    CheckConstraint("gpus > 0 AND version > 0 AND hours > 0", name="numbers"),
)
