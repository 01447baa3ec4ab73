"""Prices in text: dollar amounts with a unit, read with American punctuation only.

``$1,234.56/mo`` and ``$0.277/hr`` are prices. ``$1.600`` and ``$1,60`` are refused: in another
locale they are a thousand times or a hundredth of what they look like.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from tracker.provider import PriceUnit

# Marks around struck-out text (control characters, which lines.py strips from the page itself).
STRUCK_ON, STRUCK_OFF = "\x02", "\x03"
UNIT_WITHIN = 20  # characters between an amount and its unit
_LOOK_BACK = 80  # characters before an amount that can say what it is

# A promotion takes off less than this; a cheaper second amount is an extra, not the price.
MAX_DISCOUNT = Decimal("0.8")

_TOKEN = re.compile(r"([A-Za-z]*)\$\s*(\d[\d.,]*)")
_US_NUMBER = re.compile(r"(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d+))?")
_UNIT = re.compile(r"([^\d$.,]{0,20}?)(?:/|\bper\b)\s*(mo|month|hr|hour)s?\b", re.IGNORECASE)
_OTHER_DOLLAR = re.compile(r"(?:C|CA|CAD|A|AU|AUD|NZ|NZD|HK|HKD|S|SG|SGD|R|MX|MXN|NT|TWD|J|B)")
_OTHER_CURRENCY = re.compile(r"\b(?:CAD|AUD|NZD|HKD|SGD|MXN|TWD|EUR|GBP)\b")
# Amounts that are not what the plan costs.
_NOT_THE_PRICE = re.compile(
    r"\b(from|starting|as low as|save|saves|saving|extra|additional|add-?ons?|set-?up|deposit)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount as written. ``value`` is None when its punctuation or currency is ambiguous."""

    value: Decimal | None
    unit: PriceUnit
    struck: bool
    raw: str


@dataclass(frozen=True, slots=True)
class Price:
    """What is paid, and the higher list price beside it, in USD per ``unit``."""

    value: Decimal
    unit: PriceUnit
    list_price: Decimal | None


def us_number(text: str) -> Decimal | None:
    """A number with American punctuation, or None when it could be read in two ways."""
    match = _US_NUMBER.fullmatch(text)
    if match is None or len(text) > 12:
        return None
    whole, fraction = match.groups()
    if fraction is not None and len(fraction) == 3 and whole != "0":
        return None  # 1.600: a price, or one thousand six hundred
    return Decimal(whole.replace(",", "") + (f".{fraction}" if fraction else ""))


def find_amounts(text: str) -> list[Amount]:
    """The amounts of *text* that have a unit, and the old prices that stand before them."""
    found: list[Amount] = []
    following: tuple[int, PriceUnit] | None = None  # start and unit of the amount after this one
    for token in reversed(list(_TOKEN.finditer(text))):
        start, end = token.span()
        before = text[max(0, start - _LOOK_BACK) : start]
        struck = before.rfind(STRUCK_ON) > before.rfind(STRUCK_OFF)
        own = _UNIT.match(_plain(text[end : end + 2 * UNIT_WITHIN]))
        unit: PriceUnit | None = None
        if own:
            unit = PriceUnit.MACHINE_MONTH if own[2].lower()[0] == "m" else PriceUnit.MACHINE_HOUR
        elif following and _stands_before(text[end : following[0]], struck):
            unit = following[1]
        if unit is None or _NOT_THE_PRICE.search(before[before.rfind("\n") + 1 :]):
            following = None
            continue
        following = (start, unit)
        foreign = _OTHER_DOLLAR.fullmatch(token[1].upper()) or (
            own and _OTHER_CURRENCY.search(own[1].upper())
        )
        # A dash before it makes it a deduction or the end of a range: not one price.
        dashed = _plain(before).rstrip().endswith(("-", "~", "\u2013"))
        value = None if foreign or dashed else us_number(token[2].rstrip(".,"))
        found.append(Amount(value, unit, struck, token[0]))
    return found[::-1]


def _plain(text: str) -> str:
    return text.replace(STRUCK_ON, "").replace(STRUCK_OFF, "")


def _stands_before(gap: str, struck: bool) -> bool:
    gap = _plain(gap).strip(" \n|")
    return not gap or (struck and len(gap) <= UNIT_WITHIN)


def settle(amounts: list[Amount], unit: PriceUnit) -> Price | str:
    """The price among the *amounts* of one card in one unit, or why there is none.

    Of two amounts the lower is the price and the higher (or struck-out) one the list price.
    """
    here = [amount for amount in amounts if amount.unit is unit]
    if any(amount.value is None for amount in here):
        return "ambiguous price (only $1,234.56 is read)"
    plain = sorted({a.value for a in here if a.value is not None and not a.struck})
    old = max((a.value for a in here if a.value is not None and a.struck), default=None)
    if not plain:
        return "only a struck-out price"
    price = plain[0]
    if price <= 0:
        return "price is not above zero"
    if old is not None and old < price:
        return "struck-out price below the price"
    if len(plain) > 1:
        if len(plain) > 2 or old is not None or price < plain[1] * (1 - MAX_DISCOUNT):
            return "several prices in one card"
        old = plain[1]
    return Price(price, unit, old if old != price else None)
