"""Verda (DataCrunch until 2025): GPU machines in Finland and Iceland, one price in all places.

Source: the keyless list https://api.verda.com/v1/instance-types (whole machines per hour). Where it
cannot be read the price list inside https://verda.com/pricing stands in, which knows neither vCPUs
nor the machine types' names. With API credentials the API also says what is to be had now, and in
which place (``/v1/instance-availability``).

Instances are paid in advance by blocks of 10 minutes:
https://docs.verda.com/welcome-to-verda/pricing-and-billing
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Literal

from selectolax.lexbor import LexborHTMLParser

from providers._rows import BadRow, amount, number, sample, without_cut_end
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

TYPES_PATH = "/v1/instance-types"
TOKEN_PATH = "/v1/oauth2/token"  # noqa: S105 (a path)
AVAILABILITY_PATH = "/v1/instance-availability"
UNREAD_PLACE = "a place whose machines cannot be read"
PAGE_PATH = "/pricing"

BILLING_INCREMENT_SECONDS = 600
TERMS = Terms(
    billing_increment_seconds=BILLING_INCREMENT_SECONDS, egress_usd_per_gb=Decimal(0)
)  # fmt: skip

# Places are FIN-01, FIN-02, FIN-03 and ICE-01 (once ICL-01), as /v1/locations has them.
_COUNTRIES = {"FIN": "FI", "ICE": "IS", "ICL": "IS"}

_OFFER_NAME = re.compile(r"(\d{1,2})x (.+) (on-demand|spot)")


class VerdaConfig(ProviderConfig):
    """``[providers.verda]``. Prices need no credentials.

    ``client_id`` and ``api_key`` (the client secret) together add what is to be had now.
    ``page = false`` leaves out the pricing page when the list cannot be read.
    """

    base_url: str = "https://api.verda.com"
    page_url: str = "https://verda.com"
    currency: Literal["usd", "eur"] = "usd"
    page: bool = True
    client_id: str | None = None
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: VerdaConfig) -> Sequence[Payload]:
    """The list of machine types, or the pricing page; then what is to be had.

    A failure of the latter costs only that: it becomes a payload with its status. Raises
    FetchError (that of the list) when neither prices could be read.
    """
    url = config.base_url.rstrip("/") + TYPES_PATH
    try:
        payloads = [await http.get(url, params={"currency": config.currency})]
    except FetchError:
        if not config.page:
            raise
        try:
            return [await http.get(config.page_url.rstrip("/") + PAGE_PATH, expect="html")]
        except FetchError:
            pass
        raise
    if config.client_id and config.api_key:
        payloads += await _availability(http, config, config.client_id, config.api_key)
    return payloads


async def _availability(
    http: HttpClient, config: VerdaConfig, client_id: str, secret: SecretStr
) -> list[Payload]:
    """What is to be had on demand and as spot. The answer with the token is not kept."""
    base = config.base_url.rstrip("/")
    asked = base + TOKEN_PATH
    found: list[Payload] = []
    body = {
        "grant_type": "client_credentials",
        "client_id": client_id,
        "client_secret": secret.get_secret_value(),
    }
    try:
        answer = load_json(await http.post(asked, json_body=body))
        token = answer.get("access_token") if isinstance(answer, dict) else None
        if not isinstance(token, str):
            raise ParseError("access_token", "missing")
        headers = {"Authorization": f"Bearer {token}"}
        for query in ("", "?is_spot=true"):
            asked = base + AVAILABILITY_PATH + query
            found.append(await http.get(asked, headers=headers))
    except (FetchError, ParseError) as error:
        status = error.status if isinstance(error, FetchError) else None
        found.append(Payload(asked, b"", datetime.now(UTC), status=status or 0))
    return found


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers from the list or from the page, with what is to be had where that was answered.

    The page calls machines otherwise than the list: read in its place, it closes no offer of the
    list. Raises ParseError, naming the field, when an answer is none of them.
    """
    offers: list[ListedOffer] = []
    of_page = gap = False
    rejected: list[Rejected] = []
    stock: dict[Market, Mapping[str, list[str]]] = {}
    for payload in payloads:
        if payload.status != 200:
            said = f"HTTP {payload.status}" if payload.status else "no answer"
            rejected.append(Rejected("availability was not answered", f"{payload.url}: {said}"))
            continue
        if payload.body.lstrip()[:1] in (b"[", b"{"):
            rows = _list_of(load_json(payload))
            if any(isinstance(r, dict) and "location_code" in r for r in rows):
                market = Market.SPOT if "is_spot=true" in payload.url else Market.ON_DEMAND
                stock[market], unread = _locations(rows)
                rejected += unread
                gap = gap or bool(unread)
                continue
            found: Iterator[ListedOffer | Rejected] = _types(rows)
        else:
            of_page, found = True, _page(payload.text())
        for item in found:
            (rejected if isinstance(item, Rejected) else offers).append(item)  # type: ignore[arg-type]
    kept = tuple(
        placed for offer in _one_price_each(offers, rejected) for placed in _placed(offer, stock)
    )
    if of_page:
        return Parsed(kept, tuple(rejected), False, "the pricing page stands in for the list")
    return Parsed(kept, tuple(rejected), not gap, UNREAD_PLACE if gap else None)


def _one_price_each(
    offers: Sequence[ListedOffer], rejected: list[Rejected]
) -> Iterator[ListedOffer]:
    """The same machine at the same price twice (two processors) is one; at two prices, none."""
    groups: dict[tuple[str, Market], list[ListedOffer]] = {}
    for offer in offers:
        groups.setdefault((offer.source_id, offer.market), []).append(offer)
    for (name, market), group in groups.items():
        same = len({offer.price for offer in group}) == 1
        if same:
            yield group[0]
        reason = "listed twice" if same else "two prices for one machine"
        for offer in group[1:] if same else group:
            shown = f"{name} | {market} | {offer.price.amount}"
            rejected.append(Rejected(reason, shown[:200]))


# -- the list ----------------------------------------------------------------------------------


def _list_of(answer: Any) -> list[Any]:
    if isinstance(answer, list):
        return answer
    said = answer.get("message") if isinstance(answer, dict) else None
    more = f" (the answer says: {' '.join(str(said).split())[:80]})" if said else ""
    raise ParseError("body", f"a list of machine types was due{more}")


def _types(rows: Sequence[Any]) -> Iterator[ListedOffer | Rejected]:
    objects = [row for row in rows if isinstance(row, dict)]
    for name in ("instance_type", "gpu", "price_per_hour"):
        if rows and all(name not in row for row in objects):
            raise ParseError(f"[].{name}", f"missing in all {len(rows)} rows")
    for row in rows:
        try:
            yield from _type(row)
        except BadRow as bad:
            yield Rejected(str(bad), sample(row))


def _type(row: Any) -> Iterator[ListedOffer | Rejected]:
    """A machine type on demand and, where there is such, as spot; prices are for the machine."""
    if not isinstance(row, dict):
        raise BadRow("row is not an object")
    identity, name = row.get("instance_type"), row.get("name") or row.get("model")
    if not isinstance(identity, str) or not identity.strip():
        raise BadRow("instance_type is missing")
    gpus = number(_part(row, "gpu"), "number_of_gpus")
    if gpus == 0:
        raise BadRow("machine without GPUs")
    if gpus is None or gpus < 0 or gpus % 1:
        raise BadRow("number of GPUs is missing or not a whole number")
    if not isinstance(name, str) or not name.strip():
        raise BadRow("name is missing")
    currency = row.get("currency")
    if not isinstance(currency, str) or not currency.strip():
        raise BadRow("currency is missing")
    price, spot = amount(row, "price_per_hour"), amount(row, "spot_price")
    if not price:
        raise BadRow("no price above zero")
    offer = ListedOffer(
        source_id=identity.strip(),
        gpu_name=" ".join(name.split()),
        gpu_count=gpus,
        price=NativePrice(price, currency.strip().upper(), PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier="standard",
        vram_gb=amount(_part(row, "gpu_memory"), "size_in_gigabytes") or None,
        vram_is_total=True,
        vcpus=amount(_part(row, "cpu"), "number_of_cores") or None,
        ram_gib=amount(_part(row, "memory"), "size_in_gigabytes") or None,
        datacenter=True,
        terms=replace(TERMS, disk_included_gb=amount(_part(row, "storage"), "size_in_gigabytes")),
        source_url="https://verda.com/pricing",
        notes=_notes(row),
    )
    yield offer
    if spot and spot >= price:
        yield Rejected("spot price not below on-demand", sample(row))
    elif spot:  # "0" and null mean that there is no spot
        yield _as_spot(replace(offer, price=replace(offer.price, amount=spot)))


def _as_spot(offer: ListedOffer) -> ListedOffer:
    return replace(offer, market=Market.SPOT, price_kind=PriceKind.DYNAMIC)


def _part(row: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = row.get(name)
    return value if isinstance(value, dict) else {}


def _notes(row: Mapping[str, Any]) -> tuple[str, ...]:
    link, warning = row.get("p2p"), row.get("deploy_warning")
    notes = []
    if isinstance(link, str) and link.strip():
        notes.append(f"{' '.join(link.split())[:40]} between GPUs")
    if isinstance(warning, str) and warning.strip():
        notes.append(" ".join(warning.split())[:200])
    return tuple(notes)


# -- the page ----------------------------------------------------------------------------------


def _page(html: str) -> Iterator[ListedOffer | Rejected]:
    """The schema.org offers in the page's structured data."""
    nodes: list[Any] = []
    for script in LexborHTMLParser(without_cut_end(html)).css('script[type="application/ld+json"]'):
        try:
            data = json.loads(script.text() or "", parse_float=Decimal)
        except (ValueError, ArithmeticError, RecursionError):
            continue
        graph = data.get("@graph") if isinstance(data, dict) else data
        nodes += graph if isinstance(graph, list) else []
    found = [node for node in nodes if isinstance(node, dict) and node.get("@type") == "Offer"]
    if not found:
        raise ParseError("@graph[].Offer", "no offers in the page's structured data")
    for node in found:
        try:
            yield _listed(node)
        except BadRow as bad:
            yield Rejected(str(bad), sample(node))


def _listed(node: Mapping[str, Any]) -> ListedOffer:
    name = " ".join(str(node.get("name") or "").split())
    if name in ("on-demand", "spot"):
        raise BadRow("machine without GPUs")
    if name.endswith("instant cluster"):
        raise BadRow("instant cluster, not a machine")
    match = _OFFER_NAME.fullmatch(name)
    if match is None or not int(match[1]):
        raise BadRow("name is not that of a machine")
    if _part(node, "priceSpecification").get("unitText") != "hour":
        raise BadRow("price is not by the hour")
    price, currency = amount(node, "price"), node.get("priceCurrency")
    if not price:
        raise BadRow("no price above zero")
    if not isinstance(currency, str) or not currency.strip():
        raise BadRow("currency is missing")
    offer = ListedOffer(
        source_id=f"{match[1]}x {match[2]}",
        gpu_name=match[2],
        gpu_count=Decimal(match[1]),
        price=NativePrice(price, currency.strip().upper(), PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier="standard",
        datacenter=True,
        terms=TERMS,
        source_url="https://verda.com/pricing",
    )
    return _as_spot(offer) if match[3] == "spot" else offer


# -- what is to be had -------------------------------------------------------------------------


def _locations(rows: Sequence[Any]) -> tuple[dict[str, list[str]], list[Rejected]]:
    """Machine type -> where it is to be had, and the places that cannot be read.

    Raises ParseError where none of them can.
    """
    found: dict[str, list[str]] = {}
    unread: list[Rejected] = []
    for row in rows:
        one = row if isinstance(row, dict) else {}
        place, names = one.get("location_code"), one.get("availabilities")
        if place is None or not isinstance(names, list):
            unread.append(Rejected(UNREAD_PLACE, sample(row)))
            continue
        for name in names:
            found.setdefault(str(name), []).append(str(place))
    if len(unread) == len(rows):
        raise ParseError("[].availabilities", "missing or not a list")
    return found, unread


def _placed(
    offer: ListedOffer, stock: Mapping[Market, Mapping[str, list[str]]]
) -> Iterator[ListedOffer]:
    """The machine in each place where it is to be had; as it is where that was not answered."""
    places = stock.get(offer.market)
    if places is None:
        yield offer
        return
    here = sorted(set(places.get(offer.source_id, ())))
    for place in here:
        country = _COUNTRIES.get(place.partition("-")[0])
        there = Extras(availability=Availability.YES)
        yield replace(offer, region=place, country=country, extras=there)
    if not here:
        yield replace(offer, extras=Extras(availability=Availability.NO))


provider = Provider(
    name="verda",
    every=timedelta(hours=1),
    config=VerdaConfig,
    facts=Facts(
        title="Verda",
        website="https://verda.com/pricing",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=BILLING_INCREMENT_SECONDS,
        minimum_seconds=None,
        spot="interruptible machines; half of the on-demand price in 2026-08",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="VERDA_CLIENT_SECRET",
        key_adds="what is to be had now and where, together with client_id",
        terms="no published limit; the list answers without a key. The secret is used together "
        "with client_id, and only to ask what is to be had now",
        verified="parser checked against test data of another project in the shape of the list, "
        "and the page's structured data recorded in 2026-08; signing in and availability follow "
        "the documentation, and so do the blocks of 10 minutes that are billed. Nothing has been "
        "called live, because no live call was possible when this was written",
        min_every=timedelta(minutes=10),
    ),
    fetch=fetch,
    parse=parse,
    poll_deadline=timedelta(seconds=90),
)
