"""Tracks from the price spans of single offers: for whatever the price floor does not know."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from tracker.domain.kind import Kind, kind_of
from tracker.domain.mig import part_of
from tracker.domain.place import SEPARATOR, is_in
from tracker.domain.terms import Terms
from tracker.store.series.assemble import in_order, split
from tracker.store.series.binary import PG_EPOCH_MICROS, read_columns
from tracker.store.series.keys import FloorKey, Ints, Track, to_micros
from tracker.store.series.reduce import lowest_steps
from tracker.store.stored import KNOWN_UNTIL_SQL, Connection, Seller, fetch, sellers_by_id


class OfferFilter(NamedTuple):
    """What single offers must be to count; None, False and () are no constraint.

    The meaning is that of the fields of ``report.filters.Filters``. What does not say how much
    memory or how many processors it has, which interconnect, or whether it is dedicated, does not
    pass a constraint on that.
    """

    min_ram_gib: Decimal | None = None
    min_vcpus: Decimal | None = None
    interconnect: str | None = None  # in the text, whatever the case
    dedicated: bool = False
    kinds: tuple[Kind, ...] = ()


EVERY = OfferFilter()

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
    offer_filter: OfferFilter = EVERY,
    source_ids: Collection[int] | None = None,
) -> list[Track]:
    """The tracks of the window [start, end), from ``price_span`` and ``offer_now``.

    None means no constraint. ``sellers`` are slugs, ``source_ids`` rows of ``provider``;
    ``regions`` are patterns of ``domain.place.is_in``; an offer that does not say where it is
    matches none. A price is known until its expiry and, while it is open, until the ttl after it
    was last seen; nothing is known after *now*. In the order of keys, and with the meaning of each
    field, of ``floor_tracks``.
    """
    known_by = sellers_by_id(connection)
    end = min(end, now)
    if start >= end:
        return []
    where, values = conditions(known_by, gpu_keys, sellers, markets, tiers, source_ids)
    places = Places.of(regions, countries)
    narrowed, more = _narrowed(places, offer_filter)
    values |= {"start": start, "end": end} | more
    ids, starts, ends, prices, fallbacks = read_columns(
        connection, spans_sql(where, narrowed), values, 5, times=(1, 2)
    )
    low, high = to_micros(start), to_micros(end)
    starts = np.maximum(starts + PG_EPOCH_MICROS, low)
    ends = np.minimum(ends + PG_EPOCH_MICROS, high)
    distinct, of = distinct_of(ids)
    keys, key_of = keys_of(connection, known_by, distinct, places, offer_filter.kinds)
    # Places 2i and 2i + 1 are of key i without and with ``fallback``, which of an offer may change.
    group = np.where(key_of[of] >= 0, key_of[of] * 2 + fallbacks, -1)
    wanted = group >= 0
    if not wanted.all():
        group, starts, ends = group[wanted], starts[wanted], ends[wanted]
        ids, prices = ids[wanted], prices[wanted]
    found = lowest_steps(starts, ends, prices, group)
    both = [key._replace(fallback=fallback) for key in keys for fallback in (False, True)]
    return in_order(
        split(both, found.groups, found.starts, found.ends, found.values, ids[found.chosen])
    )


def distinct_of(ids: Ints) -> tuple[Ints, Ints]:
    """The distinct *ids*, which rise, and for each of *ids* its place among them."""
    most = int(ids.max(initial=0))
    if most > 16 * len(ids) + 2**20:  # few of very many: no table of all
        distinct, of = np.unique(ids, return_inverse=True)
        return distinct, of.reshape(-1)
    there = np.zeros(most + 1, dtype=bool)
    there[ids] = True
    distinct = np.flatnonzero(there)
    place = np.empty(most + 1, dtype=np.int64)
    place[distinct] = np.arange(len(distinct), dtype=np.int64)
    return distinct, place[ids]


class Places(NamedTuple):
    """Where offers may be: in regions of any of the *patterns* (see ``domain.place.is_in``), in any
    of the *countries*. None: anywhere. What does not say where it is, is nowhere.
    """

    patterns: tuple[str, ...] | None
    countries: frozenset[str] | None

    @classmethod
    def of(cls, regions: Collection[str] | None, countries: Collection[str] | None) -> Places:
        """As asked for, in any case."""
        return cls(
            None if regions is None else tuple(pattern.lower() for pattern in regions),
            None if countries is None else frozenset(country.upper() for country in countries),
        )

    def hold(self, region: str | None, country: str | None) -> bool:
        """Whether an offer that says this is among them."""
        if self.countries is not None and country not in self.countries:
            return False
        if self.patterns is None:
            return True
        return region is not None and is_in(region, self.patterns)


ANYWHERE = Places(None, None)


def _narrowed(places: Places, offer_filter: OfferFilter) -> tuple[tuple[str, str], dict[str, Any]]:
    """SQL for what can be told of an offer before it is read, and its values: conditions on the
    table ``n`` of spans, and on ``o``, which has all of an offer.

    Of regions more may be let in than are asked for, never less.
    """
    values: dict[str, Any] = {}
    near, far = "", ""
    if places.patterns is not None:
        near = ' AND lower(n.region COLLATE "C") LIKE ANY (%(regions)s)'
        values["regions"] = [like for p in places.patterns for like in _like(p)]
    if places.countries is not None:
        far += " AND o.country = ANY (%(countries)s)"
        values["countries"] = sorted(places.countries)
    for name in ("min_ram_gib", "min_vcpus"):
        least = getattr(offer_filter, name)
        if least is not None:
            far += f" AND o.{name.removeprefix('min_')} >= %({name})s"
            values[name] = least
    if offer_filter.interconnect:
        far += " AND strpos(lower(o.interconnect), %(interconnect)s) > 0"
        values["interconnect"] = offer_filter.interconnect.lower()
    if offer_filter.dedicated:
        far += " AND o.dedicated"
    return (near, far), values


def _like(pattern: str) -> tuple[str, str]:
    """A pattern of ``fnmatch`` in small letters as patterns of LIKE that let in at least as much:
    regions, and zones of them. Only letters of ASCII are made small there: others may be any."""
    if "[" in pattern:  # one of several letters, or itself where nothing closes it
        pattern = pattern[: pattern.index("[")] + "*"
    special = {"*": "%", "?": "_", "%": r"\%", "_": r"\_", "\\": r"\\"}
    like = "".join(special.get(c, c) if c.isascii() else "%" for c in pattern)
    return like, f"{like}{SEPARATOR}%"


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


def spans_sql(where: str, narrowed: tuple[str, str] = ("", "")) -> str:
    """The spans of a window, with the further conditions *where* on the table ``n``, and those of
    *narrowed* on ``n`` and on ``o``, all of an offer."""
    near, far = narrowed
    columns = "n.price_micro_usd, n.fallback::int::bigint"
    closed, still_open = (f"least({end}, n.expires_at)" for end in ("n.valid_to", KNOWN_UNTIL_SQL))
    offers = f" JOIN offer o ON o.id = n.offer_id{far}" if far else ""
    return (
        f"SELECT n.offer_id, n.valid_from, {closed}, {columns} FROM price_span n{offers}"
        " WHERE n.valid_to > %(start)s AND n.valid_from < %(end)s"
        f" AND {closed} > greatest(n.valid_from, %(start)s) {where}{near}"
        f" UNION ALL SELECT n.offer_id, n.valid_from, {still_open}, {columns}"
        f" FROM offer_now n JOIN provider p ON p.id = n.source_id{offers}"
        f" WHERE n.valid_from < %(end)s AND {still_open} > greatest(n.valid_from, %(start)s)"
        f" {where}{near}"
    )


def keys_of(
    connection: Connection,
    known_by: dict[int, Seller],
    ids: Ints,
    places: Places = ANYWHERE,
    kinds: Collection[Kind] = (),
) -> tuple[list[FloorKey], Ints]:
    """The keys of the offers *ids* (which rise), and for each offer its key's place; -1: none,
    as it is not of the *places* or *kinds* (none: of any)."""
    place: dict[tuple[Any, ...], int] = {}
    key_of = np.full(len(ids), -1, dtype=np.int64)
    if not len(ids):
        return [], key_of
    apart = "o.region, o.country" if places != ANYWHERE else "NULL::text, NULL::text"
    apart += ", o.dedicated, o.form_factor" if kinds else ", NULL::boolean, NULL::text"
    rows = fetch(
        connection,
        f"SELECT {_OF_OFFERS}, {apart}, string_agg(o.id::text, ' ') FROM offer o"
        f" WHERE o.id = ANY (%(ids)s::bigint[]) GROUP BY {_OF_OFFERS}, {apart}",
        {"ids": "{" + ",".join(map(str, ids.tolist())) + "}"},
    )
    for *identity, native_id, region, country, dedicated, form_factor, listed in rows:
        if not places.hold(region, country):
            continue
        if kinds and _kind(identity, dedicated, form_factor) not in kinds:
            continue
        part = None if native_id is None else part_of(native_id)
        at = place.setdefault((*identity, part), len(place))
        key_of[np.searchsorted(ids, np.array(listed.split(" "), dtype=np.int64))] = at
    return [key_from(None, known_by, identity, fallback=False) for identity in place], key_of


def _kind(identity: Sequence[Any], dedicated: bool | None, form_factor: str | None) -> Kind:
    of = dict(zip(GROUPED, identity, strict=False))
    return kind_of(
        of["gpu_count"], is_slice=of["is_slice"], dedicated=dedicated, family=of["gpu_family"],
        form_factor=form_factor,
    )  # fmt: skip


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
