"""When sellers' own polls covered a market, and what gives way to them.

The rule is that of the live answer (``reads.live_shelves`` and ``report/filters.py``), read over
time: at a moment at which a seller itself has told, on some market, a price of any GPU that makes
a bill, neither an import nor a list price that stands in (``FloorKey.gives_way``) counts there.
They stay in the tables, and come out as ``Reading.replaced``.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker.store.reads import TERM_MARKETS, Shelf
from tracker.store.series.keys import Ints, Reading, Track, micros_of
from tracker.store.stored import KNOWN_UNTIL_SQL, Connection, fetch, sellers_by_id


class Intervals(NamedTuple):
    """Half-open intervals in order that neither overlap nor touch, microseconds since 1970 UTC."""

    starts: Ints
    ends: Ints


_OWN = (
    " AND n.source_id = n.seller_id AND NOT n.fallback AND n.seller_id = ANY (%(sellers)s)"
    " AND NOT o.commitment_unknown"
    " AND (o.commitment_hours IS NOT NULL OR o.market <> ALL (%(term_markets)s))"
)


def _own_sql(table: str, known_until: str) -> str:
    begin = "greatest(n.valid_from, %(start)s)"
    finish = f"least({known_until}, n.expires_at, %(end)s)"
    return (
        f"SELECT n.seller_id, n.market, {begin} AS begin, {finish} AS finish"
        f" FROM {table} n JOIN offer o ON o.id = n.offer_id JOIN provider p ON p.id = n.source_id"
        f" WHERE n.valid_from < %(end)s AND {finish} > {begin} {_OWN}"
    )


_COVERED_SQL = (
    "SELECT seller_id, market, lower(own), upper(own) FROM (SELECT seller_id, market,"
    " unnest(range_agg(tstzrange(begin, finish))) AS own"
    f" FROM ({_own_sql('price_span', 'n.valid_to')} AND n.valid_to > %(start)s"
    f" UNION ALL {_own_sql('offer_now', KNOWN_UNTIL_SQL)}) spans"
    " GROUP BY seller_id, market) covered ORDER BY 1, 2, 3"
)


def coverage(
    connection: Connection,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    sellers: Collection[str],
) -> dict[Shelf, Intervals]:
    """Within the window, when each of *sellers* told prices of its own, for each of its markets.

    Those are the moments at which a price that makes a bill is known of any GPU: from a poll on
    until the next one that does not see it, and for no longer than the poll's time to live. A
    market that a seller never told of itself is absent.
    """
    known_by = sellers_by_id(connection)
    end = min(end, now)
    if start >= end:
        return {}
    values = {
        "start": start, "end": end, "term_markets": list(TERM_MARKETS),
        "sellers": [id_ for id_, seller in known_by.items() if seller.slug in sellers],
    }  # fmt: skip
    found: dict[Shelf, list[tuple[datetime, datetime]]] = {}
    for seller_id, market, one, other in fetch(connection, _COVERED_SQL, values):
        found.setdefault((known_by[seller_id].slug, market), []).append((one, other))
    return {
        shelf: Intervals(micros_of([a for a, _ in spans]), micros_of([b for _, b in spans]))
        for shelf, spans in found.items()
    }


def give_way(tracks: Iterable[Track], covered: Mapping[Shelf, Intervals]) -> Reading:
    """Cut out of the *tracks* that give way what own polls covered."""
    counting, replaced = list[Track](), list[Track]()
    for track in tracks:
        own = covered.get((track.key.seller, track.key.market))
        if own is None or not track.key.gives_way:
            counting.append(track)
            continue
        inside, outside = _cut(track, own)
        counting += [outside] if len(outside.starts) else []
        replaced += [inside] if len(inside.starts) else []
    return Reading(counting, replaced)


def _cut(track: Track, own: Intervals) -> tuple[Track, Track]:
    """The parts of *track* that lie within *own*, and those that do not."""
    edges = np.column_stack((own.starts, own.ends)).ravel()
    # Each step is cut at the edges that lie within it; an odd number of edges up to the beginning
    # of a piece puts it inside.
    first = np.searchsorted(edges, track.starts, side="right")
    last = np.searchsorted(edges, track.ends, side="left")
    pieces = last - first + 1
    step = np.repeat(np.arange(len(pieces)), pieces)
    turn = np.arange(len(step)) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    at = first[step] + turn
    padded = np.concatenate((edges, edges[-1:]))
    starts = np.where(turn == 0, track.starts[step], padded[at - 1])
    ends = np.where(turn == pieces[step] - 1, track.ends[step], padded[at])
    covered = at % 2 == 1

    def part(chosen: NDArray[np.bool_]) -> Track:
        of = step[chosen]
        return Track(
            track.key, starts[chosen], ends[chosen], track.micro_usd[of], track.offer_ids[of]
        )

    return part(covered), part(~covered)
