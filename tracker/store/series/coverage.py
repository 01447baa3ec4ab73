"""When sellers' own polls covered a market, and what gives way to them.

The rule is that of the live answer (``reads.live_shelves`` and ``report/filters.py``), read over
time: at a moment at which a seller itself has told, on some market, a price of any GPU that makes
a bill, neither an import nor a list price that stands in (``FloorKey.gives_way``) counts there.
They stay in the tables, and come out as ``Reading.replaced``.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker.domain.terms import Market
from tracker.store.reads import TERM_MARKETS, Shelf
from tracker.store.series.keys import Ints, Reading, Track, from_micros, micros_of
from tracker.store.series.reduce import lowest_steps
from tracker.store.stored import KNOWN_UNTIL_SQL, Connection, fetch, sellers_by_id


class Intervals(NamedTuple):
    """Half-open intervals in order that neither overlap nor touch, microseconds since 1970 UTC."""

    starts: Ints
    ends: Ints


_MAKES_A_BILL = (
    " NOT {t}.commitment_unknown"
    " AND ({t}.commitment_hours IS NOT NULL OR {t}.market <> ALL (%(term_markets)s))"
)
_WANTED = (
    " AND {t}.source_id = {t}.seller_id AND NOT {t}.fallback AND {t}.seller_id = ANY (%(sellers)s)"
    " AND {t}.market = ANY (%(markets)s) AND"
)


def _own_sql(table: str, keys: str, n: str, known_until: str, built: str) -> str:
    """Whose own prices are known from when until when. *n* is the table with source and market."""
    begin = "greatest(n.valid_from, %(start)s)"
    finish = f"least({known_until}, {'n' if n == 'n' else 'o'}.expires_at, %(end)s)"
    return (
        f"SELECT {n}.seller_id, {n}.market, {begin} AS begin, {finish} AS finish"
        f" FROM {table} n JOIN {keys} JOIN provider p ON p.id = {n}.source_id AND {built}"
        f" WHERE n.valid_from < %(end)s AND {finish} > {begin}"
        + _WANTED.format(t=n)
        + _MAKES_A_BILL.format(t="o")
    )


_OF_OFFERS = ("offer o ON o.id = n.offer_id", "n")
_OF_KEYS = ("floor_key o ON o.id = n.key_id", "o")
_CLOSED, _UNBUILT = "n.valid_to > %(start)s", "NOT p.floor_built"
_COVERED_SQL = (
    "SELECT seller_id, market, lower(own), upper(own) FROM (SELECT seller_id, market,"
    " unnest(range_agg(tstzrange(begin, finish))) AS own FROM ("
    + " UNION ALL ".join((
        f"{_own_sql('price_floor', *_OF_KEYS, 'n.valid_to', 'p.floor_built')} AND {_CLOSED}",
        _own_sql("floor_now", *_OF_KEYS, KNOWN_UNTIL_SQL, "p.floor_built"),
        f"{_own_sql('price_span', *_OF_OFFERS, 'n.valid_to', _UNBUILT)} AND {_CLOSED}",
        _own_sql("offer_now", *_OF_OFFERS, KNOWN_UNTIL_SQL, _UNBUILT),
    ))
    + ") known GROUP BY seller_id, market) covered ORDER BY 1, 2, 3"
)  # fmt: skip


def coverage(
    connection: Connection,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    sellers: Collection[str],
    markets: Collection[str] | None = None,
) -> dict[Shelf, Intervals]:
    """Within the window, when each of *sellers* told prices of its own, for each of its markets.

    Those are the moments at which a price that makes a bill is known of any GPU: from a poll on
    until the next one that does not see it, and for no longer than the poll's time to live. A
    market that a seller never told of itself is absent. *markets*: None means all.
    """
    known_by = sellers_by_id(connection)
    end = min(end, now)
    if start >= end:
        return {}
    values = {
        "start": start, "end": end, "term_markets": list(TERM_MARKETS),
        "sellers": [id_ for id_, seller in known_by.items() if seller.slug in sellers],
        "markets": [market.value for market in Market if markets is None or market in markets],
    }  # fmt: skip
    found: dict[Shelf, list[tuple[datetime, datetime]]] = {}
    for seller_id, market, one, other in fetch(connection, _COVERED_SQL, values):
        found.setdefault((known_by[seller_id].slug, market), []).append((one, other))
    return {
        shelf: Intervals(micros_of([a for a, _ in spans]), micros_of([b for _, b in spans]))
        for shelf, spans in found.items()
    }


def weigh(connection: Connection, tracks: Sequence[Track], now: datetime) -> Reading:
    """Which of the *tracks* counts when. Reads the store only for what they do not tell alone."""
    if not any(track.key.gives_way for track in tracks):
        return Reading(list(tracks), [])
    covered = _told_themselves(tracks)
    left = [track for track in give_way(tracks, covered).tracks if track.key.gives_way]
    if left:
        more = coverage(
            connection, now=now, sellers={track.key.seller for track in left},
            markets={track.key.market for track in left},
            start=from_micros(min(int(track.starts[0]) for track in left)),
            end=from_micros(max(int(track.ends[-1]) for track in left)),
        )  # fmt: skip
        for shelf, intervals in more.items():
            covered[shelf] = union([intervals, *filter(None, [covered.get(shelf)])])
    return give_way(tracks, covered)


def _told_themselves(tracks: Iterable[Track]) -> dict[Shelf, Intervals]:
    """What the *tracks* themselves tell of the coverage of their markets."""
    own: dict[Shelf, list[Intervals]] = {}
    for key, starts, ends, *_ in tracks:
        of_term = key.market in TERM_MARKETS and key.terms.commitment_hours is None
        if key.source == key.seller and not (
            key.fallback or of_term or key.terms.commitment_unknown
        ):
            own.setdefault((key.seller, key.market), []).append(Intervals(starts, ends))
    return {shelf: union(intervals) for shelf, intervals in own.items()}


def union(several: Sequence[Intervals]) -> Intervals:
    """All moments that lie in one of *several* (at least one)."""
    starts, ends = (np.concatenate(column) for column in zip(*several, strict=True))
    joined = lowest_steps(starts, ends, np.zeros_like(starts))
    return Intervals(joined.starts, joined.ends)


def give_way(tracks: Iterable[Track], covered: Mapping[Shelf, Intervals]) -> Reading:
    """Cut out of the *tracks* that give way what own polls covered."""
    counting, replaced = list[Track](), list[Track]()
    for track in tracks:
        own = covered.get((track.key.seller, track.key.market))
        if own is None or not track.key.gives_way:
            counting.append(track)
            continue
        inside, outside = cut_at(track, own)
        counting += [outside] if len(outside.starts) else []
        replaced += [inside] if len(inside.starts) else []
    return Reading(counting, replaced)


def cut_at(track: Track, own: Intervals) -> tuple[Track, Track]:
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
