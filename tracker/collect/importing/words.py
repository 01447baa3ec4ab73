"""Reading what trackers and catalogues write: prices, counts, moments, sellers' names."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import ROUND_HALF_EVEN, Decimal
from functools import lru_cache

from tracker.domain.money import parse_decimal

NO_PRICE = "no price"
ZERO_PRICE = "price of zero: sold out, or not offered"
NOT_A_PRICE = "the price is no number"
NO_COUNT = "GPU count not stated"
NOT_A_COUNT = "the GPU count is no number"
NO_MOMENT = "no time of observation"
NOT_A_MOMENT = "the time of observation cannot be read"
FUTURE = "observed in the future"

# The first cloud rented GPUs in 2010; an older moment is a number in another unit.
EARLIEST = datetime(2010, 1, 1, tzinfo=UTC)
MAX_SCALE = 8  # digits after the point that a price list has; more are the noise of binary floats
_TIDY = Decimal("0.000001")
_NOTHING = frozenset({"", "null", "none", "nan", "n/a", "na", "-", "—"})
_EPOCH = re.compile(r"\d{10}(?:\.\d+)?|\d{13}|\d{16}")
_DATE = re.compile(r"(\d{4})-?(\d{2})-?(\d{2})")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}.\d")


class Unreadable(Exception):
    """A cell that does not say what its column is for; the message is a fixed phrase."""


def is_nothing(text: str | None) -> bool:
    """Whether a cell holds no value: empty, or a word for that."""
    return text is None or text.strip().lower() in _NOTHING


def tidy(amount: Decimal) -> Decimal:
    """*amount* without the noise of binary floats (14.4000000001), its trailing zeros and exponent.

    Prices of more than MAX_SCALE digits after the point are rounded to six.
    """
    exponent = amount.as_tuple().exponent
    if isinstance(exponent, int) and exponent < -MAX_SCALE:
        amount = amount.quantize(_TIDY, ROUND_HALF_EVEN)
    normal = amount.normalize()
    return normal.quantize(Decimal(1)) if normal.as_tuple().exponent > 0 else normal  # type: ignore[operator]


def price(text: str | None) -> Decimal:
    """An amount above zero. Raises Unreadable: nothing, a word ("Enquire"), or the 0.00 of a model
    that is sold out."""
    if is_nothing(text):
        raise Unreadable(NO_PRICE)
    try:
        amount = parse_decimal(str(text).strip().removeprefix("$"))
        amount = tidy(amount)
    except (ValueError, ArithmeticError):
        raise Unreadable(NOT_A_PRICE) from None
    if amount == 0:
        raise Unreadable(ZERO_PRICE)
    if amount < 0:
        raise Unreadable(NOT_A_PRICE)
    return amount


def count(text: str | None) -> Decimal:
    """A GPU count: ``8``, ``8.0`` or a part of a card. Raises Unreadable."""
    if is_nothing(text):
        raise Unreadable(NO_COUNT)
    found = number(text)
    if found is None:
        raise Unreadable(NOT_A_COUNT)
    return found


def number(text: str | None) -> Decimal | None:
    """A quantity without trailing zeros; None where nothing, or nothing sensible, is said."""
    if is_nothing(text):
        return None
    try:
        return tidy(parse_decimal(str(text)))
    except (ValueError, ArithmeticError):
        return None


@lru_cache(maxsize=4096)
def moment(text: str, zone: tzinfo, now: datetime) -> datetime:
    """A moment, in UTC: ISO 8601 with any offset, a date, or seconds, ms or µs since 1970.

    Without an offset it is of *zone*; a date alone is the beginning of its day there. Of an hour
    that the clocks repeat the first is taken. Raises Unreadable, also after *now*.
    """
    text = text.strip()
    if is_nothing(text):
        raise Unreadable(NO_MOMENT)
    try:
        found = _epoch(text) if _EPOCH.fullmatch(text) else _written(text, zone)
    except (ValueError, OverflowError):
        raise Unreadable(NOT_A_MOMENT) from None
    if found < EARLIEST:
        raise Unreadable(NOT_A_MOMENT)
    if found > now:
        raise Unreadable(FUTURE)
    return found


def _epoch(text: str) -> datetime:
    whole = Decimal(text)
    digits = len(text.partition(".")[0])
    micro = whole * {10: 1_000_000, 13: 1000, 16: 1}[digits]
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=int(micro))


def _written(text: str, zone: tzinfo) -> datetime:
    if match := _DATE.fullmatch(text):
        day = date(*map(int, match.groups()))
        return datetime.combine(day, time.min, zone).astimezone(UTC)
    if not _ISO.match(text):
        raise ValueError(text)
    found = datetime.fromisoformat(text.removesuffix(" UTC"))
    if found.tzinfo is None:
        found = found.replace(tzinfo=zone)
    return found.astimezone(UTC)


# One seller under several names: as trackers and catalogues spell them, and our own slug.
SELLERS = {
    "datacrunch": "verda",
    "lambdalabs": "lambda",
    "lambda labs": "lambda",
    "lambda cloud": "lambda",
    "oracle": "oci",
    "oracle cloud": "oci",
    "latitude": "latitude.sh",
    "runpod.io": "runpod",
    "vast": "vastai",
    "vast.ai": "vastai",
    "google": "gcp",
    "google cloud": "gcp",
    "amazon": "aws",
    "amazon web services": "aws",
    "microsoft": "azure",
    "microsoft azure": "azure",
    "massed compute": "massedcompute",
    "voltage park": "voltagepark",
    "prime intellect": "primeintellect",
}
_SLUG = re.compile(r"[^a-z0-9._-]+")


def seller(text: str) -> str:
    """The slug of a seller, whatever name it goes by: ``datacrunch`` is ``verda``. May be empty."""
    name = " ".join(text.split()).lower()
    known = SELLERS.get(name) or SELLERS.get(name.replace("-", " "))
    return known or _SLUG.sub("-", name).strip("-")


def days(first: date, last: date) -> Iterator[date]:
    """Every day from *first* to *last*, both included."""
    for offset in range((last - first).days + 1):
        yield first + timedelta(days=offset)
