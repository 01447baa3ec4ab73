"""Prices of a window as step functions, one for each key: what history, break-evens over time and
backtests read.

``read_tracks`` reads the price floor where that suffices, and single offers where a filter asks for
more than the floor knows. Both tell the same. The cheapest price of a key is its cheapest job:
within a key bills differ by nothing but the price.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import cast

from tracker.store.series.coverage import Intervals, coverage, give_way, weigh
from tracker.store.series.floor import floor_tracks
from tracker.store.series.keys import (
    FloorKey,
    Reading,
    Track,
    from_micros,
    micros_of,
    to_micros,
)
from tracker.store.series.spans import OfferFilter, OfferIdentity, span_tracks
from tracker.store.stored import Connection, fetch

__all__ = [
    "FloorKey",
    "Intervals",
    "OfferFilter",
    "OfferIdentity",
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
    offer_filter: OfferFilter | None = None,
) -> Reading:
    """The tracks that count, and beside them what a seller's own polls replaced.

    The arguments are those of ``span_tracks``; only the last three make it read single offers.
    """
    spans_from = None
    if regions is None and countries is None and offer_filter is None:
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
        spans_from = _spans_from(connection, start)
    return weigh(connection, tracks, now)._replace(spans_from=spans_from)


def _spans_from(connection: Connection, start: datetime) -> datetime | None:
    """From when on the spans of all sources are there, if that is after *start*."""
    [(moment,)] = fetch(
        connection, "SELECT max(spans_from) FROM provider WHERE spans_from > %(start)s",
        {"start": start},
    )  # fmt: skip
    return cast("datetime | None", moment)
