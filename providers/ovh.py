"""OVHcloud: GPU instances of the Public Cloud, from the public catalogues of two entities.

Source: ``/1.0/order/catalog/public/cloud`` of api.ovh.com (EUR) and of api.us.ovhcloud.com (USD,
another company with another list). Prices are of the whole instance, without VAT, as integers of
1e-8 of the currency. Only addons of the brick ``gpu`` are instances: the catalogue also holds GPU
plans of its AI products, which are priced by the minute and would look sixty times cheaper.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._lists import Item, gpus, listed, optional_text, part, require, text, unique
from providers._rows import BadRow, amount, sample
from tracker.provider import (
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
    Terms,
    load_json,
)

PATH = "/1.0/order/catalog/public/cloud"
MAX_BYTES = 64 * 2**20  # the European catalogue is about 8 MB
UNIT = Decimal("1e-8")  # of the currency: what prices are counted in
MONTH_HOURS = 730  # one month must be paid for
_HOURLY, _MONTHLY = ".consumption", ".monthly.postpaid"
_SHOWN = re.compile(r"\d[\d.,]*")


class OvhConfig(ProviderConfig):
    """``[providers.ovh]``: the two catalogues; an empty address leaves that entity out."""

    base_url: str = "https://api.ovh.com"
    subsidiary: str = "FR"
    base_url_us: str = "https://api.us.ovhcloud.com"


async def fetch(http: HttpClient, config: OvhConfig) -> list[Payload]:
    """Both catalogues. One that cannot be read is kept as an empty answer with its status (0 for
    none); FetchError when neither could be read."""
    payloads: list[Payload] = []
    failed: list[tuple[str, FetchError]] = []
    for base, subsidiary in ((config.base_url, config.subsidiary), (config.base_url_us, "US")):
        if not base:
            continue
        url = base.rstrip("/") + PATH
        try:
            payloads.append(
                await http.get(url, params={"ovhSubsidiary": subsidiary}, max_bytes=MAX_BYTES)
            )
        except FetchError as error:
            # Without its frames, which hold this list.
            failed.append((f"{url}?ovhSubsidiary={subsidiary}", error.with_traceback(None)))
    if not payloads:
        raise failed[0][1] if failed else FetchError("no catalogue to ask: see providers.ovh")
    gaps = [
        Payload(url=url, body=b"", fetched_at=payloads[0].fetched_at, status=error.status or 0)
        for url, error in failed
    ]
    return [*payloads, *gaps]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Hourly and monthly offers of every GPU instance. Raises ParseError on another shape."""
    gaps: list[str] = []
    items: list[Item] = []
    for payload in payloads:
        if payload.status != 200:
            where = payload.url.partition("ovhSubsidiary=")[2] or "an entity"
            gaps.append(f"the catalogue of {where} could not be read")
            continue
        items += _catalogue(load_json(payload))
    offers, rejected = unique(items)
    return Parsed(offers, rejected, not gaps, "; ".join(gaps) or None)


def _catalogue(answer: Any) -> Iterator[Item]:
    addons = listed(answer, "addons")
    locale = part(answer, "locale")
    currency, entity = optional_text(locale, "currencyCode"), optional_text(locale, "subsidiary")
    if currency is None or entity is None:
        raise ParseError("locale.currencyCode", "the currency or the subsidiary is missing")
    require(addons, "addons[]", ("planCode", "pricings", "blobs"))
    for row in addons:
        gpu = part(row, "blobs", "technical", "gpu")
        brick = part(row, "blobs", "commercial").get("brick")
        if brick != "gpu":
            if gpu:
                yield Rejected("GPU of another product than an instance", sample(row))
            continue
        try:
            yield _offer(row, gpu, currency, entity)
        except BadRow as bad:
            yield Rejected(str(bad), sample(row))


def _offer(
    row: Mapping[str, Any], gpu: Mapping[str, Any], currency: str, entity: str
) -> ListedOffer:
    plan = text(row, "planCode")
    technical = part(row, "blobs", "technical")
    if plan.startswith("win-") or part(technical, "os").get("family") == "windows":
        raise BadRow("Windows licence included")
    tags = part(row, "blobs").get("tags")
    if isinstance(tags, list) and "coming_soon" in tags:
        raise BadRow("priced but not sold yet")
    monthly = plan.endswith(_MONTHLY)
    if not monthly and not plan.endswith(_HOURLY):
        raise BadRow("neither an hourly nor a monthly plan")
    ram, cores = amount(part(technical, "memory"), "size"), amount(part(technical, "cpu"), "cores")
    memory = part(gpu, "memory")
    return ListedOffer(
        source_id=f"{entity}/{plan}",
        gpu_name=text(gpu, "model"),
        gpu_count=Decimal(gpus(gpu, "number")),
        price=NativePrice(
            _price(row, monthly),
            currency,
            PriceUnit.MACHINE_MONTH if monthly else PriceUnit.MACHINE_HOUR,
        ),
        market=Market.MONTHLY if monthly else Market.ON_DEMAND,
        tier="standard",
        vram_gb=amount(memory, "size") or None,
        form_factor=optional_text(memory, "interface"),
        vcpus=cores or None,
        ram_gib=ram or None,
        datacenter=True,
        terms=Terms(commitment_hours=MONTH_HOURS if monthly else None),
        source_url="https://www.ovhcloud.com/en/public-cloud/prices/",
        notes=("without VAT; the list does not say in which regions",),
    )


def _price(row: Mapping[str, Any], monthly: bool) -> Decimal:
    """The price of the hour or the month. Raises BadRow where the answer contradicts itself."""
    pricings = row.get("pricings")
    found = [p for p in pricings if isinstance(p, dict)] if isinstance(pricings, list) else []
    fitting = [p for p in found if _pays_for_use(p, monthly)]
    if not fitting:
        raise BadRow("no price of the plan's own kind" if found else "no price")
    if len({str(p.get("price")) for p in fitting}) > 1:
        raise BadRow("several prices for one plan")
    first = fitting[0]
    units = amount(first, "price")
    if not units:
        raise BadRow("no price")
    interval, unit = first.get("interval"), first.get("intervalUnit")
    due = "month" if monthly else "hour"
    if unit not in (None, "none", due) or (unit == due and interval not in (None, 1)):
        raise BadRow("the interval of the price is not that of the plan")
    price = units * UNIT
    shown = _shown(first.get("formattedPrice"))
    if shown is not None and abs(shown - price) > Decimal("0.01"):
        raise BadRow("the price and its formatted text differ")
    return price.normalize() + 0


def _pays_for_use(pricing: Mapping[str, Any], monthly: bool) -> bool:
    """Whether it is the price of the hour or month itself, and not that of setting up or of a term.

    What a price is for stands in ``capacities``: "consumption" by the hour, "renew" by the month,
    "installation" once. One that says nothing is taken for what the plan's code says.
    """
    if pricing.get("commitment") not in (None, 0):
        return False
    kinds = pricing.get("capacities")
    if not isinstance(kinds, list) or not kinds:
        return True
    return "renew" in kinds or "consumption" in kinds if monthly else "consumption" in kinds


def _shown(formatted: Any) -> Decimal | None:
    """The amount in a text such as "2.80 €" or "1 387,00 €"; None where there is none.

    The last separator is the decimal one if one or two digits follow it.
    """
    if not isinstance(formatted, str):
        return None
    found = _SHOWN.search("".join(formatted.split()))
    if found is None:
        return None
    digits = re.split(r"[.,]", found[0])
    decimals = digits.pop() if len(digits) > 1 and len(digits[-1]) in (1, 2) else ""
    whole = "".join(digits)
    return Decimal(f"{whole}.{decimals}" if decimals else whole) if len(whole) < 12 else None


provider = Provider(
    name="ovh",
    every=timedelta(hours=12),
    config=OvhConfig,
    facts=Facts(
        title="OVHcloud Public Cloud",
        website="https://www.ovhcloud.com/en/public-cloud/prices/",
        price_per="machine",
        currency="EUR, and USD of the US entity",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="none",
        key_variable=None,
        terms="public order catalogue that answers without a key; it is about 8 MB, so it is asked "
        "for twice a day",
        verified="nothing recorded was at hand: written against the documented shape; never called "
        "live from this project; neither stock nor regions are in the catalogue",
        min_every=timedelta(hours=1),
    ),
    fetch=fetch,
    parse=parse,
)
