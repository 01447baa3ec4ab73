"""DigitalOcean: GPU Droplets in USD per Droplet and hour.

Two sources. With a key the API's list of sizes (https://docs.digitalocean.com/reference/api/,
``/v2/sizes``), which knows regions and memory. Without one the documentation's price page,
https://docs.digitalocean.com/products/droplets/details/pricing/, which knows neither: what a model
is called there and how much memory it has is in MODELS, after the names of the API's sizes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._lists import Item, bearer, count, flag, gpus, listed, part, require, text, unique
from providers._rows import BadRow, amount, sample, without_cut_end
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
    SecretStr,
    Terms,
    load_json,
    parse_decimal,
)

MAX_PAGES = 20
DOCS_PATH = "/products/droplets/details/pricing/"
HEADINGS = {
    "on-demand-gpu-droplet-pricing": Market.ON_DEMAND,
    "spot-gpu-droplet-pricing": Market.SPOT,
}
# Model on the price page: its name, and the memory of one GPU in GB, after the API's sizes
# gpu-h100x1-80gb, gpu-4000adax1-20gb and gpu-6000adax1-48gb. Others are what they are called.
MODELS = {
    "NVIDIA H100": ("NVIDIA H100", 80),
    "NVIDIA RTX 4000": ("NVIDIA RTX 4000 Ada", 20),
    "NVIDIA RTX 6000": ("NVIDIA RTX 6000 Ada", 48),
}
COUNTRY = {
    "ams": "NL", "atl": "US", "blr": "IN", "fra": "DE", "lon": "GB", "nyc": "US", "ric": "US",
    "sfo": "US", "sgp": "SG", "syd": "AU", "tor": "CA",
}  # fmt: skip
_MAX_CELL = 200  # characters: the pattern below takes their square
_ROW = re.compile(r"(?P<model>.+?)(?:,[^()]*)?(?:\s*\((?P<count>\d+)x\))?")
_PRICE = re.compile(r"\$(\d{1,3}(?:,\d{3})*(?:\.\d+)?|\d+(?:\.\d+)?) per hour", re.IGNORECASE)


class DigitalOceanConfig(ProviderConfig):
    """``[providers.digitalocean]``: the API is asked where there is a key, else the page."""

    base_url: str = "https://api.digitalocean.com"
    docs_url: str = "https://docs.digitalocean.com"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: DigitalOceanConfig) -> list[Payload]:
    """All pages of the API's sizes or, without a key, the price page. Raises FetchError; a
    further page that fails leaves a gap that ``parse`` notices."""
    if config.api_key is None:
        url = config.docs_url.rstrip("/") + DOCS_PATH
        return [await http.get(url, expect="html", max_bytes=8 * 2**20)]
    headers = bearer(config.api_key)
    url = f"{config.base_url.rstrip('/')}/v2/sizes"
    pages = [await http.get(url, params={"per_page": "200"}, headers=headers)]
    while len(pages) < MAX_PAGES:
        query = _next_query(pages[-1])
        if query is None or any(urlsplit(page.url).query == query for page in pages):
            break
        try:
            pages.append(await http.get(f"{url}?{query}", headers=headers))
        except FetchError:
            break
    return pages


def _next_query(page: Payload) -> str | None:
    """The query of the next page's link. Its host is not looked at: the key goes to our own."""
    try:
        answer = load_json(page)
    except ParseError:
        return None
    link = part(answer, "links", "pages").get("next") if isinstance(answer, dict) else None
    try:
        return urlsplit(link).query or None if isinstance(link, str) else None
    except ValueError:
        return None


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers of the API's sizes, or of the price page. Raises ParseError on anything else."""
    if any(payload.body.lstrip()[:1] == b"<" for payload in payloads):
        return _parse_page(payloads)
    rows: list[Any] = []
    read = {urlsplit(payload.url).query for payload in payloads}
    complete = True
    for payload in payloads:
        rows += listed(load_json(payload), "sizes")
        following = _next_query(payload)
        complete &= following is None or following in read
    require(rows, "sizes[]", ("slug", "price_hourly"))
    offers, rejected = unique(item for row in rows for item in _size(row))
    reason = None if complete else "a further page (links.pages.next) was not read"
    return Parsed(offers, rejected, complete, reason)


def _size(row: Any) -> Iterator[Item]:
    if not isinstance(row, dict):
        yield Rejected("row is not an object", sample(row))
        return
    info = part(row, "gpu_info")
    if not info:
        if str(row.get("slug", "")).startswith("gpu-"):
            yield Rejected("gpu_info is missing", sample(row))
        return
    try:
        yield from _droplet(row, info)
    except BadRow as bad:
        yield Rejected(str(bad), sample(row))


def _droplet(row: Mapping[str, Any], info: Mapping[str, Any]) -> Iterator[ListedOffer]:
    """One offer a region; where no region is listed, one without and of unknown stock."""
    slug, price = text(row, "slug"), amount(row, "price_hourly")
    if not price:
        raise BadRow("no price")
    monthly = amount(row, "price_monthly")
    if monthly and not monthly / 2 <= price * HOURS_PER_MONTH <= monthly * 2:
        raise BadRow("the prices of an hour and of a month contradict each other")
    vram = part(info, "vram")
    if vram.get("unit") not in (None, "gib", "gb"):
        raise BadRow("unit of the GPU's memory is not GiB")
    listed_in = row.get("regions")
    regions: list[str | None] = []
    if isinstance(listed_in, list):
        regions = [region for region in listed_in if isinstance(region, str) and region]
    sold = flag(row, "available")
    stock = Availability.NO if sold is False else Availability.UNKNOWN
    if regions and sold:
        stock = Availability.YES
    contract = slug.endswith("-contracted")
    cores, ram = count(row, "vcpus"), amount(row, "memory")
    market = Market.SPOT if slug.endswith("-spot") else Market.ON_DEMAND
    for region in regions or [None]:
        yield ListedOffer(
            source_id=slug,
            gpu_name=text(info, "model").replace("_", " "),
            gpu_count=Decimal(gpus(info, "count")),
            price=NativePrice(price, "USD", PriceUnit.MACHINE_HOUR),
            market=Market.RESERVED if contract else market,
            tier="standard",
            vram_gb=amount(vram, "amount") or None,
            vram_is_total=True,
            region=region,
            country=COUNTRY.get(region[:3]) if region else None,
            vcpus=Decimal(cores) if cores else None,
            ram_gib=(ram / 1024).quantize(Decimal("0.01")) if ram else None,
            datacenter=True,
            terms=Terms(commitment_unknown=contract, disk_included_gb=amount(row, "disk") or None),
            extras=Extras(availability=stock),
            source_url="https://docs.digitalocean.com/products/droplets/details/pricing/",
        )


def _parse_page(payloads: Sequence[Payload]) -> Parsed:
    items: list[Item] = []
    priced = False
    for payload in payloads:
        tree = LexborHTMLParser(without_cut_end(payload.text()))
        for heading, market in HEADINGS.items():
            for row in _table_rows(tree, heading):
                item = _page_row(row, market)
                priced |= isinstance(item, ListedOffer)
                items.append(item)
    if not priced:
        raise ParseError(
            "h2#on-demand-gpu-droplet-pricing", "no table with prices follows: a new layout"
        )
    offers, rejected = unique(items)
    return Parsed(offers, rejected)


def _table_rows(tree: LexborHTMLParser, heading: str) -> Iterator[list[str]]:
    """The cells of each row of the first table between the heading and the next one."""
    node: LexborNode | None = tree.css_first(f"#{heading}")
    while node is not None:
        node = node.next
        if node is None or node.tag in ("h1", "h2"):
            return
        table = node if node.tag == "table" else None
        if table is None and node.tag in ("div", "section"):
            table = node.css_first("table")
        if table is not None:
            for row in table.css("tr"):
                cells = [" ".join(cell.text(separator=" ").split()) for cell in row.css("td")]
                if cells:
                    yield cells
            return


def _page_row(cells: list[str], market: Market) -> Item:
    shown = " | ".join(cells)[:200]
    name = _ROW.fullmatch(cells[0]) if len(cells[0]) <= _MAX_CELL else None
    price = _PRICE.fullmatch(cells[1]) if len(cells) == 2 else None
    if name is None or price is None:
        return Rejected("a row without a model and a price per hour", shown)
    usd = parse_decimal(price[1].replace(",", ""))
    model, number = name["model"].strip(), int(name["count"] or 1)
    if usd <= 0 or number < 1:
        return Rejected("a row without a model and a price per hour", shown)
    gpu, vram = MODELS.get(model, (model, None))
    return ListedOffer(
        source_id=f"{cells[0]} {market}",
        gpu_name=gpu,
        gpu_count=Decimal(number),
        price=NativePrice(usd, "USD", PriceUnit.MACHINE_HOUR),
        market=market,
        tier="standard",
        vram_gb=None if vram is None else Decimal(vram),
        datacenter=True,
        source_url="https://docs.digitalocean.com/products/droplets/details/pricing/",
        notes=("from the price page, which says neither regions nor stock",),
    )


provider = Provider(
    name="digitalocean",
    every=timedelta(hours=6),
    config=DigitalOceanConfig,
    facts=Facts(
        title="DigitalOcean GPU Droplets",
        website="https://www.digitalocean.com/pricing/gpu-droplets",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="spot Droplets (public preview), which DigitalOcean may take back",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="DIGITALOCEAN_TOKEN",
        key_adds="the API instead of the documentation's page",
        terms="documented API, 5,000 requests an hour with a key; without one the documentation's "
        "price page is read. A Droplet that is off is still billed",
        verified="page parser checked against a page recorded in 2026-08, API parser against test "
        "data of another client; never called live from this project",
        min_every=timedelta(hours=1),
    ),
    fetch=fetch,
    parse=parse,
)
