"""Prices of a window as step functions, one for each key: what history, break-evens over time and
backtests read.

``read_tracks`` reads the price floor where that suffices, and single offers where a filter asks for
more than the floor knows. Both tell the same. The cheapest price of a key is its cheapest job:
within a key bills differ by nothing but the price.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime

import numpy as np

from tracker.store.series.coverage import Intervals, coverage, cut_at, give_way, weigh
from tracker.store.series.floor import floor_tracks
from tracker.store.series.keys import (
    FloorKey,
    Reading,
    Track,
    from_micros,
    micros_of,
    to_micros,
)
from tracker.store.series.spans import EVERY, OfferFilter, span_tracks
from tracker.store.stored import Connection, fetch

__all__ = [
    "EVERY",
    "FloorKey",
    "Intervals",
    "OfferFilter",
    "Reading",
    "Track",
    "coverage",
    "floor_tracks",
    "from_micros",
    "give_way",
    "micros_of",
    "read_tracks",
    "span_tracks",
    "to_micros",
    "weigh",
]


def read_tracks(
    connection: Connection,
    *,
    start: datetime,
    end: datetime,
    now: datetime,
    gpu_keys: Collection[str] | None = None,
    sellers: Collection[str] | None = None,
    markets: Collection[str] | None = None,
    tiers: Collection[str] | None = None,
    regions: Collection[str] | None = None,
    countries: Collection[str] | None = None,
    offer_filter: OfferFilter = EVERY,
) -> Reading:
    """The tracks that count, and beside them what a seller's own polls replaced.

    The arguments are those of ``span_tracks``; only the last three make it read single offers.
    """
    spans_from = None
    if regions is None and countries is None and offer_filter == EVERY:
        tracks = floor_tracks(
            connection, start=start, end=end, now=now, gpu_keys=gpu_keys, sellers=sellers,
            markets=markets, tiers=tiers,
        )  # fmt: skip
    else:
        tracks = span_tracks(
            connection, start=start, end=end, now=now, gpu_keys=gpu_keys, sellers=sellers,
            markets=markets, tiers=tiers, regions=regions, countries=countries,
            offer_filter=offer_filter,
        )  # fmt: skip
        tracks, spans_from = _whole(connection, tracks, start)
    return weigh(connection, tracks, now)._replace(spans_from=spans_from)


def _whole(
    connection: Connection, tracks: list[Track], start: datetime
) -> tuple[list[Track], datetime | None]:
    """*tracks* of single offers without the times of which some offers are not kept any more: what
    is left there need not be the cheapest. And from when on those of all sources are kept, if that
    is after *start*."""
    kept_from = {
        source: to_micros(moment)
        for source, moment in fetch(
            connection, "SELECT slug, spans_from FROM provider WHERE spans_from > %(start)s",
            {"start": start},
        )
    }  # fmt: skip
    if not kept_from:
        return tracks, None
    whole = []
    for track in tracks:
        moment = kept_from.get(track.key.source)
        if moment is not None:
            gone = Intervals(track.starts[:1], np.array([moment]))
            track = cut_at(track, gone)[1] if track.starts[0] < moment else track
        if len(track.starts):
            whole.append(track)
    return whole, from_micros(max(kept_from.values()))
