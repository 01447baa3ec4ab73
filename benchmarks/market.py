"""An invented market of today: marketplaces with many hosts, clouds with list prices.

The same offers for gpucost (as normalised offers) and for gpuhunt (as its catalogue files).
Deterministic: the same number of offers gives the same market.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from tracker.domain.gpu import Catalogue, Gpu
from tracker.domain.offer import (
    Availability,
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    Offer,
    PriceUnit,
    Terms,
)

MARKETPLACES, CLOUDS = 5, 15
_SHARE_OF_MARKETPLACES = 0.6

# family -> (share on marketplaces, share at clouds, USD per GPU-hour about which prices lie)
FAMILIES: dict[str, tuple[int, int, str]] = {
    "RTX4090": (22, 1, "0.40"), "RTX3090": (12, 0, "0.22"), "RTX5090": (12, 1, "0.60"),
    "H100": (8, 16, "2.60"), "A100": (8, 18, "1.60"), "H200": (3, 8, "3.40"),
    "B200": (2, 4, "5.50"), "L40S": (4, 6, "1.10"), "L40": (2, 2, "0.90"), "L4": (2, 10, "0.60"),
    "A10": (2, 8, "0.90"), "A40": (3, 1, "0.45"), "A6000": (6, 2, "0.55"),
    "RTX6000ADA": (4, 1, "0.85"), "V100": (4, 10, "1.20"), "T4": (3, 10, "0.45"),
    "MI300X": (1, 2, "2.40"), "GH200": (1, 1, "1.90"),
}  # fmt: skip
_COUNTS, _COUNT_WEIGHTS = (1, 2, 4, 8), (46, 20, 16, 18)
_COUNTRIES = ("US", "DE", "FR", "GB", "NL", "SE", "NO", "CA", "JP", "SG", "IN", "AU")

# gpuhunt has a file for each of the providers that it collects offline; it asks all of them.
_GPUHUNT_FILES = ("aws", "azure", "verda", "gcp", "lambdalabs", "nebius", "oci", "runpod",
                  "cloudrift")  # fmt: skip
_GPUHUNT_COLUMNS = ("instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name",
                    "gpu_memory", "spot", "disk_size", "gpu_vendor", "flags", "cpu_arch",
                    "provider_data")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Stream:
    """A provider and what it offers."""

    name: str
    marketplace: bool
    default_tiers: tuple[str, ...]
    offers: tuple[Offer, ...]


def market(catalogue: Catalogue, offers: int) -> list[Stream]:
    """*offers* offers, most of them on five marketplaces, the others at fifteen clouds."""
    dice = random.Random(20261130)  # noqa: S311 - the same market every time
    gpus = {family: _gpus_of(catalogue, family) for family in FAMILIES}
    on_marketplaces = round(offers * _SHARE_OF_MARKETPLACES)
    sizes = [*_spread(on_marketplaces, MARKETPLACES), *_spread(offers - on_marketplaces, CLOUDS)]
    streams = []
    for index, size in enumerate(sizes):
        hosts = index < MARKETPLACES
        name = f"market{index + 1}" if hosts else f"cloud{index - MARKETPLACES + 1:02}"
        made = tuple(_offer(dice, name, i, gpus, marketplace=hosts) for i in range(size))
        streams.append(Stream(name, hosts, ("verified",) if hosts else (), made))
    return streams


def _gpus_of(catalogue: Catalogue, family: str) -> list[Gpu]:
    parts = [spec.gpu for spec in catalogue.specs() if spec.gpu.family == family and not spec.rare]
    if not parts:
        raise ValueError(f"the catalogue has no {family}")
    return parts


def _spread(total: int, among: int) -> list[int]:
    return [total // among + (i < total % among) for i in range(among)]


def _offer(
    dice: random.Random, name: str, number: int, gpus: dict[str, list[Gpu]], *, marketplace: bool
) -> Offer:
    weights = [hosts if marketplace else clouds for hosts, clouds, _ in FAMILIES.values()]
    [family] = dice.choices(list(FAMILIES), weights)
    gpu = dice.choice(gpus[family])
    [count] = dice.choices(_COUNTS, _COUNT_WEIGHTS)
    sold = dice.choices((Market.ON_DEMAND, Market.SPOT, Market.RESERVED), (60, 30, 10))[0]
    factor = {Market.ON_DEMAND: 1.0, Market.SPOT: 0.5, Market.RESERVED: 0.7}[sold]
    spread = dice.uniform(0.6, 1.8) * factor * (1 if marketplace else 1.4)
    usd = (Decimal(FAMILIES[family][2]) * count * Decimal(str(spread))).quantize(Decimal("0.0001"))
    country = dice.choice(_COUNTRIES)
    listed = ListedOffer(
        source_id=f"{dice.randrange(10**7, 10**8)}-{number}",
        gpu_name=gpu.key,
        gpu_count=Decimal(count),
        price=NativePrice(usd, "USD", PriceUnit.MACHINE_HOUR),
        market=sold,
        tier=dice.choice(("verified", "verified", "unverified")) if marketplace else "standard",
        region=f"{country.lower()}-{dice.choice(('east', 'west', 'central'))}-{dice.randint(1, 4)}",
        country=country,
        vcpus=Decimal(count * dice.choice((8, 12, 16))),
        ram_gib=Decimal(count * dice.choice((32, 64, 128))),
        dedicated=not marketplace,
        terms=_terms(dice, sold, marketplace=marketplace),
        extras=_extras(dice, marketplace=marketplace),
    )
    return Offer(
        source=name, provider=name, gpu=gpu,
        price=listed.price.machine_hour(listed.gpu_count, Decimal(1)), listed=listed,
    )  # fmt: skip


def _terms(dice: random.Random, sold: Market, *, marketplace: bool) -> Terms:
    if not marketplace:
        return Terms(
            billing_increment_seconds=1,
            minimum_seconds=60,
            commitment_hours=8760 if sold is Market.RESERVED else None,
            egress_usd_per_gb=Decimal("0.09"),
        )
    return Terms(
        billing_increment_seconds=dice.choice((1, 60)),
        commitment_hours=720 if sold is Market.RESERVED else None,
        disk_included_gb=Decimal(0),
        disk_usd_per_gb_hour=Decimal(dice.randint(1, 9)) / 10_000,
        egress_usd_per_gb=Decimal(dice.randint(0, 20)) / 1000,
    )


def _extras(dice: random.Random, *, marketplace: bool) -> Extras:
    if not marketplace:
        return Extras()
    return Extras(
        availability=Availability.YES,
        stock_count=dice.randint(1, 8),
        disk_gb=Decimal(dice.randint(100, 4000)),
        network_down_mbps=Decimal(dice.randint(100, 9000)),
        network_up_mbps=Decimal(dice.randint(50, 9000)),
        reliability=Decimal(dice.randint(90_000, 99_999)) / 100_000,
    )


def gpuhunt_catalogue(streams: Sequence[Stream], folder: Path) -> None:
    """Write the offers as files for ``GPUHUNT_CATALOG_DIR``, twenty providers into nine files."""
    folder.mkdir()
    for index, name in enumerate(_GPUHUNT_FILES):
        with (folder / f"{name}.csv").open("w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, _GPUHUNT_COLUMNS)
            writer.writeheader()
            for stream in streams[index :: len(_GPUHUNT_FILES)]:
                writer.writerows(map(_gpuhunt_row, stream.offers))


def _gpuhunt_row(offer: Offer) -> dict[str, object]:
    o = offer.listed
    return {
        "instance_name": f"{offer.provider}/{o.source_id}", "location": o.region,
        "price": offer.price.usd, "cpu": o.vcpus, "memory": o.ram_gib, "gpu_count": o.gpu_count,
        "gpu_name": offer.gpu.family, "gpu_memory": offer.gpu.vram_gb,
        "spot": o.market is Market.SPOT, "disk_size": o.extras.disk_gb, "gpu_vendor": "nvidia",
        "flags": "", "cpu_arch": "x86", "provider_data": "{}",
    }  # fmt: skip
