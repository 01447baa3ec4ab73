"""Lists sorted by one of their columns: ``sort=age`` upwards, ``sort=-age`` downwards.

What is not known comes last either way, and rows that are alike stay as they were.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from tracker.app.asked import BadQuestion
from tracker.domain.money import from_micro_usd

if TYPE_CHECKING:
    from datetime import datetime

    from tracker.report.grouped import Group, Grouping

SORT = "sort"
Item = TypeVar("Item")
Key = Callable[[Any], Any]

# What columns are called, as on the pages; an answer in groups has its own fields before these.
OFFER_COLUMNS = (
    "gpu", "gpus", "provider", "region", "country", "tier", "market", "kind", "price", "machine",
    "memory", "vcpus", "ram", "term", "age", "stock",
)  # fmt: skip
GROUP_COLUMNS = (
    "price", "p10", "median", "max", "offers", "providers", "in_stock", "sold_out", "stale", "age",
)  # fmt: skip
_STOCK = {"yes": 0, "unknown": 1, "no": 2}


def wanted(text: str) -> tuple[str, bool]:
    """The column that *text* names ("" for none), and whether it is sorted downwards."""
    text = text.strip()
    return text.removeprefix("-"), text.startswith("-")


def in_order(text: str, keys: Mapping[str, Key], items: Iterable[Item]) -> list[Item]:
    """*items* in the order that *text* asks for, by one of *keys*. Raises BadQuestion."""
    items = list(items)
    name, down = wanted(text)
    if not text.strip():
        return items
    key = keys.get(name)
    if key is None:
        near = difflib.get_close_matches(name.lower(), keys, n=1)
        hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(keys)}"
        raise BadQuestion(SORT, f"there is no column {name[:40]!r} to sort by; {hint}")
    known = [(value, item) for item in items if (value := key(item)) is not None]
    known.sort(key=lambda pair: pair[0], reverse=down)
    return [item for _, item in known] + [item for item in items if key(item) is None]


def offer_keys(now: datetime) -> dict[str, Key]:
    """What offers sort by, under OFFER_COLUMNS. ``price`` is of a GPU-hour, ``machine`` of an hour
    of the whole machine; ``stock`` begins with what is in stock.
    """
    from tracker.report.ages import age_of
    from tracker.report.filters import rented_kind

    keys: tuple[Key, ...] = (
        lambda o: o.gpu_key, lambda o: o.gpu_count, lambda o: o.provider, lambda o: o.region,
        lambda o: o.country, lambda o: o.tier, lambda o: o.market, rented_kind,
        lambda o: from_micro_usd(o.price_micro_usd) / o.gpu_count, lambda o: o.price_micro_usd,
        lambda o: o.vram_gb, lambda o: o.vcpus, lambda o: o.ram_gib, lambda o: o.commitment_hours,
        lambda o: age_of(o, now), lambda o: _STOCK[o.availability],
    )  # fmt: skip
    return dict(zip(OFFER_COLUMNS, keys, strict=True))


def group_keys(grouping: Grouping, now: datetime) -> dict[str, Key]:
    """What groups sort by: their fields, and GROUP_COLUMNS; ``price`` is the lowest of a group."""
    from tracker.report.ages import age_of, is_stale

    def field(at: int) -> Key:
        return lambda group: group.key[at]

    def figure(name: str) -> Key:
        return lambda group: group.prices and getattr(group.prices, name)

    def in_stock(group: Group) -> int | None:
        known = group.sold_out is not None
        return sum(o.availability == "yes" for o in group.offers) if known else None

    keys: tuple[Key, ...] = (
        figure("minimum"), figure("p10"), figure("median"), figure("maximum"),
        lambda group: len(group.offers), lambda group: len({o.provider for o in group.offers}),
        in_stock, lambda group: group.sold_out,
        lambda group: sum(is_stale(o, now) for o in group.offers),
        lambda group: age_of(group.offers[0], now) if group.offers else None,
    )  # fmt: skip
    fields = {name: field(at) for at, name in enumerate(grouping.fields)}
    return fields | dict(zip(GROUP_COLUMNS, keys, strict=True))
