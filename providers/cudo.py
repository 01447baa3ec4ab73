"""CUDO Compute: virtual machines put together from priced parts, per data centre.

Source: ``/v1/vms/machine-types`` of its public API (https://www.cudocompute.com/docs/api). A
machine type has a price for a GPU, a vCPU, a GiB of memory and a GiB of disk, and bounds for how
they may be combined; a whole machine has no price. So that it can be compared with others, what is
priced here is a machine with VCPUS_PER_GPU vCPUs and RAM_GIB_PER_GPU GiB for each GPU, or the
nearest that the bounds allow; disk is a term of its own. docs/adr/0015 says why.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from typing import Any

from providers._lists import SIZES, Item, bearer, count, listed, part, read, require, text
from providers._rows import BadRow, amount
from tracker.provider import (
    Availability,
    Extras,
    Facts,
    HttpClient,
    ListedOffer,
    Market,
    NativePrice,
    Parsed,
    Payload,
    PriceUnit,
    Provider,
    ProviderConfig,
    SecretStr,
    Terms,
    load_json,
)

VCPUS_PER_GPU, RAM_GIB_PER_GPU = 8, 32
GB_PER_GIB = Decimal(2**30) / Decimal(10**9)
_TERM = Decimal("1e-9")
_DATA_CENTRE = re.compile(r"([a-z]{2})-[a-z]+-\d+")


class CudoConfig(ProviderConfig):
    """``[providers.cudo]``. Asked without a key unless one is set."""

    base_url: str = "https://rest.compute.cudo.org"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: CudoConfig) -> list[Payload]:
    """The one list there is. Raises FetchError."""
    url = f"{config.base_url.rstrip('/')}/v1/vms/machine-types"
    return [await http.get(url, headers=bearer(config.api_key))]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Machines of 1, 2, 4 and 8 GPUs as far as one host has them free, and always one of 1 GPU.

    Raises ParseError on another shape.
    """
    rows = [row for p in payloads for row in listed(load_json(p), "machineTypes")]
    require(rows, "machineTypes[]", ("gpuModel", "gpuPriceHr", "dataCenterId"))
    return Parsed(*read(rows, _items))


def _items(row: Mapping[str, Any]) -> Iterator[Item]:
    if not row.get("gpuModel") and not _price(row, "gpuPriceHr"):
        return  # a machine type without GPUs
    gpu, model_id = text(row, "gpuModel"), text(row, "gpuModelId")
    where = text(row, "dataCenterId")
    per_gpu, per_vcpu = _price(row, "gpuPriceHr"), _price(row, "vcpuPriceHr")
    per_gib = _price(row, "memoryGibPriceHr")
    if not per_gpu:
        raise BadRow("no price of the GPU")
    if not (per_vcpu and per_gib):  # nobody gives them away: the sum would be too low
        raise BadRow("no price of the vCPU or the memory")
    vcpus, ram_gib = _shape(row)
    usd = per_gpu + vcpus * per_vcpu + ram_gib * per_gib
    free, on_one_host = count(row, "totalGpuFree"), count(row, "maxGpuFree")
    if free == 0:
        on_one_host = 0  # whatever the other figure says
    country = _DATA_CENTRE.fullmatch(where)
    code = country[1].upper() if country else None
    disk, address = _price(row, "minStorageGibPriceHr"), _price(row, "ipv4PriceHr")
    # Remarks are kept as of the first poll that saw the offer: no amount stands in them.
    notes = [f"the sum of a GPU, {vcpus} vCPUs and {ram_gib} GiB of memory for each GPU"]
    if address:
        notes.append("a public IPv4 address costs extra")
    for size in (n for n in SIZES if n == 1 or (on_one_host or 0) >= n):
        there = Availability.UNKNOWN
        if on_one_host is not None:
            there = Availability.YES if on_one_host >= size else Availability.NO
        yield ListedOffer(
            source_id=f"{where}/{text(row, 'machineType')}/{model_id}",
            gpu_name=gpu,
            gpu_count=Decimal(size),
            price=NativePrice(usd * size, "USD", PriceUnit.MACHINE_HOUR),
            market=Market.ON_DEMAND,
            tier="standard",
            region=where,
            country="GB" if code == "UK" else code,
            vcpus=vcpus * size,
            ram_gib=ram_gib * size,
            datacenter=True,
            terms=Terms(
                disk_usd_per_gb_hour=None if disk is None else (disk / GB_PER_GIB).quantize(_TERM)
            ),
            extras=Extras(availability=there, stock_count=free if size == 1 else None),
            source_url="https://www.cudocompute.com/pricing",
            notes=tuple(notes),
        )


def _price(row: Mapping[str, Any], name: str) -> Decimal | None:
    """An amount such as ``{"value": "1.90"}`` in USD an hour; None where there is none."""
    return amount(part(row, name), "value")


def _shape(row: Mapping[str, Any]) -> tuple[Decimal, Decimal]:
    """vCPUs and GiB of memory for one GPU: the usual ones, or the nearest within the bounds."""
    vcpus = _within(
        Decimal(VCPUS_PER_GPU), amount(row, "minVcpuPerGpu"), amount(row, "maxVcpuPerGpu")
    )
    least, most = amount(row, "minVcpuPerMemoryGib"), amount(row, "maxVcpuPerMemoryGib")
    ram_gib = _within(
        Decimal(RAM_GIB_PER_GPU), vcpus / most if most else None, vcpus / least if least else None
    )
    return vcpus, ram_gib


def _within(usual: Decimal, least: Decimal | None, most: Decimal | None) -> Decimal:
    """*usual* or the nearest whole number within the bounds. Raises BadRow where there is none."""
    low = Decimal(1) if least is None else max(least.to_integral_value(ROUND_CEILING), Decimal(1))
    high = usual if most is None else most.to_integral_value(ROUND_FLOOR)
    found = max(min(usual, high), low)
    if most is not None and found > high:
        raise BadRow("bounds of vCPUs and memory leave no machine")
    return found


provider = Provider(
    name="cudo",
    every=timedelta(hours=1),
    config=CudoConfig,
    facts=Facts(
        title="CUDO Compute",
        website="https://www.cudocompute.com/pricing",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="CUDO_API_KEY",
        key_adds="an answer, should the list be refused without one",
        terms="documented API; the list has answered without a key, and some say that it needs one "
        f"now. Priced is a machine of {VCPUS_PER_GPU} vCPUs and {RAM_GIB_PER_GPU} GiB for each "
        "GPU, or the nearest allowed: CUDO prices the parts, not the machine",
        verified="parser checked against test data of another client, of 2024; never called live "
        "from this project",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
)
