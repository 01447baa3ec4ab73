"""CloudRift: virtual machines in its data centres, per whole machine and hour.

Source: ``instance-types/list`` of its public API (https://api.cloudrift.ai), keyless: a POST that
asks for the variants of the service ``vm``. Prices are in US cents. ``vram`` is in bytes; whether
of one GPU or of all is not documented, so that it is read where there is one GPU only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._lists import Item, count, gpus, listed, part, require, text, unique
from providers._rows import BadRow, amount, sample
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
    Rejected,
    load_json,
)

VERSION = "2025-03-21"
QUERY = {
    "version": VERSION,
    "data": {"selector": {"ByServiceAndLocation": {"services": ["vm"]}}},
}
_GIB, _MIB = Decimal(2**30), Decimal(2**20)
COUNTRY = {"us": "US", "eu": None}  # the first part of a data centre such as "us-east-nc-nr-1"


class CloudRiftConfig(ProviderConfig):
    """``[providers.cloudrift]``."""

    base_url: str = "https://api.cloudrift.ai"


async def fetch(http: HttpClient, config: CloudRiftConfig) -> list[Payload]:
    """The one list there is. Raises FetchError."""
    url = f"{config.base_url.rstrip('/')}/api/v1/instance-types/list"
    return [await http.post(url, json_body=QUERY)]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer a variant and data centre that lists it. Raises ParseError on another shape."""
    rows: list[Any] = []
    for payload in payloads:
        rows += listed(load_json(payload), "data", "instance_types")
    require(rows, "data.instance_types[]", ("brand_short", "variants"))
    variants = [v for row in rows if isinstance(row, dict) for v in _variants(row)]
    require(variants, "data.instance_types[].variants[]", ("cost_per_hour", "gpu_count"))
    return Parsed(*unique(item for row in rows for item in _items(row)))


def _variants(row: Mapping[str, Any]) -> list[Any]:
    found = row.get("variants")
    return found if isinstance(found, list) else []


def _items(row: Any) -> Iterator[Item]:
    if not isinstance(row, dict) or not isinstance(row.get("variants"), list):
        yield Rejected("instance type without variants", sample(row))
        return
    for variant in row["variants"]:
        if not isinstance(variant, dict):
            yield Rejected("variant is not an object", sample(variant))
        elif variant.get("gpu_count") == 0:
            continue  # a machine without a GPU
        else:
            try:
                yield from _offers(row, variant)
            except BadRow as bad:
                yield Rejected(str(bad), sample(variant))


def _offers(row: Mapping[str, Any], variant: Mapping[str, Any]) -> Iterator[ListedOffer]:
    cents, number = amount(variant, "cost_per_hour"), gpus(variant, "gpu_count")
    if not cents:
        raise BadRow("no price")
    vram, ram = amount(variant, "vram"), amount(variant, "dram")
    cores = count(variant, "logical_cpu_count") or count(variant, "cpu_count")
    disk = amount(variant, "disk")
    for place, free in _stock(variant):
        there = Availability.UNKNOWN
        if free is not None:
            there = Availability.YES if free else Availability.NO
        yield ListedOffer(
            source_id=text(variant, "name"),
            gpu_name=text(row, "brand_short"),
            gpu_count=Decimal(number),
            price=NativePrice(cents / 100, "USD", PriceUnit.MACHINE_HOUR),
            market=Market.ON_DEMAND,
            tier="standard",
            vram_mib=vram / _MIB if vram and number == 1 else None,
            region=place,
            country=COUNTRY.get(place.partition("-")[0]) if place else None,
            vcpus=Decimal(cores) if cores else None,
            ram_gib=(ram / _GIB).quantize(Decimal("0.01")) if ram else None,
            datacenter=True,
            extras=Extras(
                availability=there,
                stock_count=free,
                disk_gb=(disk / 10**9).quantize(Decimal(1)) if disk else None,
            ),
            source_url="https://www.cloudrift.ai/",
        )


def _stock(variant: Mapping[str, Any]) -> list[tuple[str | None, int | None]]:
    """Data centres with how many machines each has; none told: one place that is not known."""
    found, free = part(variant, "nodes_per_dc"), part(variant, "available_nodes_per_dc")
    told = isinstance(variant.get("available_nodes_per_dc"), dict)
    if told:  # then the other are all machines, taken ones too
        found = {**dict.fromkeys(found, 0), **free}
    if found:
        return [(name, _nodes(nodes)) for name, nodes in found.items()]
    return [(None, 0 if told or isinstance(variant.get("nodes_per_dc"), dict) else None)]


def _nodes(value: Any) -> int | None:
    """A number, or an object that holds it as ``nodes``. Raises BadRow."""
    return count(value if isinstance(value, dict) else {"nodes": value}, "nodes")


provider = Provider(
    name="cloudrift",
    every=timedelta(minutes=30),
    config=CloudRiftConfig,
    facts=Facts(
        title="CloudRift",
        website="https://www.cloudrift.ai/",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="none",
        key_variable=None,
        terms="the list answers without a key; no limit and no terms for programs are published",
        verified="nothing recorded was at hand: written against the shape that other clients use; "
        "never called live from this project",
        min_every=timedelta(minutes=10),
    ),
    fetch=fetch,
    parse=parse,
)
