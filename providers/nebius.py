"""Nebius: GPUs in its own data centres, by a page of prices per GPU-hour.

Source: https://nebius.com/prices, whose tables lie in the page as escaped JSON. The head row of the
table "NVIDIA GPU Instances" says what each column holds; a price announced for a later day has a
column of its own with that day in its head. Prices are the same in every region, and the page says
nothing of stock. The API is gRPC with a service account, and is not used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from providers._flight import objects, unescaped
from providers._rows import BadRow, us_number
from tracker.provider import (
    Facts,
    HttpClient,
    ListedOffer,
    Market,
    NativePrice,
    Parsed,
    ParseError,
    Payload,
    PriceKind,
    PriceUnit,
    Provider,
    ProviderConfig,
    Rejected,
    Terms,
)

PATH = "/prices"
_BLOCK = '{"type":"highlight-table-block"'
_TITLE = re.compile(r"GPU instances", re.IGNORECASE)
_MARKETS = (("preemptible", Market.SPOT), ("on-demand", Market.ON_DEMAND))
_PER_GPU = re.compile(r"GPU[- ]hour", re.IGNORECASE)
_FROM = re.compile(r"effective (?:from )?([A-Z][a-z]+ \d{1,2}, \d{4})", re.IGNORECASE)
_AMOUNT = re.compile(r"(from )?\$(\d[\d.,]*)", re.IGNORECASE)
_RANGE = re.compile(r"(\d+)(?:\s*[-\u2013]\s*\d+)?")
_CPU = re.compile(r"\s+with (Intel|AMD) CPU$", re.IGNORECASE)

# Machines of the SXM kinds have one or eight GPUs, with vCPUs and RAM in proportion (presets
# "1gpu-16vcpu-200gb" and "8gpu-128vcpu-1600gb" of platform gpu-h100-sxm).
_HGX = re.compile(r"\bHGX\b")
HGX_SIZES = (1, 8)


class NebiusConfig(ProviderConfig):
    """``[providers.nebius]``."""

    base_url: str = "https://nebius.com"


async def fetch(http: HttpClient, config: NebiusConfig) -> Sequence[Payload]:
    """The page of prices. Raises FetchError."""
    url = config.base_url.rstrip("/") + PATH
    return [await http.get(url, expect="html", max_bytes=16 * 2**20)]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """On-demand and preemptible offers of the table of GPU instances.

    Raises ParseError where the table is not there, or has no price per GPU-hour.
    """
    offers: dict[tuple[str, Market, Decimal], ListedOffer] = {}
    rejected: list[Rejected] = []
    for payload in payloads:
        rows = _table(payload.text())
        columns = _columns(rows[0], payload.fetched_at.astimezone(UTC).date())
        for row in rows[1:]:
            for market, column in columns.prices.items():
                try:
                    found = list(_offers(row, columns, market, column))
                except BadRow as bad:
                    rejected.append(Rejected(str(bad), str(row)[:200]))
                    continue
                for offer in found:
                    key = (offer.source_id, market, offer.gpu_count)
                    if key in offers:
                        rejected.append(Rejected("item listed twice", str(row)[:200]))
                        offer = max(offer, offers[key], key=lambda o: o.price.amount)
                    offers[key] = offer
    return Parsed(tuple(offers.values()), tuple(rejected))


def _table(page: str) -> list[Any]:
    """The rows of the GPU instances, the head row first."""
    for block in objects(unescaped(page), _BLOCK):
        title, table = block.get("title"), block.get("table")
        if not isinstance(title, str) or not _TITLE.search(title):
            continue
        rows = table.get("content") if isinstance(table, dict) else None
        if isinstance(rows, list) and rows and isinstance(rows[0], list):
            return rows
        raise ParseError("table.content", "missing or not a list of rows")
    raise ParseError("highlight-table-block", "no table of GPU instances in the page")


@dataclass(frozen=True, slots=True)
class _Columns:
    """Where a row's cells are."""

    name: int
    vcpus: int | None
    ram: int | None
    prices: Mapping[Market, int]


def _columns(head: Sequence[Any], today: date) -> _Columns:
    """What the head row says, with the prices that are in force on *today*. Raises ParseError."""
    texts = [cell if isinstance(cell, str) else "" for cell in head]
    name = _first(texts, "item")
    if name is None:
        raise ParseError("table.content[0]", "no column Item")
    prices: dict[Market, tuple[date, int]] = {}
    market: Market | None = None
    for index, text in enumerate(texts):
        # A column that names nothing but a day belongs to the prices on its left.
        if not text.lower().startswith("effective"):
            named = next((m for word, m in _MARKETS if word in text.lower()), None)
            market = named if _PER_GPU.search(text) else None
        since = _since(text)
        if market is None or since is None or since > today:
            continue
        if market not in prices or prices[market][0] < since:
            prices[market] = (since, index)
    if Market.ON_DEMAND not in prices:
        raise ParseError("table.content[0]", "no column of on-demand prices per GPU-hour")
    found = {market: index for market, (_, index) in prices.items()}
    return _Columns(name, _first(texts, "vcpu"), _first(texts, "ram"), found)


def _since(text: str) -> date | None:
    """The day from which a column's prices hold; the earliest of all where none is said, and
    None where one is said that cannot be read."""
    if "effective" not in text.lower():
        return date.min
    found = _FROM.search(text)
    try:
        return datetime.strptime(found[1], "%B %d, %Y").date() if found else None  # noqa: DTZ007
    except ValueError:
        return None


def _first(texts: Sequence[str], word: str) -> int | None:
    return next((i for i, text in enumerate(texts) if text.lower().startswith(word)), None)


def _offers(row: Any, columns: _Columns, market: Market, column: int) -> Iterator[ListedOffer]:
    """The sizes of one item on one market. Raises BadRow."""
    item = _cell(row, columns.name)
    if not item:
        raise BadRow("row without an item")
    price = _cell(row, column)
    if "contact" in price.lower():
        raise BadRow("price on request")
    found = _AMOUNT.fullmatch(price)
    usd = us_number(found[2]) if found else Decimal(0)
    if not usd:
        raise BadRow("no price")
    smallest = bool(found and found[1])
    vcpus, ram = (_number(_cell(row, place)) for place in (columns.vcpus, columns.ram))
    cpu = _CPU.search(item)
    for count in HGX_SIZES if _HGX.search(item) else (1,):
        yield ListedOffer(
            source_id=item,
            gpu_name=_CPU.sub("", item),
            gpu_count=Decimal(count),
            price=NativePrice(usd, "USD", PriceUnit.GPU_HOUR),
            market=market,
            tier="standard",
            price_kind=PriceKind.DYNAMIC if market is Market.SPOT else PriceKind.FIXED,
            vcpus=None if vcpus is None else vcpus * count,
            ram_gib=None if ram is None else ram * count,
            datacenter=True,
            terms=Terms(egress_usd_per_gb=Decimal(0)),
            source_url="https://nebius.com/prices",
            notes=(
                *(
                    ("the price of its smallest machine; larger ones cost more",)
                    if smallest
                    else ()
                ),
                *((f"with {cpu[1]} CPU",) if cpu else ()),
            ),
        )


def _cell(row: Any, place: int | None) -> str:
    if not isinstance(row, list):
        raise BadRow("row is not a list")
    cell = row[place] if place is not None and place < len(row) else ""
    return " ".join(cell.split()) if isinstance(cell, str) else ""


def _number(text: str) -> Decimal | None:
    """A figure, or the lower end of a range: what the smallest machine has."""
    found = _RANGE.fullmatch(text)
    return Decimal(found[1]) if found and len(found[1]) < 9 else None


provider = Provider(
    name="nebius",
    every=timedelta(hours=6),
    config=NebiusConfig,
    facts=Facts(
        title="Nebius",
        website="https://nebius.com",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="preemptible machines, by their own column of the table",
        tiers=("standard",),
        default_tiers=("standard",),
        key="none",
        key_variable=None,
        terms="a public page, read four times a day",
        verified="parser checked against the table of a page recorded in 2026-08; the page around "
        "it and columns with a day have not been seen live, because no live call was possible when "
        "this was written",
        min_every=timedelta(hours=1),
    ),
    fetch=fetch,
    parse=parse,
    poll_deadline=timedelta(seconds=60),
)
