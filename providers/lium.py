"""Lium: a marketplace of hosts ("executors"), per GPU and hour.

Source: its public list ``https://lium.io/api/executors``, keyless. A host is rented whole or in
part: in sizes from ``min_gpu_count_for_rental`` up, and only whole where that is not said.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._lists import (
    SIZES,
    Item,
    count,
    flag,
    gpus,
    listed,
    optional_text,
    part,
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
    load_json,
)

TIERS = ("secure", "community", "spot", "other")
_STOCK = {Availability.YES: 1, Availability.NO: 0}


class LiumConfig(ProviderConfig):
    """``[providers.lium]``."""

    base_url: str = "https://lium.io"


async def fetch(http: HttpClient, config: LiumConfig) -> list[Payload]:
    """The one list there is. Raises FetchError."""
    return [await http.get(f"{config.base_url.rstrip('/')}/api/executors")]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Every host in the sizes it is rented in. Raises ParseError on another shape."""
    rows = [row for payload in payloads for row in listed(load_json(payload))]
    require(rows, "[]", ("id", "machine_name", "price_per_gpu", "gpu_count"))
    return Parsed(*read(rows, _items))


def _items(row: Mapping[str, Any]) -> Iterator[Item]:
    host, gpu, price = text(row, "id"), text(row, "machine_name"), amount(row, "price_per_gpu")
    if not price:
        raise BadRow("no price")
    whole = gpus(row, "gpu_count")
    spot = flag(part(row, "specs"), "is_spot")
    if spot is None:
        raise BadRow("not said whether it is spot")
    tier = optional_text(row, "tier")
    if tier == "spot" and not spot:
        raise BadRow("said to be spot and not to be")
    free = count(row, "available_gpu_count")
    score = amount(row, "reliability_score")
    place = part(row, "location")
    country = optional_text(place, "country_code")
    known = country is not None and len(country) == 2 and country.isascii() and country.isupper()
    for size in _sizes(row, whole):
        there = Availability.UNKNOWN
        if free is not None and free < size:
            there = Availability.NO
        elif free is not None and flag(row, "has_no_pending_rental") is not False:
            there = Availability.YES
        yield ListedOffer(
            source_id=f"{host}/{size}",
            gpu_name=gpu,
            gpu_count=Decimal(size),
            price=NativePrice(price, "USD", PriceUnit.GPU_HOUR),
            market=Market.SPOT if spot else Market.ON_DEMAND,
            tier=tier if tier in TIERS else "other",
            region=_region(place),
            country=country if known else None,
            # The host is counted once, whole; in its other sizes it is the same host.
            extras=Extras(
                availability=there,
                stock_count=_STOCK.get(there) if size == whole else None,
                reliability=score / 100 if score is not None and score <= 100 else None,
            ),
            source_url="https://lium.io/",
        )


def _sizes(row: Mapping[str, Any], whole: int) -> list[int]:
    least = count(row, "min_gpu_count_for_rental")
    if not least:
        return [whole]
    return sorted({n for n in SIZES if least <= n < whole} | {whole})


def _region(place: Mapping[str, Any]) -> str | None:
    named = (optional_text(place, name) for name in ("city", "region", "country_code"))
    return ", ".join(name for name in named if name) or None


provider = Provider(
    name="lium",
    every=timedelta(minutes=15),
    config=LiumConfig,
    facts=Facts(
        title="Lium",
        website="https://lium.io/",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="hosts that are offered as spot, and may be taken back at any time",
        tiers=TIERS,
        default_tiers=("secure",),
        key="none",
        key_variable=None,
        terms="no limit and no terms for programs are published",
        verified="parser checked against three hosts recorded in 2026-08; never called live from "
        "this project; that a host without a smallest size is rented whole is our caution",
        marketplace=True,
        min_every=timedelta(minutes=10),
    ),
    fetch=fetch,
    parse=parse,
)
