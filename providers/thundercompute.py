"""Thunder Compute: GPUs that are attached over the network ("prototyping") or local ("production").

Source: ``/v1/pricing`` of its API, as its own command line calls it: one object whose keys are
``gpu_xN_mode`` and whose values are USD per instance and hour. Memory and form are those of its
price page of 2026-06 (https://www.thundercompute.com/pricing): ``a100`` has 40 GB, ``a100xl`` 80,
and the H100 is a PCIe card of 80 GB. An instance includes 4 vCPUs with 32 GiB and 100 GB of disk.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._lists import Item, bearer, said, unique
from providers._rows import BadRow, amount, sample
from tracker.provider import (
    Facts,
    HttpClient,
    ListedOffer,
    Market,
    NativePrice,
    Parsed,
    ParseError,
    Payload,
    PriceUnit,
    Provider,
    ProviderConfig,
    Rejected,
    SecretStr,
    Terms,
    load_json,
)

MODES = ("production", "prototyping")
# Key -> name, memory of one GPU in GB, form.
GPUS = {
    "a100": ("A100", 40, None),
    "a100xl": ("A100", 80, None),
    "h100": ("H100", 80, "PCIe"),
}
# Prices of what is added to an instance: no offers.
ADDED = ("additional_vcpus", "disk_gb", "snapshot_gb")
INCLUDED_DISK_GB, INCLUDED_VCPUS, INCLUDED_RAM_GIB = Decimal(100), Decimal(4), Decimal(32)
_KEY = re.compile(r"([a-z0-9]+)_x(\d{1,2})_([a-z]+)")


class ThunderComputeConfig(ProviderConfig):
    """``[providers.thundercompute]``. Asked without a key unless one is set."""

    base_url: str = "https://api.thundercompute.com:8443"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: ThunderComputeConfig) -> list[Payload]:
    """The one list there is. Raises FetchError."""
    url = f"{config.base_url.rstrip('/')}/v1/pricing"
    return [await http.get(url, headers=bearer(config.api_key))]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer a key that names a GPU, a number and a mode. Raises ParseError otherwise."""
    items: list[Item] = []
    for payload in payloads:
        answer = load_json(payload)
        prices = answer.get("pricing") if isinstance(answer, dict) else None
        if not isinstance(prices, dict):
            raise ParseError("pricing", f"missing or not an object{said(answer)}")
        if prices and not any(_KEY.fullmatch(key) for key in prices):
            raise ParseError("pricing{}", "no key such as h100_x1_production")
        items += _items(prices)
    return Parsed(*unique(items))


def _items(prices: Mapping[str, Any]) -> Iterator[Item]:
    disk, notes = _added(prices)
    for key in prices:
        if key in ADDED:
            continue
        try:
            yield _offer(key, prices, disk, notes)
        except BadRow as bad:
            yield Rejected(str(bad), sample({key: prices[key]}))


def _added(prices: Mapping[str, Any]) -> tuple[Decimal | None, tuple[str, ...]]:
    """USD per GB and hour of further disk, and a remark on further vCPUs."""
    try:
        disk, vcpu = amount(prices, "disk_gb"), amount(prices, "additional_vcpus")
    except BadRow:
        return None, ()
    return disk, ("a vCPU beyond 4, with 8 GiB, costs extra",) if vcpu else ()


def _offer(
    key: str, prices: Mapping[str, Any], disk: Decimal | None, notes: tuple[str, ...]
) -> ListedOffer:
    found = _KEY.fullmatch(key)
    if found is None:
        raise BadRow("key names no GPU, number and mode")
    gpu, number, mode = found[1], int(found[2]), found[3]
    if mode not in MODES or not number:
        raise BadRow("key names no GPU, number and mode")
    price = amount(prices, key)
    if not price:
        raise BadRow("no price")
    name, vram, form = GPUS.get(gpu, (gpu, None, None))
    over_network = ("the GPU is attached over the network",) if mode == "prototyping" else ()
    return ListedOffer(
        source_id=key,
        gpu_name=name,
        gpu_count=Decimal(number),
        price=NativePrice(price, "USD", PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier=mode,
        vram_gb=None if vram is None else Decimal(vram),
        form_factor=form,
        # What comes with one GPU; nobody says whether several bring more.
        vcpus=INCLUDED_VCPUS if number == 1 else None,
        ram_gib=INCLUDED_RAM_GIB if number == 1 else None,
        datacenter=True,
        terms=Terms(
            billing_increment_seconds=60,
            disk_included_gb=INCLUDED_DISK_GB,
            disk_usd_per_gb_hour=disk,
            egress_usd_per_gb=Decimal(0),
        ),
        source_url="https://www.thundercompute.com/pricing",
        notes=(*over_network, *notes),
    )


provider = Provider(
    name="thundercompute",
    every=timedelta(hours=1),
    config=ThunderComputeConfig,
    facts=Facts(
        title="Thunder Compute",
        website="https://www.thundercompute.com/pricing",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=60,
        minimum_seconds=None,
        spot="none",
        tiers=MODES,
        default_tiers=("production",),
        key="optional",
        key_variable="TNR_API_TOKEN",
        key_adds="an answer, should the list be refused without one",
        terms="the endpoint of its own command line; whether it needs a key is not known. "
        "Prototyping attaches the GPU over the network, so that it is ranked only when asked for",
        verified="nothing recorded was at hand: written against the shape that its command line "
        "reads, and its price page of 2026-06; never called live from this project",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
)
