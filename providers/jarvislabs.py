"""JarvisLabs: GPU containers and VMs in India and Europe, per GPU and hour.

Source: ``/misc/server_meta`` of its API, as its public clients call it. Prices are of one GPU, in
INR or USD as the account is billed: the answer's ``currency`` says which. Where it is missing the
prices are taken for USD, unless one is higher than any GPU costs in USD: then they are rupees,
and nothing is read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from functools import partial
from typing import Any

from providers._lists import (
    SIZES,
    Item,
    bearer,
    count,
    gpus,
    listed,
    optional_text,
    read,
    require,
    text,
    times,
)
from providers._rows import BadRow, amount, sample
from tracker.provider import (
    Availability,
    Extras,
    Facts,
    FetchError,
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
    load_json,
)

CURRENCIES = ("USD", "INR")
# No GPU-hour costs as much in USD; the cheapest card of the list costs about 37 in INR.
MOST_USD_PER_GPU_HOUR = Decimal(25)
COUNTRY = {"india-noida-01": "IN", "india-chennai-01": "IN"}
CLOSED = ("india-01",)


class JarvisLabsConfig(ProviderConfig):
    """``[providers.jarvislabs]``. ``client_id``: the X-Client-Id to send, by which some clients
    get prices in USD; none unless set."""

    base_url: str = "https://backendn.jarvislabs.net"
    client_id: str | None = None
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: JarvisLabsConfig) -> list[Payload]:
    """The one list there is. Raises FetchError."""
    if config.api_key is None:
        raise FetchError("no key: set JL_API_KEY")
    headers = bearer(config.api_key)
    if config.client_id:
        headers["X-Client-Id"] = config.client_id
    url = f"{config.base_url.rstrip('/')}/misc/server_meta"
    return [await http.get(url, headers=headers)]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers of 1, 2, 4 and 8 GPUs up to the largest size, by region and kind of workload.

    Raises ParseError on another shape, and when the currency is neither said nor plain.
    """
    offers: list[ListedOffer] = []
    rejected: list[Rejected] = []
    for payload in payloads:
        answer = load_json(payload)
        rows = listed(answer, "server_meta")
        require(rows, "server_meta[]", ("gpu_type", "price_per_hour"))
        currency, said = _currency(answer, rows)
        found, refused = read(rows, partial(_items, currency=currency, said=said))
        offers += found
        rejected += refused
    return Parsed(tuple(offers), tuple(rejected))


def _currency(answer: Mapping[str, Any], rows: Sequence[Any]) -> tuple[str, bool]:
    """The currency, and whether the answer says it."""
    value = answer.get("currency")
    if value is not None:
        currency = value.strip().upper() if isinstance(value, str) else ""
        if currency not in CURRENCIES:
            raise ParseError("currency", f"neither USD nor INR: {str(value)[:20]!r}")
        if currency != "USD":
            return currency, True
    for row in rows:
        try:
            price = amount(row, "price_per_hour") if isinstance(row, dict) else None
        except BadRow:
            continue
        if price is not None and price > MOST_USD_PER_GPU_HOUR:
            said = "said to be USD" if value is not None else "not said"
            raise ParseError("currency", f"{said}, and {price} an hour for a GPU is not in USD")
    return "USD", value is not None


def _items(row: Mapping[str, Any], currency: str, said: bool) -> Iterator[Item]:
    gpu, region = text(row, "gpu_type"), optional_text(row, "region")
    if region in CLOSED:
        raise BadRow("region is closed")
    price, spot = amount(row, "price_per_hour"), amount(row, "spot_price")
    if not price:
        raise BadRow("no price")
    workload = optional_text(row, "workload_type")
    if spot and workload != "container":
        yield Rejected("spot is sold for containers only", sample(row))
        spot = None
    if spot and spot >= price:
        yield Rejected("spot price not below on-demand", sample(row))
        spot = None
    largest = 1 if row.get("num_gpus") is None else gpus(row, "num_gpus")
    free = _free(row)
    notes = () if said else ("the answer does not state the currency",)
    for size in (n for n in SIZES if n <= largest):
        for market, cost, left in (
            (Market.ON_DEMAND, price, free),
            (Market.SPOT, spot, count(row, "spot_num_free_devices")),
        ):
            if cost:
                yield ListedOffer(
                    source_id=f"{gpu}/{workload or 'any'}",
                    gpu_name=gpu,
                    gpu_count=Decimal(size),
                    price=NativePrice(cost, currency, PriceUnit.GPU_HOUR),
                    market=market,
                    tier=workload if workload in ("container", "vm") else "standard",
                    vram_gb=amount(row, "vram") or None,
                    region=region,
                    country=COUNTRY.get(region or ""),
                    vcpus=times(amount(row, "cpus_per_gpu"), size),
                    ram_gib=times(amount(row, "ram_per_gpu"), size),
                    datacenter=True,
                    extras=_stock(left, size),
                    source_url="https://jarvislabs.ai/pricing",
                    notes=notes,
                )


def _free(row: Mapping[str, Any]) -> int | None:
    """How many GPUs are free: the lower of the two counts, where both are said."""
    found = [count(row, name) for name in ("num_free_devices", "effective_num_free_devices")]
    return min((n for n in found if n is not None), default=None)


def _stock(free: int | None, size: int) -> Extras:
    """The GPUs that are free are counted once, at the smallest size."""
    if free is None:
        return Extras()
    there = Availability.YES if free >= size else Availability.NO
    return Extras(availability=there, stock_count=free if size == 1 else None)


provider = Provider(
    name="jarvislabs",
    every=timedelta(minutes=30),
    config=JarvisLabsConfig,
    facts=Facts(
        title="JarvisLabs",
        website="https://jarvislabs.ai/pricing",
        price_per="gpu",
        currency="INR or USD, as the account is billed",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="interruptible containers, by the provider's own price; VMs have none",
        tiers=("container", "vm", "standard"),
        default_tiers=("container", "vm", "standard"),
        key="required",
        key_variable="JL_API_KEY",
        terms="the endpoint of its own clients; no limit and no terms for programs are published",
        verified="parser checked against test data of another client; never called live from this "
        "project; whether it answers without a key is not known",
        min_every=timedelta(minutes=10),
    ),
    fetch=fetch,
    parse=parse,
)
