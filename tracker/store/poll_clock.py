"""Clocks that were wrong: polls from the future are refused, and ones that got in are undone.

The database's clock is the one that all machines share. Prices of a moment that has not come would
make every true poll after them late, for as long as the clock was ahead.
"""

from __future__ import annotations

import dataclasses
from datetime import datetime, timedelta
from typing import Any

import psycopg

from tracker.store import floor_rebuild, partitions
from tracker.store.poll_log import ProviderRow
from tracker.store.poll_types import Poll

Cursor = psycopg.Cursor[Any]

TOLERANCE = timedelta(minutes=10)


def is_ahead(moment: datetime, now: datetime) -> bool:
    """Whether *moment* lies further in the future than clocks usually differ."""
    return moment > now + TOLERANCE


def refused(poll: Poll, now: datetime) -> Poll:
    """*poll* as one that failed *now*, because the clock it was made by is ahead."""
    gap = timedelta(seconds=round((poll.polled_at - now).total_seconds()))
    return dataclasses.replace(
        poll, status="failed", started_at=now, polled_at=now, accepted=(), quarantined=(),
        released=(), unmapped=(), payloads=(), incomplete_reason=None,
        error=f"the clock of this machine is ahead of the database's by {gap}; set it right",
    )  # fmt: skip


def rewind(cursor: Cursor, row: ProviderRow, at: datetime) -> ProviderRow:
    """Undo what polls from the future did to the source, so that the poll of *at* can follow.

    What opened in the future never was; what it cut short ends at *at* at the latest. Those polls
    stay in the log as late. Returns the row unchanged if a true poll is newer than *at*.
    """
    limit = row.now + TOLERANCE
    cursor.execute(
        "SELECT coalesce("
        " (SELECT max(polled_at) FROM poll WHERE provider_id = %(id)s AND polled_at <= %(limit)s"
        "  AND status IN ('complete', 'partial')),"
        " (SELECT max(valid_from) FROM offer_now"
        "  WHERE source_id = %(id)s AND valid_from < %(at)s))",
        {"id": row.id, "limit": limit, "at": at},
    )
    [(last_ok_at,)] = cursor.fetchall()
    if last_ok_at is not None and at <= last_ok_at:
        return row
    partitions.ensure(cursor, {partitions.month_of(at)})
    values = {"id": row.id, "at": at, "limit": limit, "last_ok_at": last_ok_at}
    for statement in _REWIND_SQL:
        cursor.execute(statement, values)
    if row.floor_built:
        floor_rebuild.rebuild_one(cursor, row.id)
    since = row.content_since and min(row.content_since, at)
    return dataclasses.replace(row, last_ok_at=last_ok_at, content_since=since)


_REWIND_SQL = (
    "DELETE FROM offer_now WHERE source_id = %(id)s AND valid_from >= %(at)s",
    "UPDATE offer_now SET seen_until = NULL WHERE source_id = %(id)s"
    " AND seen_until > %(last_ok_at)s",
    "DELETE FROM price_span WHERE source_id = %(id)s AND valid_from >= %(at)s",
    "UPDATE price_span SET valid_to = %(at)s WHERE source_id = %(id)s AND valid_to > %(at)s",
    "UPDATE provider SET last_ok_at = %(last_ok_at)s WHERE id = %(id)s",
    "UPDATE poll SET status = 'late' WHERE provider_id = %(id)s AND polled_at > %(limit)s"
    " AND status IN ('complete', 'partial', 'shrunk')",
    "UPDATE quarantine SET first_seen_at = least(first_seen_at, %(at)s),"
    " last_seen_at = least(last_seen_at, %(at)s) WHERE source_id = %(id)s",
    "UPDATE unmapped_gpu SET first_seen_at = least(first_seen_at, %(at)s),"
    " last_seen_at = least(last_seen_at, %(at)s) WHERE source_id = %(id)s",
)
