"""Tracks from the price spans of single offers: for whatever the price floor does not know."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from decimal import Decimal
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tracker.domain.mig import part_of
from tracker.domain.terms import Terms
from tracker.store.series.assemble import in_order, split
from tracker.store.series.binary import PG_EPOCH_MICROS, read_columns
from tracker.store.series.keys import FloorKey, Ints, Track, to_micros
from tracker.store.series.reduce import lowest_steps
from tracker.store.stored import (
    IDENTITY,
    KNOWN_UNTIL_SQL,
    Connection,
    Seller,
    fetch,
    sellers_by_id,
    told_by,
)


class OfferIdentity(NamedTuple):
    """What never changes of an offer, named as in ``StoredOffer``: what filters of history ask.

    What history does not keep (availability, disk, network, reliability) is not here.
    """

    offer_id: int
    native_id: str
    gpu_key: str
    gpu_family: str
    form_factor: str | None
    vram_gb: int | None
    is_slice: bool
    gpu_count: Decimal
    market: str
    tier: str
    price_kind: str
    currency: str
    price_unit: str
    region: str | None
    country: str | None
    interconnect: str | None
    vcpus: Decimal | None
    ram_gib: Decimal | None
    dedicated: bool | None
    datacenter: bool | None
    upstream: str | None
    billing_increment_seconds: int | None
    minimum_seconds: int | None
    commitment_hours: int | None
    commitment_unknown: bool
    disk_included_gb: Decimal | None
    disk_usd_per_gb_hour: Decimal | None
    egress_usd_per_gb: Decimal | None
    provider: str
    source: str
    default_tiers: tuple[str, ...]


OfferFilter = Callable[[OfferIdentity], bool]

_TERMS = Terms.__slots__
_terms_of = lru_cache(maxsize=1000)(Terms)  # few terms are those of all keys
GROUPED = (
    "source_id", "seller_id", "gpu_key", "gpu_family", "is_slice", "gpu_count", "market", "tier",
    "price_unit", "currency", "price_kind", *_TERMS, "upstream", "part",
)  # fmt: skip
# The part of a slice is read from its own id.
_OF_OFFERS = ", ".join(
    f"o.{name}" if name != "part" else "CASE WHEN o.is_slice THEN o.native_id END"
    for name in GROUPED
)


def span_tracks(
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
    source_ids: Collection[int] | None = None,
) -> list[Track]:
    """The tracks of the window [start, end), from ``price_span`` and ``offer_now``.

    None means no constraint. ``sellers`` are slugs, ``source_ids`` rows of ``provider``;
    ``regions`` exact or with * and ?, without regard to case; an offer that does not say where it
    is matches none. A price is known until its
    expiry and, while it is open, until the ttl after it was last seen; nothing is known after
    *now*. In the order of keys, and with the meaning of each field, of ``floor_tracks``.
    """
    known_by = sellers_by_id(connection)
    end = min(end, now)
    if start >= end:
        return []
    where, values = conditions(known_by, gpu_keys, sellers, markets, tiers, source_ids)
    values |= {"start": start, "end": end}
    ids, starts, ends, prices, fallbacks = read_columns(
        connection, spans_sql(where), values, 5, times=(1, 2)
    )
    low, high = to_micros(start), to_micros(end)
    starts = np.maximum(starts + PG_EPOCH_MICROS, low)
    ends = np.minimum(ends + PG_EPOCH_MICROS, high)
    distinct, of = np.unique(ids, return_inverse=True)
    keys, key_of = keys_of(connection, known_by, distinct, regions, countries, offer_filter)
    # Places 2i and 2i + 1 are of key i without and with ``fallback``, which of an offer may change.
    group = np.where(key_of[of] >= 0, key_of[of] * 2 + fallbacks, -1)
    wanted = group >= 0
    group, starts, ends = group[wanted], starts[wanted], ends[wanted]
    found = lowest_steps(starts, ends, prices[wanted], group)
    offers = ids[wanted][found.chosen]
    both = [key._replace(fallback=fallback) for key in keys for fallback in (False, True)]
    return in_order(split(both, found.groups, found.starts, found.ends, found.values, offers))


def conditions(
    known_by: dict[int, Seller],
    gpu_keys: Collection[str] | None,
    sellers: Collection[str] | None,
    markets: Collection[str] | None,
    tiers: Collection[str] | None,
    source_ids: Collection[int] | None,
) -> tuple[str, dict[str, Any]]:
    """SQL for the constraints on the table ``n``, to be appended to a condition."""
    clauses, values = "", dict[str, Any]()
    if sellers is not None:
        clauses += " AND n.seller_id = ANY (%(seller_ids)s)"
        values["seller_ids"] = [id_ for id_, s in known_by.items() if s.slug in sellers]
    if source_ids is not None:
        clauses += " AND n.source_id = ANY (%(source_ids)s)"
        values["source_ids"] = sorted(source_ids)
    for column, wanted in (("gpu_key", gpu_keys), ("market", markets), ("tier", tiers)):
        if wanted is not None:
            clauses += f" AND n.{column} = ANY (%({column}s)s)"
            values[f"{column}s"] = sorted(map(str, wanted))
    return clauses, values


def spans_sql(where: str) -> str:
    """The spans of a window, with the further conditions *where* on the table ``n``."""
    columns = "n.price_micro_usd, n.fallback::int::bigint"
    closed, still_open = (f"least({end}, n.expires_at)" for end in ("n.valid_to", KNOWN_UNTIL_SQL))
    return (
        f"SELECT n.offer_id, n.valid_from, {closed}, {columns} FROM price_span n"
        " WHERE n.valid_to > %(start)s AND n.valid_from < %(end)s"
        f" AND {closed} > greatest(n.valid_from, %(start)s) {where}"
        f" UNION ALL SELECT n.offer_id, n.valid_from, {still_open}, {columns}"
        " FROM offer_now n JOIN provider p ON p.id = n.source_id"
        f" WHERE n.valid_from < %(end)s AND {still_open} > greatest(n.valid_from, %(start)s)"
        f" {where}"
    )


def keys_of(
    connection: Connection,
    known_by: dict[int, Seller],
    ids: Ints,
    regions: Collection[str] | None,
    countries: Collection[str] | None,
    offer_filter: OfferFilter | None,
) -> tuple[list[FloorKey], Ints]:
    """The keys of the offers *ids* (which rise), and for each offer its key's place; -1: none.

    None of the last three means no constraint.
    """
    place: dict[tuple[Any, ...], int] = {}
    key_of = np.full(len(ids), -1, dtype=np.int64)
    wanted = _where_matches(regions, countries)
    if not len(ids):
        return [], key_of
    rows = fetch(
        connection,
        f"SELECT {_OF_OFFERS}, o.region, o.country, string_agg(o.id::text, ' ') FROM offer o"
        f" WHERE o.id = ANY (%(ids)s::bigint[]) GROUP BY {_OF_OFFERS}, o.region, o.country",
        {"ids": "{" + ",".join(map(str, ids.tolist())) + "}"},
    )
    for *identity, native_id, region, country, listed in rows:
        if not wanted(region, country):
            continue
        part = None if native_id is None else part_of(native_id)
        at = place.setdefault((*identity, part), len(place))
        key_of[np.searchsorted(ids, np.array(listed.split(" "), dtype=np.int64))] = at
    if offer_filter is not None:
        _apply(connection, known_by, ids, key_of, offer_filter)
    return [key_from(None, known_by, identity, fallback=False) for identity in place], key_of


def _where_matches(
    regions: Collection[str] | None, countries: Collection[str] | None
) -> Callable[[str | None, str | None], bool]:
    patterns = None if regions is None else [pattern.lower() for pattern in regions]
    codes = None if countries is None else {country.upper() for country in countries}

    def wanted(region: str | None, country: str | None) -> bool:
        if codes is not None and country not in codes:
            return False
        if patterns is None:
            return True
        return region is not None and any(fnmatchcase(region.lower(), p) for p in patterns)

    return wanted


def _apply(
    connection: Connection,
    known_by: dict[int, Seller],
    ids: Ints,
    key_of: Ints,
    offer_filter: OfferFilter,
) -> None:
    """Take the offers that do not pass the filter out of *key_of*."""
    left = ids[key_of >= 0]
    columns = ", ".join(f"o.{name}" for name in ("id", *IDENTITY, "source_id", "seller_id"))
    for *identity, source_id, seller_id in fetch(
        connection,
        f"SELECT {columns} FROM offer o WHERE o.id = ANY (%(ids)s::bigint[])",
        {"ids": "{" + ",".join(map(str, left.tolist())) + "}"},
    ):
        source, seller = known_by[source_id], known_by[seller_id]
        tiers = told_by(source, seller).default_tiers
        if not offer_filter(OfferIdentity._make((*identity, seller.slug, source.slug, tiers))):
            key_of[np.searchsorted(ids, identity[0])] = -1


def key_from(
    id_: int | None, known_by: dict[int, Seller], columns: Sequence[Any], *, fallback: bool
) -> FloorKey:
    """The key of the columns that ``floor_key`` and ``offer`` have in common, in its order."""
    source_id, seller_id, *rest, upstream, part = columns
    source, seller = known_by[source_id], known_by[seller_id]
    plain, terms = rest[: -len(_TERMS)], _terms_of(*rest[-len(_TERMS) :])
    return FloorKey._make((
        id_, source.slug, source.kind, seller.slug, *plain, terms, fallback, upstream, part,
    ))  # fmt: skip
