"""One offer as the tables hold it, now or at a past moment: the statements and their rows."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg

from tracker.store.rows import collector_paused

Connection = psycopg.Connection[Any]
Row = tuple[Any, ...]


class StoredOffer(NamedTuple):
    """One offer with its price, flat, as a report needs it.

    ``provider`` sells, ``source`` was polled. ``fx_rate`` is None for prices in USD. ``seen_at`` is
    when the price was last confirmed, ``stale_at`` the moment from which it is not known any more.
    ``marketplace`` and ``default_tiers`` are the seller's (the source's for a seller never polled).
    Read as of a past moment, what is not kept in history (availability, stock, network…) is None
    or unknown, and ``seen_at`` is the last confirmation before it, None where nobody knows when
    that was (``tracker/store/past_seen.py``); the rate, the date of a typed price and its expiry
    are those of the last poll that confirmed that price.
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
    seen_at: datetime | None
    stale_at: datetime

    @property
    def confirmed_at(self) -> datetime:
        """The last moment at which the price is known to have been confirmed: ``seen_at``, else
        the beginning of the price."""
        return self.seen_at or self.valid_from


_FIELDS = StoredOffer._fields
IDENTITY = _FIELDS[_FIELDS.index("native_id") : _FIELDS.index("price_native")]
_FORGOTTEN = _FIELDS[_FIELDS.index("availability") : _FIELDS.index("valid_as_of")]
_STORED = _FIELDS[: _FIELDS.index("flags")]
_KEPT = _FIELDS[_FIELDS.index("valid_as_of") : _FIELDS.index("flags")]
_EXPIRES_AT = _FIELDS.index("expires_at")
_PRICE = ("price_native", "price_micro_usd", "fx_rate", "fx_date")

LIVE_SQL = (
    f"SELECT {', '.join(_STORED)}, flags, seen_until, source_id, seller_id FROM offer_now n"
    " WHERE true"
)


def past_sql(table: str, end: str) -> str:
    """The columns of LIVE_SQL for a past moment; *end* is where the price's knowledge ends."""
    forgotten = ("'unknown'", *("NULL" for _ in _FORGOTTEN[1:]))
    return (
        f"SELECT o.id, o.key, {', '.join(f'o.{name}' for name in IDENTITY)},"
        f" {', '.join(f'n.{name}' for name in _PRICE)}, {', '.join(forgotten)},"
        f" {', '.join(f'n.{name}' for name in _KEPT)}, NULL, {end}, n.source_id, n.seller_id"
        f" FROM {table} n JOIN offer o ON o.id = n.offer_id"
    )


PAST_CLOSED_SQL = (
    past_sql("price_span", "n.valid_to")
    + " WHERE n.valid_from <= %(as_of)s AND n.valid_to > %(as_of)s"
)
KNOWN_UNTIL_SQL = "coalesce(n.seen_until, p.last_ok_at) + p.ttl_seconds * interval '1 second'"
PAST_OPEN_SQL = (
    past_sql("offer_now", KNOWN_UNTIL_SQL)
    + " JOIN provider p ON p.id = n.source_id"
    + f" WHERE n.valid_from <= %(as_of)s AND {KNOWN_UNTIL_SQL} > %(as_of)s"
)


class Seller(NamedTuple):
    """A row of ``provider``: who sells, or is polled. ``ttl`` is zero for who is never polled."""

    slug: str
    kind: str
    last_ok_at: datetime | None
    ttl: timedelta
    marketplace: bool
    default_tiers: tuple[str, ...]


def told_by(source: Seller, seller: Seller) -> Seller:
    """Who says what kind of seller it is: the source for one that was never polled itself."""
    return source if seller.kind == "seller" else seller


def fetch(
    connection: Connection, statement: str, values: dict[str, Any] | None = None
) -> list[Row]:
    """The rows of a statement."""
    with connection.cursor() as cursor:
        return cursor.execute(statement, values).fetchall()


def sellers_by_id(connection: Connection) -> dict[int, Seller]:
    """Everybody who sells or is polled."""
    rows = fetch(
        connection,
        "SELECT id, slug, kind, last_ok_at, coalesce(ttl_seconds, 0), marketplace, default_tiers"
        " FROM provider",
    )
    return {
        row[0]: Seller(row[1], row[2], row[3], timedelta(seconds=row[4]), row[5], tuple(row[6]))
        for row in rows
    }


# (source id, seen_until or the end of knowledge, expires_at) → (seen_at, stale_at)
Times = Callable[[int, Any, datetime | None], tuple[datetime, datetime]]


def live_times(sellers: dict[int, Seller]) -> Times:
    """When open offers were seen, and from when on they are stale: at the latest at their expiry.

    The function made raises ValueError for an offer of a source that was never polled.
    """

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


def to_offers(rows: Iterable[Row], sellers: dict[int, Seller], times: Times) -> list[StoredOffer]:
    """Complete rows of (stored fields, flags, moment, source_id, seller_id)."""
    with collector_paused():
        return _completed(rows, sellers, times)


def _completed(rows: Iterable[Row], sellers: dict[int, Seller], times: Times) -> list[StoredOffer]:
    new, offers = tuple.__new__, []
    tails: dict[tuple[Any, ...], tuple[Any, ...]] = {}
    for row in rows:
        flags, moment, source_id, seller_id = row[-4:]
        expires_at = row[_EXPIRES_AT]
        ids = (source_id, seller_id, moment, expires_at, flags and tuple(flags))
        tail = tails.get(ids)
        if tail is None:
            source, seller = sellers[source_id], sellers[seller_id]
            told = told_by(source, seller)
            tail = tails[ids] = (
                tuple(flags or ()), seller.slug, source.slug, told.marketplace, told.default_tiers,
                *times(source_id, moment, expires_at),
            )  # fmt: skip
        offers.append(new(StoredOffer, row[:-4] + tail))
    return offers
