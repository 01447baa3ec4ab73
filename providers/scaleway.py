"""Scaleway: GPU instances in its own zones, priced in EUR per instance and hour.

Source: the public product list of the Instance API,
https://www.scaleway.com/en/developers/api/instances/ (``/products/servers`` and its
``/availability``), one list a zone, keyless. The currency is not in the answer: Scaleway's list
prices are in EUR, without VAT. ``gpu_memory`` is the nominal memory of one GPU times 2^30.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

from providers._lists import Item, count, flag, gpus, optional_text, part, said, text, unique
from providers._rows import BadRow, amount, sample
from tracker.provider import (
    HOURS_PER_MONTH,
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
    load_json,
)

PER_PAGE = 100
MAX_PAGES = 10  # a thousand types; there are about a hundred
COUNTRY = {"fr": "FR", "nl": "NL", "pl": "PL", "it": "IT"}
STOCK = {
    "available": Availability.YES,
    "scarce": Availability.YES,
    "shortage": Availability.NO,
}
_ZONE = re.compile(r"/zones/([a-z]{2}-[a-z]{3}-\d+)/")
_GIB = Decimal(2**30)


class ScalewayConfig(ProviderConfig):
    """``[providers.scaleway]``: the zones to ask; others have had no GPU instances."""

    base_url: str = "https://api.scaleway.com"
    zones: tuple[str, ...] = ("fr-par-1", "fr-par-2", "pl-waw-2")


async def fetch(http: HttpClient, config: ScalewayConfig) -> list[Payload]:
    """All pages of every zone's prices and stock.

    What cannot be read is kept as an empty answer with its status (0 for none), so that ``parse``
    knows of the gap. Raises FetchError when no zone's prices could be read.
    """
    payloads: list[Payload] = []
    failed: list[tuple[str, FetchError]] = []
    prices = 0
    for zone in config.zones:
        base = f"{config.base_url.rstrip('/')}/instance/v1/zones/{zone}/products/servers"
        for url in (base, f"{base}/availability"):
            try:
                pages = await _pages(http, url)
            except FetchError as error:
                # Without its frames, which hold this list.
                failed.append((url, error.with_traceback(None)))
            else:
                payloads += pages
                prices += url == base
    if not prices:
        raise failed[0][1] if failed else FetchError("no zone to ask: see providers.scaleway.zones")
    gaps = [
        Payload(url=url, body=b"", fetched_at=payloads[0].fetched_at, status=error.status or 0)
        for url, error in failed
    ]
    return [*payloads, *gaps]


async def _pages(http: HttpClient, url: str) -> list[Payload]:
    """Pages until a short one; once more when a name came twice, as rows moved meanwhile."""
    pages: list[Payload] = []
    for _ in range(2):
        pages = [await _page(http, url, 1)]
        while len(_names(pages[-1])) >= PER_PAGE and len(pages) < MAX_PAGES:
            pages.append(await _page(http, url, len(pages) + 1))
        names = [name for page in pages for name in _names(page)]
        if len(names) == len(set(names)):
            break
    return pages


async def _page(http: HttpClient, url: str, page: int) -> Payload:
    return await http.get(url, params={"per_page": str(PER_PAGE), "page": str(page)})


def _names(page: Payload) -> list[str]:
    try:
        return list(_servers(page))
    except ParseError:
        return []  # parse() says what is wrong with it


def _servers(payload: Payload) -> dict[str, Any]:
    answer = load_json(payload)
    servers = answer.get("servers") if isinstance(answer, dict) else None
    if not isinstance(servers, dict):
        raise ParseError("servers", f"missing or not an object{said(answer)}")
    return servers


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer an instance type and zone. Which of the two lists an answer is, its rows say.

    Raises ParseError when an answer is neither, and when no price list is among them.
    """
    prices: dict[str | None, dict[str, Any]] = {}
    stock: dict[tuple[str | None, str], Any] = {}
    gaps: list[str] = []
    twice: list[Rejected] = []
    for payload in payloads:
        found = _ZONE.search(payload.url)
        zone = found[1] if found else None
        if payload.status != 200:
            what = "stock" if payload.url.endswith("/availability") else "prices"
            gaps.append(f"{what} of {zone or 'a zone'} could not be read")
            continue
        servers = _servers(payload)
        if _is_stock(servers):
            stock |= {(zone, name): part(servers, name) for name in servers}
            continue
        _check(servers)
        kept = prices.setdefault(zone, {})
        twice += [Rejected("on two pages", name) for name in servers if name in kept]
        kept |= servers
        if len(servers) >= PER_PAGE and not _followed(payload, payloads):
            gaps.append(f"a further page of {zone or 'a zone'} was not read")
    if not prices:
        raise ParseError("servers{}.hourly_price", "no price list is among the answers")
    items = (i for zone, servers in prices.items() for i in _zone_items(zone, servers, stock))
    offers, rejected = unique(items)
    if twice:
        gaps.append("a type was on two pages: the list moved while it was read")
    return Parsed(offers, (*twice, *rejected), not gaps, "; ".join(dict.fromkeys(gaps)) or None)


def _followed(page: Payload, payloads: Sequence[Payload]) -> bool:
    where, number = _place(page)
    return any(_place(other) == (where, number + 1) for other in payloads)


def _place(page: Payload) -> tuple[str, int]:
    parts = urlsplit(page.url)
    number = parse_qs(parts.query).get("page", ["1"])[0]
    return parts.path, int(number) if number.isdecimal() else 1


def _is_stock(servers: Mapping[str, Any]) -> bool:
    rows = [row for row in servers.values() if isinstance(row, dict)]
    return bool(rows) and all("availability" in row and "hourly_price" not in row for row in rows)


def _check(servers: Mapping[str, Any]) -> None:
    rows = [row for row in servers.values() if isinstance(row, dict)]
    if servers and not rows:
        raise ParseError("servers{}", "an object was due")
    for name in ("gpu", "hourly_price"):
        if rows and all(name not in row for row in rows):
            raise ParseError(f"servers{{}}.{name}", f"missing in all {len(rows)} rows")


def _zone_items(
    zone: str | None, servers: Mapping[str, Any], stock: Mapping[tuple[str | None, str], Any]
) -> Iterator[Item]:
    for name, row in servers.items():
        if not isinstance(row, dict):
            yield Rejected("row is not an object", sample({name: row}))
            continue
        if row.get("gpu") in (None, 0) and not row.get("gpu_info"):
            continue  # an instance without a GPU: nothing that is tracked here
        try:
            yield _offer(name, row, zone, stock.get((zone, name)) or {})
        except BadRow as bad:
            yield Rejected(str(bad), sample({name: row}))


def _offer(
    name: str, row: Mapping[str, Any], zone: str | None, stock: Mapping[str, Any]
) -> ListedOffer:
    price = amount(row, "hourly_price")
    if not price:
        raise BadRow("no price")
    if flag(row, "end_of_service"):
        raise BadRow("end of service")
    monthly = amount(row, "monthly_price")
    if monthly and not monthly / 2 <= price * HOURS_PER_MONTH <= monthly * 2:
        raise BadRow("the prices of an hour and of a month contradict each other")
    info, memory = part(row, "gpu_info"), amount(row, "ram")
    vram = amount(info, "gpu_memory")
    word = optional_text(stock, "availability")
    return ListedOffer(
        source_id=name,
        gpu_name=text(info, "gpu_name") if info.get("gpu_name") else name,
        gpu_count=Decimal(gpus(row, "gpu")),
        price=NativePrice(price, "EUR", PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier="standard",
        vram_gb=vram / _GIB if vram else None,
        slice=row.get("mig_profile") is not None,
        region=zone,
        country=COUNTRY.get(zone[:2]) if zone else None,
        vcpus=Decimal(cores) if (cores := count(row, "ncpus")) else None,
        ram_gib=(memory / _GIB).quantize(Decimal("0.01")) if memory else None,
        datacenter=True,
        extras=Extras(availability=STOCK.get(word or "", Availability.UNKNOWN), stock_label=word),
        source_url="https://www.scaleway.com/en/pricing/gpu/",
        notes=("EUR without VAT; the answer does not state the currency",),
    )


provider = Provider(
    name="scaleway",
    every=timedelta(hours=1),
    config=ScalewayConfig,
    facts=Facts(
        title="Scaleway",
        website="https://www.scaleway.com/en/pricing/gpu/",
        price_per="machine",
        currency="EUR",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="none",
        key_variable=None,
        terms="documented public API that answers without a key; no limit is published for it",
        verified="parser checked against answers recorded in 2026-08; never called live from this "
        "project; that prices are in EUR is from Scaleway's price page, not from the answer",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=0.5,
)
