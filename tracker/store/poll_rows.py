"""What a poll's changes write: spans that close, offers that open, go, or move in place.

All functions work inside the recorder's transaction, which holds the provider's row.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import psycopg
from sqlalchemy import Column

from tracker.domain.offer import Offer
from tracker.domain.spans import Changes, Limit, Live, Seen, moving, unknown_natives
from tracker.store.arrays import Batch, literal
from tracker.store.rows import collector_paused
from tracker.store.schema import offer, offer_now, price_span

Cursor = psycopg.Cursor[Any]

_now, _offer = offer_now.c, offer.c
_names = _now.keys()
_IDENTITY = list(_now)[_names.index("source_id") : _names.index("flags")]
# The columns of Moving, in its order.
MOVING = [
    *list(_now)[_names.index("price_native") : _names.index("source_id")],
    *list(_now)[_names.index("flags") : _names.index("valid_from")],
]
_identity_names = ", ".join(column.name for column in _IDENTITY)
_moving_names = ", ".join(column.name for column in MOVING)

_UPDATE = Batch([_now.offer_id, _now.mark, *MOVING])
_OPEN = Batch([
    _now.key, _now.mark, *_IDENTITY, _offer.gpu_raw, _offer.source_url, _offer.notes, *MOVING,
    _now.floor_id,
])  # fmt: skip


def _values(columns: Iterable[Column[Any]]) -> str:
    return ", ".join(_OPEN.values[column.name] for column in columns)


# An identity that was seen before keeps its row; what this statement inserts is not visible to
# its own reads, so both halves are needed.
_OPEN_SQL = f"""
WITH r AS MATERIALIZED (SELECT * FROM {_OPEN.source}),
made AS (
    INSERT INTO offer (key, {_identity_names}, gpu_raw, source_url, notes, first_seen_at)
    SELECT r.key, {_values(_IDENTITY)}, r.gpu_raw, r.source_url, {_values([_offer.notes])}, %s
    FROM r ON CONFLICT (key) DO NOTHING RETURNING id, key
),
ids AS (
    SELECT id, key FROM made
    UNION ALL SELECT o.id, o.key FROM r JOIN offer o ON o.key = r.key
)
INSERT INTO offer_now (offer_id, key, mark, {_identity_names}, {_moving_names}, floor_id,
    valid_from)
SELECT ids.id, r.key, r.mark, {_values(_IDENTITY)}, {_values(MOVING)}, r.floor_id, %s
FROM r JOIN ids ON ids.key = r.key
RETURNING key, offer_id
"""

_SPAN_COLUMNS = [c.name for c in price_span.c if c.name != "valid_to"]
_CLOSE_SQL = f"""
INSERT INTO price_span ({", ".join(_SPAN_COLUMNS)}, valid_to)
SELECT {", ".join(f"n.{name}" for name in _SPAN_COLUMNS)}, c.valid_to
FROM unnest(%s::int8[], %s::timestamptz[]) AS c (offer_id, valid_to)
JOIN offer_now n ON n.offer_id = c.offer_id
"""

_UPDATE_SQL = f"""
UPDATE offer_now n SET mark = r.mark,
    {", ".join(f"{c.name} = {_UPDATE.values[c.name]}" for c in MOVING)},
    valid_from = coalesce(%s, n.valid_from), seen_until = NULL
FROM {_UPDATE.source} WHERE n.offer_id = r.offer_id
"""

# One value for each column, twice as fast as one row for each offer.
_LOAD_SQL = """
SELECT string_agg(key, ''), string_agg(mark, ''), string_agg(int8send(offer_id), ''),
    string_agg(int8send(price_micro_usd), ''),
    array_agg(key) FILTER (WHERE seen_until IS NOT NULL),
    array_agg(seen_until) FILTER (WHERE seen_until IS NOT NULL)
FROM offer_now WHERE source_id = %s
"""


class Inconsistent(RuntimeError):
    """The store holds other rows than remembered: nothing was written, the next poll reloads."""


@dataclass(slots=True)
class Remembered:
    """The open offers of one source and their ids."""

    live: Live = field(default_factory=Live)
    ids: dict[bytes, int] = field(default_factory=dict)


def load_live(cursor: Cursor, source_id: int) -> Remembered:
    """Read what is open of a source."""
    cursor.execute(_LOAD_SQL, (source_id,), binary=True)
    [(packed_keys, packed_marks, packed_ids, packed_prices, unseen, seen_until)] = cursor
    if packed_keys is None:
        return Remembered()
    count = len(packed_keys) // 16
    keys: tuple[bytes, ...] = struct.unpack("16s" * count, packed_keys)
    marks: tuple[bytes, ...] = struct.unpack("8s" * count, packed_marks)
    numbers = struct.Struct(f"!{count}q")
    live = Live(
        dict(zip(keys, marks, strict=True)),
        dict(zip(keys, numbers.unpack(packed_prices), strict=True)),
        dict(zip(unseen or (), seen_until or (), strict=True)),
    )
    return Remembered(live, dict(zip(keys, numbers.unpack(packed_ids), strict=True)))


def load_natives(cursor: Cursor, known: Remembered, keys: Iterable[bytes]) -> None:
    """Read price and limit of those of the *keys* that are open at an unknown price."""
    unknown = {known.ids[key]: key for key in unknown_natives(known.live, keys)}
    if unknown:
        cursor.execute(
            "SELECT offer_id, price_native, expires_at, fallback FROM offer_now"
            " WHERE offer_id = ANY (%s::int8[])",
            (literal(list(unknown)),),
        )
        _expect(cursor, len(unknown))
        for offer_id, native, expires_at, fallback in cursor:
            known.live.natives[key := unknown[offer_id]] = native
            if fallback or expires_at is not None:
                known.live.limits[key] = Limit(expires_at, fallback)


def write_changes(
    cursor: Cursor,
    known: Remembered,
    changes: Changes,
    seen: Seen,
    source_id: int,
    seller_ids: Mapping[str, int],
    floor_ids: Mapping[bytes, int],
    *,
    polled_at: datetime,
    last_ok_at: datetime | None,
) -> dict[bytes, int]:
    """Write *changes* and return the ids of the offers that opened. *floor_ids* are theirs."""
    ids = known.ids
    ends = [*changes.closed, *changes.resumed, *((key, polled_at) for key in changes.repriced)]
    if ends:
        _close(cursor, [ids[key] for key, _ in ends], [end for _, end in ends])
    if changes.closed:
        cursor.execute(
            "DELETE FROM offer_now WHERE offer_id = ANY (%s::int8[])",
            (literal([ids[key] for key, _ in changes.closed]),),
        )
    resumed = [key for key, _ in changes.resumed]
    _update(cursor, ids, [*changes.repriced, *resumed], seen, valid_from=polled_at)
    _update(cursor, ids, changes.updated, seen, valid_from=None)
    _set_seen_until(cursor, [ids[key] for key in changes.confirmed], None)
    _set_seen_until(cursor, [ids[key] for key in changes.unconfirmed], last_ok_at)
    if not changes.opened:
        return {}
    with collector_paused():
        rows = [
            (
                key, seen.marks[key], *_identity_row(seen.offers[key], source_id, seller_ids),
                *moving(seen.offers[key]), floor_ids.get(key),
            )
            for key in changes.opened
        ]  # fmt: skip
        values = _OPEN.parameters(rows)
    cursor.execute(_OPEN_SQL, [*values, polled_at, polled_at])
    _expect(cursor, len(rows))
    return dict(cursor.fetchall())


def _close(cursor: Cursor, ids: Sequence[int], ends: Sequence[datetime]) -> None:
    texts = {end: end.isoformat() for end in set(ends)}  # one or two moments, for all
    cursor.execute(_CLOSE_SQL, (literal(ids), literal([texts[end] for end in ends])))
    _expect(cursor, len(ids))


def _update(
    cursor: Cursor,
    ids: Mapping[bytes, int],
    keys: Sequence[bytes],
    seen: Seen,
    *,
    valid_from: datetime | None,
) -> None:
    if keys:
        with collector_paused():
            rows = [(ids[key], seen.marks[key], *moving(seen.offers[key])) for key in keys]
            values = _UPDATE.parameters(rows)
        cursor.execute(_UPDATE_SQL, [valid_from, *values])
        _expect(cursor, len(keys))


def _set_seen_until(cursor: Cursor, ids: Sequence[int], at: datetime | None) -> None:
    if ids:
        cursor.execute(
            "UPDATE offer_now SET seen_until = %s WHERE offer_id = ANY (%s::int8[])",
            (at, literal(ids)),
        )
        _expect(cursor, len(ids))


def _expect(cursor: Cursor, rows: int) -> None:
    if cursor.rowcount != rows:
        raise Inconsistent(f"{rows} open offers were expected, {cursor.rowcount} found")


def _identity_row(o: Offer, source_id: int, seller_ids: Mapping[str, int]) -> tuple[Any, ...]:
    """The columns that say what an offer is, then the words of ``offer`` alone."""
    x, t, gpu = o.listed, o.listed.terms, o.gpu
    return (
        source_id, seller_ids[o.provider], x.source_id, gpu.key, gpu.family, gpu.form_factor,
        gpu.vram_gb, gpu.is_slice, x.gpu_count, x.market, x.tier, x.price_kind,
        x.price.currency, x.price.unit, x.region, x.country, x.interconnect, x.vcpus, x.ram_gib,
        x.dedicated, x.datacenter, x.upstream, t.billing_increment_seconds, t.minimum_seconds,
        t.commitment_hours, t.commitment_unknown, t.disk_included_gb, t.disk_usd_per_gb_hour,
        t.egress_usd_per_gb, x.gpu_name, x.source_url, x.notes,
    )  # fmt: skip
