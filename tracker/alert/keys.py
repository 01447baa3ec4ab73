"""The keys of a rule's table beside ``when``, ``job`` and the like: margins, policy, filters."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tracker.alert import fields
from tracker.alert.fields import Wrong
from tracker.domain.bounds import in_full
from tracker.domain.kind import KINDS
from tracker.domain.offer import Market
from tracker.domain.rule.types import Policy

MARGINS = ("enter_percent", "exit_percent")
POLICY: dict[str, Callable[[Any], Any]] = {
    "min_duration": fields.duration,
    "min_count": fields.count(1, 1000),
    "keep_firing": fields.duration,
    "cooldown": fields.duration,
    "remind_every": fields.optional_duration,
    "max_gap": fields.positive_duration,
    "health_after": fields.duration,
    "on_start": fields.one_of(("notify", "baseline")),
    "send_resolved": fields.flag,
}
# What of a policy is a part of the condition. The rest says how long one waits, when it has ended
# and who is told: changing that makes no other rule of it, and what fires goes on under it.
EDGE = ("enter",)


def _upper(value: Any) -> tuple[str, ...]:
    codes = tuple(code.upper() for code in fields.words(value))
    for code in codes:
        if not re.fullmatch("[A-Z]{2}", code):
            raise Wrong(f"{code!r} is not a two-letter country code such as US")
    return codes


def _lower(value: Any) -> tuple[str, ...]:
    return tuple(word.lower() for word in fields.words(value))


def _tiers(value: Any) -> tuple[str, ...]:
    return _alone(_lower(value))


def _markets(value: Any) -> tuple[str, ...]:
    names = tuple(name.replace("-", "_") for name in _lower(value))
    known = [str(market) for market in Market] + ["any"]
    for name in names:
        if name not in known:
            raise Wrong(f"{name!r} is not a market; {fields.nearest(name, known)}")
    return _alone(names)


def _kinds(value: Any) -> tuple[str, ...]:
    names = _lower(value)
    for name in names:
        if name not in KINDS:
            raise Wrong(f"{name!r} is not a kind; {fields.nearest(name, KINDS)}")
    return names


def _alone(names: tuple[str, ...]) -> tuple[str, ...]:
    if "any" in names and len(names) > 1:
        raise Wrong("any means all of them; name no others beside it")
    return names


FILTERS: dict[str, Callable[[Any], Any]] = {
    "providers": _lower,
    "regions": fields.words,
    "countries": _upper,
    "markets": _markets,
    "tiers": _tiers,
    "min_vram_gb": fields.amount,
    "min_gpus": fields.count(1, 10_000),
    "min_ram_gib": fields.amount,
    "min_vcpus": fields.amount,
    "min_disk_gb": fields.amount,
    "min_network_mbps": fields.amount,
    "interconnect": fields.text(60),
    "kinds": _kinds,
    "dedicated": fields.flag,
    "ecc": fields.flag,
    "available": fields.flag,
    "max_age": fields.positive_duration,
}
# History keeps prices; these are known for now only.
ONLY_NOW = ("available", "max_age", "min_disk_gb", "min_network_mbps")


def policy_dict(policy: Policy) -> dict[str, Any]:
    """A policy as plain JSON: durations in seconds, ratios as text."""
    plain: dict[str, Any] = {}
    for name in policy.__dataclass_fields__:
        value = getattr(policy, name)
        if isinstance(value, timedelta):
            value = value.total_seconds()
        elif isinstance(value, Decimal):
            value = in_full(value.normalize())
        plain[name] = value
    return plain
