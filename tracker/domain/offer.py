"""Offers: what a provider lists, and what it means once normalised.

``ListedOffer`` keeps the provider's words (raw GPU name, native price and unit); ``Offer`` is the
same thing with the GPU identified and the price in USD per machine-hour. ``None`` always means
"the provider does not say", never zero and never no.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

from tracker.domain.bounds import in_full
from tracker.domain.money import HOURS_PER_MONTH, PerGpuHour, PerMachineHour
from tracker.domain.terms import Availability, Discount, Market, Terms

if TYPE_CHECKING:
    from tracker.domain.gpu import Gpu

__all__ = [
    "Availability",
    "Discount",
    "Extras",
    "ListedOffer",
    "Market",
    "NativePrice",
    "Offer",
    "PriceKind",
    "PriceUnit",
    "Terms",
]


class PriceKind(StrEnum):
    """How the price comes about: a list price, a price that moves, or a bid's floor."""

    FIXED = "fixed"
    DYNAMIC = "dynamic"
    AUCTION = "auction"


class PriceUnit(StrEnum):
    """What the native amount pays for."""

    MACHINE_HOUR = "machine_hour"
    GPU_HOUR = "gpu_hour"
    MACHINE_MONTH = "machine_month"
    GPU_MONTH = "gpu_month"


@dataclass(frozen=True, slots=True)
class NativePrice:
    """An amount in the provider's own words: what is compared to see whether a price changed."""

    amount: Decimal
    currency: str
    unit: PriceUnit

    def machine_hour(self, gpu_count: Decimal, usd_per_unit: Decimal) -> PerMachineHour:
        """USD per machine-hour at *usd_per_unit* USD for one unit of the currency."""
        usd = self.amount * usd_per_unit
        if self.unit in (PriceUnit.MACHINE_MONTH, PriceUnit.GPU_MONTH):
            usd /= HOURS_PER_MONTH
        if self.unit in (PriceUnit.GPU_HOUR, PriceUnit.GPU_MONTH):
            return PerGpuHour(usd).for_machine(gpu_count)
        return PerMachineHour(usd)


@dataclass(frozen=True, slots=True)
class Extras:
    """What moves from poll to poll without making another offer of it."""

    availability: Availability = Availability.UNKNOWN
    stock_count: int | None = None
    stock_label: str | None = None
    disk_gb: Decimal | None = None
    network_down_mbps: Decimal | None = None
    network_up_mbps: Decimal | None = None
    reliability: Decimal | None = None  # 0..1, the provider's own score
    interruption_percent_max: int | None = None  # spot: upper end of the provider's class
    max_duration_hours: Decimal | None = None  # the machine is offered no longer than this
    valid_as_of: date | None = None  # a price typed by a person: the day it was read
    expires_at: datetime | None = None  # after this moment such a price is stale
    fallback: bool = False  # ranked only while its seller has no live price


@dataclass(frozen=True, slots=True)
class ListedOffer:
    """One rentable thing as the provider words it.

    ``gpu_count`` may be fractional (0.125 of a card). VRAM is what the provider reports, in MiB or
    in nominal GB, for one GPU unless ``vram_is_total``. ``source_id`` is the provider's stable id.
    """

    source_id: str
    gpu_name: str
    gpu_count: Decimal
    price: NativePrice
    market: Market
    tier: str
    price_kind: PriceKind = PriceKind.FIXED
    vram_mib: Decimal | None = None
    vram_gb: Decimal | None = None
    vram_is_total: bool = False
    form_factor: str | None = None
    slice: bool = False
    interconnect: str | None = None
    region: str | None = None  # or REGION/ZONE where a zone has a price of its own
    country: str | None = None  # ISO 3166-1 alpha-2
    vcpus: Decimal | None = None
    ram_gib: Decimal | None = None
    dedicated: bool | None = None
    datacenter: bool | None = None
    seller: str | None = None  # whose offer it is, when not the provider polled (price book)
    upstream: str | None = None  # who runs it, when the seller resells
    terms: Terms = field(default_factory=Terms)
    extras: Extras = field(default_factory=Extras)
    source_url: str | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offer:
    """A normalised offer: GPU identified, price in USD per machine-hour.

    ``source`` is the provider polled, ``provider`` the seller (the same but for a price book).
    ``fx_rate`` is USD per unit of ``listed.price.currency`` (1 for USD) and ``fx_date`` its date.
    """

    source: str
    provider: str
    gpu: Gpu
    price: PerMachineHour
    listed: ListedOffer
    fx_rate: Decimal = Decimal(1)
    fx_date: date | None = None
    flags: tuple[str, ...] = ()  # visible remarks that do not keep it out of a ranking

    @property
    def price_per_gpu(self) -> PerGpuHour:
        """The machine price divided by its GPU count (which may be a fraction of a card)."""
        return self.price.per_gpu(self.listed.gpu_count)

    @cached_property
    def key(self) -> bytes:
        """16 bytes that identify this offer across polls.

        Everything that makes it a different product takes part (provider's id, GPU, count, market,
        tier, region, host hardware, billing terms, currency); what merely moves (price, stock,
        network speed) does not.
        """
        o, t = self.listed, self.listed.terms
        parts = (
            self.source, self.provider, o.source_id, self.gpu.key, o.gpu_count, o.market, o.tier,
            o.price_kind, o.region, o.country, o.interconnect, o.vcpus, o.ram_gib, o.dedicated,
            o.datacenter, o.upstream, o.price.currency, o.price.unit, t.billing_increment_seconds,
            t.minimum_seconds, t.commitment_hours, t.commitment_unknown, t.disk_included_gb,
            t.disk_usd_per_gb_hour, t.egress_usd_per_gb,
        )  # fmt: skip
        text = "\x1f".join(canonical(part) for part in parts)
        return hashlib.blake2b(text.encode(), digest_size=16).digest()


def canonical(part: object) -> str:
    """*part* of an identity as text: the same for numbers of the same value."""
    if part is None:
        return ""
    if isinstance(part, Decimal):  # 1.50 and 1.5 are the same hardware
        return in_full(part.normalize())
    return str(part)
