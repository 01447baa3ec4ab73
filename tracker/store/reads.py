"""Reading prices: plain psycopg without SQLAlchemy, as every answer of the command line waits here.

All functions take a connection and neither write nor commit. Prices are integer micro-USD per
machine-hour beside the provider's own amount; a column that a provider does not fill is None.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import chain
from typing import Any, NamedTuple

import psycopg

from tracker.store.rows import collector_paused, in_batches
from tracker.store.status import (
    database_size,
    discounts,
    poll_that_saw,
    polls,
    providers,
    quarantined,
    unmapped,
)

__all__ = [
    "FoundOffer",
    "PriceSpan",
    "StoredOffer",
    "count_live_offers",
    "database_size",
    "discounts",
    "find_offer",
    "live_offers",
    "offer_spans",
    "poll_that_saw",
    "polls",
    "providers",
    "quarantined",
    "unmapped",
]

Connection = psycopg.Connection[Any]
Row = tuple[Any, ...]


class StoredOffer(NamedTuple):
    """One offer with its price, flat, as a report needs it.

    ``provider`` sells, ``source`` was polled. ``fx_rate`` is None for prices in USD. ``seen_at`` is
    when the price was last confirmed, ``stale_at`` the moment from which it is not known any more.
    ``marketplace`` and ``default_tiers`` are the seller's (the source's for a seller never polled).
    Read as of a past moment, what is not kept in history (availability, stock, network…) is None
    or unknown, and ``seen_at`` is that moment.
    """

    offer_id: int
    key: bytes
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
    price_native: Decimal
    price_micro_usd: int
    fx_rate: Decimal | None
    fx_date: date | None
    availability: str
    stock_count: int | None
    stock_label: str | None
    disk_gb: Decimal | None
    network_down_mbps: Decimal | None
    network_up_mbps: Decimal | None
    reliability: Decimal | None
    interruption_percent_max: int | None
    max_duration_hours: Decimal | None
    valid_as_of: date | None
    expires_at: datetime | None
    fallback: bool
    valid_from: datetime
    flags: tuple[str, ...]
    provider: str
    source: str
    marketplace: bool
    default_tiers: tuple[str, ...]
    seen_at: datetime
    stale_at: datetime


_FIELDS = StoredOffer._fields
IDENTITY = _FIELDS[_FIELDS.index("native_id") : _FIELDS.index("price_native")]
_EXTRAS = _FIELDS[_FIELDS.index("availability") : _FIELDS.index("fallback")]
_STORED = _FIELDS[: _FIELDS.index("flags")]
_EXPIRES_AT, _VALID_FROM = _FIELDS.index("expires_at"), _FIELDS.index("valid_from")
_PRICE = ("price_native", "price_micro_usd", "fx_rate", "fx_date")

_LIVE_SQL = (
    f"SELECT {', '.join(_STORED)}, flags, seen_until, source_id, seller_id FROM offer_now n"
    " WHERE true"
)


def _past_sql(table: str, end: str) -> str:
    """The columns of _LIVE_SQL for a past moment; *end* is where the price's knowledge ends."""
    extras = ("'unknown'", *("NULL" for _ in _EXTRAS[1:]))
    return (
        f"SELECT o.id, o.key, {', '.join(f'o.{name}' for name in IDENTITY)},"
        f" {', '.join(f'n.{name}' for name in _PRICE)}, {', '.join(extras)},"
        f" n.fallback, n.valid_from, NULL, {end}, n.source_id, n.seller_id"
        f" FROM {table} n JOIN offer o ON o.id = n.offer_id"
    )


_PAST_CLOSED_SQL = (
    _past_sql("price_span", "n.valid_to")
    + " WHERE n.valid_from <= %(as_of)s AND n.valid_to > %(as_of)s"
)
_KNOWN_UNTIL = "coalesce(n.seen_until, p.last_ok_at) + p.ttl_seconds * interval '1 second'"
_PAST_OPEN_SQL = (
    _past_sql("offer_now", _KNOWN_UNTIL)
    + " JOIN provider p ON p.id = n.source_id"
    + f" WHERE n.valid_from <= %(as_of)s AND {_KNOWN_UNTIL} > %(as_of)s"
)


class _Seller(NamedTuple):
    slug: str
    kind: str
    last_ok_at: datetime | None
    ttl: timedelta
    marketplace: bool
    default_tiers: tuple[str, ...]


def live_offers(
    connection: Connection,
    *,
    gpu_keys: Collection[str] | None = None,
    providers: Collection[str] | None = None,
    markets: Collection[str] | None = None,
    as_of: datetime | None = None,
) -> list[StoredOffer]:
    """The offers whose price is known: those open now, stale ones included, or those *as_of*.

    None means no constraint. ``providers`` are sellers. As of a past moment the intervals are
    exact and half-open; a price that was not confirmed for longer than its ttl is absent there.
    """
    sellers = _sellers(connection)
    where, values = _where(sellers, gpu_keys, providers, markets)
    if as_of is None:
        rows = _stream(connection, _LIVE_SQL + where, values)
        return _offers(rows, sellers, _live_times(sellers))
    values["as_of"] = as_of
    closed = _stream(connection, _PAST_CLOSED_SQL + where, values)
    still_open = _stream(connection, _PAST_OPEN_SQL + where, values)
    return _offers(chain(closed, still_open), sellers, lambda source, end, _: (as_of, end))


def count_live_offers(connection: Connection, *, as_of: datetime | None = None) -> int:
    """How many offers ``live_offers`` would give without constraints, without reading them."""
    if as_of is None:
        [(count,)] = _fetch(connection, "SELECT count(*) FROM offer_now")
        return int(count)
    past = f"SELECT count(*) FROM ({_PAST_CLOSED_SQL} UNION ALL {_PAST_OPEN_SQL}) offers"
    [(count,)] = _fetch(connection, past, {"as_of": as_of})
    return int(count)


def _sellers(connection: Connection) -> dict[int, _Seller]:
    rows = _fetch(
        connection,
        "SELECT id, slug, kind, last_ok_at, coalesce(ttl_seconds, 0), marketplace, default_tiers"
        " FROM provider",
    )
    return {
        row[0]: _Seller(row[1], row[2], row[3], timedelta(seconds=row[4]), row[5], tuple(row[6]))
        for row in rows
    }


def _where(
    sellers: dict[int, _Seller],
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


def _fetch(
    connection: Connection, statement: str, values: dict[str, Any] | None = None
) -> list[Row]:
    with connection.cursor() as cursor:
        return cursor.execute(statement, values).fetchall()


def _stream(connection: Connection, statement: str, values: dict[str, Any]) -> Iterator[Row]:
    with connection.cursor() as cursor:
        yield from in_batches(cursor.execute(statement, values))


# (source id, seen_until or the end of knowledge, expires_at) → (seen_at, stale_at)
_Times = Callable[[int, Any, datetime | None], tuple[datetime, datetime]]


def _live_times(sellers: dict[int, _Seller]) -> _Times:
    def times(
        source_id: int, seen_until: datetime | None, expires_at: datetime | None
    ) -> tuple[datetime, datetime]:
        source = sellers[source_id]
        seen_at = seen_until or source.last_ok_at
        if seen_at is None:
            raise ValueError(f"{source.slug} has open offers, but was never polled")
        stale_at = seen_at + source.ttl
        return seen_at, min(stale_at, expires_at) if expires_at else stale_at

    return times


def _offers(rows: Iterable[Row], sellers: dict[int, _Seller], times: _Times) -> list[StoredOffer]:
    """Complete rows of (stored fields, flags, moment, source_id, seller_id)."""
    with collector_paused():
        return _completed(rows, sellers, times)


def _completed(
    rows: Iterable[Row], sellers: dict[int, _Seller], times: _Times
) -> list[StoredOffer]:
    new, offers = tuple.__new__, []
    tails: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        flags, moment, source_id, seller_id = row[-4:]
        expires_at = row[_EXPIRES_AT]
        ids = (source_id, seller_id, moment, expires_at, flags and tuple(flags))
        tail = tails.get(ids)
        if tail is None:
            source, seller = sellers[source_id], sellers[seller_id]
            told = source if seller.kind == "seller" else seller
            tail = tails[ids] = (
                tuple(flags or ()), seller.slug, source.slug, told.marketplace, told.default_tiers,
                *times(source_id, moment, expires_at),
            )  # fmt: skip
        offers.append(new(StoredOffer, row[:-4] + tail))
    return offers


class FoundOffer(NamedTuple):
    """An offer looked up by its reference. ``offer`` holds its last price when it is not live."""

    offer: StoredOffer
    live: bool
    gpu_raw: str
    source_url: str | None
    notes: tuple[str, ...]
    first_seen_at: datetime


_LATEST_SQL = (
    _past_sql(
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
    words = _fetch(
        connection,
        "SELECT o.id, o.gpu_raw, o.source_url, o.notes, o.first_seen_at FROM offer o"
        " JOIN provider p ON p.id = o.seller_id LEFT JOIN offer_now n ON n.offer_id = o.id"
        f" WHERE {_reference_clause(reference)}"
        " ORDER BY n.offer_id IS NULL, o.id DESC LIMIT %(limit)s",
        _reference_values(reference) | {"limit": limit},
    )
    ids = {"ids": [row[0] for row in words]}
    sellers = _sellers(connection)
    live_rows = _fetch(connection, _LIVE_SQL + " AND offer_id = ANY (%(ids)s)", ids)
    live = {o.offer_id: o for o in _offers(live_rows, sellers, _live_times(sellers))}
    ids["ids"] = [id_ for id_ in ids["ids"] if id_ not in live]
    past_rows = _fetch(connection, _LATEST_SQL, ids)
    past = {
        o.offer_id: o._replace(seen_at=_seen_before(connection, o))
        for o in _offers(past_rows, sellers, lambda _, end, __: (end, end))
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
    [(at,)] = _fetch(
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
    rows = _fetch(
        connection,
        f"SELECT n.valid_from, n.valid_to, {columns}, false FROM price_span n"
        " WHERE n.offer_id = %(id)s"
        f" UNION ALL SELECT n.valid_from, {_KNOWN_UNTIL}, {columns}, true"
        " FROM offer_now n JOIN provider p ON p.id = n.source_id WHERE n.offer_id = %(id)s"
        " ORDER BY 1",
        {"id": offer_id},
    )
    return [PriceSpan(*row) for row in rows]
