"""The floors of one source as its recorder remembers them, and what a poll writes of them.

All functions work inside the recorder's transaction, which holds the provider's row. What is open
is read once, with the first poll that changes anything; from then on only the floors of offers that
changed are looked at, and only those whose cheapest price is concerned are worked out anew.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg

from tracker.domain.floor import FloorIdentity, OpenStep, Settled, identity_of, settle, stairs
from tracker.domain.spans import Changes, Limit, Live, Seen
from tracker.store import floor_packs
from tracker.store.arrays import Batch, literal
from tracker.store.partitions import month_of
from tracker.store.poll_log import ProviderRow
from tracker.store.poll_rows import Inconsistent
from tracker.store.rows import collector_paused
from tracker.store.schema_history import floor_key

Cursor = psycopg.Cursor[Any]

KEY_COLUMNS = [column for column in floor_key.c if column.name != "id"]
_KEYS = Batch(KEY_COLUMNS)
_MAKE_KEYS_SQL = _KEYS.insert("floor_key") + " ON CONFLICT (key) DO NOTHING"

_PRICE = "price_micro_usd, price_native, fx_rate"

# Steps that ended are facts from now on, those that never held just go. The open ones get the
# price, with its newest rate, of an offer that has it now (the holder).
_SETTLE_SQL = f"""
WITH gone AS (
    DELETE FROM floor_now f USING unnest(%s::int[], %s::timestamptz[], %s::timestamptz[])
        AS g (key_id, valid_from, valid_to)
    WHERE f.key_id = g.key_id AND f.valid_from = g.valid_from RETURNING f.*, g.valid_to
), ended AS (
    INSERT INTO price_floor (key_id, offer_id, {_PRICE}, valid_from, valid_to)
    SELECT key_id, offer_id, {_PRICE}, valid_from, valid_to FROM gone WHERE valid_to > valid_from
)
INSERT INTO floor_now (key_id, offer_id, {_PRICE}, valid_from, seen_until)
SELECT r.key_id, r.offer_id, n.price_micro_usd, n.price_native, n.fx_rate, r.valid_from,
    r.seen_until
FROM unnest(%s::int[], %s::int8[], %s::timestamptz[], %s::timestamptz[], %s::int8[])
    AS r (key_id, offer_id, valid_from, seen_until, holder)
JOIN offer_now n ON n.offer_id = r.holder
ON CONFLICT (key_id, valid_from) DO UPDATE SET offer_id = excluded.offer_id,
    price_micro_usd = excluded.price_micro_usd, price_native = excluded.price_native,
    fx_rate = excluded.fx_rate, seen_until = excluded.seen_until
"""

# As with the offers, one value for each column.
_LOAD_SQL = """
SELECT string_agg(int8send(offer_id), ''), string_agg(int4send(floor_id), ''),
    string_agg(price_native::text, ' ')
FROM offer_now WHERE source_id = %s
"""
_LOAD_STEPS_SQL = """
SELECT f.key_id, f.offer_id, f.price_native, f.valid_from, f.seen_until
FROM floor_now f JOIN floor_key k ON k.id = f.key_id WHERE k.source_id = %s ORDER BY 1, 4
"""
_LOAD_LIMITS_SQL = """
SELECT id, expires_at, fallback FROM floor_key
WHERE source_id = %s AND (fallback OR expires_at IS NOT NULL)
"""


@dataclass(slots=True)
class Floors:
    """The floors of one source: offers by id, floors by the id of their key.

    ``of`` says which floor an offer counts for, ``members`` at which native price; ``limits`` are
    those of floors that have one. ``ids`` holds the identities that were needed so far.
    """

    of: dict[int, int] = field(default_factory=dict)
    members: dict[int, dict[int, Decimal]] = field(default_factory=dict)
    steps: dict[int, list[OpenStep]] = field(default_factory=dict)
    limits: dict[int, Limit] = field(default_factory=dict)
    ids: dict[FloorIdentity, int] = field(default_factory=dict)


class Moment(NamedTuple):
    """When a poll is recorded: ``ttl_before`` and ``last_ok_at`` are of the accepted one before;
    ``now`` is the database's clock."""

    at: datetime
    last_ok_at: datetime | None
    ttl_before: timedelta
    ttl: timedelta
    now: datetime


def is_built(cursor: Cursor, row: ProviderRow) -> bool:
    """Whether the floors of a source are maintained: from its first accepted poll on, or since they
    were built from the spans of an older version (floor_rebuild.py)."""
    if not row.floor_built and row.last_ok_at is None:
        cursor.execute(
            "UPDATE provider SET floor_built = NOT EXISTS (SELECT FROM poll"
            " WHERE provider_id = %(id)s AND status IN ('complete', 'partial', 'late'))"
            " WHERE id = %(id)s RETURNING floor_built",
            {"id": row.id},
        )
        return bool(cursor.fetchall()[0][0])
    return row.floor_built


def concerned(changes: Changes, before: Live, seen: Seen) -> bool:
    """Whether a poll may have changed any floor."""
    return bool(
        changes.opened or changes.repriced or changes.resumed or changes.closed
        or changes.confirmed or changes.unconfirmed or _rated(changes, before, seen)
    )  # fmt: skip


def load(cursor: Cursor, source_id: int) -> Floors:
    """Read the floors of what is open of a source."""
    cursor.execute(_LOAD_SQL, (source_id,), binary=True)
    [(packed_ids, packed_floors, natives)] = cursor
    floors = Floors()
    if packed_ids is not None:
        count = len(packed_ids) // 8
        if packed_floors is None or len(packed_floors) != count * 4:
            raise Inconsistent("an open offer counts for no floor: gpucost db rebuild-floor")
        ids = struct.unpack(f"!{count}q", packed_ids)
        of = struct.unpack(f"!{count}i", packed_floors)
        with collector_paused():
            floors.of = dict(zip(ids, of, strict=True))
            floors.members = {floor_id: {} for floor_id in set(of)}
            amounts = map(Decimal, natives.split(" "))
            for offer_id, floor_id, native in zip(ids, of, amounts, strict=True):
                floors.members[floor_id][offer_id] = native
    for floor_id, *step in cursor.execute(_LOAD_STEPS_SQL, (source_id,)):
        floors.steps.setdefault(floor_id, []).append(OpenStep(*step))
    for floor_id, *limit in cursor.execute(_LOAD_LIMITS_SQL, (source_id,)):
        floors.limits[floor_id] = Limit(*limit)
    return floors


def assign(
    cursor: Cursor,
    floors: Floors,
    ids: Mapping[bytes, int],
    changes: Changes,
    seen: Seen,
    source_id: int,
    seller_ids: Mapping[str, int],
) -> dict[bytes, int]:
    """The floors of the offers that open, and of those whose limit moved: made where missing."""
    moved = [
        key
        for key in (*changes.repriced, *(key for key, _ in changes.resumed))
        if seen.limits.get(key) != floors.limits.get(floors.of[ids[key]])
    ]
    with collector_paused():
        identities = {key: identity_of(seen.offers[key]) for key in (*changes.opened, *moved)}
    missing = {
        identity: seen.offers[key]
        for key, identity in identities.items()
        if identity not in floors.ids
    }
    if missing:
        rows = [
            key_row(identity, source_id, seller_ids[identity.seller], offer.gpu.family,
                    is_slice=offer.gpu.is_slice)
            for identity, offer in missing.items()
        ]  # fmt: skip
        by_digest = make_keys(cursor, rows)
        for identity, row in zip(missing, rows, strict=True):
            floor_id = floors.ids[identity] = by_digest[row[0]]
            if identity.fallback or identity.expires_at is not None:
                floors.limits[floor_id] = Limit(identity.expires_at, identity.fallback)
    return {key: floors.ids[identity] for key, identity in identities.items()}


def key_row(
    identity: FloorIdentity, source_id: int, seller_id: int, family: str, *, is_slice: bool
) -> tuple[Any, ...]:
    """The columns of ``floor_key``, its digest first."""
    _, _, gpu_key, *rest = identity
    return (identity.digest, source_id, seller_id, gpu_key, family, is_slice, *rest)


def make_keys(cursor: Cursor, rows: list[tuple[Any, ...]]) -> dict[bytes, int]:
    """The ids of floors by digest; those that are not there yet are made."""
    digests = [row[0] for row in rows]
    found = _key_ids(cursor, digests)
    new = [row for row in rows if row[0] not in found]
    if new:
        cursor.execute(_MAKE_KEYS_SQL, _KEYS.parameters(new))
        found |= _key_ids(cursor, [row[0] for row in new])
    return found


def _key_ids(cursor: Cursor, digests: list[bytes]) -> dict[bytes, int]:
    cursor.execute("SELECT key, id FROM floor_key WHERE key = ANY (%s)", (digests,))
    return dict(cursor.fetchall())


def maintain(
    cursor: Cursor,
    floors: Floors,
    ids: Mapping[bytes, int],
    assigned: Mapping[bytes, int],
    changes: Changes,
    seen: Seen,
    before: Live,
    after: Live,
    moment: Moment,
) -> None:
    """Bring the floors up to an accepted poll whose *changes* have been written.

    *ids* hold the offers that were open before or are now, *assigned* is the answer of ``assign``.
    """
    concerned = _move(cursor, floors, ids, assigned, changes, after, moment.at)
    rated = {floors.of[ids[key]] for key in _rated(changes, before, seen)}
    if moment.ttl != moment.ttl_before:  # steps laid out ahead were so by the old one
        concerned |= {f for f, steps in floors.steps.items() if steps[0].seen_until}
    seen_until: dict[int, dict[int, datetime]] = {}
    for key, seen_at in after.seen_until.items():
        seen_until.setdefault(floors.of[offer_id := ids[key]], {})[offer_id] = seen_at
    settled: dict[int, Settled] = {}
    for floor_id in concerned | rated:
        limit = floors.limits.get(floor_id)
        ahead = stairs(
            floors.members.get(floor_id, {}), seen_until.get(floor_id, {}), at=moment.at,
            ttl=moment.ttl,
        )  # fmt: skip
        settled[floor_id] = settle(
            floors.steps.get(floor_id, ()), ahead, at=moment.at, last_ok_at=moment.last_ok_at,
            ttl_before=moment.ttl_before, ttl=moment.ttl,
            expires_at=limit.expires_at if limit else None, rewrite=floor_id in rated,
        )  # fmt: skip
    _write(cursor, settled)
    for floor_id, result in settled.items():
        if result.steps:
            floors.steps[floor_id] = result.steps
        else:
            floors.steps.pop(floor_id, None)
    if rated:
        _throw_away_rated(cursor, floors, rated, month_of(moment.now))


class _Watch:
    """Notes which floors' lowest price may be another: all but those where only dearer offers than
    the cheapest, which the last poll saw, came, went or were missed."""

    def __init__(self, steps: Mapping[int, list[OpenStep]]) -> None:
        self.found: set[int] = set()
        self._lowest = {
            floor_id: open_steps[0].native
            for floor_id, open_steps in steps.items()
            if len(open_steps) == 1 and open_steps[0].seen_until is None
        }

    def came(self, floor_id: int, native: Decimal) -> None:
        low = self._lowest.get(floor_id)
        if low is None or native < low:
            self.found.add(floor_id)

    def left(self, floor_id: int, native: Decimal) -> None:
        low = self._lowest.get(floor_id)
        if low is None or native <= low:
            self.found.add(floor_id)


def _move(
    cursor: Cursor, floors: Floors, ids: Mapping[bytes, int], assigned: Mapping[bytes, int],
    changes: Changes, after: Live, at: datetime,
) -> set[int]:  # fmt: skip
    """Take the offers that closed out of their floors, and put the others in at their prices.

    Returns the floors that are to be settled.
    """
    of, members, natives = floors.of, floors.members, after.natives
    watch = _Watch(floors.steps)
    for key in (*changes.confirmed, *changes.unconfirmed):
        floor_id = of[offer_id := ids[key]]
        watch.left(floor_id, members[floor_id][offer_id])
    for key, end in changes.closed:
        floor_id = of.pop(offer_id := ids[key])
        watch.left(floor_id, members[floor_id].pop(offer_id))
        if end < at:
            watch.found.add(floor_id)
    resumed = [key for key, _ in changes.resumed]
    watch.found |= {of[ids[key]] for key in resumed}
    moved: dict[int, int] = {}
    for key in (*changes.repriced, *resumed):
        floor_id = of[offer_id := ids[key]]
        earlier, native = members[floor_id].pop(offer_id), natives[key]
        if floor_id not in watch.found:
            watch.left(floor_id, earlier)
        if (other := assigned.get(key, floor_id)) != floor_id:
            floor_id = of[offer_id] = moved[offer_id] = other
        members.setdefault(floor_id, {})[offer_id] = native
        if floor_id not in watch.found:
            watch.came(floor_id, native)
    for key in changes.opened:
        floor_id = of[offer_id := ids[key]] = assigned[key]
        members.setdefault(floor_id, {})[offer_id] = natives[key]
        watch.came(floor_id, natives[key])
    _write_moved(cursor, moved)
    return watch.found


def _write_moved(cursor: Cursor, moved: Mapping[int, int]) -> None:
    """Note with offers whose limit moved which floor they count for now."""
    if moved:
        cursor.execute(
            "UPDATE offer_now n SET floor_id = r.floor_id"
            " FROM unnest(%s::int8[], %s::int[]) AS r (offer_id, floor_id)"
            " WHERE n.offer_id = r.offer_id",
            (literal(list(moved)), literal(list(moved.values()))),
        )


def _rated(changes: Changes, before: Live, seen: Seen) -> list[bytes]:
    """The offers whose price in USD moved with an exchange rate alone."""
    return [key for key in changes.updated if seen.micro_usd[key] != before.micro_usd[key]]


def _write(cursor: Cursor, settled: Mapping[int, Settled]) -> None:
    gone: list[tuple[int, str, str | None]] = []
    written: list[tuple[int, int, str, str | None, int]] = []
    for floor_id, result in settled.items():
        for step, end in result.ended:
            gone.append((floor_id, step.valid_from.isoformat(), end.isoformat()))
        for step in result.vanished:
            gone.append((floor_id, step.valid_from.isoformat(), None))
        for step, holder in result.written:
            seen = None if step.seen_until is None else step.seen_until.isoformat()
            written.append((floor_id, step.offer_id, step.valid_from.isoformat(), seen, holder))
    if not (gone or written):
        return
    cursor.execute(_SETTLE_SQL, [*_columns(gone, 3), *_columns(written, 5)])
    if cursor.rowcount != len(written):
        raise Inconsistent(f"{len(written)} floors were to be written, {cursor.rowcount} were")


def _columns(rows: Iterable[tuple[Any, ...]], count: int) -> list[str | None]:
    columns = list(zip(*rows, strict=True)) or [()] * count
    return [literal(column) for column in columns]


def _throw_away_rated(
    cursor: Cursor, floors: Floors, rated: Iterable[int], month: datetime
) -> None:
    """Packs of steps whose USD have just moved with the rate."""
    old = {f: floors.steps[f][0].valid_from for f in rated if f in floors.steps}
    old = {floor_id: begin for floor_id, begin in old.items() if begin < month}
    if old:
        cursor.execute("SELECT id, gpu_key FROM floor_key WHERE id = ANY (%s)", (list(old),))
        for floor_id, gpu_key in cursor.fetchall():
            floor_packs.throw_away(cursor, month_of(old[floor_id]), [gpu_key])
