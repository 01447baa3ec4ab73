"""The price items (SKUs) of the Cloud Billing Catalog, and which of them a GPU machine is made of.

https://cloud.google.com/billing/v1/how-tos/catalog-api

An item is taken only when its whole description is one of those known: Google sells the same GPU
in a dozen ways under almost the same words, some of them (Dynamic Workload Scheduler, calendar
mode) at half the price and marked as on-demand all the same. Whatever speaks of a GPU or of the
host of a GPU machine and is not taken is rejected with the reason.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from providers.gcp.machines import GPUS, HOSTS, N1, ON_DEMAND, SPOT, Gpu
from tracker.provider import Rejected, parse_decimal

CORE, RAM, SSD = "core", "ram", "local ssd"
# Markets are ON_DEMAND, SPOT and the years of a commitment, as "1", "3", "5".

_UNITS = {CORE: "h", RAM: "GiBy.h", SSD: "GiBy.mo"}  # a GPU: "h"
_NANO = Decimal(1_000_000_000)
_ABSURD = Decimal(1_000_000)  # USD a unit; also bounds arithmetic on junk

# What is sold in another way than by the plain hour of a machine. In this order.
_DENIED = (
    (r"\bdws\b|defined duration", "Dynamic Workload Scheduler price"),
    (r"calendar mode", "calendar mode price"),
    (r"\bflex", "flex-start price"),
    (r"\breserved\b", "price of an unused reservation"),
    (r"sole tenancy", "sole tenancy"),
    (r"\bpremium\b", "premium on another price"),
    (r"\bcustom\b", "custom machine type"),
    (r"\bsuspended\b", "price of a suspended machine"),
    (r"\bvws\b|virtual workstation", "virtual workstation licence"),
    (r"\bvgpu\b", "vGPU"),
)
_HOST_WORD = re.compile(rf"\b(?:{'|'.join(HOSTS)}|N1|A4|A4X)\b", re.IGNORECASE)
# Of N1 in commitments, whose name is no part of them, and of local SSD.
_NAMELESS = (
    "ssd backed local storage", "commitment v1: local ssd",
    "commitment v1: cpu in ", "commitment v1: ram in ",
)  # fmt: skip
_MAX_DESCRIPTION = 400  # characters: the patterns below take their square
_PLACE = re.compile(r"^(.+?)(?: running)? in [^:]+$", re.IGNORECASE)
_YEARS = re.compile(r"^commitment v1: (.+) for ([1-9]) years?$", re.IGNORECASE)
_SPOT_TAIL = re.compile(r" attached to spot preemptible vms$", re.IGNORECASE)
_SPOT_HEAD = re.compile(r"^spot preemptible ", re.IGNORECASE)
_USAGE_OF_YEARS = {"1": "Commit1Yr", "3": "Commit3Yr"}  # five years: "Commit"
_SILENT_WORDS = frozenset({"nvidia", "tesla", "gpu"})


@dataclass(frozen=True, slots=True)
class Item:
    """The price of one part in one region. ``part`` is of ``part_of``."""

    part: str
    market: str
    region: str
    usd: Decimal  # per vCPU-hour, GiB-hour, GPU-hour or, local SSD, GiB-month
    description: str


Prices = dict[tuple[str, str, str], Decimal]  # (region, market, part) -> USD a unit


class _Excluded(Exception):
    """Why an item is not taken."""


def part_of(gpu: Gpu) -> str:
    """How the price item of a GPU is called here."""
    return f"GPU {gpu.counts[0]}"


def host_part(host: str, part: str) -> str:
    """How the price item of a host's vCPUs (CORE) or memory (RAM) is called here."""
    return f"{host} {part}"


def _host_items(*, committed: bool) -> dict[str, str]:
    """The part that each description of vCPUs or memory is of."""
    core, ram = ("cpu", "ram") if committed else ("instance core", "instance ram")
    begins = {host: f"{host} ".casefold() for host in HOSTS}  # "A2 Instance Core", "A2 Cpu"
    begins[N1] = "" if committed else "n1 predefined "
    return {
        f"{start}{word}": host_part(host, part)
        for host, start in begins.items()
        for word, part in ((core, CORE), (ram, RAM))
    }


_HOST_ITEMS, _COMMITTED_ITEMS = _host_items(committed=False), _host_items(committed=True)


def prices(skus: Iterable[Any], now: datetime) -> tuple[Prices, list[Rejected]]:
    """The price of every part by region and market as of *now*, and what was not taken.

    Two different prices for one part in one region and market give none, nor do a spot and an
    on-demand price of which the one is not below the other. This is seen by part, as in the sum of
    a machine the other parts may hide it.
    """
    rejected: list[Rejected] = []
    found: dict[tuple[str, str, str], list[Item]] = defaultdict(list)
    for sku in skus:
        if not isinstance(sku, dict):
            rejected.append(Rejected("not a price item", repr(sku)[:200]))
            continue
        try:
            for item in _items(sku, now):
                found[item.region, item.market, item.part].append(item)
        except _Excluded as reason:
            rejected.append(Rejected(str(reason), _sample(sku)))
    agreed: Prices = {}
    for key, items in found.items():
        amounts = sorted({item.usd for item in items})
        if len(amounts) == 1:
            agreed[key] = amounts[0]
        else:
            shown = " | ".join((*key, *map(str, amounts)))
            rejected.append(Rejected("two prices for one part in a region", shown[:200]))
    for region, part in sorted((region, part) for region, market, part in agreed if market == SPOT):
        spot, full = (region, SPOT, part), (region, ON_DEMAND, part)
        if full in agreed and agreed[spot] >= agreed[full]:
            shown = f"{region} | {part} | {agreed.pop(spot)} | {agreed.pop(full)}"
            rejected.append(Rejected("spot price of a part not below on-demand", shown[:200]))
    return agreed, rejected


def _items(sku: dict[str, Any], now: datetime) -> list[Item]:
    """The item in each of its regions; nothing for one that no GPU machine is made of."""
    description = _text(sku.get("description"))
    category = sku.get("category")
    if not isinstance(category, dict):
        category = {}
    group, usage = _text(category.get("resourceGroup")), _text(category.get("usageType"))
    if not _concerns_gpus(description, group):
        return []
    if len(description) > _MAX_DESCRIPTION:
        raise _Excluded("description is too long to be one")
    for pattern, reason in _DENIED:
        if re.search(pattern, description, re.IGNORECASE):
            raise _Excluded(reason)
    part, market = _read_description(description, usage)
    usd = _usd(sku, _UNITS.get(part.rpartition(" ")[2] if part != SSD else SSD, "h"), now)
    regions = sku.get("serviceRegions")
    if (
        not isinstance(regions, list)
        or not regions
        or not all(isinstance(region, str) and region.strip() for region in regions)
    ):
        raise _Excluded("no regions")
    return [Item(part, market, region.strip(), usd, description) for region in regions]


def _concerns_gpus(description: str, group: str) -> bool:
    text = description.casefold()
    return (
        group == "GPU" or _HOST_WORD.search(description) is not None or text.startswith(_NAMELESS)
    )


def _read_description(description: str, usage: str) -> tuple[str, str]:
    """Part and market. Raises _Excluded for a description that is not wholly understood."""
    market = ON_DEMAND
    what = description
    years = _YEARS.match(description)
    if years and usage == _USAGE_OF_YEARS.get(years[2], "Commit"):
        what, market = years[1], years[2]
    elif description.casefold().startswith("commitment") or usage.startswith("Commit"):
        raise _Excluded("commitment that is not one for a part of a machine")
    if place := _PLACE.match(what):
        what = place[1]
    plain = _SPOT_TAIL.sub("", _SPOT_HEAD.sub("", what))
    committed = market != ON_DEMAND
    if plain != what or usage == "Preemptible":  # some spot items are marked as on-demand
        if committed:
            raise _Excluded("commitment on spot")
        market = SPOT
    elif not committed and usage != "OnDemand":
        raise _Excluded("usage type is not known")
    part = _part(plain, committed=committed)
    if part is None:
        raise _Excluded("no machine type is known to be made of it")
    return part, market


def _part(what: str, *, committed: bool) -> str | None:
    text = " ".join(what.casefold().split())
    if text == ("local ssd" if committed else "ssd backed local storage"):
        return SSD
    host_items = _COMMITTED_ITEMS if committed else _HOST_ITEMS
    if text in host_items:
        return host_items[text]
    words = frozenset(text.split()) - _SILENT_WORDS
    for gpu in GPUS:
        if words in gpu.items:
            return part_of(gpu)
    return None


def _usd(sku: dict[str, Any], unit: str, now: datetime) -> Decimal:
    """The price of a unit: of several tiers the last that is not zero."""
    expression = _in_force(sku.get("pricingInfo"), now).get("pricingExpression")
    if not isinstance(expression, dict):
        raise _Excluded("no price")
    if expression.get("usageUnit") != unit:
        raise _Excluded(f"unit is not {unit}")
    rates = expression.get("tieredRates")
    if not isinstance(rates, list) or not rates:
        raise _Excluded("no price")
    amounts = [_amount(rate.get("unitPrice") if isinstance(rate, dict) else None) for rate in rates]
    charged = [amount for amount in amounts if amount]
    if not charged:
        raise _Excluded("price is not above zero")
    return charged[-1]


def _amount(price: Any) -> Decimal:
    """``units`` (a string) and ``nanos`` (billionths); either may be missing for 0."""
    if not isinstance(price, dict):
        raise _Excluded("no readable price")
    if price.get("currencyCode") != "USD":
        raise _Excluded("price is not in USD")
    try:
        units = parse_decimal(price.get("units") or "0")
        nanos = parse_decimal(price.get("nanos") or 0)
    except ValueError:
        raise _Excluded("no readable price") from None
    if not 0 <= units <= _ABSURD or not 0 <= nanos < _NANO or units % 1 or nanos % 1:
        raise _Excluded("no readable price")
    return units + nanos / _NANO


def _in_force(infos: Any, now: datetime) -> dict[str, Any]:
    """Of a timeline of prices the one that holds at *now*: the last that has begun.

    Asked without a period, the catalogue gives the latest alone; asked with one, several.
    """
    if not isinstance(infos, list) or not infos or not all(isinstance(i, dict) for i in infos):
        raise _Excluded("no price")
    begun = [(moment, at) for at, info in enumerate(infos) if (moment := _begins(info)) <= now]
    if not begun:
        raise _Excluded("not yet in force")
    found: dict[str, Any] = infos[max(begun)[1]]
    return found


def _begins(info: dict[str, Any]) -> datetime:
    """When a price began; long ago where it does not say."""
    value = info.get("effectiveTime")
    if not isinstance(value, str) or not value:
        return datetime.min.replace(tzinfo=UTC)
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError):
        raise _Excluded("unreadable date") from None


def _text(value: Any) -> str:
    return " ".join(value.split()) if isinstance(value, str) else ""


def _sample(sku: dict[str, Any]) -> str:
    return f"{sku.get('skuId', '-')} | {_text(sku.get('description'))}"[:200]
