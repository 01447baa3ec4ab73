"""Tracks of single offers, and who was polled when: what a backtest of an alert rule reads."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

import numpy as np

from tracker.store.series.binary import PG_EPOCH_MICROS, read_columns
from tracker.store.series.coverage import weigh
from tracker.store.series.keys import Reading, Track, to_micros
from tracker.store.series.reduce import lowest_steps
from tracker.store.series.spans import conditions, distinct_of, keys_of, spans_sql
from tracker.store.stored import Connection, fetch, sellers_by_id


def offer_tracks(
    connection: Connection,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    gpu_keys: Collection[str],
) -> Reading:
    """What each single offer of these GPUs cost within [start, end), weighed like other tracks.

    There is one track for each offer (two where it was a list price that stands in for a while).
    """
    known_by = sellers_by_id(connection)
    end = min(end, now)
    if start >= end:
        return Reading([], [])
    where, values = conditions(known_by, gpu_keys, None, None, None, None)
    columns = read_columns(
        connection, spans_sql(where), values | {"start": start, "end": end}, 5, times=(1, 2)
    )
    ids, starts, ends, prices, fallbacks = columns
    starts = np.maximum(starts + PG_EPOCH_MICROS, to_micros(start))
    ends = np.minimum(ends + PG_EPOCH_MICROS, to_micros(end))
    distinct, of = distinct_of(ids)
    keys, key_of = keys_of(connection, known_by, distinct)
    found = lowest_steps(starts, ends, prices, of * 2 + fallbacks)
    edges = np.flatnonzero(np.diff(found.groups, prepend=-1, append=-1))
    tracks = []
    for first, last in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True):
        place, fallback = divmod(int(found.groups[first]), 2)
        key = keys[int(key_of[place])]._replace(fallback=bool(fallback))
        part = slice(first, last)
        offers = np.full(last - first, distinct[place], dtype=np.int64)
        tracks.append(
            Track(key, found.starts[part], found.ends[part], found.values[part], offers)
        )  # fmt: skip
    return weigh(connection, tracks, now)


class Polled(NamedTuple):
    """When a source was polled within a window, in order: ``attempts`` are all tries, ``accepted``
    those that were recorded, with the last one before the window. An import's are the moments of
    its observations. ``every`` is zero where nobody polls it."""

    source: str
    is_import: bool
    every: timedelta
    ttl: timedelta
    attempts: tuple[datetime, ...]
    accepted: tuple[datetime, ...]


# The last poll before the window is looked for once a source: not for each of its polls.
_POLLS_SQL = (
    "SELECT p.id, l.polled_at, l.ok FROM provider p CROSS JOIN LATERAL ("
    "(SELECT polled_at, true AS ok FROM poll WHERE provider_id = p.id AND polled_at < %(start)s"
    " AND status IN ('complete', 'partial') ORDER BY polled_at DESC LIMIT 1)"
    " UNION ALL SELECT polled_at, status IN ('complete', 'partial') FROM poll"
    " WHERE provider_id = p.id AND polled_at >= %(start)s AND polled_at < %(end)s) l"
    " UNION SELECT p.id, n.valid_from, true FROM provider p JOIN price_span n ON n.source_id = p.id"
    " WHERE p.kind = 'import' AND n.valid_to > %(start)s AND n.valid_from < %(end)s"
    " ORDER BY 1, 2"
)


def polled(connection: Connection, *, start: datetime, end: datetime) -> list[Polled]:
    """Everybody who was polled, or imported, within [start, end)."""
    tries: dict[int, list[datetime]] = {}
    accepted: dict[int, list[datetime]] = {}
    for id_, at, ok in fetch(connection, _POLLS_SQL, {"start": start, "end": end}):
        if at >= start:
            tries.setdefault(id_, []).append(at)
        if ok:
            accepted.setdefault(id_, []).append(at)
    rows = fetch(
        connection,
        "SELECT id, slug, kind = 'import', coalesce(every_seconds, 0), coalesce(ttl_seconds, 0)"
        " FROM provider ORDER BY slug",
    )
    return [
        Polled(
            slug, is_import, timedelta(seconds=every), timedelta(seconds=ttl),
            tuple(tries.get(id_, ())), tuple(accepted.get(id_, ())),
        )
        for id_, slug, is_import, every, ttl in rows
        if id_ in tries or id_ in accepted
    ]  # fmt: skip
