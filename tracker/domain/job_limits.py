"""What a job asks of the machines that may run it, and of its bill: ``[limits]`` of a job file."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from tracker.domain.job_fields import (
    MAX_HOURS,
    JobError,
    known_keys,
    nearest,
    plain,
    read_amount,
    read_count,
    read_flag,
    read_number,
    read_text,
    shown,
)
from tracker.domain.terms import Market
from tracker.domain.texts import unstorable

MAX_USD = Decimal(10) ** 12
MAX_RUNS = 1_000_000
ANY = "any"

_MARKETS = (*(str(market) for market in Market), ANY)
_WHERE = "limits."


class Limits(NamedTuple):
    """None and empty mean "no limit". Set-up and runtime together take at most ``deadline_hours``,
    the bill of one run comes to at most ``budget_usd``. ``runs_per_month`` limits nothing."""

    deadline_hours: Decimal | None = None
    budget_usd: Decimal | None = None
    markets: tuple[str, ...] = ()
    tiers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    interconnect: str | None = None
    min_ram_gib: Decimal | None = None
    min_network_mbps: Decimal | None = None
    dedicated: bool = False
    ecc: bool = False
    runs_per_month: int | None = None


def limits_from_toml(data: Mapping[str, Any]) -> Limits:
    """The limits of parsed TOML. Raises JobError naming the key."""
    known_keys(data, Limits._fields, _WHERE)
    return Limits(
        deadline_hours=_above_zero(data, "deadline_hours", MAX_HOURS),
        budget_usd=_above_zero(data, "budget_usd", MAX_USD),
        markets=_markets(data),
        tiers=tuple(word.lower() for word in _words(data, "tiers")),
        regions=_words(data, "regions"),
        interconnect=read_text(data, "interconnect", "", _WHERE) or None,
        min_ram_gib=_above_zero(data, "min_ram_gib", Decimal(10) ** 6),
        min_network_mbps=_above_zero(data, "min_network_mbps", Decimal(10) ** 7),
        dedicated=bool(read_flag(data, "dedicated", _WHERE)),
        ecc=bool(read_flag(data, "ecc", _WHERE)),
        runs_per_month=(
            read_count(data, "runs_per_month", _WHERE, limit=MAX_RUNS)
            if "runs_per_month" in data
            else None
        ),
    )


def _above_zero(data: Mapping[str, Any], key: str, limit: Decimal) -> Decimal | None:
    if key not in data:
        return None
    value = read_number(data[key], f"{_WHERE}{key}")
    if value <= 0:
        raise JobError(f"{_WHERE}{key}: {plain(value)} is not above 0")
    return read_amount(data, key, limit, _WHERE)


def _words(data: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = data.get(key, [])
    words = [value] if isinstance(value, str) else value
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise JobError(f'{_WHERE}{key}: {shown(value)} is not a list of words, such as ["secure"]')
    if len(words) > 100 or not all(0 < len(word.strip()) <= 100 for word in words):
        raise JobError(f"{_WHERE}{key}: a word is empty or too long, or there are too many")
    if any(unstorable(word) for word in words):
        raise JobError(f"{_WHERE}{key}: a word has a character that cannot be stored")
    return tuple(word.strip() for word in words)


def _markets(data: Mapping[str, Any]) -> tuple[str, ...]:
    markets = tuple(word.lower().replace("-", "_") for word in _words(data, "markets"))
    for market in markets:
        if market not in _MARKETS:
            hint = nearest(market, _MARKETS)
            raise JobError(f"{_WHERE}markets: {market!r} is not a market; {hint}")
    if ANY in markets and len(markets) > 1:
        raise JobError(f"{_WHERE}markets: any means all of them; name no others beside it")
    return markets
