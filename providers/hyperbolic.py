"""Hyperbolic: GPU machines and clusters of several suppliers, per whole option and hour.

Source: the list of rental options of its public API, ``/v2/alpha/on-demand/rental-options``,
which answers without a key. ``costPerHourCents`` is in US cents for the whole option with all its
nodes; ``providerCostPerHourCents`` is what Hyperbolic pays itself, and is never read. An option
has no id: what it consists of is its id.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._lists import (
    Item,
    bearer,
    count,
    flag,
    gpus,
    listed,
    optional_text,
    read,
    require,
    text,
)
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

COUNTRY = {"us": "US", "ca": "CA", "uk": "GB"}  # the first part of a region such as "us-east-1"


class HyperbolicConfig(ProviderConfig):
    """``[providers.hyperbolic]``. Answers without a key; one is sent when set."""

    base_url: str = "https://api.hyperbolic.ai"
    path: str = "/v2/alpha/on-demand/rental-options"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: HyperbolicConfig) -> list[Payload]:
    """The one list there is. Raises FetchError."""
    url = config.base_url.rstrip("/") + config.path
    return [await http.get(url, headers=bearer(config.api_key))]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer an option. Raises ParseError on another shape."""
    rows = [row for payload in payloads for row in listed(load_json(payload))]
    require(rows, "[]", ("costPerHourCents", "gpuCount", "gpuType", "enabled"))
    return Parsed(*read(rows, _items, alternatives=True))


def _items(row: Mapping[str, Any]) -> Iterator[Item]:
    if flag(row, "enabled") is not True:
        raise BadRow("not enabled")
    cents, number = amount(row, "costPerHourCents"), gpus(row, "gpuCount")
    if not cents:
        raise BadRow("no price")
    if cents % 1:  # 3.19 are dollars
        raise BadRow("costPerHourCents is not whole cents")
    nodes = _nodes(row, number)
    free = count(row, "totalAvailable")
    there = Availability.UNKNOWN
    if free is not None:
        there = Availability.YES if free else Availability.NO
    region = optional_text(row, "region")
    gpu, form = text(row, "gpuType"), optional_text(row, "gpuFormFactor")
    machine = optional_text(row, "machineType")
    network = [optional_text(row, name) for name in ("connectionType", "ethernetVariant")]
    parts = [gpu, form, str(number), machine, *network]
    disk = _sum(nodes, "storageGb")
    yield ListedOffer(
        source_id="/".join(p for p in parts if p),
        gpu_name=gpu,
        gpu_count=Decimal(number),
        price=NativePrice(cents / 100, "USD", PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier="standard",
        form_factor=form,
        interconnect=" ".join(n for n in network if n) or None,
        region=region,
        country=COUNTRY.get(region.partition("-")[0]) if region else None,
        vcpus=_sum(nodes, "vcpuCount", "cpuCount"),
        ram_gib=_sum(nodes, "ramGb"),
        dedicated=None if machine is None else machine == "bare-metal",
        datacenter=True,
        terms=Terms(disk_included_gb=disk),
        extras=Extras(availability=there, stock_count=free),
        source_url="https://app.hyperbolic.ai/",
        notes=(f"a cluster of {len(nodes)} machines",) if len(nodes) > 1 else (),
    )


def _nodes(row: Mapping[str, Any], number: int) -> Sequence[Mapping[str, Any]]:
    """The machines of an option. Raises BadRow where their GPUs are not those of the option."""
    found = row.get("nodes")
    nodes = [node for node in found if isinstance(node, dict)] if isinstance(found, list) else []
    counted = [count(node, "gpuCount") for node in nodes]
    known = [n for n in counted if n is not None]
    if nodes and len(known) == len(nodes) and sum(known) != number:
        raise BadRow("GPUs of the nodes are not those of the option")
    return nodes


def _sum(nodes: Sequence[Mapping[str, Any]], *names: str) -> Decimal | None:
    """The sum over all machines of the first of *names* that each has; None if one has none."""
    total = Decimal(0)
    for node in nodes:
        found = next((f for name in names if (f := amount(node, name))), None)
        if found is None:
            return None
        total += found
    return total or None


provider = Provider(
    name="hyperbolic",
    every=timedelta(minutes=30),
    config=HyperbolicConfig,
    facts=Facts(
        title="Hyperbolic",
        website="https://www.hyperbolic.ai/",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="HYPERBOLIC_API_KEY",
        key_adds="nothing that is known of: the list answers without one",
        terms="no limit and no terms for programs are published; partly a reseller, and its answer "
        "does not say of whom",
        verified="parser checked against an answer recorded in 2026-08; never called live from "
        "this project",
        min_every=timedelta(minutes=10),
    ),
    fetch=fetch,
    parse=parse,
)
