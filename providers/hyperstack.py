"""Hyperstack (NexGen Cloud): whole GPUs by the minute.

Source with a key: the Infrahub API at https://infrahub-api.nexgencloud.com/v1. A price of
``/pricebook`` (USD per GPU-hour) and a machine of ``/core/flavors`` together are an offer; CPU,
RAM and the local disk come with it. ``/core/stocks`` counts the machines of a size that are free.
Source without one: https://www.hyperstack.cloud/gpu-pricing, which lists prices per GPU-hour and
says nothing of machines or stock (providers/_hyperstack_page.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._countries import country_of
from providers._hyperstack_page import read_page
from providers._rows import BadRow, amount, in_stock, sample
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
    Terms,
    load_json,
)

_SPOT = re.compile(r"-spot$", re.IGNORECASE)
UNREAD_GROUP = "a group of machines that cannot be read"


class HyperstackConfig(ProviderConfig):
    """``[providers.hyperstack]``. With ``api_key`` the API is asked, without it the page."""

    base_url: str = "https://infrahub-api.nexgencloud.com/v1"
    page_url: str = "https://www.hyperstack.cloud"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: HyperstackConfig) -> Sequence[Payload]:
    """Price book, flavors and stock with a key, else the page of prices. Raises FetchError.

    Stock is an extra: the poll goes on without it.
    """
    if config.api_key is None:
        page = config.page_url.rstrip("/") + "/gpu-pricing"
        return [await http.get(page, expect="html", max_bytes=8 * 2**20)]
    base = config.base_url.rstrip("/")
    headers = {"api_key": config.api_key.get_secret_value()}
    payloads = [
        await http.get(f"{base}/pricebook", headers=headers),
        await http.get(f"{base}/core/flavors", headers=headers),
    ]
    with suppress(FetchError):
        payloads.append(await http.get(f"{base}/core/stocks", headers=headers))
    return payloads


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers of the page, or of the API's answers, which are told apart by their content.

    Without a price book or without flavors there is no offer: the result is then incomplete.
    Raises ParseError on any other shape.
    """
    offers: list[ListedOffer] = []
    rejected: list[Rejected] = []
    prices: list[Any] | None = None
    flavors: list[Any] | None = None
    stock: dict[tuple[str, str, str], int] = {}
    unread: list[Rejected] = []
    for payload in payloads:
        if payload.body.lstrip()[:1] == b"<":
            found, bad = read_page(payload.text())
            offers += found
            rejected += bad
            continue
        answer = load_json(payload)
        if isinstance(answer, list):
            _require_prices(answer)
            prices = (prices or []) + answer
        elif _list_in(answer, "data") is not None:
            flavors = (flavors or []) + list(_flavors(answer["data"], unread))
        elif _list_in(answer, "stocks") is not None:
            stock |= _free(answer["stocks"])
        else:
            raise ParseError("data", f"neither prices nor flavors nor stocks{_said(answer)}")
    if prices is None and flavors is None:
        return Parsed(tuple(offers), tuple(rejected))
    if prices is None or flavors is None:
        missing = "prices" if prices is None else "flavors"
        return Parsed(tuple(offers), tuple(rejected), False, f"an answer without {missing}")
    made, bad = _join(_price_by_name(prices, rejected), flavors, stock)
    gap = UNREAD_GROUP if unread else None
    return Parsed((*offers, *made), (*rejected, *bad, *unread), gap is None, gap)


def _list_in(answer: Any, name: str) -> list[Any] | None:
    found = answer.get(name) if isinstance(answer, dict) else None
    return found if isinstance(found, list) else None


def _said(answer: Any) -> str:
    """What an error answer says of itself."""
    words = answer.get("message") or answer.get("error_reason") if isinstance(answer, dict) else ""
    return f" (the service says: {' '.join(str(words).split())[:80]})" if words else ""


def _require_prices(prices: Sequence[Any]) -> None:
    if prices and not any(isinstance(row, dict) for row in prices):
        raise ParseError("pricebook[]", "an object was due")
    for field in ("name", "value"):
        if prices and all(field not in row for row in prices if isinstance(row, dict)):
            raise ParseError(f"pricebook[].{field}", f"missing in all {len(prices)} rows")


def _price_by_name(prices: Sequence[Any], rejected: list[Rejected]) -> dict[str, Decimal]:
    """USD per GPU-hour by the name in the price book, zeros and doubles told as rejected.

    Of two prices of one name the higher stands: the lower may be one that has ended.
    """
    found: dict[str, Decimal] = {}
    for row in prices:
        try:
            if not isinstance(row, dict):
                raise BadRow("row is not an object")
            name, value = _text(row, "name"), amount(row, "value")
            if name is None:
                raise BadRow("name is missing")
            if not value:
                raise BadRow("no price")
            if name in found:
                found[name] = max(value, found[name])
                raise BadRow("priced twice")
            found[name] = value
        except BadRow as bad:
            rejected.append(Rejected(str(bad), sample(row)))
    return found


def _flavors(groups: Sequence[Any], unread: list[Rejected]) -> Iterator[Any]:
    """The flavors of all groups, each with its group's GPU and region where it has none.

    *unread* learns of groups without any; raises ParseError where that is all of them.
    """
    if groups and all(_list_in(group, "flavors") is None for group in groups):
        raise ParseError("data[].flavors", "missing or not a list")
    for group in groups:
        rows = _list_in(group, "flavors")
        if rows is None:
            unread.append(Rejected(UNREAD_GROUP, sample(group)))
            continue
        for row in rows:
            if isinstance(row, dict):
                row = {"gpu": group.get("gpu"), "region_name": group.get("region_name")} | row
            yield row


def _free(stocks: Sequence[Any]) -> dict[tuple[str, str, str], int]:
    """How many machines are free by region, model and size ("8x"): alternatives of one another."""
    found: dict[tuple[str, str, str], int] = {}
    for place in stocks:
        region = _text(place, "region") if isinstance(place, dict) else None
        for model in _list_in(place, "models") or [] if region else []:
            name = _text(model, "model") if isinstance(model, dict) else None
            sizes = model.get("configurations") if isinstance(model, dict) else None
            if region and name and isinstance(sizes, dict):
                for size, number in sizes.items():
                    if type(number) is int and number >= 0:
                        found[region, name, size] = number
    return found


def _join(
    prices: Mapping[str, Decimal],
    flavors: Sequence[Any],
    stock: Mapping[tuple[str, str, str], int],
) -> tuple[list[ListedOffer], list[Rejected]]:
    offers: dict[tuple[str, str | None], ListedOffer] = {}
    rejected: list[Rejected] = []
    used: set[str] = set()
    for row in flavors:
        try:
            offer = _offer(row, prices, stock, used)
        except BadRow as bad:
            rejected.append(Rejected(str(bad), sample(row)))
            continue
        if (offer.source_id, offer.region) in offers:
            rejected.append(Rejected("flavor listed twice", sample(row)))
            continue
        offers[offer.source_id, offer.region] = offer
    for name, value in prices.items():
        if name not in used:
            shown = sample({"name": name, "value": str(value)})
            rejected.append(Rejected("priced, but no machine has it", shown))
    return list(offers.values()), rejected


def _offer(
    row: Any,
    prices: Mapping[str, Decimal],
    stock: Mapping[tuple[str, str, str], int],
    used: set[str],
) -> ListedOffer:
    """One flavor's offer; *used* learns whose price was taken. Raises BadRow."""
    if not isinstance(row, dict):
        raise BadRow("row is not an object")
    gpu, name = _text(row, "gpu"), _text(row, "name")
    if gpu is None:
        raise BadRow("no GPU")
    if name is None:
        raise BadRow("name is missing")
    count = amount(row, "gpu_count")
    if not count:
        raise BadRow("gpu_count is missing or zero")
    if gpu not in prices:
        raise BadRow("no price for its GPU")
    used.add(gpu)
    region = _text(row, "region_name")
    free = stock.get((region or "", gpu, f"{count.normalize():f}x"))
    there = in_stock(row.get("stock_available"))
    disk = sum(filter(None, (amount(row, "disk"), amount(row, "ephemeral"))), Decimal(0))
    return ListedOffer(
        source_id=name,
        gpu_name=gpu,
        gpu_count=count,
        price=NativePrice(prices[gpu], "USD", PriceUnit.GPU_HOUR),
        market=Market.SPOT if _SPOT.search(gpu) else Market.ON_DEMAND,
        tier="standard",
        interconnect="NVLink" if "nvlink" in gpu.lower() else None,
        region=region,
        country=country_of(re.sub(r"-\d+$", "", region)) if region else None,
        vcpus=amount(row, "cpu") or None,
        ram_gib=amount(row, "ram") or None,
        terms=Terms(billing_increment_seconds=60, disk_included_gb=disk or None),
        extras=Extras(
            availability=Availability.NO if free == 0 else there,  # whatever the flavor says
            stock_count=free,
            disk_gb=disk or None,
        ),
        source_url="https://www.hyperstack.cloud/gpu-pricing",
    )


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return " ".join(value.split()) or None if isinstance(value, str) else None


provider = Provider(
    name="hyperstack",
    every=timedelta(hours=1),
    config=HyperstackConfig,
    facts=Facts(
        title="Hyperstack",
        website="https://www.hyperstack.cloud",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=60,
        minimum_seconds=None,
        spot="flavors and prices whose names end in -spot (with a key), the page's card of spot "
        "prices (without)",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="HYPERSTACK_API_KEY",
        key_adds="the API instead of the page: machines by region, and what is in stock",
        terms="no published limit; three requests a poll with a key, one page without",
        verified="page parser checked against a page recorded in 2026-08; the API's answers follow "
        "its published description, and neither has been seen live, because no live call was "
        "possible when this was written",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
    poll_deadline=timedelta(seconds=60),
)
