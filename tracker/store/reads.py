"""Reading prices: plain psycopg without SQLAlchemy, as every answer of the command line waits here.

All functions take a connection and neither write nor commit. Prices are integer micro-USD per
machine-hour beside the provider's own amount; a column that a provider does not fill is None.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple

from tracker.store import past_seen
from tracker.store.rows import in_batches
from tracker.store.status import (
    database_size,
    discounts,
    first_poll_at,
    poll_that_saw,
    polls,
    providers,
    quarantined,
    tiers,
    unmapped,
)
from tracker.store.stored import (
    KNOWN_UNTIL_SQL,
    LIVE_SQL,
    PAST_CLOSED_SQL,
    PAST_OPEN_SQL,
    Connection,
    Row,
    Seller,
    StoredOffer,
    Times,
    fetch,
    live_times,
    past_sql,
    sellers_by_id,
    to_offers,
    told_by,
)

__all__ = [
    "FoundOffer",
    "Kind",
    "PriceSpan",
    "Shelf",
    "StoredOffer",
    "count_live_offers",
    "database_size",
    "discounts",
    "find_offer",
    "first_poll_at",
    "live_kinds",
    "live_offers",
    "live_shelves",
    "offer_spans",
    "poll_that_saw",
    "polls",
    "providers",
    "quarantined",
    "tiers",
    "unmapped",
]

# On these markets a price without the length of its term makes no bill (tracker/domain/cost.py).
TERM_MARKETS = ("monthly", "reserved", "capacity_block")

Shelf = tuple[str, str]  # a seller and a market of its


def live_offers(
    connection: Connection,
    *,
    gpu_keys: Collection[str] | None = None,
    providers: Collection[str] | None = None,
    markets: Collection[str] | None = None,
    kinds: Collection[Kind] | None = None,
    sources: Collection[str] | None = None,
    as_of: datetime | None = None,
) -> list[StoredOffer]:
    """The offers whose price is known: those open now, stale ones included, or those *as_of*.

    None means no constraint. ``providers`` are sellers, ``kinds`` those of ``live_kinds``,
    ``sources`` who was polled. As of a
    past moment the intervals are exact and half-open; a price that was not confirmed for longer
    than its ttl is absent there, one that had expired is stale, and one that was confirmed again
    nobody knows when has no ``seen_at``.
    """
    sellers = sellers_by_id(connection)
    where, values = _where(sellers, gpu_keys, providers, markets)
    if kinds is not None:
        where += _OF_KINDS_SQL
        values |= _kind_values(sellers, kinds)
    if sources is not None:
        where += " AND n.source_id = ANY (%(source_ids)s)"
        values["source_ids"] = [id_ for id_, s in sellers.items() if s.slug in sources]
    if as_of is None:
        rows = _stream(connection, LIVE_SQL + where, values)
        return to_offers(rows, sellers, live_times(sellers))
    values["as_of"] = as_of
    closed = _stream(connection, PAST_CLOSED_SQL + where, values)
    still_open = _stream(connection, PAST_OPEN_SQL + where, values)
    offers = to_offers(chain(closed, still_open), sellers, _past_times(as_of))
    return past_seen.seen(connection, offers, sellers, as_of)


class Kind(NamedTuple):
    """What the commonest filters look at, as in StoredOffer: few kinds stand for all offers."""

    is_slice: bool
    market: str
    tier: str
    provider: str
    source: str
    default_tiers: tuple[str, ...]


_KIND_SQL = "n.is_slice, n.market, n.tier, n.seller_id, n.source_id"
_OF_KINDS_SQL = (
    f" AND ({_KIND_SQL}) IN (SELECT * FROM unnest(%(slices)s::boolean[], %(kind_markets)s::text[],"
    " %(tiers)s::text[], %(kind_sellers)s::integer[], %(kind_sources)s::integer[]))"
)


def live_kinds(
    connection: Connection, *, gpu_keys: Collection[str] | None = None
) -> dict[Kind, int]:
    """How many offers of each kind ``live_offers`` would give now, without reading them."""
    sellers = sellers_by_id(connection)
    where, values = _where(sellers, gpu_keys, None, None)
    counts: dict[Kind, int] = {}
    for is_slice, market, tier, seller_id, source_id, count in fetch(
        connection,
        f"SELECT {_KIND_SQL}, count(*) FROM offer_now n WHERE true {where} GROUP BY {_KIND_SQL}"
        " ORDER BY min(n.offer_id)",  # so that reasons of equal counts are told in a fixed order
        values,
    ):
        source, seller = sellers[source_id], sellers[seller_id]
        tiers = told_by(source, seller).default_tiers
        counts[Kind(is_slice, market, tier, seller.slug, source.slug, tiers)] = count
    return counts


def _kind_values(sellers: dict[int, Seller], kinds: Collection[Kind]) -> dict[str, Any]:
    ids = {seller.slug: id_ for id_, seller in sellers.items()}
    return {
        "slices": [kind.is_slice for kind in kinds],
        "kind_markets": [kind.market for kind in kinds],
        "tiers": [kind.tier for kind in kinds],
        "kind_sellers": [ids[kind.provider] for kind in kinds],
        "kind_sources": [ids[kind.source] for kind in kinds],
    }


def count_live_offers(connection: Connection, *, as_of: datetime | None = None) -> int:
    """How many offers ``live_offers`` would give without constraints, without reading them."""
    if as_of is None:
        [(count,)] = fetch(connection, "SELECT count(*) FROM offer_now")
        return int(count)
    past = f"SELECT count(*) FROM ({PAST_CLOSED_SQL} UNION ALL {PAST_OPEN_SQL}) offers"
    [(count,)] = fetch(connection, past, {"as_of": as_of})
    return int(count)


def _past_times(as_of: datetime) -> Times:
    return lambda _, end, expires_at: (as_of, min(end, expires_at) if expires_at else end)


_OWN_SQL = (
    " WHERE source_id = seller_id AND NOT fallback AND NOT commitment_unknown"
    " AND (commitment_hours IS NOT NULL OR market <> ALL (%(term_markets)s))"
    " AND (expires_at IS NULL OR expires_at > %(moment)s)"
)
# seen_until is nearly always NULL: a few rows stand for all offers.
_OWN_NOW_SQL = (
    f"SELECT DISTINCT seller_id, market, seen_until FROM offer_now {_OWN_SQL}"
    " AND seller_id = ANY (%(sellers)s)"
)
_OWN_PAST_SQL = (
    f"SELECT DISTINCT seller_id, market FROM ({PAST_CLOSED_SQL} AND n.seller_id = ANY (%(sellers)s)"
    f" UNION ALL {PAST_OPEN_SQL} AND n.seller_id = ANY (%(sellers)s)) offers" + _OWN_SQL
)


def live_shelves(
    connection: Connection,
    *,
    sellers: Collection[str],
    now: datetime,
    as_of: datetime | None = None,
) -> frozenset[Shelf]:
    """The (seller, market) on which one of *sellers* has itself told prices that make a bill.

    Of any GPU, and whether in stock or not: who answered has said all that there is to rent.
    Stale prices do not count, nor what somebody else told of a seller. *as_of* like in
    ``live_offers``.
    """
    known = sellers_by_id(connection) if sellers else {}
    ids = [id_ for id_, seller in known.items() if seller.slug in sellers]
    if not ids:
        return frozenset()
    values: dict[str, Any] = {
        "sellers": ids, "term_markets": list(TERM_MARKETS), "moment": as_of or now,
    }  # fmt: skip
    if as_of is not None:
        past = fetch(connection, _OWN_PAST_SQL, values | {"as_of": as_of})
        return frozenset((known[seller_id].slug, market) for seller_id, market in past)
    times = live_times(known)
    return frozenset(
        (known[seller_id].slug, market)
        for seller_id, market, seen_until in fetch(connection, _OWN_NOW_SQL, values)
        if now < times(seller_id, seen_until, None)[1]
    )


def _where(
    sellers: dict[int, Seller],
    gpu_keys: Collection[str] | None,
    providers: Collection[str] | None,
    markets: Collection[str] | None,
) -> tuple[str, dict[str, Any]]:
    clauses = ""
    values: dict[str, Any] = {}
    if gpu_keys is not None:
        clauses += " AND n.gpu_key = ANY (%(gpu_keys)s)"
        values["gpu_keys"] = sorted(gpu_keys)
    if providers is not None:
        clauses += " AND n.seller_id = ANY (%(seller_ids)s)"
        values["seller_ids"] = [id_ for id_, s in sellers.items() if s.slug in providers]
    if markets is not None:
        clauses += " AND n.market = ANY (%(markets)s)"
        values["markets"] = sorted(map(str, markets))
    return clauses, values


def _stream(connection: Connection, statement: str, values: dict[str, Any]) -> Iterator[Row]:
    with connection.cursor() as cursor:
        yield from in_batches(cursor.execute(statement, values))


class FoundOffer(NamedTuple):
    """An offer looked up by its reference. ``offer`` holds its last price when it is not live."""

    offer: StoredOffer
    live: bool
    gpu_raw: str
    source_url: str | None
    notes: tuple[str, ...]
    first_seen_at: datetime


_LATEST_SQL = (
    past_sql(
        "(SELECT DISTINCT ON (offer_id) * FROM price_span WHERE offer_id = ANY (%(ids)s)"
        " ORDER BY offer_id, valid_to DESC)",
        "n.valid_to",
    )
)  # fmt: skip


def find_offer(connection: Connection, reference: str, *, limit: int = 20) -> list[FoundOffer]:
    """The offers that *reference* may mean, at most *limit*: live ones first, then the latest.

    A reference is the beginning of a key in hexadecimal (4 digits or more), ``provider/native id``
    or a native id alone.
    """
    words = fetch(
        connection,
        "SELECT o.id, o.gpu_raw, o.source_url, o.notes, o.first_seen_at FROM offer o"
        " JOIN provider p ON p.id = o.seller_id LEFT JOIN offer_now n ON n.offer_id = o.id"
        f" WHERE {_reference_clause(reference)}"
        " ORDER BY n.offer_id IS NULL, o.id DESC LIMIT %(limit)s",
        _reference_values(reference) | {"limit": limit},
    )
    ids = {"ids": [row[0] for row in words]}
    sellers = sellers_by_id(connection)
    live_rows = fetch(connection, LIVE_SQL + " AND offer_id = ANY (%(ids)s)", ids)
    live = {o.offer_id: o for o in to_offers(live_rows, sellers, live_times(sellers))}
    ids["ids"] = [id_ for id_ in ids["ids"] if id_ not in live]
    past_rows = fetch(connection, _LATEST_SQL, ids)
    past = {
        o.offer_id: o._replace(seen_at=_seen_before(connection, o))
        for o in to_offers(past_rows, sellers, lambda _, end, __: (end, end))
    }
    return [
        FoundOffer((live.get(id_) or past[id_]), id_ in live, raw, url, tuple(notes), first)
        for id_, raw, url, notes, first in words
        if id_ in live or id_ in past
    ]


def _reference_clause(reference: str) -> str:
    clause = "o.native_id = %(native)s"
    if "/" in reference:
        clause += " OR (p.slug = %(provider)s AND o.native_id = %(rest)s)"
    if _hex_range(reference):
        clause += " OR (o.key >= %(low)s AND o.key <= %(high)s)"
    return f"({clause})"


def _reference_values(reference: str) -> dict[str, Any]:
    provider, _, rest = reference.partition("/")
    low, high = _hex_range(reference) or (b"", b"")
    return {
        "native": reference, "provider": provider, "rest": rest, "low": low, "high": high,
    }  # fmt: skip


def _hex_range(reference: str) -> tuple[bytes, bytes] | None:
    digits = reference.lower()
    if not 4 <= len(digits) <= 32 or set(digits) - set("0123456789abcdef"):
        return None
    return bytes.fromhex(digits.ljust(32, "0")), bytes.fromhex(digits.ljust(32, "f"))


def _seen_before(connection: Connection, offer: StoredOffer) -> datetime:
    """When a closed offer was last confirmed: at its source's last poll before the closing."""
    [(at,)] = fetch(
        connection,
        "SELECT max(l.polled_at) FROM poll l JOIN provider p ON p.id = l.provider_id"
        " WHERE p.slug = %(source)s AND l.status IN ('complete', 'partial')"
        " AND l.polled_at < %(end)s",
        {"source": offer.source, "end": offer.stale_at},
    )
    return at or offer.valid_from


class PriceSpan(NamedTuple):
    """A price and when it was known: from ``valid_from`` until before ``valid_to``.

    An ``open`` one may go on: its ``valid_to`` is where it ends unless it is confirmed again.
    """

    valid_from: datetime
    valid_to: datetime
    price_native: Decimal
    price_micro_usd: int
    fx_rate: Decimal | None
    open: bool


def offer_spans(connection: Connection, offer_id: int) -> list[PriceSpan]:
    """The price history of one offer, oldest first."""
    columns = "n.price_native, n.price_micro_usd, n.fx_rate"
    rows = fetch(
        connection,
        f"SELECT n.valid_from, n.valid_to, {columns}, false FROM price_span n"
        " WHERE n.offer_id = %(id)s"
        f" UNION ALL SELECT n.valid_from, {KNOWN_UNTIL_SQL}, {columns}, true"
        " FROM offer_now n JOIN provider p ON p.id = n.source_id WHERE n.offer_id = %(id)s"
        " ORDER BY 1",
        {"id": offer_id},
    )
    return [PriceSpan(*row) for row in rows]
