"""Tracks from the price floor: packed months, closed steps, and what is open."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from tracker.store.partitions import month_of, next_month
from tracker.store.series.assemble import in_order, tracks_of
from tracker.store.series.binary import PG_EPOCH_MICROS, read_columns
from tracker.store.series.keys import FloorKey, Ints, Track, to_micros
from tracker.store.series.packing import PackedSteps, unpack
from tracker.store.series.spans import GROUPED, conditions, key_from, span_tracks
from tracker.store.stored import KNOWN_UNTIL_SQL, Connection, fetch, sellers_by_id

_Piece = tuple[Ints, Ints, Ints, Ints, Ints]  # places of keys, starts, ends, prices, offers

_FOREVER = np.iinfo(np.int64).max
_COLUMNS_SQL = ", ".join(f"n.{name}" for name in GROUPED)


class _Keys(NamedTuple):
    """The keys asked for. By the id of a row of ``floor_key``: its place in ``keys`` (-1: not asked
    for), and when its prices expire. Rows that differ in the latter alone are of one key."""

    keys: list[FloorKey]
    ids_of: dict[str, list[int]]  # by gpu_key
    place: Ints
    expires: Ints
    expire: bool  # whether any of them does


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
    return in_order(tracks)


def _sources(connection: Connection) -> tuple[list[int], list[int]]:
    """The sources whose floors are complete, and those that have prices but not all floors."""
    # An import is never polled, and has prices all the same.
    rows = fetch(connection, "SELECT id, floor_built FROM provider WHERE kind <> 'seller'")
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
    places: dict[tuple[Any, ...], int] = {}
    keys, ids_of = list[FloorKey](), dict[str, list[int]]()
    for id_, expires_at, fallback, *identity in rows:
        at = place[id_] = places.setdefault((fallback, *identity), len(keys))
        if at == len(keys):
            keys.append(key_from(id_, known_by, identity, fallback=fallback))
        if expires_at is not None:
            expires[id_] = to_micros(expires_at)
        ids_of.setdefault(keys[at].gpu_key, []).append(id_)
    return _Keys(keys, ids_of, place, expires, bool((expires != _FOREVER).any()))


def _read(connection: Connection, keys: _Keys, start: datetime, end: datetime) -> list[Track]:
    pieces: dict[str, list[_Piece]] = {gpu_key: [] for gpu_key in keys.ids_of}
    ranges: dict[tuple[tuple[datetime, datetime], ...], list[str]] = {}
    packs = _packs(connection, keys, start, end)
    for gpu_key in keys.ids_of:
        months = packs.get(gpu_key, {})
        for month, steps in months.items():
            after = next_month(month)
            whole = start <= month and after <= end
            piece = _clipped(keys, steps, max(month, start), min(after, end), whole=whole)
            pieces[gpu_key].append(piece)
        ranges.setdefault(tuple(_unpacked(start, end, months)), []).append(gpu_key)
    for parts, gpu_keys in ranges.items():
        for low, high in parts:
            for gpu_key, steps in _unpacked_steps(connection, keys, gpu_keys, low, high):
                pieces[gpu_key].append(_clipped(keys, steps, low, high))
    tracks = []
    for parts_of_gpu in pieces.values():  # GPU by GPU: what is sorted then fits the cache
        if parts_of_gpu:
            columns = [
                np.concatenate(column, dtype=np.int64) for column in zip(*parts_of_gpu, strict=True)
            ]
            tracks += tracks_of(keys.keys, *columns)
    return tracks


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


def _clipped(
    keys: _Keys, steps: PackedSteps, low: datetime, high: datetime, *, whole: bool = False
) -> _Piece:
    """The steps of keys asked for, as pieces for ``tracks_of``, within [low, high) and expiry.

    *whole*: none of the steps lies outside of that time.
    """
    ids, starts, ends = steps.key_ids, steps.starts, steps.ends
    if len(ids) and ids.max() >= len(keys.place):
        ids = np.where(ids < len(keys.place), ids, 0)  # 0 is nobody's
    places = keys.place[ids]
    if not whole:
        starts, ends = np.maximum(starts, to_micros(low)), np.minimum(ends, to_micros(high))
    if keys.expire:
        ends = np.minimum(ends, keys.expires[ids])
    piece = (places, starts, ends, steps.micro_usd, steps.offer_ids)
    wanted = places >= 0
    if keys.expire or not whole:
        wanted &= starts < ends
    if wanted.all():
        return piece
    places, starts, ends, prices, offers = (column[wanted] for column in piece)
    return places, starts, ends, prices, offers


_STEPS_SQL = (
    "SELECT f.key_id::bigint, f.valid_from, f.valid_to, f.price_micro_usd, f.offer_id"
    " FROM price_floor f WHERE f.key_id = ANY (%(ids)s::int[]) AND f.valid_to > %(low)s"
    " AND f.valid_from < %(high)s"
    " UNION ALL"
    f" SELECT n.key_id::bigint, n.valid_from, {KNOWN_UNTIL_SQL}, n.price_micro_usd, n.offer_id"
    " FROM floor_now n JOIN floor_key k ON k.id = n.key_id JOIN provider p ON p.id = k.source_id"
    " WHERE n.key_id = ANY (%(ids)s::int[]) AND n.valid_from < %(high)s"
    f" AND {KNOWN_UNTIL_SQL} > %(low)s"
)


def _unpacked_steps(
    connection: Connection,
    keys: _Keys,
    gpu_keys: Sequence[str],
    low: datetime,
    high: datetime,
) -> Iterator[tuple[str, PackedSteps]]:
    """The steps that overlap [low, high), closed and open ones, of each of the GPUs."""
    ids = [id_ for gpu_key in gpu_keys for id_ in keys.ids_of[gpu_key]]
    listed = "{" + ",".join(map(str, ids)) + "}"
    values = {"ids": listed, "low": low, "high": high}
    key_ids, starts, ends, prices, offers = read_columns(
        connection, _STEPS_SQL, values, 5, times=(1, 2)
    )
    number = np.zeros(len(keys.place), dtype=np.int16)
    for place, gpu_key in enumerate(gpu_keys):
        number[keys.ids_of[gpu_key]] = place
    numbers = number[key_ids]
    order = np.argsort(numbers, kind="stable")
    cuts = np.searchsorted(numbers[order], np.arange(len(gpu_keys) + 1)).tolist()
    columns = (key_ids, starts + PG_EPOCH_MICROS, ends + PG_EPOCH_MICROS, prices, offers)
    for gpu_key, a, b in zip(gpu_keys, cuts[:-1], cuts[1:], strict=True):
        key_ids, starts, ends, prices, offers = (column[order[a:b]] for column in columns)
        yield gpu_key, PackedSteps(key_ids, starts, ends, prices, offers)
