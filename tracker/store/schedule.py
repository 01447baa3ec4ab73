"""The daemon's schedule: when each provider is due, and what its last failures ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from tracker.store.engine import transaction

if TYPE_CHECKING:
    from sqlalchemy import Engine  # read-only commands import this module, and have no use for it

Cursor = psycopg.Cursor[Any]


class StoredStanding(NamedTuple):
    """How a provider stands: see ``tracker.daemon.breaker.Standing``."""

    provider: str
    next_due_at: datetime
    failures: int
    breaker: str
    outage_since: datetime | None
    reason: str | None
    updated_at: datetime


_COLUMNS = ", ".join(StoredStanding._fields)
_SAVE_SQL = f"""
INSERT INTO schedule ({_COLUMNS}) VALUES (%s, %s, %s, %s, %s, %s, %s)
ON CONFLICT (provider) DO UPDATE SET next_due_at = excluded.next_due_at,
    failures = excluded.failures, breaker = excluded.breaker,
    outage_since = excluded.outage_since, reason = excluded.reason,
    updated_at = excluded.updated_at
"""  # noqa: S608 - names of columns


class Schedule:
    """Reads and writes the schedule; *guard* is called first in every transaction that writes."""

    def __init__(self, engine: Engine, guard: Callable[[Cursor], None] | None = None) -> None:
        self._engine = engine
        self._guard = guard

    def load(self) -> Mapping[str, StoredStanding]:
        """What is kept of every provider. Raises StoreError."""
        with transaction(self._engine) as cursor:
            return {row.provider: row for row in standings(cursor.connection)}

    def save(self, row: StoredStanding) -> None:
        """Keep *row* in place of what was kept of its provider. Raises StoreError."""
        with transaction(self._engine, self._guard) as cursor:
            cursor.execute(_SAVE_SQL, row)


def standings(connection: psycopg.Connection[Any]) -> list[StoredStanding]:
    """The whole schedule, by provider."""
    cursor = connection.execute(f"SELECT {_COLUMNS} FROM schedule ORDER BY provider")  # noqa: S608
    return [StoredStanding(*row) for row in cursor]
