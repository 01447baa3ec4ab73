"""The monthly partitions of price_span: made ahead, at the latest when a span is about to close.

Every poll makes those of its month and the next, the daemon those of two more months.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg

# Two recorders may need the same new month at the same moment. Any number, the same for all.
_LOCK = 0x6770755F7370616E


def month_of(moment: datetime) -> datetime:
    """The first instant (UTC) of the month that *moment* lies in."""
    return moment.astimezone(UTC).replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(month: datetime) -> datetime:
    """The first instant of the month after *month* (itself a first instant)."""
    return month_of(month + timedelta(days=32))


def partition_name(month: datetime) -> str:
    """The table that holds the spans closed in *month*."""
    return f"price_span_{month:%Y_%m}"


def ensure(cursor: psycopg.Cursor[Any], months: Iterable[datetime]) -> None:
    """Make the partitions of *months* that are missing, within the caller's transaction.

    A table is made beside the parent and then attached: that lets others read and write the
    parent meanwhile, which CREATE TABLE ... PARTITION OF would not.
    """
    wanted = sorted(set(months))
    present = _present(cursor)
    if all(partition_name(month) in present for month in wanted):
        return
    lock(cursor)
    present = _present(cursor)  # another recorder may just have made them
    for month in wanted:
        name = partition_name(month)
        if name not in present:
            start, end = month.isoformat(), next_month(month).isoformat()
            cursor.execute(f"CREATE TABLE {name} (LIKE price_span INCLUDING ALL)")
            cursor.execute(
                f"ALTER TABLE price_span ATTACH PARTITION {name}"
                f" FOR VALUES FROM ('{start}') TO ('{end}')"
            )


def missing(cursor: psycopg.Cursor[Any], months: Iterable[datetime]) -> set[datetime]:
    """Those of *months* that have no partition; nobody else makes one until the end then."""
    wanted = set(months)
    for locked in (False, True):
        present = _present(cursor)
        absent = {month for month in wanted if partition_name(month) not in present}
        if locked or not absent:
            break
        lock(cursor)
    return absent


def lock(cursor: psycopg.Cursor[Any]) -> None:
    """Keep others from making or dropping partitions until the transaction ends."""
    cursor.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))


def _present(cursor: psycopg.Cursor[Any]) -> set[str]:
    cursor.execute(
        "SELECT c.relname FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
        " WHERE i.inhparent = 'price_span'::regclass"
    )
    return {name for (name,) in cursor}
