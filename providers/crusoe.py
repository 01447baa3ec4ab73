"""Crusoe Cloud: GPU machines, priced by the GPU-hour on a web page.

Source: https://www.crusoe.ai/cloud/pricing, section "GPU instances pricing". Crusoe's API is signed
and holds no prices. The page says what a GPU costs, never how many of them a machine has; the sizes
are those of the instance types (h100-80gb-sxm-ib.8x) that Crusoe's own examples and programs for
its API name: SXM and Instinct machines are to be had whole only.

Neither the page nor the documentation says by what time a machine is billed (usage is counted in
hours of a running instance: https://docs.crusoecloud.com/usage-billing/viewing-usage). Where a type
is to be had only the signed API knows (``/v1alpha5/capacities``), which has no prices: both stay
unknown.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._rows import BadRow, without_cut_end
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
)

PATH = "/cloud/pricing"
SECTION = "gpu instances pricing"

# (model, GB, form as tagged) -> instance type, GPUs of its sizes
SIZES: dict[tuple[str, int, str], tuple[str, tuple[int, ...]]] = {
    ("A40", 48, ""): ("a40", (1, 2, 4, 8)),
    ("A40", 48, "PCIE"): ("a40", (1, 2, 4, 8)),
    ("A100", 40, "PCIE"): ("a100", (1, 2, 4, 8)),
    ("A100", 80, "PCIE"): ("a100-80gb", (1, 2, 4, 8)),
    ("A100", 80, "SXM"): ("a100-80gb-sxm-ib", (8,)),
    ("H100", 80, "HGX"): ("h100-80gb-sxm-ib", (8,)),
    ("H100", 80, "SXM"): ("h100-80gb-sxm-ib", (8,)),
    ("H200", 141, "HGX"): ("h200-141gb-sxm-ib", (8,)),
    ("H200", 141, "SXM"): ("h200-141gb-sxm-ib", (8,)),
    ("B200", 180, "HGX"): ("b200-180gb-sxm-ib", (8,)),
    ("L40S", 48, ""): ("l40s-48gb", (1, 2, 4, 8, 10)),
    ("L40S", 48, "PCIE"): ("l40s-48gb", (1, 2, 4, 8, 10)),
    ("MI300X", 192, ""): ("mi300x-192gb-ib", (8,)),
}

_USD = re.compile(r"\$(\d{1,3}(?:\.\d{1,4})?) ?/ ?GPU-hr", re.IGNORECASE)
_VRAM = re.compile(r"(\d{1,4}) ?GB", re.IGNORECASE)
_ON_REQUEST = "contact sales"


class CrusoeConfig(ProviderConfig):
    """``[providers.crusoe]``."""

    base_url: str = "https://www.crusoe.ai"


async def fetch(http: HttpClient, config: CrusoeConfig) -> Sequence[Payload]:
    """The pricing page. Raises FetchError."""
    return [await http.get(config.base_url.rstrip("/") + PATH, expect="html")]


@dataclass(frozen=True, slots=True)
class _Item:
    """One GPU of the list: its name, its tags, and what stands in each column of prices."""

    name: str
    tags: tuple[str, ...]
    prices: dict[str, str]

    def __str__(self) -> str:
        prices = ", ".join(f"{column}: {text}" for column, text in self.prices.items())
        return f"{self.name} {' '.join(self.tags)} | {prices}"[:200]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer for each size of each GPU, on demand and, where it has a price, as spot.

    Raises ParseError when the section, its columns or its items are not where they were.
    """
    offers: list[ListedOffer] = []
    rejected: list[Rejected] = []
    for payload in payloads:
        for item in _items(payload.text()):
            try:
                offers += _read(item, rejected)
            except BadRow as bad:
                rejected.append(Rejected(str(bad), str(item)))
    return Parsed(tuple(_one_price_each(offers, rejected)), tuple(rejected))


def _one_price_each(
    offers: Sequence[ListedOffer], rejected: list[Rejected]
) -> Iterator[ListedOffer]:
    """A machine that is listed twice counts once, and at two prices not at all."""
    groups: dict[tuple[str, Market], list[ListedOffer]] = defaultdict(list)
    for offer in offers:
        groups[offer.source_id, offer.market].append(offer)
    for (name, market), group in groups.items():
        same = len({offer.price for offer in group}) == 1
        if same:
            yield group[0]
        reason = "listed twice" if same else "two prices for one machine"
        for offer in group[1:] if same else group:
            rejected.append(Rejected(reason, f"{name} | {market} | {offer.price.amount}"))


# -- the page ----------------------------------------------------------------------------------


def _items(html: str) -> list[_Item]:
    """What stands in the section, from its heading to the next one of that kind."""
    inside, columns, found = False, list[str](), list[_Item]()
    for node in LexborHTMLParser(without_cut_end(html)).css(
        "h2, h3, .pricing-heading, [role=listitem]"
    ):
        if node.tag in ("h2", "h3"):
            inside = _text(node).casefold() == SECTION
        elif inside and node.attributes.get("role") != "listitem":
            columns.append(_text(node).casefold())
        elif inside:
            cells = [_text(cell) for cell in node.css(".pricing-rich")]
            tags = [_text(tag) for tag in node.css(".pricing-tag")]
            name = node.css_first("h4")
            # The first heading is that of the models themselves.
            prices = dict(zip(columns[1:], cells, strict=False))
            found.append(_Item(_text(name) if name else "", tuple(filter(None, tags)), prices))
    if not found:
        raise ParseError("role=listitem", 'no item in a section "GPU instances pricing"')
    if "on-demand" not in columns[1:]:
        raise ParseError("pricing-heading", 'no column "On-demand"')
    if not any(item.prices for item in found):
        raise ParseError("pricing-rich", "no item has a price")
    return found


def _text(node: LexborNode) -> str:
    return " ".join((node.text() or "").split())


def _read(item: _Item, rejected: list[Rejected]) -> list[ListedOffer]:
    """The offers of one GPU. Raises BadRow where it has none."""
    if not item.name:
        raise BadRow("item without a GPU")
    on_demand = _usd(item.prices.get("on-demand"))
    spots = [text for column, text in item.prices.items() if "spot" in column]
    try:
        spot = _usd(spots[0]) if spots else None
    except BadRow as bad:
        rejected.append(Rejected(f"spot: {bad}", str(item)))
        spot = None
    if spot is not None and on_demand is not None and spot >= on_demand:
        rejected.append(Rejected("spot price not below on-demand", str(item)))
        spot = None
    if on_demand is None and spot is None:
        raise BadRow("price on request")
    vram = next((int(m[1]) for tag in item.tags if (m := _VRAM.fullmatch(tag))), None)
    if vram is None:
        raise BadRow("memory of the GPU is not said")
    form = next((tag for tag in item.tags if not _VRAM.fullmatch(tag)), "")
    model = re.sub(r"^(?:NVIDIA|AMD) ", "", item.name, flags=re.IGNORECASE).upper()
    sizes = SIZES.get((model, vram, form.upper()))
    if sizes is None:
        raise BadRow("sizes of machines with this GPU are not known")
    kind, counts = sizes
    return [
        _offer(item.name, kind, count, vram, form, usd, market)
        for count in counts
        for market, usd in ((Market.ON_DEMAND, on_demand), (Market.SPOT, spot))
        if usd is not None
    ]


def _usd(text: str | None) -> Decimal | None:
    """USD for one GPU and hour; None for a price on request. Raises BadRow."""
    if text is None or not text:
        raise BadRow("price is missing")
    if text.casefold() == _ON_REQUEST:
        return None
    found = _USD.fullmatch(text)
    if found is None or not Decimal(found[1]):
        raise BadRow("price cannot be read")
    return Decimal(found[1])


def _offer(
    name: str, kind: str, count: int, vram_gb: int, form: str, usd: Decimal, market: Market
) -> ListedOffer:
    spot = market is Market.SPOT
    return ListedOffer(
        source_id=f"{kind}.{count}x",
        gpu_name=name,
        gpu_count=Decimal(count),
        price=NativePrice(usd, "USD", PriceUnit.GPU_HOUR),
        market=market,
        tier="standard",
        price_kind=PriceKind.DYNAMIC if spot else PriceKind.FIXED,
        vram_gb=Decimal(vram_gb),
        form_factor=form or None,
        interconnect=_link(kind),
        datacenter=True,
        source_url="https://www.crusoe.ai/cloud/pricing",
        notes=("sizes of machines are not on the page",),
    )


def _link(kind: str) -> str | None:
    """Between the GPUs of a machine; between machines. An HGX or SXM board of 8 has NVSwitch."""
    if not kind.endswith("-ib"):
        return None
    return f"{'NVLink/NVSwitch' if '-sxm-' in kind else 'Infinity Fabric'}; InfiniBand"


provider = Provider(
    name="crusoe",
    every=timedelta(hours=8),
    config=CrusoeConfig,
    facts=Facts(
        title="Crusoe Cloud",
        website="https://www.crusoe.ai/cloud/pricing",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot='"current spot" where the page has a price and does not say "Contact sales"',
        tiers=("standard",),
        default_tiers=("standard",),
        key="none",
        key_variable=None,
        terms="no API with prices: a public web page; the site's terms and robots.txt have not "
        "been read",
        verified="parser checked against the page recorded in 2026-08; never called live, because "
        "no live call was possible when this was written. How many GPUs a machine has is a "
        "hand-kept table; by what time it is billed, and in which region it is, is not said",
        min_every=timedelta(hours=4),
    ),
    fetch=fetch,
    parse=parse,
    poll_deadline=timedelta(seconds=60),
)
