"""Reading the values of a rule's table: each mistake becomes a problem that names its key."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any, TypeVar

from tracker.domain.bounds import OutOfRange
from tracker.domain.money import parse_decimal
from tracker.domain.texts import unstorable

V = TypeVar("V")

MAX_DURATION = timedelta(days=366)

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(s|m|h|d|w)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}


@dataclass(frozen=True, slots=True)
class RuleProblem:
    """What is wrong with a rule, and at which key of its table ("": at the table itself)."""

    rule: str
    field: str
    message: str

    def __str__(self) -> str:
        where = f"{self.rule}.{self.field}" if self.field else self.rule
        return f"alerts.rules.{where}: {self.message}"


class Wrong(ValueError):
    """A value that cannot be used; the message says what it may be."""


class Table:
    """One rule's table. Collects problems instead of raising the first."""

    def __init__(self, rule: str, values: Mapping[str, Any]) -> None:
        self.rule = rule
        self.problems: list[RuleProblem] = []
        self._values = values

    def problem(self, field: str, message: str) -> None:
        """Note a mistake at *field*."""
        self.problems.append(RuleProblem(self.rule, field, " ".join(message.split())[:400]))

    def has(self, field: str) -> bool:
        """Whether *field* is given at all."""
        return field in self._values

    def get(self, field: str, read: Callable[[Any], V], default: V) -> V:
        """The value of *field* as *read* understands it; the default when there is none, or when
        it is wrong (which is noted)."""
        if field not in self._values:
            return default
        try:
            return read(self._values[field])
        except Wrong as error:
            self.problem(field, str(error))
            return default

    def refuse_unknown(self, known: Collection[str]) -> None:
        """Note every key that no rule has, with the nearest one that it may have."""
        for key in self._values:
            if key not in known:
                self.problem(str(key), f"unknown key; {nearest(str(key), known)}")

    def refuse(self, fields: Iterable[str], why: str) -> None:
        """Note those of *fields* that are given although they would have no effect."""
        for field in fields:
            if field in self._values:
                self.problem(field, why)


def nearest(word: str, known: Collection[str]) -> str:
    """``did you mean …?`` or the list of what there is."""
    near = difflib.get_close_matches(word, sorted(known), n=2, cutoff=0.5)
    return f"did you mean {' or '.join(near)}?" if near else f"known: {', '.join(sorted(known))}"


def shown(value: Any) -> str:
    """A value as a message repeats it: short."""
    text = repr(value)
    return text if len(text) <= 60 else text[:60] + "…"


def duration(value: Any) -> timedelta:
    """``90s``, ``30m``, ``2h``, ``7d``; ``0s`` too."""
    match = _DURATION.fullmatch(str(value).strip().lower())
    if not match:
        raise Wrong(f"{shown(value)} is not a duration such as 90s, 30m, 2h or 7d")
    seconds = Decimal(match[1]) * _SECONDS[match[2]]
    if seconds > Decimal(MAX_DURATION.total_seconds()):
        raise Wrong(f"{shown(value)} is longer than a year")
    return timedelta(seconds=float(seconds))


def positive_duration(value: Any) -> timedelta:
    """A duration above zero."""
    found = duration(value)
    if found <= timedelta(0):
        raise Wrong(f"{shown(value)} must be longer than zero")
    return found


def optional_duration(value: Any) -> timedelta | None:
    """A duration above zero; ``off`` or false for none."""
    if value is False or str(value).strip().lower() in ("off", "false", "never"):
        return None
    return positive_duration(value)


def number(value: Any) -> Decimal:
    """A number, exactly as typed."""
    try:
        found = parse_decimal(str(value) if isinstance(value, float) else value)
    except OutOfRange:
        raise Wrong(f"{shown(value)} is not plausible") from None
    except ValueError:
        raise Wrong(f"{shown(value)} is not a number") from None
    if not -12 <= found.adjusted() <= 9 or len(found.as_tuple().digits) > 20:
        raise Wrong(f"{shown(value)} is not plausible")
    return found


def amount(value: Any) -> Decimal:
    """A number above zero."""
    found = number(value)
    if found <= 0:
        raise Wrong(f"{shown(value)} must be above 0")
    return found


def count(least: int, most: int) -> Callable[[Any], int]:
    """A whole number between *least* and *most*."""

    def read(value: Any) -> int:
        found = number(value)
        if found != found.to_integral_value() or not least <= found <= most:
            raise Wrong(f"{shown(value)} is not a whole number from {least} to {most}")
        return int(found)

    return read


def flag(value: Any) -> bool:
    """true or false."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    if text not in ("true", "false"):
        raise Wrong(f"{shown(value)} is not true or false")
    return text == "true"


def text(limit: int) -> Callable[[Any], str]:
    """Text of at most *limit* characters, not empty."""

    def read(value: Any) -> str:
        if not isinstance(value, str) or not value.strip():
            raise Wrong(f"{shown(value)} is not text")
        if len(value) > limit:
            raise Wrong(f"longer than {limit} characters")
        _refuse_unstorable(value)
        return value.strip()

    return read


def one_of(names: Collection[str]) -> Callable[[Any], str]:
    """One of *names*, in any case."""

    def read(value: Any) -> str:
        found = str(value).strip().lower()
        if found not in names:
            raise Wrong(f"{shown(value)} is none of {', '.join(names)}")
        return found

    return read


def words(value: Any) -> tuple[str, ...]:
    """A list of words, or one text with commas between them; not empty."""
    items = value.split(",") if isinstance(value, str) else value
    if not isinstance(items, list | tuple) or not all(isinstance(i, str) for i in items):
        raise Wrong(f"{shown(value)} is not a list of words")
    found = tuple(dict.fromkeys(item.strip() for item in items if item.strip()))
    if not found:
        raise Wrong("is empty")
    for item in found:
        _refuse_unstorable(item)
    return found


def _refuse_unstorable(value: str) -> None:
    character = unstorable(value)
    if character is not None:
        raise Wrong(f"{shown(value)} has a character that cannot be stored: {character}")
