"""Text for people: numbers in it, and what of typed text no database takes."""

from __future__ import annotations

import re
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from tracker.domain.bounds import in_full

# PostgreSQL stores neither NUL nor half of a surrogate pair, in text and in JSON alike.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")


def figure(value: float | Decimal, digits: int = 3) -> str:
    """*value* to so many significant digits, thousands apart and never with an exponent."""
    text = f"{Decimal(f'{value:.{digits}g}'):,f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def dollars(value: Decimal, places: int = 2) -> str:
    """Dollars for people: rounded to *places*, thousands apart. An amount that this would make
    nothing keeps its first two digits: it is not $0.00."""
    rounded = value.quantize(Decimal(1).scaleb(-places), ROUND_HALF_EVEN)
    if value and not rounded:
        return f"${first_digits(value)}"
    return f"${rounded:,f}"


def first_digits(value: Decimal) -> str:
    """*value* (not 0) rounded to two digits, without an exponent."""
    return in_full(round(value, 1 - value.adjusted()))


def unstorable(text: str) -> str | None:
    """The first character of *text* that cannot be stored, as ``U+0000``; None: all can."""
    found = _UNSTORABLE.search(text)
    return None if found is None else f"U+{ord(found[0]):04X}"


def storable(value: Any) -> Any:
    """*value* (plain JSON) with U+FFFD in place of every character that cannot be stored."""
    if isinstance(value, str):
        return _UNSTORABLE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {storable(key): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    return value
