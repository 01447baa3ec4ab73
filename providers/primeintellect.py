"""Prime Intellect: an aggregator of many clouds' machines behind one list of availability.

Source: https://api.primeintellect.ai/api/v1/availability/gpus (needs a key; ``prices`` are for the
whole machine and hour). Where ``disk.defaultIncludedInPrice`` is false the disk of default size is
rented with it: the service's own summary (``/availability/gpu-summary``) lists prices with it, and
so does this module. The summary is also what an empty list, which comes now and then, is checked
against.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._countries import country_of
from providers._rows import BadRow, amount, sample, told_once
from providers._upstreams import upstream_of
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
    PriceKind,
    PriceUnit,
    Provider,
    ProviderConfig,
    Rejected,
    SecretStr,
    Terms,
    load_json,
)

PATH = "/api/v1/availability"
PAGE_SIZE = 100
MAX_PAGES = 100
PRICE_STEP = Decimal("0.000000001")  # prices are floats with noise in the last digits
MOST_USD_PER_HOUR = 1_000_000  # no disk costs as much
TIERS = {"secure_cloud": "secure", "community_cloud": "community"}
_STOCK = {
    "available": Availability.YES,
    "high": Availability.YES,
    "medium": Availability.YES,
    "low": Availability.YES,
    "unavailable": Availability.NO,
}


class PrimeIntellectConfig(ProviderConfig):
    """``[providers.primeintellect]``. Nothing answers without ``api_key``."""

    base_url: str = "https://api.primeintellect.ai"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: PrimeIntellectConfig) -> Sequence[Payload]:
    """All pages of the list; after an empty one the summary, which says whether that is true.

    The failure of the first page fails the poll, that of a later one leaves a gap that ``parse``
    notices. Raises FetchError.
    """
    url = config.base_url.rstrip("/") + PATH
    headers = {}
    if config.api_key is not None:
        headers["Authorization"] = f"Bearer {config.api_key.get_secret_value()}"
    pages: list[Payload] = []
    read = 0
    for page in range(1, MAX_PAGES + 1):
        params = {"page": str(page), "page_size": str(PAGE_SIZE)}
        try:
            pages.append(await http.get(f"{url}/gpus", params=params, headers=headers))
        except FetchError:
            if not pages:
                raise
            break
        count, total = _counts(pages[-1])
        read += count
        if not count or read >= total:
            break
    if not read:
        pages.append(await http.get(f"{url}/gpu-summary", headers=headers))
    return pages


def _counts(page: Payload) -> tuple[int, int]:
    """How many rows a page has and how many there are in all; zeros for another shape."""
    try:
        answer = load_json(page)
    except ParseError:
        return 0, 0  # parse() says what is wrong with it
    rows = answer.get("items") if isinstance(answer, dict) else None
    total = answer.get("totalCount") if isinstance(answer, dict) else None
    return len(rows) if isinstance(rows, list) else 0, total if type(total) is int else 0


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers of all pages, each machine in each place once.

    The result is incomplete when the pages hold fewer rows than ``totalCount``, or none at all
    while the summary has prices. Raises ParseError on any other shape, and when a required field
    is missing in every row.
    """
    rows: list[Any] = []
    total = summarised = 0
    for payload in payloads:
        answer = load_json(payload)
        if _is_summary(answer):
            summarised += _prices_in(answer)
            continue
        rows += _items(answer)
        told = answer.get("totalCount")
        total = max(total, told if type(told) is int else 0)
    _require_fields(rows)
    offers, rejected = _offers(rows)
    if not rows and summarised:
        reason = f"the list is empty while the summary has {summarised} prices"
    elif len(rows) < total:
        reason = f"{len(rows):,} of {total:,} rows were read"
    else:
        return Parsed(offers, rejected)
    return Parsed(offers, rejected, False, reason)


def _is_summary(answer: Any) -> bool:
    """Whether this is ``gpu-summary``: GPU types, their counts, and places with prices."""
    return (
        isinstance(answer, dict)
        and not answer.keys() & {"items", "totalCount", "detail", "error"}
        and bool(answer)
        and all(
            isinstance(by_count, dict) and all(count.isdigit() for count in by_count)
            for by_count in answer.values()
        )
    )


def _prices_in(summary: Mapping[str, Any]) -> int:
    """How many GPU types and counts the summary prices."""
    return sum(
        isinstance(places, dict) and bool(places)
        for by_count in summary.values()
        for places in by_count.values()
    )


def _items(answer: Any) -> list[Any]:
    if not isinstance(answer, dict) or not isinstance(answer.get("items"), list):
        said = answer.get("detail") or answer.get("error") if isinstance(answer, dict) else None
        words = f" (the service says: {' '.join(str(said).split())[:80]})" if said else ""
        raise ParseError("items", f"missing or not a list{words}")
    return list(answer["items"])


def _require_fields(rows: Sequence[Any]) -> None:
    objects = [row for row in rows if isinstance(row, dict)]
    if rows and not objects:
        raise ParseError("items[]", "an object was due")
    # isSpot may be null, but where no row has it a spot price would pass for on-demand.
    for name in ("provider", "gpuType", "gpuCount", "prices", "isSpot"):
        if objects and all(name not in row for row in objects):
            raise ParseError(f"items[].{name}", f"missing in all {len(objects)} rows")


def _offers(rows: Sequence[Any]) -> tuple[tuple[ListedOffer, ...], tuple[Rejected, ...]]:
    found: dict[tuple[Any, ...], list[ListedOffer]] = {}
    rejected: list[Rejected] = []
    for row in rows:
        try:
            offer = _offer(row)
        except BadRow as bad:
            rejected.append(Rejected(str(bad), sample(row)))
            continue
        key = (
            offer.source_id, offer.gpu_count, offer.market, offer.tier, offer.region,
            offer.vcpus, offer.ram_gib, offer.terms,
        )  # fmt: skip
        found.setdefault(key, []).append(offer)  # rows move between pages while they are read
    return told_once(found.values(), "machine listed twice", rejected), tuple(rejected)


def _offer(row: Any) -> ListedOffer:
    """One row's offer. Raises BadRow."""
    if not isinstance(row, dict):
        raise BadRow("row is not an object")
    gpu, cloud = _text(row, "gpuType"), upstream_of(row.get("provider"))
    if gpu is None or cloud is None:
        raise BadRow("gpuType is missing" if gpu is None else "provider is missing")
    if "isSpot" not in row:  # null means that it is not
        raise BadRow("not said whether it is spot")
    count = amount(row, "gpuCount")
    if not count:
        raise BadRow("gpuCount is missing or zero")
    security = row.get("security")
    tier = TIERS.get(security) if isinstance(security, str) else None
    price, currency, dynamic = _price(row, tier)
    disk = _part(row, "disk")
    size, each = _default_disk(disk)
    added = size * each if size is not None and each is not None else Decimal(0)
    if added > MOST_USD_PER_HOUR:  # a product of two figures may have more digits than there are
        raise BadRow("the disk's price is out of all range")
    spot = row.get("isSpot") is True
    status = _text(row, "stockStatus")
    socket = _text(row, "socket")
    return ListedOffer(
        source_id="/".join(filter(None, (cloud, _text(row, "cloudId") or gpu, socket))),
        gpu_name=gpu,
        gpu_count=count,
        price=NativePrice(
            (price + added).quantize(PRICE_STEP).normalize(), currency, PriceUnit.MACHINE_HOUR
        ),
        market=Market.SPOT if spot else Market.ON_DEMAND,
        tier=tier or "community",
        price_kind=PriceKind.DYNAMIC if spot or dynamic else PriceKind.FIXED,
        form_factor=socket,
        interconnect=_text(row, "interconnectType"),
        region=_text(row, "dataCenter") or _text(row, "region"),
        country=country_of(row.get("country")),
        vcpus=amount(_part(row, "vcpu"), "defaultCount") or None,
        ram_gib=amount(_part(row, "memory"), "defaultCount") or None,
        upstream=cloud,
        terms=Terms(
            disk_included_gb=size,
            disk_usd_per_gb_hour=each if currency == "USD" else None,
            # The unit of prepaidTime is not documented.
            commitment_unknown=row.get("prepaidTime") is not None,
        ),
        extras=Extras(
            availability=_STOCK.get((status or "").lower(), Availability.UNKNOWN),
            stock_label=status,
        ),
        source_url="https://app.primeintellect.ai/",
        notes=_notes(cloud, tier, added, size),
    )


def _price(row: Mapping[str, Any], tier: str | None) -> tuple[Decimal, str, bool]:
    """The amount for the whole machine without its disk, its currency, and whether it moves.

    A machine of the community cloud costs ``communityPrice`` where there is one.
    """
    prices = _part(row, "prices")
    price = amount(prices, "onDemand")
    if tier != "secure":
        price = amount(prices, "communityPrice") or price
    if not price:
        raise BadRow("no price")
    currency = _text(prices, "currency")
    if currency is None:
        raise BadRow("currency is missing")
    return price, currency, prices.get("isVariable") is True


def _default_disk(disk: Mapping[str, Any]) -> tuple[Decimal | None, Decimal | None]:
    """GB that come with the machine, and what a GB costs an hour where it is billed beside it.

    A size that is not said is unknown, and so is a disk of which nobody says who pays for it.
    """
    included = disk.get("defaultIncludedInPrice")
    size = amount(disk, "defaultCount")
    if included is True:
        return size, None
    if included is False:
        each = amount(disk, "pricePerUnit")
        if size and each is None:
            raise BadRow("the disk's price is missing")
        return size, each
    return None, None


def _notes(cloud: str, tier: str | None, added: Decimal, size: Decimal | None) -> tuple[str, ...]:
    notes = [f"a machine of {cloud}, sold by Prime Intellect"]
    if tier is None:
        notes.append("whether it is of the secure cloud is not stated")
    if added:
        notes.append(f"with its disk of {size} GB, which costs extra")
    return tuple(notes)


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return " ".join(value.split()) or None if isinstance(value, str) else None


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


provider = Provider(
    name="primeintellect",
    every=timedelta(minutes=30),
    config=PrimeIntellectConfig,
    facts=Facts(
        title="Prime Intellect",
        website="https://www.primeintellect.ai",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="rows marked isSpot: interruptible machines of the upstream cloud",
        tiers=("secure", "community"),
        default_tiers=("secure", "community"),
        key="required",
        key_variable="PRIME_API_KEY",
        terms="no published limit for the list; pages are read a second apart",
        verified="parser checked against the answers that the vendor's own client is tested with "
        "(2025-11); paging, community prices and spot rows follow its code and have not been seen "
        "live, because no live call was possible when this was written",
        min_every=timedelta(minutes=10),
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=1.0,
)
