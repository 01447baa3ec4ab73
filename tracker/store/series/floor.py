"""Tracks from the price floor: packed months, closed steps, and what is open."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from tracker.store.partitions import month_of, next_month
from tracker.store.series.assemble import sort_key, tracks_of
from tracker.store.series.binary import PG_EPOCH_MICROS, read_columns
from tracker.store.series.keys import FloorKey, Ints, Track, to_micros
from tracker.store.series.packing import PackedSteps, unpack
from tracker.store.series.spans import GROUPED, conditions, key_from, span_tracks
from tracker.store.stored import KNOWN_UNTIL_SQL, Connection, fetch, sellers_by_id

_FOREVER = np.iinfo(np.int64).max
_COLUMNS_SQL = ", ".join(f"n.{name}" for name in GROUPED)


class _Keys(NamedTuple):
    """The keys asked for. By the id of a row of ``floor_key``: its place in ``keys`` (-1: not asked
    for), and when its prices expire. Rows that differ in the latter alone are of one key."""

    keys: list[FloorKey]
    ids_of: dict[str, list[int]]  # by gpu_key
    place: Ints
    expires: Ints


def floor_tracks(
    connection: Connection,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    gpu_keys: Collection[str] | None = None,
    sellers: Collection[str] | None = None,
    markets: Collection[str] | None = None,
    tiers: Collection[str] | None = None,
) -> list[Track]:
    """The tracks of the window [start, end), from packed months, ``price_floor`` and ``floor_now``.

    None means no constraint; ``sellers`` are slugs. Nothing is known after *now*. Tracks come in a
    fixed order of their keys; a key without a known price in the window has none. Of a source
    whose floors do not yet say all that its spans do, the spans are read.
    """
    end = min(end, now)
    if start >= end:
        return []
    built, behind = _sources(connection)
    keys = _keys(connection, built, gpu_keys, sellers, markets, tiers)
    tracks = _read(connection, keys, start, end) if keys.keys else []
    if behind:
        tracks += span_tracks(
            connection, start=start, end=end, now=now, gpu_keys=gpu_keys, sellers=sellers,
            markets=markets, tiers=tiers, source_ids=behind,
        )  # fmt: skip
        tracks.sort(key=lambda track: sort_key(track.key))
    return tracks


def _sources(connection: Connection) -> tuple[list[int], list[int]]:
    """The sources whose floors are complete, and those that have prices but not all floors."""
    rows = fetch(connection, "SELECT id, floor_built FROM provider WHERE last_ok_at IS NOT NULL")
    return [id_ for id_, built in rows if built], [id_ for id_, built in rows if not built]


def _keys(
    connection: Connection,
    built: Collection[int],
    gpu_keys: Collection[str] | None,
    sellers: Collection[str] | None,
    markets: Collection[str] | None,
    tiers: Collection[str] | None,
) -> _Keys:
    known_by = sellers_by_id(connection)
    where, values = conditions(known_by, gpu_keys, sellers, markets, tiers, built)
    rows = fetch(
        connection,
        f"SELECT n.id, n.expires_at, n.fallback, {_COLUMNS_SQL} FROM floor_key n"
        f" WHERE true {where} ORDER BY n.id",
        values,
    )
    most = max((row[0] for row in rows), default=0)
    place = np.full(most + 1, -1, dtype=np.int64)
    expires = np.full(most + 1, _FOREVER, dtype=np.int64)
    places: dict[FloorKey, int] = {}
    keys, ids_of = list[FloorKey](), dict[str, list[int]]()
    for id_, expires_at, fallback, *identity in rows:
        key = key_from(None, known_by, identity, fallback=fallback)
        place[id_] = places.setdefault(key, len(keys))
        if place[id_] == len(keys):
            keys.append(key._replace(id=id_))
        if expires_at is not None:
            expires[id_] = to_micros(expires_at)
        ids_of.setdefault(key.gpu_key, []).append(id_)
    return _Keys(keys, ids_of, place, expires)


def _read(connection: Connection, keys: _Keys, start: datetime, end: datetime) -> list[Track]:
    pieces, ranges = [], dict[tuple[tuple[datetime, datetime], ...], list[int]]()
    packs = _packs(connection, keys, start, end)
    for gpu_key, ids in keys.ids_of.items():
        months = packs.get(gpu_key, {})
        pieces += [_clipped(keys, steps, start, end) for steps in months.values()]
        ranges.setdefault(tuple(_unpacked(start, end, months)), []).extend(ids)
    for parts, ids in ranges.items():
        for low, high in parts:
            steps = _unpacked_steps(connection, ids, low, high)
            pieces.append(_clipped(keys, steps, low, high))
    columns = [np.concatenate(column) for column in zip(*pieces, strict=True)]
    return tracks_of(keys.keys, *columns)


def _packs(
    connection: Connection, keys: _Keys, start: datetime, end: datetime
) -> dict[str, dict[datetime, PackedSteps]]:
    """The packed months of each GPU, in order. A damaged pack is as good as none."""
    packs: dict[str, dict[datetime, PackedSteps]] = {}
    with connection.cursor(binary=True) as cursor:
        cursor.execute(
            "SELECT gpu_key, month, body FROM floor_pack WHERE gpu_key = ANY (%(gpu_keys)s)"
            " AND month >= %(first)s AND month < %(end)s ORDER BY month",
            {
                "gpu_keys": list(keys.ids_of),
                "first": month_of(start).date(),
                "end": next_month(month_of(end)).date(),
            },
        )
        for gpu_key, month, body in cursor:
            try:
                steps = unpack(body)
            except ValueError:
                continue
            packs.setdefault(gpu_key, {})[_instant(month)] = steps
    return packs


def _instant(month: Any) -> datetime:
    return datetime.fromisoformat(f"{month.isoformat()}T00:00:00+00:00")


def _unpacked(
    start: datetime, end: datetime, packed: Collection[datetime]
) -> Iterator[tuple[datetime, datetime]]:
    """The parts of [start, end) that lie in none of the *packed* months."""
    low = start
    month = month_of(start)
    while month < end:
        after = next_month(month)
        if month in packed:
            if low < month:
                yield low, month
            low = after
        month = after
    if low < end:
        yield low, end


def _clipped(keys: _Keys, steps: PackedSteps, low: datetime, high: datetime) -> tuple[Ints, ...]:
    """The steps of keys asked for, as pieces for ``tracks_of``, within [low, high) and expiry."""
    known = steps.key_ids < len(keys.place)
    ids = np.where(known, steps.key_ids, 0)  # 0 is nobody's
    places = keys.place[ids]
    starts = np.maximum(steps.starts, to_micros(low))
    ends = np.minimum(np.minimum(steps.ends, keys.expires[ids]), to_micros(high))
    wanted = (places >= 0) & (starts < ends)
    columns = (places, starts, ends, steps.micro_usd, steps.offer_ids)
    return columns if wanted.all() else tuple(column[wanted] for column in columns)


_STEPS_SQL = (
    "SELECT f.key_id::bigint, f.valid_from, f.valid_to, f.price_micro_usd, f.offer_id"
    " FROM price_floor f WHERE f.key_id = ANY (%(ids)s) AND f.valid_to > %(low)s"
    " AND f.valid_from < %(high)s"
    " UNION ALL"
    f" SELECT n.key_id::bigint, n.valid_from, {KNOWN_UNTIL_SQL}, n.price_micro_usd, n.offer_id"
    " FROM floor_now n JOIN floor_key k ON k.id = n.key_id JOIN provider p ON p.id = k.source_id"
    f" WHERE n.key_id = ANY (%(ids)s) AND n.valid_from < %(high)s AND {KNOWN_UNTIL_SQL} > %(low)s"
)


def _unpacked_steps(
    connection: Connection, ids: list[int], low: datetime, high: datetime
) -> PackedSteps:
    """The steps of rows of ``floor_key`` that overlap [low, high), closed and open ones."""
    values = {"ids": ids, "low": low, "high": high}
    key_ids, starts, ends, prices, offers = read_columns(connection, _STEPS_SQL, values, 5)
    return PackedSteps(key_ids, starts + PG_EPOCH_MICROS, ends + PG_EPOCH_MICROS, prices, offers)
