"""Hyperstack's page of prices: cards of USD per GPU-hour, one table each.

A card's heading says how the GPUs are sold, its head row what each column holds. The page prices
one GPU; which machines there are, and whether any is free, it does not say.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._rows import BadRow, us_number, without_cut_end
from tracker.provider import (
    ListedOffer,
    Market,
    NativePrice,
    ParseError,
    PriceUnit,
    Rejected,
    Terms,
)

URL = "https://www.hyperstack.cloud/gpu-pricing"
_MARKETS = (
    ("on-demand", Market.ON_DEMAND),
    ("spot", Market.SPOT),
    ("reserv", Market.RESERVED),
)
_AMOUNT = re.compile(r"\$\s*(\d(?:[\d.,'\u2019\s]*\d)?)")  # however it is written
_HOUR = re.compile(r"per hour|/\s*h", re.IGNORECASE)
# "NVIDIA H100" beside "NVIDIA H100 SXM" and "NVIDIA H100 NVLink" is the PCIe card, and so is the
# one with a bridge.
_PCIE = re.compile(r"(?:NVIDIA )?(?:H100|A100)(?: NVLink)?", re.IGNORECASE)


def read_page(page: str) -> tuple[list[ListedOffer], list[Rejected]]:
    """The offers of all cards of GPU prices. Raises ParseError when there is no such card."""
    cards = LexborHTMLParser(without_cut_end(page)).css("#cloud-pricing .page-price_card")
    offers: dict[tuple[str, Market], ListedOffer] = {}
    rejected: list[Rejected] = []
    read = False
    for card in cards:
        title = _text(card.css_first("h3"))
        market = next((m for word, m in _MARKETS if word in title.lower()), None)
        if market is None or "gpu" not in title.lower():
            rejected.append(Rejected("a card of something else", title[:200]))
            continue
        head = _cells(card.css_first(".page-price_card_head"), "head_item")
        try:
            name, vram, price = _columns(head)
        except BadRow as bad:
            rejected.append(Rejected(str(bad), f"{title}: {head}"[:200]))
            continue
        read = True
        for row in card.css(".page-price_card_row_item"):
            cells = _cells(row, "row_item_col")
            try:
                offer = _offer(cells, name, vram, price, market)
            except BadRow as bad:
                rejected.append(Rejected(str(bad), f"{title}: {cells}"[:200]))
                continue
            key = (offer.source_id, market)
            if key in offers:
                rejected.append(Rejected("GPU listed twice", f"{title}: {cells}"[:200]))
                offer = max(offer, offers[key], key=lambda found: found.price.amount)
            offers[key] = offer
    if not read:
        raise ParseError("#cloud-pricing .page-price_card", "no card of GPU prices per hour")
    return list(offers.values()), rejected


def _cells(row: LexborNode | None, name: str) -> list[str]:
    found = [] if row is None else row.css(f"[class*='page-price_card_{name}']")
    return [_text(cell) for cell in found]


def _text(node: LexborNode | None) -> str:
    return "" if node is None else " ".join(node.text().split())


def _columns(head: Sequence[str]) -> tuple[int, int | None, int]:
    """Where the GPU's name, its VRAM and the hourly price stand. Raises BadRow."""
    places: dict[str, int] = {}
    for index, text in enumerate(head):
        low = text.lower()
        if "model" in low:
            places.setdefault("name", index)
        elif "vram" in low:
            places.setdefault("vram", index)
        elif "pric" in low and _HOUR.search(low):
            places.setdefault("price", index)
    if "name" not in places or "price" not in places:
        raise BadRow("a card without prices per hour")
    return places["name"], places.get("vram"), places["price"]


def _offer(
    cells: Sequence[str], name: int, vram: int | None, price: int, market: Market
) -> ListedOffer:
    if len(cells) <= max(name, price, vram or 0):
        raise BadRow("a row with too few columns")
    gpu = cells[name]
    if not gpu:
        raise BadRow("a row without a GPU")
    found = _AMOUNT.findall(cells[price])
    if len(found) > 1:
        raise BadRow("several prices")  # a range, or one that is crossed out
    usd = us_number(found[0]) if found else Decimal(0)
    if not usd:
        raise BadRow("no price")
    memory = cells[vram] if vram is not None else ""
    nvlink = "nvlink" in gpu.lower()
    return ListedOffer(
        source_id=gpu,
        gpu_name=gpu,
        gpu_count=Decimal(1),
        price=NativePrice(usd, "USD", PriceUnit.GPU_HOUR),
        market=market,
        tier="standard",
        vram_gb=Decimal(memory) if memory.isascii() and memory.isdigit() else None,
        form_factor="PCIE" if _PCIE.fullmatch(gpu) else None,
        interconnect="NVLink" if nvlink else None,
        # For how long one must reserve is not in the table.
        terms=Terms(billing_increment_seconds=60, commitment_unknown=market is Market.RESERVED),
        source_url=URL,
        notes=("priced per GPU: the page does not say which machines there are",),
    )
