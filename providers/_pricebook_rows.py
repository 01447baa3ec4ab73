"""Rows of a price book: a mistake is named with its key, a good row becomes an offer."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeVar

from tracker.provider import (
    Availability,
    Discount,
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    PriceKind,
    PriceUnit,
    Terms,
    parse_decimal,
)

DEFAULT_MAX_AGE_DAYS = 90
MAX_AGE_DAYS_LIMIT = 3660

_MONTHLY_UNITS = (PriceUnit.MACHINE_MONTH, PriceUnit.GPU_MONTH)
_TERM_MARKETS = (Market.MONTHLY, Market.RESERVED, Market.CAPACITY_BLOCK)
_SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,39}")
_CURRENCY = re.compile(r"[A-Z]{3}")
_COUNTRY = re.compile(r"[A-Z]{2}")

_EXPIRY_KEYS = ("expires", "max_age_days")
PRICE_KEYS = (
    "seller", "gpu", "gpu_count", "price", "currency", "unit", "market", "price_kind", "tier",
    "region", "country", "form_factor", "vram_gb", "slice", "interconnect", "vcpus", "ram_gib",
    "dedicated", "datacenter", "upstream", "id", "product", "billing_increment_seconds",
    "minimum_seconds", "commitment_hours", "commitment_unknown", "disk_included_gb",
    "disk_usd_per_gb_hour", "egress_usd_per_gb", "disk_gb", "max_duration_hours", "available",
    "valid_as_of", *_EXPIRY_KEYS, "source", "note",
)  # fmt: skip
_DISCOUNT_KEYS = ("provider", "percent", "gpu", "market", "valid_as_of", *_EXPIRY_KEYS, "note")

E = TypeVar("E", bound=StrEnum)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Book:
    """One file: its rows, and what holds for all of them."""

    label: str
    today: date  # the latest date that anybody may have today
    fallback: bool
    defaults: Mapping[str, Any]
    prices: Sequence[Mapping[str, Any]]
    discounts: Sequence[Mapping[str, Any]]


def offer_from_row(row: Mapping[str, Any], book: Book) -> ListedOffer:
    """The offer of one ``[[price]]``. Raises BadRow."""
    shared = book.defaults
    if any(key in row for key in _EXPIRY_KEYS):
        shared = {key: value for key, value in shared.items() if key not in _EXPIRY_KEYS}
    fields = Fields({**shared, **row}, PRICE_KEYS)
    seller, gpu = fields.slug("seller"), fields.need("gpu", fields.text("gpu"))
    count = fields.number("gpu_count", above_zero=True) or Decimal(1)
    unit = fields.need("unit", fields.choice("unit", PriceUnit))
    market = fields.choice("market", Market)
    if market is None:
        market = Market.MONTHLY if unit in _MONTHLY_UNITS else Market.ON_DEMAND
    if unit in _MONTHLY_UNITS and market in (Market.ON_DEMAND, Market.SPOT):
        raise BadRow("wrong value", f"market: a price by the month is not {market}")
    valid_as_of, expires_at = _validity(fields, book.today)
    terms = _terms(fields, market)
    tier, region = fields.text("tier") or "standard", fields.text("region")
    parts = (seller, fields.text("product") or gpu, f"{count.normalize():f}x", market, tier, region)
    name = "/".join([part for part in parts if part] + _term_name(terms))
    source = fields.text("source")
    is_link = bool(source and re.match(r"https?://\S+$", source))
    return ListedOffer(
        # A price typed by the user and the shipped one for the same thing are two offers.
        source_id=("fallback:" if book.fallback else "") + (fields.text("id", whole=True) or name),
        gpu_name=gpu,
        gpu_count=count,
        price=_price(fields, unit),
        market=market,
        tier=tier,
        price_kind=fields.choice("price_kind", PriceKind) or PriceKind.FIXED,
        vram_gb=fields.number("vram_gb", above_zero=True),
        form_factor=fields.text("form_factor"),
        slice=fields.flag("slice") or False,
        interconnect=fields.text("interconnect"),
        region=region,
        country=fields.code("country", _COUNTRY, "two capital letters, such as US"),
        vcpus=fields.number("vcpus", above_zero=True),
        ram_gib=fields.number("ram_gib", above_zero=True),
        dedicated=fields.flag("dedicated"),
        datacenter=fields.flag("datacenter"),
        seller=seller,
        upstream=fields.text("upstream"),
        terms=terms,
        extras=_extras(fields, valid_as_of, expires_at, book.fallback),
        source_url=source if is_link else None,
        notes=_notes(fields, None if is_link else source),
    )


def _term_name(terms: Terms) -> list[str]:
    return [f"{terms.commitment_hours}h"] if terms.commitment_hours else []


def _notes(fields: Fields, source: str | None) -> tuple[str, ...]:
    found = (fields.text("product"), fields.text("note"), source and f"source: {source}")
    return tuple(text for text in found if text)


def _extras(fields: Fields, valid_as_of: date, expires_at: datetime, fallback: bool) -> Extras:
    return Extras(
        availability=fields.choice("available", Availability) or Availability.UNKNOWN,
        disk_gb=fields.number("disk_gb"),
        max_duration_hours=fields.number("max_duration_hours", above_zero=True),
        valid_as_of=valid_as_of,
        expires_at=expires_at,
        fallback=fallback,
    )


def _price(fields: Fields, unit: PriceUnit) -> NativePrice:
    amount = fields.need("price", fields.number("price", any_sign=True))
    if amount <= 0:
        raise BadRow("price not above zero", f"price: {amount}")
    code = fields.code("currency", _CURRENCY, "three capital letters, such as EUR")
    return NativePrice(amount, code or "USD", unit)


def _terms(fields: Fields, market: Market) -> Terms:
    commitment = fields.whole("commitment_hours", 1, 10 * 8760)
    unknown = fields.flag("commitment_unknown")
    if commitment is not None and unknown:
        raise BadRow("wrong value", "commitment_unknown: but commitment_hours is given")
    return Terms(
        billing_increment_seconds=fields.whole("billing_increment_seconds", 1, 8760 * 3600),
        minimum_seconds=fields.whole("minimum_seconds", 0, 8760 * 3600),
        commitment_hours=commitment,
        commitment_unknown=bool(unknown) or (commitment is None and market in _TERM_MARKETS),
        disk_included_gb=fields.number("disk_included_gb"),
        disk_usd_per_gb_hour=fields.number("disk_usd_per_gb_hour"),
        egress_usd_per_gb=fields.number("egress_usd_per_gb"),
    )


def discount_from_row(row: Mapping[str, Any], book: Book) -> Discount:
    """The discount of one ``[[discount]]``. Raises BadRow."""
    fields = Fields(row, _DISCOUNT_KEYS)
    percent = fields.need("percent", fields.number("percent", any_sign=True))
    if not 0 < percent < 100:
        raise BadRow("percent outside 0 to 100", f"percent: {percent}")
    valid_as_of, expires_at = _validity(fields, book.today)
    return Discount(
        provider=fields.slug("provider"),
        percent=percent,
        valid_as_of=valid_as_of,
        expires_at=expires_at,
        gpu=fields.text("gpu"),
        market=fields.choice("market", Market),
        note=fields.text("note"),
    )


def _validity(fields: Fields, today: date) -> tuple[date, datetime]:
    """The day a price was read, and the moment (00:00 UTC) from which it is stale."""
    valid_as_of = fields.need("valid_as_of", fields.day("valid_as_of"))
    if valid_as_of > today:
        raise BadRow("valid_as_of in the future", f"valid_as_of: {valid_as_of}")
    expires, days = fields.day("expires"), fields.whole("max_age_days", 1, MAX_AGE_DAYS_LIMIT)
    if expires and days:
        raise BadRow("wrong value", "expires and max_age_days are both given; keep one")
    if expires is None:
        expires = valid_as_of + timedelta(days=days or DEFAULT_MAX_AGE_DAYS)
    if expires <= valid_as_of:
        raise BadRow("wrong value", f"expires: {expires} is not after valid_as_of {valid_as_of}")
    return valid_as_of, datetime.combine(expires, time(), UTC)


class BadRow(Exception):
    """A row that cannot be used: a stable reason, and what is wrong with this one."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def nearest(key: str, known: Sequence[str]) -> str:
    """*key* with what was probably meant by it."""
    near = difflib.get_close_matches(key, known, n=1, cutoff=0.5)
    return f"{key!r}; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}")


@dataclass(frozen=True, slots=True)
class Fields:
    """A row's values by type. Every method gives None where the key is absent."""

    values: Mapping[str, Any]
    known: Sequence[str]

    def __post_init__(self) -> None:
        for key in self.values:
            if key not in self.known:
                raise BadRow("unknown key", nearest(key, self.known))

    def need(self, key: str, value: R | None) -> R:
        if value is None:
            raise BadRow("missing key", key)
        return value

    def text(self, key: str, *, whole: bool = False) -> str | None:
        """The text on one line; cut to 200 characters unless *whole*."""
        value = self.values.get(key)
        if value is None:
            return None
        if not isinstance(value, str) or not value.strip():
            raise _wrong(key, value, "is not text")
        line = " ".join(value.split())
        return line if whole else line[:200]

    def code(self, key: str, pattern: re.Pattern[str], what: str) -> str | None:
        value = self.text(key)
        if value is not None and not pattern.fullmatch(value):
            raise _wrong(key, value, f"is not {what}")
        return value

    def slug(self, key: str) -> str:
        what = "lower-case letters, digits, '-' or '_'"
        return self.need(key, self.code(key, _SLUG, what))

    def number(
        self, key: str, *, above_zero: bool = False, any_sign: bool = False
    ) -> Decimal | None:
        value = self.values.get(key)
        if value is None:
            return None
        try:
            number = parse_decimal(value)
        except ValueError as error:
            raise BadRow("wrong value", f"{key}: {str(error)[:80]}") from None
        if len(number.as_tuple().digits) > 30 or (number and abs(number.adjusted()) > 15):
            raise _wrong(key, value, "is out of range")
        if not any_sign and (number < 0 or (above_zero and not number)):
            raise _wrong(key, value, "is too small")
        return number

    def whole(self, key: str, low: int, high: int) -> int | None:
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise _wrong(key, value, f"is not a whole number from {low} to {high}")
        return value

    def flag(self, key: str) -> bool | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise _wrong(key, value, "is not true or false")
        return value

    def choice(self, key: str, kind: type[E]) -> E | None:
        value = self.text(key)
        if value is None:
            return None
        try:
            return kind(value)
        except ValueError:
            raise _wrong(key, value, f"is none of {', '.join(kind)}") from None

    def day(self, key: str) -> date | None:
        value = self.values.get(key)
        if isinstance(value, str):
            try:
                value = date.fromisoformat(value.strip())
            except ValueError:
                raise _wrong(key, value, "is not a date, such as 2026-11-30") from None
        if value is not None and (isinstance(value, datetime) or not isinstance(value, date)):
            raise _wrong(key, value, "is not a date, such as 2026-11-30")
        return value


def _wrong(key: str, value: object, problem: str) -> BadRow:
    return BadRow("wrong value", f"{key}: {str(value)[:60]!r} {problem}")
