"""Offers in groups: what is to be had of each GPU, where, and between which prices.

A group is always of one GPU and one market: a lowest price of an H100 and a 4090 together, or of
an hour on demand and one of a commitment together, is no figure of anything.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.domain.money import from_micro_usd
from tracker.report.ages import age_seconds, is_stale
from tracker.report.filters import rented_kind, select
from tracker.report.shapes.rows import ref
from tracker.report.shapes.texts import quantity, usd_text

if TYPE_CHECKING:
    from tracker.domain.gpu import Catalogue
    from tracker.report.asked import Asked
    from tracker.report.filters import Filters
    from tracker.store.reads import StoredOffer

ALWAYS = ("gpu", "market")
FIELDS = (*ALWAYS, "provider", "region", "country", "tier", "kind", "gpus", "term")
FIGURES = (
    "offers", "providers", "min_usd_per_gpu_hour", "p10_usd_per_gpu_hour",
    "median_usd_per_gpu_hour", "max_usd_per_gpu_hour", "in_stock", "stock_not_stated", "sold_out",
    "stale", "cheapest_offer", "age_seconds",
)  # fmt: skip
RANKED_BY = "min_usd_per_gpu_hour"

Key = tuple[Any, ...]


class Spread(NamedTuple):
    """Between which prices, in USD per GPU-hour.

    ``p10`` is a price that exists: a tenth of the offers ask no more (nearest rank). ``median`` is
    the middle one, or halfway between the middle two.
    """

    minimum: Decimal
    p10: Decimal
    median: Decimal
    maximum: Decimal


def spread(usd: Sequence[Decimal]) -> Spread:
    """The spread of prices that stand in ascending order, at least one."""
    p10 = usd[math.ceil(len(usd) / 10) - 1]
    return Spread(usd[0], p10, statistics.median(usd), usd[-1])


class Group(NamedTuple):
    """Offers that have all the fields of *key* in common, the cheapest per GPU-hour first.

    ``sold_out`` counts those that would be among them, were they to be had; None where nothing is
    known of stock, as of a past moment.
    """

    key: Key
    offers: tuple[StoredOffer, ...]
    sold_out: int | None

    @property
    def prices(self) -> Spread | None:
        """Over the offers as they are listed; None without any."""
        return spread([_usd(o)[0] for o in self.offers]) if self.offers else None


class Grouping(NamedTuple):
    """Groups by *fields*, the lowest price first; those with nothing to be had come last."""

    fields: tuple[str, ...]
    groups: tuple[Group, ...]

    @property
    def columns(self) -> tuple[str, ...]:
        """Those of a row, in their order."""
        return (*self.fields, *FIGURES)

    def rows(self, now: datetime, top: int | None = None) -> list[dict[str, Any]]:
        """The first *top* (None: all) as plain values; no figure of a group without offers."""
        return [
            dict(zip(self.fields, group.key, strict=True)) | _figures(group, now)
            for group in self.groups[:top]
        ]

    def document(self) -> dict[str, Any]:
        """What stands around the rows, beside what a list of offers has."""
        return {
            "group_by": list(self.fields), "groups": len(self.groups), "ranked_by": RANKED_BY,
        }  # fmt: skip


def fields_of(names: Iterable[str]) -> tuple[str, ...]:
    """*names*, each of FIELDS, with those that every group has, in the order of FIELDS.

    Raises ValueError where such groups would put together what has nothing in common.
    """
    asked = {*names}
    if "region" in asked and "provider" not in asked:
        raise ValueError(
            "region goes with provider only: the same name is another place at another provider "
            "(take provider,region, or country)"
        )
    return tuple(name for name in FIELDS if name in asked or name in ALWAYS)


def of_found(
    found: Asked, kept: Sequence[StoredOffer], filters: Filters, catalogue: Catalogue,
    now: datetime, fields: tuple[str, ...], *, past: bool,
) -> Grouping:  # fmt: skip
    """What *filters* have *kept* of what was found, in groups. History keeps no stock."""
    gone = None if past else sold_out(found, filters, catalogue, now)
    return grouped(kept, gone, fields)


def sold_out(
    found: Asked, filters: Filters, catalogue: Catalogue, now: datetime
) -> list[StoredOffer]:
    """The offers that *filters* leave out for nothing but being sold out."""
    gone = [o._replace(availability="unknown") for o in found.offers if o.availability == "no"]
    wanted = filters._replace(available=False)
    return select(gone, wanted, catalogue, now, shelves=found.shelves).kept


def grouped(
    offers: Sequence[StoredOffer], gone: Sequence[StoredOffer] | None, fields: tuple[str, ...]
) -> Grouping:
    """*offers* in groups by *fields*, with how many are sold out of *gone* (None: not known)."""
    found: dict[Key, list[StoredOffer]] = {}
    for offer in offers:
        found.setdefault(_key(offer, fields), []).append(offer)
    missing = Counter(_key(offer, fields) for offer in gone or ())
    for key in missing:
        found.setdefault(key, [])
    groups = [
        Group(key, tuple(sorted(some, key=_usd)), None if gone is None else missing[key])
        for key, some in found.items()
    ]
    return Grouping(fields, tuple(sorted(groups, key=_order)))


def _key(o: StoredOffer, fields: Iterable[str]) -> Key:
    values: Mapping[str, Any] = {
        "gpu": o.gpu_key, "market": o.market, "provider": o.provider, "region": o.region,
        "country": o.country, "tier": o.tier, "kind": rented_kind(o), "gpus": quantity(o.gpu_count),
        "term": o.commitment_hours,
    }  # fmt: skip
    return tuple(values[name] for name in fields)


def _usd(o: StoredOffer) -> tuple[Decimal, bytes]:
    """USD per GPU-hour; the key only makes the order the same every time."""
    return from_micro_usd(o.price_micro_usd) / o.gpu_count, o.key


def _order(group: Group) -> tuple[Any, ...]:
    lowest = _usd(group.offers[0])[0] if group.offers else Decimal("Infinity")
    return lowest, tuple((value is None, str(value)) for value in group.key)


def _figures(group: Group, now: datetime) -> dict[str, Any]:
    """The figures of a row; without offers there is no price."""
    offers, stock = group.offers, Counter(o.availability for o in group.offers)
    known = group.sold_out is not None
    told: dict[str, Any] = dict.fromkeys(FIGURES) | {
        "offers": len(offers), "providers": len({o.provider for o in offers}),
        "in_stock": stock["yes"] if known else None,
        "stock_not_stated": stock["unknown"] if known else None,
        "sold_out": group.sold_out, "stale": sum(is_stale(o, now) for o in offers),
    }  # fmt: skip
    prices = group.prices
    if prices is None:
        return told
    names = ("min", "p10", "median", "max")
    return told | {
        **{
            f"{name}_usd_per_gpu_hour": usd_text(value)
            for name, value in zip(names, prices, strict=True)
        },
        "cheapest_offer": ref(offers[0].key),
        "age_seconds": age_seconds(offers[0], now),
    }
