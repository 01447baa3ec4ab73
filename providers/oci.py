"""Oracle Cloud Infrastructure: list prices of GPU shapes, the same in every commercial region.

Source: the keyless price list https://apexapps.oracle.com/pls/apex/cetools/api/v1/products/ (one
JSON). It prices a GPU-hour, vCPUs and memory of the shape included, under part numbers with
irregular names; which shapes a part is sold in is the table below. Licence rows ("NVIDIA AI
Enterprise - H100") have the metric and the category of the GPUs themselves and are never a price.

Shapes: hand-kept, after gpuhunt and SkyPilot as of 2026-08. Oracle's own shapes.json is not read:
its GPU memory is sometimes of one GPU and sometimes of all.

Billing: by the second, virtual machines for a minute at least and bare metal ones for an hour, GPUs
included: Oracle's "Announcing Per-Second Billing for Compute and Autonomous Database", as
https://the-report.cloud/oracle-announcing-per-second-billing-for-compute-and-autonomous-database
has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

from pydantic import Field

from providers._rows import BadRow, amount, number, sample
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
    load_json,
)

PATH = "/pls/apex/cetools/api/v1/products/"
METRIC, CATEGORY = "GPU Per Hour", "Compute - GPU"
LICENCE = "nvidia ai enterprise"
REGION = "global"  # one list price for all commercial regions; which has which shape is not said

# Preemptible instances cost half of the list price; only the older VM shapes can be had so.
PREEMPTIBLE_SHARE = Decimal("0.5")

BILLING_INCREMENT_SECONDS = 1
MINIMUM_SECONDS, MINIMUM_SECONDS_BARE_METAL = 60, 3600

_NVSWITCH = "NVLink/NVSwitch"


@dataclass(frozen=True, slots=True)
class Shape:
    """One shape. ``doubt`` is a remark for the user about these facts."""

    name: str
    gpu_count: int
    vcpus: int | None
    ram_gib: int | None
    interconnect: str | None = None
    preemptible: bool = False
    doubt: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What a part number pays for: a GPU in words of our catalogue, in one of some shapes."""

    gpu: str
    form_factor: str | None
    vram_gb: int
    shapes: tuple[Shape, ...]


PARTS: dict[str, Part] = {
    "B98415": Part("H100", "SXM", 80, (
        Shape("BM.GPU.H100.8", 8, 224, 2048, f"{_NVSWITCH}; RDMA 8x2x200 Gbps"),)),
    "B92740": Part("A100", "SXM", 40, (  # listed as "E3"
        Shape("BM.GPU4.8", 8, 128, 2048, f"{_NVSWITCH}; RDMA 8x200 Gbps"),)),
    "B95907": Part("A100", "SXM", 80, (
        Shape("BM.GPU.A100-v2.8", 8, 256, 2048, f"{_NVSWITCH}; RDMA 16x100 Gbps"),)),
    "B110519": Part("H200", "SXM", 141, (
        Shape("BM.GPU.H200.8", 8, 224, 3072, f"{_NVSWITCH}; RDMA"),)),
    "B110978": Part("B200", "SXM", 180, (
        Shape("BM.GPU.B200.8", 8, 256, 4096, f"{_NVSWITCH}; RDMA"),)),
    "B112237": Part("B300", "SXM", 270, (
        Shape("BM.GPU.B300.8", 8, 256, 4096, f"{_NVSWITCH}; RDMA"),)),
    "B110979": Part("GB200", None, 186, (
        Shape("BM.GPU.GB200.4", 4, 144, 960, "NVLink domain; RDMA"),)),
    "B112140": Part("GB300", None, 278, (
        Shape("BM.GPU.GB300.4", 4, 144, 960, "NVLink domain; RDMA"),)),
    "B109485": Part("MI300X", "OAM", 192, (
        Shape("BM.GPU.MI300X.8", 8, 224, 2048, "Infinity Fabric; RDMA"),)),
    "B111758": Part("MI355X", "OAM", 288, (
        Shape("BM.GPU.MI355X.8", 8, 256, 3072, "Infinity Fabric; RDMA"),)),
    "B109479": Part("L40S", None, 48, (
        Shape("BM.GPU.L40S.4", 4, 224, 1024, "PCIe; RDMA"),)),
    "B112613": Part("RTX PRO 6000 Server", None, 96, (
        Shape("BM.GPU.RTXPRO.8", 8, 288, 3072, "PCIe", doubt="the shape's name is second-hand"),)),
    "B95909": Part("A10", None, 24, (
        Shape("VM.GPU.A10.1", 1, 30, 240),
        Shape("VM.GPU.A10.2", 2, 60, 480, "PCIe"),
        Shape("BM.GPU.A10.4", 4, 128, 1024, "PCIe"))),
    "B89734": Part("V100", "SXM", 16, (
        Shape("VM.GPU3.1", 1, 12, 90, preemptible=True),
        Shape("VM.GPU3.2", 2, 24, 180, "NVLink", preemptible=True),
        Shape("VM.GPU3.4", 4, 48, 360, "NVLink", preemptible=True),
        Shape("BM.GPU3.8", 8, 104, 768, "NVLink"))),
    "B88518": Part("P100", "PCIE", 16, (
        Shape("VM.GPU2.1", 1, 24, 72, preemptible=True),)),
    "B88517": Part("P100", "PCIE", 16, (
        Shape("BM.GPU2.2", 2, None, None, "PCIe"),)),
}  # fmt: skip

# A part of which nobody says for sure what it is ("E4").
UNKNOWN_PARTS = frozenset({"B93544"})


class OciConfig(ProviderConfig):
    """``[providers.oci]``. Oracle lists other currencies beside USD, each with its own price."""

    base_url: str = "https://apexapps.oracle.com"
    currency: str = Field(default="USD", pattern="^[A-Z]{3}$")


async def fetch(http: HttpClient, config: OciConfig) -> Sequence[Payload]:
    """The price list in one currency (in all it would be several times as long)."""
    url = config.base_url.rstrip("/") + PATH
    return [await http.get(url, params={"currencyCode": config.currency})]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer for each shape of each GPU part, and a preemptible one where there is such.

    The currency is the one that was asked for, USD where the address does not say. Raises
    ParseError when an answer is not the price list.
    """
    offers: list[ListedOffer] = []
    rejected: list[Rejected] = []
    for payload in payloads:
        currency = _currency_asked(payload.url)
        prices: dict[str, set[Decimal]] = defaultdict(set)
        for item in _items(load_json(payload)):
            try:
                price = _price(item, currency)
            except BadRow as bad:
                rejected.append(Rejected(str(bad), _shown(item)))
                continue
            if price is not None:
                prices[item["partNumber"]].add(price)
        for number_, found in prices.items():
            if len(found) > 1:
                shown = f"{number_}: {', '.join(map(str, sorted(found)))}"
                rejected.append(Rejected("several prices for one part", shown[:200]))
                continue
            offers += _offers(number_, min(found), currency)
    return Parsed(tuple(offers), tuple(rejected))


def _currency_asked(url: str) -> str:
    try:
        asked = parse_qs(urlsplit(url).query).get("currencyCode", [])
    except ValueError:
        asked = []
    return asked[0] if asked else "USD"


def _items(answer: Any) -> list[Any]:
    items = answer.get("items") if isinstance(answer, dict) else None
    if not isinstance(items, list):
        raise ParseError("items", "missing or not a list")
    rows = [item for item in items if isinstance(item, dict)]
    for name in ("partNumber", "metricName", "serviceCategory", "currencyCodeLocalizations"):
        if items and all(name not in row for row in rows):
            raise ParseError(f"items[].{name}", f"missing in all {len(items)} items")
    return items


def _price(item: Any, currency: str) -> Decimal | None:
    """The price of a GPU-hour; None for what is sold by something else. Raises BadRow."""
    if not isinstance(item, dict):
        raise BadRow("item is not an object")
    if item.get("metricName") != METRIC:
        return None
    name = item.get("displayName")
    if not isinstance(name, str) or not name.strip():
        raise BadRow("displayName is missing")  # nothing else tells a licence from a GPU
    if LICENCE in " ".join(name.split()).casefold():
        raise BadRow("NVIDIA AI Enterprise licence, not a GPU")
    if item.get("serviceCategory") != CATEGORY:
        raise BadRow("GPU of another service")
    part = item.get("partNumber")
    if isinstance(part, str) and part in UNKNOWN_PARTS:
        raise BadRow("what this part is, is not known for sure")
    if not isinstance(part, str) or part not in PARTS:
        raise BadRow("part without GPU facts")
    return _pay_as_you_go(item, currency)


def _pay_as_you_go(item: dict[str, Any], currency: str) -> Decimal:
    localizations = item.get("currencyCodeLocalizations")
    if not isinstance(localizations, list):
        raise BadRow("no prices")
    prices = [
        price
        for entry in localizations
        if isinstance(entry, dict) and entry.get("currencyCode") == currency
        for price in _list_of(entry.get("prices"))
        if isinstance(price, dict) and price.get("model") == "PAY_AS_YOU_GO"
    ]
    if not prices:
        raise BadRow("no pay-as-you-go price in the currency asked for")
    if any(number(price, "rangeMin") for price in prices):
        raise BadRow("price depends on the quantity")
    found = {amount(price, "value") for price in prices}
    if len(found) > 1:
        raise BadRow("several prices for one part")
    (value,) = found
    if not value:
        raise BadRow("no price above zero")
    return value


def _list_of(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(item: Any) -> str:
    if not isinstance(item, dict):
        return sample(item)
    names = ("partNumber", "displayName", "serviceCategory")
    return " | ".join(" ".join(str(item.get(name, "-")).split()) for name in names)[:200]


def _offers(number_: str, per_gpu_hour: Decimal, currency: str) -> Iterator[ListedOffer]:
    part = PARTS[number_]
    for shape in part.shapes:
        bare_metal = shape.name.startswith("BM.")
        shares = [(Market.ON_DEMAND, Decimal(1))]
        if shape.preemptible:
            shares.append((Market.SPOT, PREEMPTIBLE_SHARE))
        for market, share in shares:
            notes = [f"part {number_}, vCPUs and memory included"]
            if shape.doubt:
                notes.append(shape.doubt)
            if market is Market.SPOT:
                notes.append("preemptible: half of the list price")
            yield ListedOffer(
                source_id=shape.name,
                gpu_name=part.gpu,
                gpu_count=Decimal(shape.gpu_count),
                price=NativePrice(per_gpu_hour * share, currency, PriceUnit.GPU_HOUR),
                market=market,
                tier="standard",
                price_kind=PriceKind.FIXED,
                vram_gb=Decimal(part.vram_gb),
                form_factor=part.form_factor,
                interconnect=shape.interconnect,
                region=REGION,
                vcpus=None if shape.vcpus is None else Decimal(shape.vcpus),
                ram_gib=None if shape.ram_gib is None else Decimal(shape.ram_gib),
                dedicated=bare_metal,
                datacenter=True,
                terms=Terms(
                    billing_increment_seconds=BILLING_INCREMENT_SECONDS,
                    minimum_seconds=MINIMUM_SECONDS_BARE_METAL if bare_metal else MINIMUM_SECONDS,
                ),
                source_url="https://www.oracle.com/cloud/price-list/",
                notes=tuple(notes),
            )


provider = Provider(
    name="oci",
    every=timedelta(hours=6),
    config=OciConfig,
    facts=Facts(
        title="Oracle Cloud (OCI)",
        website="https://www.oracle.com/cloud/price-list/",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=BILLING_INCREMENT_SECONDS,
        minimum_seconds=MINIMUM_SECONDS,
        spot="preemptible instances at half of the list price; of GPU shapes only VM.GPU2 and "
        "VM.GPU3, so neither A100 nor H100",
        tiers=("standard",),
        default_tiers=("standard",),
        key="none",
        key_variable=None,
        terms="a public price list, undocumented for programs; one public project takes it for not "
        "reusable under the terms of Oracle's web site: your decision (enabled = false leaves it "
        "out). Bare metal shapes, all those of A100 and H100 among them, are billed for an hour at "
        "least, as Oracle announced with billing by the second",
        verified="parser checked against the GPU rows of the list recorded on 2026-08-22; never "
        "called live, because no live call was possible when this was written. GPUs per shape are "
        "a hand-kept table; which region has which shape is not said, so that all offers are of "
        'region "global"',
        min_every=timedelta(hours=1),
    ),
    fetch=fetch,
    parse=parse,
    poll_deadline=timedelta(minutes=5),
    patience=timedelta(seconds=120),  # the list has been seen to take more than a minute
)
