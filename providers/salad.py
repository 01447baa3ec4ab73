"""SaladCloud: containers on consumers' own computers, per GPU and hour, by priority.

Source: ``/organizations/{org}/gpu-classes`` of its public API (https://docs.salad.com), which
needs a key. Nodes come and go with their owners, so that every price is interruptible. The price
is of the GPU alone: vCPUs and memory are charged on top, at prices that this list does not hold.
So no tier is ranked unless it is asked for (``--tier``), and every offer says so.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import quote

from providers._lists import Item, flag, listed, read, require, text
from providers._rows import BadRow, amount, sample
from tracker.provider import (
    Extras,
    Facts,
    FetchError,
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
    SecretStr,
    load_json,
)

PRIORITIES = ("high", "medium", "low", "batch")
# A tier that no offer has: the ranked ones would be those whose price is the whole one.
COMPLETE = "complete"
_NAME = re.compile(r"(?P<gpu>.+?)\s*\((?P<gb>\d+)\s*GB\)", re.IGNORECASE)


class SaladConfig(ProviderConfig):
    """``[providers.salad]``: the key, and the name of the organisation that it belongs to."""

    base_url: str = "https://api.salad.com"
    organization: str | None = None
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: SaladConfig) -> list[Payload]:
    """The one list there is. Raises FetchError."""
    if config.api_key is None:
        raise FetchError("no key: set SALAD_API_KEY")
    if not config.organization:
        raise FetchError("no organization: set it in [providers.salad]")
    name = quote(config.organization, safe="")
    url = f"{config.base_url.rstrip('/')}/api/public/organizations/{name}/gpu-classes"
    return [await http.get(url, headers={"Salad-Api-Key": config.api_key.get_secret_value()})]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer a class and priority. Raises ParseError on another shape."""
    rows = [row for payload in payloads for row in listed(load_json(payload), "items")]
    require(rows, "items[]", ("id", "name", "prices"))
    return Parsed(*read(rows, _items))


def _items(row: Mapping[str, Any]) -> Iterator[Item]:
    class_id, name = text(row, "id"), text(row, "name")
    sized = _NAME.fullmatch(name)
    prices = row.get("prices")
    if not isinstance(prices, list) or not prices:
        raise BadRow("no price")
    busy = flag(row, "is_high_demand")
    for entry in prices:
        try:
            priority, price = _price(entry)
        except BadRow as bad:
            yield Rejected(str(bad), sample({"name": name, "price": entry}))
            continue
        yield ListedOffer(
            source_id=class_id,
            gpu_name=sized["gpu"] if sized else name,
            gpu_count=Decimal(1),
            price=NativePrice(price, "USD", PriceUnit.MACHINE_HOUR),
            market=Market.SPOT,
            tier=priority,
            vram_gb=Decimal(sized["gb"]) if sized else None,
            datacenter=False,
            extras=Extras(stock_label="high demand" if busy else None),
            source_url="https://salad.com/pricing",
            notes=("the GPU alone: vCPUs and memory cost extra, how much is not in this list",),
        )


def _price(entry: Any) -> tuple[str, Decimal]:
    if not isinstance(entry, dict):
        raise BadRow("price is not an object")
    priority, price = entry.get("priority"), amount(entry, "price")
    if priority not in PRIORITIES:
        raise BadRow("priority is none of those known")
    if not price:
        raise BadRow("no price")
    return priority, price


provider = Provider(
    name="salad",
    every=timedelta(hours=1),
    config=SaladConfig,
    facts=Facts(
        title="SaladCloud",
        website="https://salad.com/pricing",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="every node is a consumer's computer and may leave at any moment; a higher priority "
        "is given nodes first",
        tiers=(*PRIORITIES, COMPLETE),
        default_tiers=(COMPLETE,),
        key="required",
        key_variable="SALAD_API_KEY",
        terms="documented API for its customers; the organisation's name belongs in "
        "[providers.salad]. No tier that exists is ranked unless asked for: the price lacks vCPUs "
        "and memory",
        verified="nothing recorded was at hand: written against the shape of its published client; "
        "never called live from this project",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
)
