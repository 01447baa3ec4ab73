"""Lambda Cloud: GPU machines by the minute.

With an API key: ``GET https://cloud.lambda.ai/api/v1/instance-types`` (documented), which also says
where each type is to be had now. Without one: the tables below "Instances pricing" on
https://lambda.ai/pricing, which say nothing of stock. The API prices a machine, in cents; the page
prices one GPU of a machine. A type costs the same in every region; the API names those in which it
is to be had (``regions_with_capacity_available``), and no others.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from selectolax.lexbor import LexborHTMLParser, LexborNode

from providers._countries import country_of
from providers._rows import BadRow, amount, number, sample, without_cut_end
from tracker.provider import (
    Availability,
    Extras,
    Facts,
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

API_PATH = "/api/v1/instance-types"
PAGE_PATH = "/pricing"
SECTION = "instances pricing"  # other tables of the page are of clusters with a commitment

GB_PER_GIB = Decimal("1.073741824")
BILLING_INCREMENT_SECONDS = 60
TAX = "tax not included"

_COUNT = re.compile(r"(\d{1,2})x", re.IGNORECASE)
_USD = re.compile(r"\$(\d{1,4}(?:\.\d{1,4})?)")
_SIZE = re.compile(r"(\d{1,5}(?:\.\d{1,3})?) ?(GB|GiB|TiB)\b.*")
_WHOLE = re.compile(r"\d{1,4}")


class LambdaConfig(ProviderConfig):
    """``[providers.lambda]``. With a key the API is asked, without one the pricing page."""

    base_url: str = "https://cloud.lambda.ai"
    page_url: str = "https://lambda.ai"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: LambdaConfig) -> Sequence[Payload]:
    """The API's list of types, or the pricing page. Raises FetchError."""
    if config.api_key is None:
        return [await http.get(config.page_url.rstrip("/") + PAGE_PATH, expect="html")]
    headers = {"Authorization": f"Bearer {config.api_key.get_secret_value()}"}
    return [await http.get(config.base_url.rstrip("/") + API_PATH, headers=headers)]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers from the API's answer or from the pricing page, whichever a payload holds.

    Raises ParseError, naming the field, when it is neither.
    """
    offers: dict[tuple[str, str | None], ListedOffer | None] = {}
    rejected: list[Rejected] = []
    for payload in payloads:
        is_json = payload.body.lstrip()[:1] in (b"{", b"[")
        for item in _api(load_json(payload)) if is_json else _page(payload.text()):
            if isinstance(item, Rejected):
                rejected.append(item)
                continue
            name, key = item.source_id, (item.source_id, item.region)
            other = offers.setdefault(key, item)
            if other is item:
                continue
            if other is not None and other.price == item.price:
                rejected.append(Rejected("listed twice", name))
                continue
            rejected.append(Rejected("two prices for one machine", f"{name} {item.price.amount}"))
            if other is not None:
                rejected.append(
                    Rejected("two prices for one machine", f"{name} {other.price.amount}")
                )
            offers[key] = None
    return Parsed(tuple(o for o in offers.values() if o is not None), tuple(rejected))


# -- the API -----------------------------------------------------------------------------------


def _api(answer: Any) -> Iterator[ListedOffer | Rejected]:
    data = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(data, dict):
        error = answer.get("error") if isinstance(answer, dict) else None
        said = error.get("code") if isinstance(error, dict) else None
        more = f" (the answer says: {' '.join(str(said).split())[:80]})" if said else ""
        raise ParseError("data", f"missing or not an object{more}")
    rows = [row for row in data.values() if isinstance(row, dict)]
    for name in ("instance_type", "regions_with_capacity_available"):
        if data and all(name not in row for row in rows):
            raise ParseError(f"data.*.{name}", f"missing in all {len(data)} types")
    types = [t for row in rows if isinstance(t := row.get("instance_type"), dict)]
    for name in ("price_cents_per_hour", "specs"):
        if types and all(name not in t for t in types):
            raise ParseError(f"data.*.instance_type.{name}", f"missing in all {len(types)} types")
    for key, row in data.items():
        try:
            yield from _in_regions(_type(key, row), row.get("regions_with_capacity_available"))
        except BadRow as bad:
            yield Rejected(str(bad), sample({key: row}))


def _type(key: str, row: Any) -> ListedOffer:
    """One type: *key* is its name, prices are US cents for the whole machine."""
    kind = row.get("instance_type") if isinstance(row, dict) else None
    specs = kind.get("specs") if isinstance(kind, dict) else None
    if not isinstance(kind, dict) or not isinstance(specs, dict) or not key.strip():
        raise BadRow("type without specs")
    gpus = number(specs, "gpus")
    if gpus == 0:
        raise BadRow("machine without GPUs")
    if gpus is None or gpus < 0 or gpus % 1:
        raise BadRow("number of GPUs is missing or not a whole number")
    cents = amount(kind, "price_cents_per_hour")
    if not cents:
        raise BadRow("no price above zero")
    if cents % 1:
        raise BadRow("price is not in whole cents")
    described = kind.get("gpu_description")
    storage_gib = amount(specs, "storage_gib")
    return ListedOffer(
        source_id=key.strip(),
        # "H100 (80 GB SXM5)"; the type's own name says the same where that is missing.
        gpu_name=described if isinstance(described, str) and described.strip() else key,
        gpu_count=gpus,
        price=NativePrice(cents / 100, "USD", PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier="standard",
        vcpus=amount(specs, "vcpus") or None,
        ram_gib=amount(specs, "memory_gib") or None,
        datacenter=True,
        terms=_terms(None if storage_gib is None else storage_gib * GB_PER_GIB),
        source_url="https://lambda.ai/pricing",
        notes=(TAX, *(("arm64 processor",) if kind.get("architecture") == "arm64" else ())),
    )


def _in_regions(offer: ListedOffer, regions: Any) -> Iterator[ListedOffer]:
    """The type in each region in which it is to be had.

    An empty list means sold out everywhere; no list, or another shape, says nothing.
    """
    places: dict[str, str | None] = {}
    for region in regions if isinstance(regions, list) else ():
        name = region.get("name") if isinstance(region, dict) else None
        if not isinstance(name, str) or not name.strip():
            yield offer
            return
        described = region.get("description")  # "Virginia, USA"
        words = described if isinstance(described, str) else ""
        places[name.strip()] = country_of(words.rpartition(",")[2])
    for name, country in sorted(places.items()):
        there = Extras(availability=Availability.YES)
        yield replace(offer, region=name, country=country, extras=there)
    if not places:
        gone = Extras(availability=Availability.NO) if regions == [] else Extras()
        yield replace(offer, extras=gone)


def _terms(disk_gb: Decimal | None) -> Terms:
    return Terms(
        billing_increment_seconds=BILLING_INCREMENT_SECONDS,
        disk_included_gb=disk_gb,
        egress_usd_per_gb=Decimal(0),
    )


# -- the page ----------------------------------------------------------------------------------


def _page(html: str) -> Iterator[ListedOffer | Rejected]:
    """The tables of the tabs "8x", "4x" and so on that follow the heading of the section."""
    tree = LexborHTMLParser(without_cut_end(html))
    count_of_panel = dict(_tabs(tree))
    rows = [
        (count_of_panel[identity], row)
        for panel in tree.css("[role=tabpanel]")
        if (identity := panel.attributes.get("id") or "") in count_of_panel
        for row in panel.css("tr[data-plan]")
    ]
    if not rows:
        raise ParseError("tr[data-plan]", 'no table in the tabs below "Instances pricing"')
    cells = [(count, row.attributes.get("data-plan") or "", _cells(row)) for count, row in rows]
    if not any(_price_cell(found) for _, _, found in cells):
        raise ParseError("PRICE/GPU/HR", "no row has a cell of that label")
    for count, plan, found in cells:
        try:
            yield _row(count, " ".join(plan.split()), found)
        except BadRow as bad:
            yield Rejected(str(bad), sample({"count": count, "plan": plan, **found}))


def _tabs(tree: LexborHTMLParser) -> Iterator[tuple[str, int]]:
    """Ids of the panels of the section, with the GPUs of a machine that their tabs name."""
    inside = False
    for node in tree.css("h1, h2, [role=tab]"):
        if node.tag in ("h1", "h2"):
            inside = _text(node).casefold() == SECTION
            continue
        count = _COUNT.fullmatch(_text(node))
        panel = node.attributes.get("aria-controls")
        if inside and count and panel and int(count[1]):
            yield panel, int(count[1])


def _cells(row: LexborNode) -> dict[str, str]:
    found: dict[str, str] = {}
    for cell in row.css("[data-label]"):
        label = " ".join((cell.attributes.get("data-label") or "").split()).upper()
        found.setdefault(label.rstrip("*"), _text(cell))
    return found


def _price_cell(cells: dict[str, str]) -> str | None:
    return cells.get("PRICE/GPU/HR")


def _row(count: int, plan: str, cells: dict[str, str]) -> ListedOffer:
    price = _price_cell(cells)
    if not plan:
        raise BadRow("row without a plan")
    if price is None:
        raise BadRow("row without a price per GPU-hour")
    if price in ("—", "-", ""):
        raise BadRow("plan without a price")
    usd = _USD.fullmatch(price)
    if usd is None or not Decimal(usd[1]):
        raise BadRow("price cannot be read")
    vram_gb = _size(cells.get("VRAM/GPU"), "GB")
    return ListedOffer(
        source_id=f"{count}x {plan}" + (f" {vram_gb.normalize():f} GB" if vram_gb else ""),
        gpu_name=plan,
        gpu_count=Decimal(count),
        price=NativePrice(Decimal(usd[1]), "USD", PriceUnit.GPU_HOUR),
        market=Market.ON_DEMAND,
        tier="standard",
        vram_gb=vram_gb,
        vcpus=_whole(cells.get("VCPUS")),
        ram_gib=_size(cells.get("RAM"), "GiB"),
        datacenter=True,
        terms=_terms(_disk_gb(cells.get("STORAGE"))),
        source_url="https://lambda.ai/pricing",
        notes=(TAX,),
    )


def _size(text: str | None, unit: str) -> Decimal | None:
    found = _SIZE.fullmatch(text or "")
    return Decimal(found[1]) if found and found[2] == unit else None


def _disk_gb(text: str | None) -> Decimal | None:
    gib, tib = _size(text, "GiB"), _size(text, "TiB")
    if tib is not None:
        gib = tib * 1024
    return None if gib is None else gib * GB_PER_GIB


def _whole(text: str | None) -> Decimal | None:
    return Decimal(text) if text and _WHOLE.fullmatch(text) else None


def _text(node: LexborNode) -> str:
    return " ".join((node.text() or "").split())


provider = Provider(
    name="lambda",
    every=timedelta(hours=4),
    config=LambdaConfig,
    facts=Facts(
        title="Lambda Cloud",
        website="https://lambda.ai/pricing",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=BILLING_INCREMENT_SECONDS,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="LAMBDA_API_KEY",
        key_adds="the API instead of the page, with stock by region",
        terms="the API is documented, about one request a second; whether the terms of the web "
        "site speak of automated reading has not been checked. Prices are without tax",
        verified="API: shape and prices checked against a fixture that its author checked live in "
        "2026-08; page: against one recorded in 2026-08. Neither has been called live, because no "
        "live call was possible when this was written",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=1.0,
    poll_deadline=timedelta(seconds=60),
)
