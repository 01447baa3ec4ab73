"""Reading how the service stands: rules, notices waiting, who leads. For /metrics and dashboards.

Plain psycopg like status.py; functions neither write nor commit.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

import psycopg

Connection = psycopg.Connection[Any]


class RuleGauge(NamedTuple):
    """A rule as last evaluated. ``value`` is the number that it watches, None when not known."""

    name: str
    when: str
    phase: str
    health: str
    value: Decimal | None
    evaluated_at: datetime | None


def rules(connection: Connection) -> list[RuleGauge]:
    """The rules in force that have been evaluated at least once or are known, by name."""
    cursor = connection.execute(
        "SELECT name, coalesce(definition ->> 'when', ''), phase, health,"
        " evaluation ->> 'value', evaluated_at"
        " FROM alert_rule WHERE removed_at IS NULL ORDER BY name"
    )
    return [
        RuleGauge(name, when, phase, health, _number(value), evaluated_at)
        for name, when, phase, health, value, evaluated_at in cursor
    ]


def _number(text: str | None) -> Decimal | None:
    try:
        number = Decimal(text or "")
    except InvalidOperation:
        return None
    return number if number.is_finite() else None


class OutboxGauge(NamedTuple):
    """The notices of one channel: how many wait, since when the oldest does, how many were given
    up. A test that failed is none of these: whoever made it was told."""

    channel: str
    waiting: int
    oldest_at: datetime | None
    dead: int


def outbox(connection: Connection) -> list[OutboxGauge]:
    """Every channel that a notice was ever meant for, by name."""
    cursor = connection.execute(
        "SELECT channel, count(*) FILTER (WHERE status IN ('pending', 'sending')),"
        " min(created_at) FILTER (WHERE status IN ('pending', 'sending')),"
        " count(*) FILTER (WHERE status = 'dead' AND kind <> 'test')"
        " FROM alert_outbox GROUP BY channel ORDER BY channel"
    )
    return [OutboxGauge(*row) for row in cursor]
