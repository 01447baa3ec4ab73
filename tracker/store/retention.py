"""How long single offers' prices are kept, and what is done for the history once a day.

Spans older than so many months go, a month's partition at a time; the price floor stays for ever
(for the time before, it is all that there is: ``provider.spans_from`` says since when).
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg

from tracker.store import floor_packs, floor_rebuild, partitions
from tracker.store.engine import connect, translated

Connection = psycopg.Connection[Any]

_PARTITION = re.compile(r"price_span_(\d{4})_(\d{2})\Z")


class Month(NamedTuple):
    """A month of spans: its first instant, how many there are about, and their size on disk."""

    month: datetime
    spans: int
    bytes: int


def horizon(now: datetime, span_months: int) -> datetime | None:
    """The first instant of the oldest month that is kept, if *span_months* whole ones are.

    None (for 0 months): everything is kept. The current month comes on top.
    """
    if span_months == 0:
        return None
    month = partitions.month_of(now)
    number = month.year * 12 + month.month - 1 - span_months
    return datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC) if number >= 12 else None


def expired(connection: Connection, now: datetime, span_months: int) -> list[Month]:
    """The months of spans that are older than they are kept, oldest first."""
    oldest = horizon(now, span_months)
    if oldest is None:
        return []
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT c.relname, greatest(c.reltuples, 0)::int8, pg_total_relation_size(c.oid)"
            " FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid"
            " WHERE i.inhparent = 'price_span'::regclass ORDER BY 1"
        )
        months = []
        for name, spans, size in cursor:
            if match := _PARTITION.match(name):
                month = datetime(int(match[1]), int(match[2]), 1, tzinfo=UTC)
                if month < oldest:
                    months.append(Month(month, spans, size))
    return months


def forget(connection: Connection, now: datetime, span_months: int) -> list[Month]:
    """Drop the months of spans that are older than they are kept; which they were.

    In one transaction, which is committed; the floors of every source are there before. Waits
    only briefly for who reads or records, because others wait behind it: raises then, and may be
    repeated.
    """
    for source in floor_rebuild.unbuilt(connection):
        floor_rebuild.rebuild(connection, source)
    months = expired(connection, now, span_months)
    if not months:
        connection.rollback()
        return []
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL lock_timeout = '3s'")
        # In the order in which a recorder takes them: providers, partitions, spans.
        oldest = horizon(now, span_months)
        cursor.execute("UPDATE provider SET spans_from = greatest(spans_from, %s)", (oldest,))
        partitions.lock(cursor)
        for month in months:
            cursor.execute(f"DROP TABLE IF EXISTS {partitions.partition_name(month.month)}")
    connection.commit()
    return months


class Upkeep(NamedTuple):
    """What a day's work was: sources whose floors were built, and months of spans forgotten."""

    rebuilt: list[str]
    forgotten: list[Month]


def keep_up(url: str, now: datetime, span_months: int) -> Upkeep:
    """What the daemon does for the history once a day, packs apart. Raises StoreError.

    Makes the partitions of this month and the next two, builds floors that an older version did not
    have, and forgets.
    """
    with translated(), connect(url, statement_timeout_s=0) as connection:
        this = partitions.month_of(now)
        following = partitions.next_month(this)
        with connection.cursor() as cursor:
            partitions.ensure(cursor, (this, following, partitions.next_month(following)))
        connection.commit()
        rebuilt = floor_rebuild.unbuilt(connection)
        for source in rebuilt:
            floor_rebuild.rebuild(connection, source)
        return Upkeep(rebuilt, forget(connection, now, span_months))


def build_packs(url: str, now: datetime, most: int) -> int:
    """Pack at most *most* settled months that are not; how many were. Raises StoreError."""
    with translated(), connect(url, statement_timeout_s=0) as connection:
        return floor_packs.build(connection, now=now, most=most)
