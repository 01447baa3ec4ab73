"""Values as text: for programs (money as text, times in UTC, ``null``) and for people.

What is not known is ``null`` (an empty CSV cell, a dash in a table), never 0.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from tracker.domain.bounds import in_full
from tracker.domain.texts import dollars, first_digits

SCHEMA_VERSION = 1

DASH = "—"

number = in_full  # a decimal in full, without trailing zeros and without an exponent

# The wide forms too: a spreadsheet may take them for the narrow ones.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\uff1d", "\uff0b", "\uff0d", "\uff20")

_BLANKS = " \xa0\u3000"

# Control characters (C1 too: 0x9b starts an escape sequence), and what Unicode has shown as
# nothing: direction marks, joiners, fillers, variation selectors, tags.
_UNSEEN = re.compile(
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)


def iso(moment: datetime | None) -> str | None:
    """UTC, to the second, with a Z."""
    if moment is None:
        return None
    return moment.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def plain(value: Any) -> Any:
    """*value* as JSON has it: decimals as text without an exponent, times in UTC."""
    if value is None or type(value) in (str, int, bool, float):  # most of them
        return value
    if isinstance(value, Decimal):
        return number(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, timedelta):
        return int(value.total_seconds())
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return str(value)


def quantity(value: Decimal | None) -> int | float | None:
    """A count or a size that is no money, as a JSON number."""
    if value is None:
        return None
    return int(value) if value == value.to_integral_value() else float(round(value, 6))


def usd(value: Decimal | None, places: int = 2) -> str:
    """Dollars for people: rounded to *places*, thousands separated; see ``dollars``."""
    return DASH if value is None else dollars(value, places)


def usd_text(value: Decimal | None) -> str | None:
    """Dollars for programs: to a millionth, as text; what is less than that to two digits."""
    if value is None:
        return None
    rounded = value.quantize(Decimal("0.000001"), ROUND_HALF_EVEN)
    return first_digits(value) if value and not rounded else number(rounded)


def moment(at: datetime | None) -> str:
    """A time for people, in UTC, to the minute."""
    return DASH if at is None else at.strftime("%Y-%m-%d %H:%M")


def count(value: Decimal | int | None) -> str:
    """A plain number for people."""
    if value is None:
        return DASH
    return number(Decimal(value)) if not isinstance(value, int) else f"{value:,}"


def counted(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number:,} {what}" + ("" if number == 1 else "s")


def hours(value: Decimal | None) -> str:
    """Hours for people, to a hundredth; below a tenth to two digits, for no hours are 0."""
    if value is None:
        return DASH
    digits = 2 if not value or abs(value) >= Decimal("0.1") else 1 - value.adjusted()
    return f"{Decimal(number(round(value, digits))):,f} h"


def age(then: datetime | None, now: datetime) -> str:
    """How long ago: 40 s, 12 min, 5 h, 21 d."""
    if then is None:
        return DASH
    return duration((now - then).total_seconds())


def duration(length_s: float) -> str:
    """A length of time in one unit, rounded down."""
    seconds = max(0, int(length_s))
    for limit, unit, name in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds // unit} {name}"
    return f"{seconds // 86_400} d"


def json_text(value: Any, indent: int | None = None) -> str:
    """*value* as JSON, with characters that a terminal would act on escaped.

    What JSON does not know is written as ``plain`` has it.
    """
    text = json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False, default=plain)
    if indent is None and text.isascii() and "\x7f" not in text:
        return text  # all others below a space are escaped already
    # Only inside strings can such a character stand, save for the line ends of the indentation.
    return _UNSEEN.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    letter = match[0]
    if letter == "\n":
        return letter
    return f"\\u{ord(letter):04x}" if letter <= "\x7f" else json.dumps(letter)[1:-1]


def csv_cell(value: Any) -> Any:
    """A plain value as a CSV cell: text that a spreadsheet would run as a formula gets a quote."""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False) if value != [] else None
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    # Spreadsheets skip blanks before a formula.
    if value.lstrip(_BLANKS).startswith(_FORMULA_STARTS) and not _is_number(value):
        value = "'" + value
    return visible(value)


def _is_number(text: str) -> bool:
    try:
        return Decimal(text).is_finite()
    except ArithmeticError:
        return False


def visible(text: str) -> str:
    """*text* on one line, with nothing in it that moves a terminal's cursor or turns text round."""
    return _UNSEEN.sub(lambda match: " " if match[0] == "\t" else "\ufffd", text)


def footer(kept: int, total: int, excluded: Mapping[str, int]) -> str:
    """``12 of 3,214 offers; left out: 210 with too little VRAM, 40 stale``."""
    parts = [f"{n:,} {reason}" for reason, n in sorted(excluded.items(), key=lambda x: -x[1]) if n]
    text = f"{kept:,} of {total:,} offers"
    return text + ("; left out: " + ", ".join(parts) if parts else "")
