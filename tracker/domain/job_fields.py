"""The fields of a job file: read, or refused in one line that names the key."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal, localcontext
from typing import Any

from tracker.domain.bounds import OutOfRange, bounded, in_full
from tracker.domain.exact import HOUR_STEP
from tracker.domain.money import parse_decimal
from tracker.domain.texts import unstorable

MAX_HOURS = Decimal(10 * 365 * 24)  # ten years: beyond that it is a unit error
MAX_GPUS_NEEDED = 100_000
MAX_TEXT = 2000
plain = in_full  # a decimal without an exponent and trailing zeros
BOM = "\ufeff"  # what some editors begin a text file with


class JobError(Exception):
    """A job description that cannot be used. The message is one line that says what to change."""

    def __init__(self, message: str) -> None:
        super().__init__(" ".join(message.split())[:400])


def known_keys(data: Mapping[str, Any], known: Iterable[str], where: str) -> None:
    """Refuse a key that does not exist, with the nearest one that does."""
    known = tuple(known)
    for key in data:
        if key not in known:
            raise JobError(f"{where}{key}: unknown key; {nearest(str(key), known)}")


def nearest(word: str, known: Iterable[str]) -> str:
    """What may have been meant, or what there is."""
    import difflib

    known = tuple(map(str, known))
    begins = [repr(name) for name in known if word and name.startswith(f"{word}_")]
    if begins:
        return f"did you mean {' or '.join(begins)}?"
    near = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else f"known: {', '.join(known)}"


_DECIMAL = re.compile(r"Decimal\('([^']*)'\)")


def shown(value: Any) -> str:
    """What somebody wrote, as far as that is known: numbers without how they are held."""
    try:
        return _DECIMAL.sub(lambda match: match[1], repr(value))
    except ValueError:  # Python writes no whole number of more than some 4,300 digits
        return "a number of thousands of digits"


def _as_typed(number: Any) -> str:
    try:
        return str(number)[:40]
    except ValueError:
        return shown(number)


def read_table(value: Any, where: str, what: str = "GPU = hours") -> Mapping[str, Any]:
    """A table; empty where there is none."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise JobError(f"{where}: must be a table of {what}")
    return value


def read_text(
    data: Mapping[str, Any], key: str, default: str, where: str = "", limit: int = MAX_TEXT
) -> str:
    """Text without blanks around it."""
    value = data.get(key, default)
    if not isinstance(value, str):
        raise JobError(f"{where}{key}: {shown(value)} is not text")
    if len(value) > limit:
        raise JobError(f"{where}{key}: longer than {limit} characters")
    character = unstorable(value)
    if character is not None:
        raise JobError(f"{where}{key}: has a character that cannot be stored: {character}")
    return value.strip()


def read_flag(data: Mapping[str, Any], key: str, where: str = "") -> bool | None:
    """True or false; None where it is not there."""
    value = data.get(key)
    if value is not None and not isinstance(value, bool):
        raise JobError(f"{where}{key}: {shown(value)} is not true or false")
    return value


def read_hours(value: Any, where: str) -> Decimal:
    """Hours above 0, at most ten years."""
    hours = read_number(value, where)
    if hours <= 0:
        raise JobError(f"{where}: {plain(hours)} h; a job takes more than 0 hours")
    if hours > MAX_HOURS:
        raise JobError(f"{where}: {plain(hours)} h is more than ten years; give hours")
    return hours


def hours_at(amount: Decimal, per_second: Decimal, where: str) -> Decimal:
    """Hours of *amount* at so many *per_second* (above 0), to the billionth."""
    with localcontext() as context:
        context.prec = 28  # the result's digits must not depend on the caller's context
        hours = amount / per_second / 3600
    if hours > MAX_HOURS:
        raise JobError(
            f"{where}: {plain(per_second)} a second makes {hours:.3g} h, more than ten years"
        )
    return max(round(hours, 9), HOUR_STEP)


def read_amount(data: Mapping[str, Any], key: str, limit: Decimal, where: str = "") -> Decimal:
    """A number from 0 to *limit*; 0 where it is not there."""
    amount = read_number(data.get(key, 0), f"{where}{key}")
    if not 0 <= amount <= limit:
        raise JobError(f"{where}{key}: {plain(amount)} is not between 0 and {plain(limit)}")
    return amount


def read_number(value: Any, where: str) -> Decimal:
    """An exact number."""
    try:
        return bounded(parse_decimal(value))
    except OutOfRange as error:
        raise JobError(f"{where}: {_as_typed(value)} {error}") from None
    except ValueError as error:
        raise JobError(f"{where}: {error}") from None


def read_count(
    data: Mapping[str, Any], key: str, where: str, default: int = 1, limit: int = MAX_GPUS_NEEDED
) -> int:
    """A whole number from 1 to *limit*."""
    value = data.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int):
        raise JobError(f"{where}{key}: {shown(value)} is not a whole number")
    if not 1 <= value <= limit:
        raise JobError(f"{where}{key}: {_as_typed(value)} is not between 1 and {limit}")
    return value
