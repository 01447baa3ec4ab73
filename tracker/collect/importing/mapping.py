"""The mapping of a table that is not ours: which column says what, in which unit, for how long.

A TOML file. Everything that a table leaves to the reader has to be stated: whether a price is for
one GPU or the whole machine, its currency, the zone of its times, how long an observation holds.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, tzinfo
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from tracker.collect.importing.words import Unreadable, price
from tracker.domain.normalize import FxRate
from tracker.domain.offer import Market, PriceUnit

UNITS = {
    "machine": PriceUnit.MACHINE_HOUR,
    "gpu": PriceUnit.GPU_HOUR,
    "machine_month": PriceUnit.MACHINE_MONTH,
    "gpu_month": PriceUnit.GPU_MONTH,
}
NEEDED = ("observed_at", "seller", "gpu", "gpu_count", "price", "market")
COLUMNS = (
    *NEEDED, "id", "form_factor", "vram_gb", "vram_mib", "region", "country", "tier", "vcpus",
    "ram_gib", "commitment_hours", "currency", "usd_per_unit", "origin", "source_url",
)  # fmt: skip
CONSTANTS = ("seller", "gpu", "gpu_count", "market", "tier", "region", "country")
TABLES = ("source", "columns", "constants", "markets", "hold", "unit", "refuse", "rates", "strip")
_DURATION = re.compile(r"(\d+)\s*(m|h|d|w)")
_UNIT_S = {"m": 60, "h": 3600, "d": 86400, "w": 604800}
_NAME = re.compile(r"[a-z0-9][a-z0-9.-]{0,39}")
_OF_SOURCE = {"name", "holds", "zone", "currency", "price_per", "complete"}


class MappingError(ValueError):
    """What is wrong in a mapping file, in one line that names the key."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How long an observation of this seller and market holds; None: of any."""

    length: timedelta
    seller: str | None = None
    market: str | None = None


@dataclass(frozen=True, slots=True)
class Mapping:
    """A mapping file, checked.

    ``columns`` maps our names to the table's; ``constants`` hold what is the same in all rows.
    ``units`` are (from, unit) in ascending order: tables change their meaning without changing
    their header. ``refuse`` maps a column to the values of rows that are no observations (invented,
    estimated or copied ones). ``strip`` maps a name to a pattern that is taken out of its text.
    """

    name: str
    hold: timedelta
    columns: AnyMapping[str, str | tuple[str, ...]]
    zone: tzinfo = UTC
    currency: str = "USD"
    complete: bool = False
    constants: AnyMapping[str, str] = field(default_factory=dict)
    markets: AnyMapping[str, Market] = field(default_factory=dict)
    holds: tuple[Hold, ...] = ()
    units: tuple[tuple[datetime, PriceUnit], ...] = ()
    refuse: AnyMapping[str, frozenset[str]] = field(default_factory=dict)
    rates: AnyMapping[str, FxRate] = field(default_factory=dict)
    strip: AnyMapping[str, re.Pattern[str]] = field(default_factory=dict)

    def holds_for(self, seller: str, market: str) -> timedelta:
        """How long a price of *seller* on *market* is known after it was seen."""
        for h in self.holds:
            if h.seller in (None, seller) and h.market in (None, market):
                return h.length
        return self.hold

    def unit_at(self, moment: datetime) -> PriceUnit:
        """What a price observed at *moment* pays for."""
        return next(unit for since, unit in reversed(self.units) if since <= moment)

    @property
    def wanted(self) -> tuple[str, ...]:
        """Every column of the table that is read."""
        names: list[str] = []
        for column in self.columns.values():
            names += [column] if isinstance(column, str) else column
        return tuple(dict.fromkeys([*names, *self.refuse]))


def read_mapping(text: str) -> Mapping:
    """The mapping in *text* (TOML). Raises MappingError."""
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise MappingError(f"not TOML: {error}") from None
    _known(data, TABLES, "")
    source = _table(data, "source")
    _known(source, _OF_SOURCE, "source.")
    name = source.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise MappingError("source.name: a short name of letters, digits, dots and dashes")
    if source.get("price_per") not in UNITS and "unit" not in data:
        raise MappingError(f"source.price_per: one of {', '.join(UNITS)}")
    columns = _columns(data)
    return Mapping(
        name=name,
        hold=_duration(source.get("holds"), "source.holds"),
        columns=columns,
        zone=_zone(source.get("zone", "UTC")),
        currency=_currency(source.get("currency"), "currency" in columns),
        complete=_flag(source.get("complete", False)),
        constants=_constants(data, columns),
        markets=_markets(_table(data, "markets")),
        holds=tuple(_hold(row, n) for n, row in enumerate(_rows(data, "hold"), 1)),
        units=_units(source.get("price_per"), _rows(data, "unit")),
        refuse=_refuse(_table(data, "refuse")),
        rates=_rates(_table(data, "rates")),
        strip=_strip(_table(data, "strip")),
    )


def _known(table: AnyMapping[str, Any], names: Any, prefix: str) -> None:
    for key in table:
        if key not in names:
            raise MappingError(f"{prefix}{key}: not known; known: {', '.join(sorted(names))}")


def _table(data: AnyMapping[str, Any], name: str) -> dict[str, Any]:
    table = data.get(name, {})
    if not isinstance(table, dict):
        raise MappingError(f"{name}: a table is expected")
    return table


def _rows(data: AnyMapping[str, Any], name: str) -> list[dict[str, Any]]:
    rows = data.get(name, [])
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MappingError(f"{name}: write [[{name}]]")
    return rows


def _columns(data: AnyMapping[str, Any]) -> dict[str, str | tuple[str, ...]]:
    columns: dict[str, str | tuple[str, ...]] = {}
    table = _table(data, "columns")
    _known(table, COLUMNS, "columns.")
    for name, column in table.items():
        if isinstance(column, str) and column:
            columns[name] = column
        elif name == "id" and isinstance(column, list) and all(isinstance(c, str) for c in column):
            columns[name] = tuple(column)
        else:
            raise MappingError(f"columns.{name}: the name of a column")
    constants = _table(data, "constants")
    missing = [n for n in NEEDED if n not in columns and n not in constants]
    if missing:
        raise MappingError(f"columns.{missing[0]}: missing; no row says it otherwise")
    return columns


def _constants(data: AnyMapping[str, Any], columns: AnyMapping[str, Any]) -> dict[str, str]:
    table = _table(data, "constants")
    _known(table, CONSTANTS, "constants.")
    for name in table:
        if name in columns:
            raise MappingError(f"constants.{name}: columns.{name} says it already")
    return {name: str(value) for name, value in table.items()}


def _duration(value: Any, key: str) -> timedelta:
    match = _DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    length = timedelta(seconds=int(match[1]) * _UNIT_S[match[2]]) if match else timedelta(0)
    if not timedelta(0) < length <= timedelta(days=366):
        raise MappingError(f'{key}: how long a price holds, such as "36h" or "8d", up to a year')
    return length


def _zone(value: Any) -> tzinfo:
    try:
        return UTC if value == "UTC" else ZoneInfo(str(value))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise MappingError(f"source.zone: {value!r} is no time zone such as UTC") from None


def _currency(value: Any, has_column: bool) -> str:
    if value is None and has_column:
        return "USD"
    if not isinstance(value, str) or not re.fullmatch("[A-Za-z]{3}", value):
        raise MappingError("source.currency: a code such as USD, or columns.currency")
    return value.upper()


def _flag(value: Any) -> bool:
    if not isinstance(value, bool):
        raise MappingError("source.complete: true or false")
    return value


def _markets(table: dict[str, Any]) -> dict[str, Market]:
    out = {market.value: market for market in Market}
    for word, market in table.items():
        if market not in out:
            raise MappingError(f"markets.{word}: one of {', '.join(Market)}")
        out[word.lower()] = Market(market)
    return out


def _hold(row: dict[str, Any], number: int) -> Hold:
    _known(row, {"seller", "market", "for"}, f"hold {number}: ")
    return Hold(_duration(row.get("for"), f"hold {number}: for"), row.get("seller"),
                row.get("market"))  # fmt: skip


def _units(first: Any, rows: list[dict[str, Any]]) -> tuple[tuple[datetime, PriceUnit], ...]:
    beginning = datetime.min.replace(tzinfo=UTC)
    units = [(beginning, UNITS[first])] if first in UNITS else []
    for number, row in enumerate(rows, 1):
        _known(row, {"from", "price_per"}, f"unit {number}: ")
        since, unit = row.get("from"), row.get("price_per")
        if not isinstance(since, datetime) or since.tzinfo is None:
            raise MappingError(f"unit {number}: from: a moment with its offset, without quotes")
        if unit not in UNITS:
            raise MappingError(f"unit {number}: price_per: one of {', '.join(UNITS)}")
        units.append((since.astimezone(UTC), UNITS[unit]))
    if not units or units[0][0] != beginning:
        raise MappingError(f"source.price_per: one of {', '.join(UNITS)}")
    return tuple(sorted(units, key=lambda u: u[0]))


def _refuse(table: dict[str, Any]) -> dict[str, frozenset[str]]:
    for column, values in table.items():
        if not isinstance(values, list):
            raise MappingError(f"refuse.{column}: a list of values")
    return {column: frozenset(map(str, values)) for column, values in table.items()}


def _rates(table: dict[str, Any]) -> dict[str, FxRate]:
    out: dict[str, FxRate] = {}
    for code, rate in table.items():
        try:
            usd, on = Decimal(price(str(rate["usd"]))), rate["on"]
            if not isinstance(on, date) or isinstance(on, datetime):
                raise TypeError
        except (Unreadable, KeyError, TypeError):
            raise MappingError(f'rates.{code}: {{usd = "1.08", on = 2026-01-31}}') from None
        out[code.upper()] = FxRate(usd, on)
    return out


def _strip(table: dict[str, Any]) -> dict[str, re.Pattern[str]]:
    _known(table, {"id", "origin", "gpu", "region"}, "strip.")
    out: dict[str, re.Pattern[str]] = {}
    for name, pattern in table.items():
        try:
            out[name] = re.compile(str(pattern))
        except re.error as error:
            raise MappingError(f"strip.{name}: no regular expression: {error}") from None
    return out
