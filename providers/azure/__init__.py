"""Azure: the keyless Retail Prices API (list prices of whole VMs per hour, all public regions).

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices

Prices on demand and as spot are asked for in one set of requests, with the savings plans among
them, and reservations in another; a row is read as what its request asked for (``commitments.py``).

The API knows neither GPU nor GPU count: those come from ``sizes.py`` by the size's name. A size
with a GPU-like name that is not in that table is rejected with that reason, never guessed.
Which of the many rows of a size is its price: ``rows.py``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

from providers.azure.commitments import HOURS_PER_YEAR, RESERVATION, Committed, committed
from providers.azure.regions import COUNTRY
from providers.azure.rows import CONSUMPTION, Row, live_rows, without_placeholders
from providers.azure.rows import RESERVATION as RESERVATION_ROW
from providers.azure.sizes import find
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
    PriceKind,
    PriceUnit,
    Provider,
    ProviderConfig,
    Rejected,
    Terms,
    load_json,
)

HOST = "prices.azure.com"
PATH = "/api/retail/prices"
API_VERSION = "2023-01-01-preview"
MAX_PAGES = 20  # per request chain; all GPU sizes in all regions have been 1 to 5 pages

# Values are case-sensitive. At most 8 alternatives per request: more have been refused.
_EQ, _CONTAINS = "armSkuName eq '{}'", "contains(armSkuName,'{}')"
REQUESTS: tuple[tuple[str, ...], ...] = (
    (
        *(_CONTAINS.format(w) for w in ("A100", "H100", "H200", "MI300X", "GB200", "GB300")),
        _EQ.format("Standard_ND96asr_v4"),  # 8 x A100, without "A100" in its name
        _CONTAINS.format("A10_v"),
    ),
    (
        _CONTAINS.format("T4_v3"),
        *(_EQ.format(f"Standard_{name}")
          for name in ("ND40rs_v2", "NC6s_v3", "NC12s_v3", "NC24s_v3", "NC24rs_v3")),
    ),
)  # fmt: skip


class AzureConfig(ProviderConfig):
    """``[providers.azure]``. Only USD is a price; other currencies are Microsoft's conversions.

    ``reservations = false`` leaves them out and halves the requests.
    """

    base_url: str = f"https://{HOST}"
    currency: str = "USD"
    reservations: bool = True


async def fetch(http: HttpClient, config: AzureConfig) -> list[Payload]:
    """All pages of the GPU sizes' rows.

    A service that refuses ``or`` (HTTP 400) is asked for one alternative at a time. The failure
    of a first page fails the poll; that of a later one leaves a gap that ``parse`` notices, and
    so does that of reservations, which become a payload with their status.
    """
    payloads: list[Payload] = []
    await _read(http, config, CONSUMPTION, payloads)
    if config.reservations:
        try:
            await _read(http, config, RESERVATION_ROW, payloads)
        except FetchError as error:
            asked = urlencode(_params(config, RESERVATION_ROW, REQUESTS[0]))
            url = f"{config.base_url.rstrip('/')}{PATH}?{asked}"
            payloads.append(Payload(url, b"", datetime.now(UTC), status=error.status or 0))
    return payloads


async def _read(http: HttpClient, config: AzureConfig, kind: str, payloads: list[Payload]) -> None:
    """Add all pages of one type of rows to *payloads*."""
    together = True
    for alternatives in REQUESTS:
        if together:
            try:
                payloads += await _pages(http, config, kind, alternatives)
                continue
            except FetchError as error:
                if error.status != 400:
                    raise
                together = False
        for alternative in alternatives:
            payloads += await _pages(http, config, kind, (alternative,))


def _params(config: AzureConfig, kind: str, alternatives: Sequence[str]) -> dict[str, str]:
    only = f"serviceName eq 'Virtual Machines' and priceType eq '{kind}'"
    return {
        "api-version": API_VERSION,
        "currencyCode": f"'{config.currency}'",
        "meterRegion": "'primary'",
        "$filter": f"{only} and ({' or '.join(alternatives)})",
    }


async def _pages(
    http: HttpClient, config: AzureConfig, kind: str, alternatives: Sequence[str]
) -> list[Payload]:
    params = _params(config, kind, alternatives)
    pages = [await http.get(config.base_url.rstrip("/") + PATH, params=params)]
    asked: set[str] = set()
    while len(pages) < MAX_PAGES:
        link = _next_page(pages[-1], config)
        if link is None or link in asked:
            break
        asked.add(link)
        try:
            pages.append(await http.get(link))
        except FetchError:
            break
    return pages


def _next_page(page: Payload, config: AzureConfig) -> str | None:
    """Where the next page is: NextPageLink's query at the configured host.

    None at the end, and for a link to another scheme, host or path than the API's own.
    """
    try:
        body = load_json(page)
    except ParseError:
        return None  # parse() will say so
    link = body.get("NextPageLink") if isinstance(body, dict) else None
    if not isinstance(link, str) or not link:
        return None
    base = urlsplit(config.base_url)
    try:
        parts = urlsplit(link)
        trusted = parts.scheme in ("https", base.scheme) and parts.hostname in (HOST, base.hostname)
    except ValueError:
        return None
    if not trusted or not parts.path.endswith(PATH):
        return None
    return f"{config.base_url.rstrip('/')}{PATH}?{parts.query}"


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Pages of the Retail Prices API to offers. *Now* is when the last page was fetched.

    Raises ParseError when an answer is not a page of that API.
    """
    answered = [payload for payload in payloads if payload.status == 200]
    pages = [_envelope(payload) for payload in answered]
    if not pages:
        raise ParseError("Items", "no answer to read")
    currency = next((c for p in pages if isinstance(c := p.get("BillingCurrency"), str)), None)
    now = max(payload.fetched_at for payload in payloads)
    items: dict[str, list[Any]] = {CONSUMPTION: [], RESERVATION_ROW: []}
    for payload, page in zip(answered, pages, strict=True):
        items[_asked_for(payload.url)] += _items(payload.url, page)
    rows, rejected = live_rows(items[CONSUMPTION], now, currency)
    reserved, refused = live_rows(items[RESERVATION_ROW], now, currency, reservations=True)
    rows, placeholders = without_placeholders([*rows, *reserved])
    rejected += [*refused, *placeholders]
    plain = [row for row in rows if row.years is None]
    made = [_offer(row) for row in plain]
    for one in committed(plain, (row for row in rows if row.years), rejected):
        made.append(_committed_offer(one))
    rejected += [one for one in made if isinstance(one, Rejected)]
    gap = "a further page (NextPageLink) was not read" if _pages_not_read(answered, pages) else None
    if len(answered) < len(payloads):
        gap = "reservations were not answered"
    return Parsed(
        offers=tuple(_with_equal_spot_noted([o for o in made if isinstance(o, ListedOffer)])),
        rejected=tuple(rejected),
        complete=gap is None,
        incomplete_reason=gap,
    )


def _asked_for(url: str) -> str:
    """Which type of rows a request was for; that of plain prices where the address is not known."""
    wanted = dict(_query(url)).get("$filter", "")
    return RESERVATION_ROW if f"'{RESERVATION_ROW}'" in wanted else CONSUMPTION


def _items(url: str, page: dict[str, Any]) -> list[Any]:
    """The rows of a page; without savings plans where the version that has them was not asked."""
    items: list[Any] = page["Items"]
    if dict(_query(url)).get("api-version") == API_VERSION:
        return items
    return [
        {name: value for name, value in item.items() if name != "savingsPlan"}
        if isinstance(item, dict) else item
        for item in items
    ]  # fmt: skip


def _envelope(payload: Payload) -> dict[str, Any]:
    body = load_json(payload)
    if not isinstance(body, dict):
        raise ParseError("body", "not a JSON object with Items")
    if not isinstance(body.get("Items"), list):
        error = body.get("Error") or body.get("error")
        said = f" (the service says: {str(error)[:80]!r})" if error else ""
        raise ParseError("Items", f"missing or not a list{said}")
    return body


def _pages_not_read(payloads: Sequence[Payload], pages: Sequence[dict[str, Any]]) -> bool:
    read = {_query(payload.url) for payload in payloads if payload.url}
    links = [page.get("NextPageLink") for page in pages]
    return any(not isinstance(link, str) or _query(link) not in read for link in links if link)


def _query(url: str) -> tuple[tuple[str, str], ...]:
    """What a URL asks for, whatever its host, port and percent-encoding."""
    try:
        return tuple(sorted(parse_qsl(urlsplit(url).query, keep_blank_values=True)))
    except ValueError:
        return (("unreadable", url),)


def _offer(row: Row) -> ListedOffer | Rejected:
    known = find(row.sku)
    if known is None:
        gpu_series = row.sku.casefold().startswith("standard_n")
        reason = "no GPU facts for this size" if gpu_series else "not a GPU size"
        return Rejected(reason, row.sample)
    name, size = known
    if not size.count_certain:
        return Rejected("GPU count of this size is not certain", row.sample)
    notes = [size.doubt] if size.doubt else []
    if row.spot:
        notes.append("list price of the spot meter; the portal may show another")
    if not row.primary:
        notes.append("price of a non-primary meter")
    return ListedOffer(
        source_id=name,
        gpu_name=size.gpu,
        gpu_count=size.gpu_count,
        price=NativePrice(row.amount, row.currency, PriceUnit.MACHINE_HOUR),
        market=Market.SPOT if row.spot else Market.ON_DEMAND,
        tier="standard",
        price_kind=PriceKind.DYNAMIC if row.spot else PriceKind.FIXED,
        vram_gb=size.vram_gb,
        form_factor=size.form_factor,
        slice=size.slice,
        interconnect=size.interconnect,
        region=row.region,
        country=COUNTRY.get(row.region),
        vcpus=size.vcpus,
        ram_gib=size.ram_gib,
        datacenter=True,
        source_url=_source_url(row),
        notes=tuple(notes),
    )


def _committed_offer(one: Committed) -> ListedOffer | Rejected:
    """A VM for whoever commits to years of it: the size's facts, at the price of its hour."""
    offer = _offer(one.row)
    if isinstance(offer, Rejected):
        return offer
    how = (
        f"reservation: the price of its term by the hour, {HOURS_PER_YEAR:,} h a year"
        if one.plan == RESERVATION
        else "savings plan: to spend so much in every hour of the term, on any compute"
    )
    return replace(
        offer,
        source_id=f"{offer.source_id}/{one.plan}",
        price=replace(offer.price, amount=one.per_hour),
        market=Market.RESERVED,
        terms=Terms(commitment_hours=one.years * HOURS_PER_YEAR),
        notes=(*offer.notes, how),
    )


def _source_url(row: Row) -> str:
    """A link that shows the rows of this size and region to a person."""
    wanted = f"armSkuName eq '{row.sku}' and armRegionName eq '{row.region}'"
    return f"https://{HOST}{PATH}?api-version={API_VERSION}&$filter={quote(wanted)}"


def _with_equal_spot_noted(offers: Sequence[ListedOffer]) -> Iterator[ListedOffer]:
    """A spot price equal to on-demand is legal (a pool without discount) but worth a remark."""
    on_demand: dict[tuple[str, str | None, str], Decimal] = {
        (o.source_id, o.region, o.price.currency): o.price.amount
        for o in offers
        if o.market is Market.ON_DEMAND
    }
    for offer in offers:
        full = on_demand.get((offer.source_id, offer.region, offer.price.currency))
        if offer.market is Market.SPOT and offer.price.amount == full:
            note = "spot price equals the on-demand price"
            offer = replace(offer, notes=(*offer.notes, note))
        yield offer


provider = Provider(
    name="azure",
    every=timedelta(hours=1),
    config=AzureConfig,
    facts=Facts(
        title="Microsoft Azure",
        website="https://azure.microsoft.com/pricing/details/virtual-machines/linux/",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="list price of the Spot meter; evicted at any time, and the portal may show another",
        tiers=("standard",),
        default_tiers=("standard",),
        key="none",
        key_variable=None,
        terms="documented public API, made for programs; redistribution terms are not clear",
        verified="row rules checked against the documented shape and a third-party fixture; "
        "never called live from this project; GPU facts per size are a hand-kept table. "
        "Reservations (their price for the whole term, whatever the unit says) and savings plans "
        "follow the documented examples, and are believed beside an on-demand price only",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=6.0,  # a fourth request within about 9 s got a 429
    poll_deadline=timedelta(minutes=5),  # one alternative at a time is 2 x 15 requests
)
