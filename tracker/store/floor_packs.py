"""Settled months of the price floor, packed by GPU: a cache that may be thrown away at any time.

A pack holds all steps of a GPU's floors within a month, as arrays (series/packing.py). A month is
settled when it lies so far back that polls of it are not to be expected; whoever nevertheless
writes to it (a late poll, an import, a rate that moved under a step that is still open) throws its
packs away in the same transaction. Where a pack is missing the tables say the same.
"""

# Statements are put together from names of the schema and dates; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import Any

import psycopg

from tracker.store.partitions import month_of, next_month
from tracker.store.stored import KNOWN_UNTIL_SQL

Cursor = psycopg.Cursor[Any]
Connection = psycopg.Connection[Any]

SETTLED_AFTER = timedelta(days=1)  # behind the end of a month

# Between who builds a pack and who throws it away. Any number, the same for all.
_LOCK = 0x6770755F7061636B


def throw_away(
    cursor: Cursor, since: datetime | None = None, gpu_keys: Collection[str] | None = None
) -> int:
    """Delete the packs of the month of *since* and later, of *gpu_keys*; None: of all.

    To be called by every transaction that changes what the floor says of such a month, before it
    commits. Returns how many there were.
    """
    # Whoever builds meanwhile has not seen what this transaction writes: wait for that, delete it.
    lock = f"SELECT pg_advisory_xact_lock({_LOCK})"
    month = "-infinity" if since is None else month_of(since).date().isoformat()
    delete = f"DELETE FROM floor_pack WHERE month >= '{month}'"
    if gpu_keys is None:
        cursor.execute(f"{lock}; {delete}")  # at once: it may come with every poll
        cursor.nextset()
    else:
        cursor.execute(lock)
        cursor.execute(delete + " AND gpu_key = ANY (%s)", (list(gpu_keys),))
    return cursor.rowcount


def build(connection: Connection, *, now: datetime, most: int | None = None) -> int:
    """Pack the settled months that have none, at most *most* packs; how many were built.

    Each in a transaction of its own, which is committed. Nothing is built while the floors of any
    source are not (floor_rebuild.py).
    """
    built = 0
    for gpu_key, month in _missing(connection, now):
        if most is not None and built >= most:
            break
        built += _build(connection, gpu_key, month)
        connection.commit()
    connection.rollback()
    return built


def _missing(connection: Connection, now: datetime) -> Iterator[tuple[str, datetime]]:
    """What is not packed: of every GPU all settled months since the first price of any."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT least((SELECT min(valid_from) FROM price_floor),"
            " (SELECT min(valid_from) FROM floor_now)),"
            " EXISTS (SELECT FROM provider WHERE NOT floor_built AND last_ok_at IS NOT NULL)"
        )
        [(first, unbuilt)] = cursor.fetchall()
        if first is None or unbuilt:
            return
        gpus = cursor.execute("SELECT DISTINCT gpu_key FROM floor_key ORDER BY 1").fetchall()
        packed = set(cursor.execute("SELECT gpu_key, month FROM floor_pack").fetchall())
    connection.commit()
    month = month_of(first)
    while next_month(month) + SETTLED_AFTER <= now:
        for (gpu_key,) in gpus:
            if (gpu_key, month.date()) not in packed:
                yield gpu_key, month
        month = next_month(month)


# Steps of a key do not overlap: of those that end later only the first can reach into the month.
# Asked for in one go, an old month would take as long as all the time since.
_STEPS_SQL = f"""
SELECT f.key_id::bigint, greatest(f.valid_from, %(start)s), least(f.valid_to, %(end)s),
    f.price_micro_usd, f.offer_id
FROM floor_key k CROSS JOIN LATERAL (
    SELECT * FROM price_floor WHERE key_id = k.id AND valid_to > %(start)s AND valid_to < %(end)s
    UNION ALL (
        SELECT * FROM price_floor WHERE key_id = k.id AND valid_to >= %(end)s
        ORDER BY valid_to LIMIT 1
    )
) f
WHERE k.gpu_key = %(gpu)s AND f.valid_from < %(end)s
UNION ALL
SELECT n.key_id::bigint, greatest(n.valid_from, %(start)s),
    least({KNOWN_UNTIL_SQL}, k.expires_at, %(end)s), n.price_micro_usd, n.offer_id
FROM floor_now n JOIN floor_key k ON k.id = n.key_id JOIN provider p ON p.id = k.source_id
WHERE k.gpu_key = %(gpu)s AND n.valid_from < %(end)s
    AND least({KNOWN_UNTIL_SQL}, k.expires_at) > greatest(n.valid_from, %(start)s)
"""


def _build(connection: Connection, gpu_key: str, month: datetime) -> bool:
    from tracker.store.series.binary import PG_EPOCH_MICROS, read_columns
    from tracker.store.series.packing import PackedSteps, pack

    connection.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
    values = {"gpu": gpu_key, "start": month, "end": next_month(month)}
    key_ids, starts, ends, prices, offers = read_columns(
        connection, _STEPS_SQL, values, 5, times=(1, 2)
    )
    steps = PackedSteps(key_ids, starts + PG_EPOCH_MICROS, ends + PG_EPOCH_MICROS, prices, offers)
    made = connection.execute(
        "INSERT INTO floor_pack (gpu_key, month, rows, body, built_at)"
        " VALUES (%s, %s, %s, %s, clock_timestamp()) ON CONFLICT DO NOTHING",
        (gpu_key, month.date(), len(steps), pack(steps)),
    )
    return made.rowcount == 1
