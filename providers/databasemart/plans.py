"""One plan card to offers: title, GPU, count, memory, price, term, stock.

A card is what stands from a plan's title to its order button, whatever markup it came from.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from providers.databasemart.amounts import (
    STRUCK_OFF,
    STRUCK_ON,
    Amount,
    Price,
    find_amounts,
    settle,
)
from providers.databasemart.lines import Line
from tracker.provider import (
    HOURS_PER_MONTH,
    Availability,
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    PriceUnit,
    Rejected,
    Terms,
)

# "Multi-GPU Dedicated Server - 2xRTX 4090": only a hyphen between spaces separates.
TITLE = re.compile(r"(?P<plan>.*\b(?P<kind>Server|VPS)) - (?P<gpu>.*\d.*)", re.IGNORECASE)
MAX_TITLE = 120
_ORDER = re.compile(
    r"(order|buy|rent|deploy|configure|get started|add to cart|notify me|pre-?order|out of stock"
    r"|sold out|unavailable|coming soon)\b.{0,20}",
    re.IGNORECASE,
)
_SOLD_OUT = re.compile(r"\b(out of stock|sold out|unavailable|not available|coming soon)\b", re.I)
_IN_STOCK = re.compile(
    r"(?:(?:status|stock|availability)\W+)?(?:available|available now|in stock)", re.IGNORECASE
)
_COUNT = re.compile(r"\s*(\d{1,2})\s*x\s*(?=\S)", re.IGNORECASE)
_GPU_LINE = re.compile(r"^(?:GPU(?: model| card)?|graphics card)\s*:\s*(.+)$", re.I | re.M)
_GPU_COUNT = re.compile(r"\b(?:GPU count|number of GPUs|GPUs)\s*:\s*(\d{1,2})\b", re.IGNORECASE)
_VRAM = (
    re.compile(r"\b(?:GPU memory|VRAM)\D{0,10}(?:\d{1,2}\s*x\s*)?(\d{1,3})\s*GB\b", re.IGNORECASE),
    re.compile(r"\b(\d{1,3})\s*GB\s*(?:HBM|GDDR)", re.IGNORECASE),
)
_GB = re.compile(r"\b(\d{1,3})\s*GB\b", re.IGNORECASE)
_RAM = re.compile(r"\b(\d{1,4})\s*GB (?:DDR\d |ECC )*RAM\b|\bRAM\s*:\s*(\d{1,4})\s*GB\b", re.I)
_CORES = re.compile(r"\b(\d{1,3}) (?:CPU Cores?|vCPUs?)\b", re.IGNORECASE)
_DISK = re.compile(r"\b(\d{1,4}(?:\.\d{1,2})?)\s*(GB|TB)\s*(?:SSD|NVMe|SATA|HDD)\b", re.I)
_NETWORK = re.compile(r"\b(\d{1,5})\s*(M|G)bps\b", re.IGNORECASE)
_OFF = re.compile(r"\b(\d{1,2})\s*% OFF\b", re.IGNORECASE)

_MONTHS = re.compile(r"\b(\d{1,2})[ -]*(month|year)s?\b", re.IGNORECASE)
_TERM_CONTEXT = re.compile(
    r"\$|\b(term|contract|commit\w*|billed|billing|prepa\w+|subscription|minimum)\b", re.IGNORECASE
)
_ONE_MONTH = re.compile(r"\bmonth[ -]to[ -]month\b|\bbilled monthly\b|\bmonthly billing\b", re.I)
_ONE_YEAR = re.compile(
    r"\bbilled (?:annually|yearly)\b|\bannual(?:ly)? (?:billing|contract)\b", re.I
)
_BRAND_WORDS = {"nvidia", "geforce", "quadro", "tesla", "rtx", "gtx"}


@dataclass(frozen=True, slots=True)
class Card:
    """A plan as a page shows it. ``amounts`` empty: no price was found in it."""

    title: str
    lines: tuple[Line, ...]
    amounts: tuple[Amount, ...]
    stock: Availability | None = None  # told by structured data
    term_months: int | None = None  # told by structured data

    @property
    def text(self) -> str:
        """The lines without marks, the title not among them."""
        text = "\n".join(line.text for line in self.lines)
        return text.replace(STRUCK_ON, "").replace(STRUCK_OFF, "")


@dataclass(frozen=True, slots=True)
class Plan:
    """A card that became an offer; ``stated`` tells it from another plan of the same title: GPU
    count, GPU memory, RAM, cores, disk, term."""

    offer: ListedOffer
    title: str
    unit: PriceUnit
    price: Decimal
    stated: tuple[Decimal | None, ...]

    @property
    def name(self) -> tuple[str, PriceUnit]:
        """What the same plan has in common on every page that shows it."""
        return self.title.casefold(), self.unit

    def may_be(self, other: Plan) -> bool:
        """Whether nothing that both cards state about machine and term differs."""
        pairs = zip(self.stated, other.stated, strict=True)
        return all(a is None or b is None or a == b for a, b in pairs)


def split_cards(lines: Sequence[Line]) -> Iterator[Card]:
    """Cut lines into cards: from a title to the first order control after a price, or to the next
    title."""
    title: str | None = None
    body: list[Line] = []
    for line in lines:
        if _is_title(line.text):
            if title is not None and title != line.text:
                yield _card(title, body)
            title, body = line.text, []
        elif title is not None:
            body.append(line)
            if _ORDER.fullmatch(line.text) and any("$" in seen.text for seen in body):
                yield _card(title, body)
                title = None
    if title is not None:
        yield _card(title, body)


def _is_title(text: str) -> bool:
    return (
        len(text) <= MAX_TITLE
        and not set(text) & {"$", STRUCK_ON}
        and TITLE.fullmatch(text) is not None
    )


def _card(title: str, body: Sequence[Line]) -> Card:
    amounts = find_amounts("\n".join(line.text for line in body))
    return Card(title, tuple(body), tuple(amounts))


def plans(card: Card, source_url: str | None) -> Iterator[Plan | Rejected]:
    """The offers of a card: one for its monthly price, one for its hourly price."""
    units = [u for u in (PriceUnit.MACHINE_HOUR, PriceUnit.MACHINE_MONTH)
             if any(a.unit is u for a in card.amounts)]  # fmt: skip
    if not units:
        yield Rejected("no price with a unit in the card", _sample(card))
        return
    hardware = _hardware(card)
    for unit in units:
        price = settle(list(card.amounts), unit)
        problem = hardware if isinstance(hardware, str) else price
        if isinstance(problem, str):
            yield Rejected(problem, _sample(card))
        elif not isinstance(hardware, str) and not isinstance(price, str):
            yield _plan(card, hardware, price, source_url)


@dataclass(frozen=True, slots=True)
class _Hardware:
    vps: bool
    gpu: str
    count: Decimal
    vram_gb: Decimal | None
    ram_gib: Decimal | None
    vcpus: Decimal | None
    disk_gb: Decimal | None


def _hardware(card: Card) -> _Hardware | str:
    """What the machine holds, or why that cannot be told."""
    match = TITLE.fullmatch(card.title)
    if match is None:
        return "no plan title"
    text = card.text
    in_title, in_line = match["gpu"], _GPU_LINE.search(text)
    name, count = _name_and_count(in_title)
    counts = {count} if count else set()
    if in_line:
        line_name, line_count = _name_and_count(in_line[1])
        if not _words(name) <= _words(line_name):
            return "title and GPU line name different GPUs"
        name = line_name
        counts |= {line_count} if line_count else set()
    counts |= {int(found[1]) for found in _GPU_COUNT.finditer(text)}
    if not _words(name):
        return "no GPU model in the title"
    if len(counts) > 1 or 0 in counts:
        return "contradictory GPU count"
    if not counts and re.search(r"\bmulti-?\s?gpu\b", match["plan"], re.IGNORECASE):
        return "Multi-GPU plan without a GPU count"
    sizes = {Decimal(found[1]) for regex in _VRAM for found in regex.finditer(text)}
    named = f"{in_title}\n{in_line[1] if in_line else ''}"
    sizes |= {Decimal(found[1]) for found in _GB.finditer(named)}
    sizes -= {Decimal(0)}
    if len(sizes) > 1:
        return "contradictory GPU memory"
    if not sizes and "a100" in _words(name):
        return "A100 without its memory (40 and 80 GB are both sold)"
    return _Hardware(
        vps=match["kind"].upper() == "VPS",
        gpu=name,
        count=Decimal(counts.pop() if counts else 1),
        vram_gb=sizes.pop() if sizes else None,
        ram_gib=_first(_RAM, text),
        vcpus=_first(_CORES, text),
        disk_gb=_disk(text),
    )


def _name_and_count(text: str) -> tuple[str, int | None]:
    """``2xRTX 4090`` → (RTX 4090, 2). Memory and remarks in parentheses are no part of a name."""
    count = _COUNT.match(text)
    name = text[count.end() :] if count else text
    name = _GB.sub(" ", re.sub(r"\([^()]*\)", " ", name))
    return " ".join(name.split()).strip(" -")[:60], int(count[1]) if count else None


def _words(name: str) -> set[str]:
    plain = re.sub(r"\b[rg]tx(?=\d)", "", name.casefold())
    return set(re.findall(r"[a-z0-9]+", plain)) - _BRAND_WORDS


def _first(regex: re.Pattern[str], text: str) -> Decimal | None:
    match = regex.search(text)
    number = Decimal(next(g for g in match.groups() if g)) if match else None
    return number or None  # a zero would be no answer


def _disk(text: str) -> Decimal | None:
    disks = [Decimal(size) * (1000 if unit.upper() == "TB" else 1)
             for size, unit in _DISK.findall(text)]  # fmt: skip
    return sum(disks, Decimal(0)) or None


def _plan(card: Card, hardware: _Hardware, price: Price, source_url: str | None) -> Plan:
    text = card.text
    monthly = price.unit is PriceUnit.MACHINE_MONTH
    months = _term_months(card) if monthly else None
    vps = hardware.vps
    network = _NETWORK.search(text)
    mbps = Decimal(network[1]) * (1000 if network[2].upper() == "G" else 1) if network else None
    offer = ListedOffer(
        source_id=re.sub(r"[^a-z0-9]+", "-", card.title.casefold()).strip("-"),
        gpu_name=hardware.gpu,
        gpu_count=hardware.count,
        price=NativePrice(price.value, "USD", price.unit),
        market=Market.MONTHLY if monthly else Market.ON_DEMAND,
        tier="vps" if vps else "dedicated",
        vram_gb=hardware.vram_gb,
        region="US",
        country="US",
        vcpus=hardware.vcpus,
        ram_gib=hardware.ram_gib,
        dedicated=not vps,
        terms=Terms(
            commitment_hours=None if months is None else months * int(HOURS_PER_MONTH),
            commitment_unknown=monthly and months is None,
            disk_included_gb=hardware.disk_gb,
            egress_usd_per_gb=Decimal(0) if re.search(r"\bunmetered\b", text, re.I) else None,
        ),
        extras=Extras(
            availability=_stock(card), network_down_mbps=mbps, network_up_mbps=mbps
        ),
        source_url=source_url,
        notes=tuple(_notes(text, price, months, monthly)),
    )  # fmt: skip
    stated = (hardware.count, hardware.vram_gb, hardware.ram_gib, hardware.vcpus, hardware.disk_gb,
              None if months is None else Decimal(months))  # fmt: skip
    return Plan(offer, card.title, price.unit, price.value, stated)


def _notes(text: str, price: Price, months: int | None, monthly: bool) -> Iterator[str]:
    # Remarks are kept as of the first poll that saw the offer: no amount stands in them.
    if price.list_price is not None:
        yield "below the list price that the page shows"
    if _OFF.search(text):
        yield "advertised as reduced"
    if not monthly:
        yield "billed until the server is destroyed: pausing does not stop charges"
    elif months is None:
        yield "the page does not state the term that this price needs"


def _term_months(card: Card) -> int | None:
    """The term that the card itself states, in months; None when it states none, or several.

    A choice of terms (buttons) states nothing unless one of them is marked as chosen.
    """
    if card.term_months is not None:
        return card.term_months
    stated: set[int] = set()
    chosen: set[int] = set()
    for text, line in ((card.title, None), *((line.text, line) for line in card.lines)):
        months = {int(n) * (12 if unit.lower() == "year" else 1) for n, unit in
                  _MONTHS.findall(text)}  # fmt: skip
        if line is not None and _MONTHS.fullmatch(text):
            if line.chosen:
                chosen |= months
            continue
        if line is None or _TERM_CONTEXT.search(text):
            stated |= months
        stated |= {1} if _ONE_MONTH.search(text) else set()
        stated |= {12} if _ONE_YEAR.search(text) else set()
    terms = (stated or chosen) - {0}
    return terms.pop() if len(terms) == 1 else None


def _stock(card: Card) -> Availability:
    if any(line.disabled and _ORDER.fullmatch(line.text) for line in card.lines):
        return Availability.NO
    if any(_SOLD_OUT.search(line.text) for line in card.lines):
        return Availability.NO
    if card.stock is not None:
        return card.stock
    if any(_IN_STOCK.fullmatch(line.text) for line in card.lines):
        return Availability.YES
    return Availability.UNKNOWN  # an order button says nothing about stock


def _sample(card: Card) -> str:
    return " | ".join((card.title, *card.text.splitlines()))[:200]
