"""Vultr: GPUs whole and in slices, in virtual machines and on bare metal.

Source: https://api.vultr.com/v2 (``/plans``, ``/plans-metal`` and ``/regions`` answer without a
key; what is in stock, ``/regions/{id}/availability``, needs one). Prices are USD per hour of the
whole plan. A virtual machine's ``gpu_vram_gb`` is the total of the plan: against the memory of its
GPU it tells how many there are, or which share of one. On bare metal only the ids say it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

from providers._countries import country_of
from providers._rows import BadRow, amount, sample, told_once
from providers._vultr_plans import Plan, read_plan
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
    PriceUnit,
    Provider,
    ProviderConfig,
    Rejected,
    SecretStr,
    Terms,
    load_json,
)

PAGE = "500"
MAX_PAGES = 20
MAX_PLACES = 100
LISTS = ("plans", "plans_metal")
_STOCK_PATH = re.compile(r"/regions/([a-z0-9-]+)/availability$")
_GPU_PLAN = re.compile(r"^(vcg|vdm)-|^vbm-.*-gpu")


class VultrConfig(ProviderConfig):
    """``[providers.vultr]``. Prices need no key; with ``api_key`` stock is asked for as well."""

    base_url: str = "https://api.vultr.com/v2"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: VultrConfig) -> Sequence[Payload]:
    """All pages of both lists, the places and, with a key, what each place has in stock.

    The failure of a list's first page fails the poll, that of a later one leaves a gap that
    ``parse`` notices. Places and stock are extras. Raises FetchError.
    """
    base = config.base_url.rstrip("/")
    payloads = await _pages(http, f"{base}/plans", {"type": "all", "per_page": PAGE})
    payloads += await _pages(http, f"{base}/plans-metal", {"per_page": PAGE})
    places = _places_named(payloads)
    with suppress(FetchError):
        payloads.append(await http.get(f"{base}/regions", params={"per_page": PAGE}))
    if config.api_key is not None:
        headers = {"Authorization": f"Bearer {config.api_key.get_secret_value()}"}
        for place in places[:MAX_PLACES]:
            with suppress(FetchError):
                url = f"{base}/regions/{place}/availability"
                payloads.append(await http.get(url, headers=headers))
    return payloads


async def _pages(http: HttpClient, url: str, params: Mapping[str, str]) -> list[Payload]:
    pages = [await http.get(url, params=params)]
    seen: set[str] = set()
    while len(pages) < MAX_PAGES:
        try:
            cursor = _next(load_json(pages[-1]))
        except ParseError:
            break  # parse() says what is wrong with it
        if not cursor or cursor in seen:
            break
        seen.add(cursor)
        try:
            pages.append(await http.get(url, params={**params, "cursor": cursor}))
        except FetchError:
            break
    return pages


def _next(answer: Any) -> str | None:
    """The cursor of the page that follows."""
    for name in ("meta", "links", "next"):
        answer = answer.get(name) if isinstance(answer, dict) else None
    return answer or None if isinstance(answer, str) else None


def _places_named(pages: Sequence[Payload]) -> list[str]:
    """The places in which the lists have a plan with a GPU."""
    found: set[str] = set()
    for page in pages:
        with suppress(ParseError):
            for _, rows in _lists(load_json(page)):
                for row in rows:
                    if isinstance(row, dict) and _GPU_PLAN.match(str(row.get("id"))):
                        found.update(_locations(row))
    return sorted(place for place in found if re.fullmatch(r"[a-z0-9-]{1,20}", place))


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer for each place of each plan with GPUs, on demand and preemptible.

    The result is incomplete when a list or a further page of one is missing. Raises ParseError on
    any other shape, and when a required field is missing in every row.
    """
    rows: list[tuple[str, Any]] = []
    countries: dict[str, str | None] = {}
    stock: dict[str, frozenset[str]] = {}
    pages: dict[str, int] = dict.fromkeys(LISTS, 0)
    more: dict[str, int] = dict.fromkeys(LISTS, 0)
    for payload in payloads:
        answer = load_json(payload)
        if isinstance(answer, dict) and isinstance(plans := answer.get("available_plans"), list):
            if place := _STOCK_PATH.search(_path(payload.url)):
                stock[place[1]] = frozenset(name for name in plans if isinstance(name, str))
            continue
        if isinstance(answer, dict) and isinstance(regions := answer.get("regions"), list):
            countries |= _countries(regions)
            continue
        for name, found in _lists(answer):
            pages[name] += 1
            more[name] += _next(answer) is not None
            rows += ((name, row) for row in found)
    _require_fields([row for _, row in rows])
    offers, rejected = _offers(rows, countries, stock)
    missing = [name for name in LISTS if not pages[name]]
    cut = [name for name in LISTS if pages[name] and more[name] >= pages[name]]
    reason = f"{' and '.join(missing)} not in the answer" if missing else None
    if cut and reason is None:
        reason = f"a further page of {' and '.join(cut)} was not read"
    return Parsed(offers, rejected, reason is None, reason)


def _path(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""


def _lists(answer: Any) -> list[tuple[str, list[Any]]]:
    found = [
        (name, answer[name])
        for name in LISTS
        if isinstance(answer, dict) and isinstance(answer.get(name), list)
    ]
    if not found:
        said = answer.get("error") if isinstance(answer, dict) else None
        words = f" (the service says: {' '.join(str(said).split())[:80]})" if said else ""
        raise ParseError("plans", f"missing or not a list{words}")
    return found


def _countries(regions: Sequence[Any]) -> dict[str, str | None]:
    return {
        str(row["id"]): country_of(row.get("country"))
        for row in regions
        if isinstance(row, dict) and isinstance(row.get("id"), str)
    }


def _require_fields(rows: Sequence[Any]) -> None:
    objects = [row for row in rows if isinstance(row, dict)]
    if rows and not objects:
        raise ParseError("plans[]", "an object was due")
    for name in ("id", "hourly_cost", "locations"):
        if objects and all(name not in row for row in objects):
            raise ParseError(f"plans[].{name}", f"missing in all {len(objects)} rows")


def _offers(
    rows: Sequence[tuple[str, Any]],
    countries: Mapping[str, str | None],
    stock: Mapping[str, frozenset[str]],
) -> tuple[tuple[ListedOffer, ...], tuple[Rejected, ...]]:
    found: dict[tuple[str, str | None, Market], list[ListedOffer]] = {}
    rejected: list[Rejected] = []
    for kind, row in rows:
        try:
            plan = read_plan(row, metal=kind == "plans_metal")
            listed = [
                _offer(plan, market, usd, place, countries.get(place or ""), stock)
                for market, usd in _prices(row, rejected)
                for place in _locations(row) or (None,)
            ]
        except BadRow as bad:
            rejected.append(Rejected(str(bad), sample(row)))
            continue
        for offer in listed:
            found.setdefault((offer.source_id, offer.region, offer.market), []).append(offer)
    return told_once(found.values(), "plan listed twice", rejected), tuple(rejected)


def _locations(row: Mapping[str, Any]) -> list[str]:
    found = row.get("locations")
    return [place for place in found if isinstance(place, str)] if isinstance(found, list) else []


def _prices(row: Mapping[str, Any], rejected: list[Rejected]) -> list[tuple[Market, Decimal]]:
    """USD per hour of the whole plan by market; what is not sold in a way has no price there.

    A preemptible price that is not below on-demand is told as rejected. Raises BadRow.
    """
    usual = None if row.get("deploy_ondemand") is False else amount(row, "hourly_cost")
    lower = (
        None if row.get("deploy_preemptible") is False else amount(row, "hourly_cost_preemptible")
    )
    if not usual and not lower:
        raise BadRow("no price")
    prices = [(Market.ON_DEMAND, usual)] if usual else []
    if lower and usual and lower >= usual:
        rejected.append(Rejected("spot price not below on-demand", sample(row)))
    elif lower:
        prices.append((Market.SPOT, lower))
    return prices


def _offer(
    plan: Plan, market: Market, usd: Decimal, place: str | None, country: str | None,
    stock: Mapping[str, frozenset[str]],
) -> ListedOffer:  # fmt: skip
    monthly = plan.monthly_usd_preemptible if market is Market.SPOT else plan.monthly_usd
    cap = "by the hour up to the plan's price of a month" if monthly else None
    share = f"{plan.total_vram_gb.normalize():f} GB of a GPU" if plan.is_slice else None
    return ListedOffer(
        source_id=plan.id,
        gpu_name=plan.gpu_name,
        gpu_count=plan.count,
        price=NativePrice(usd, "USD", PriceUnit.MACHINE_HOUR),
        market=market,
        tier="standard",
        vram_gb=None if plan.is_slice else plan.total_vram_gb,
        vram_is_total=not plan.is_slice,
        slice=plan.is_slice,
        region=place,
        country=country,
        vcpus=plan.vcpus,
        ram_gib=plan.ram_gib,
        dedicated=True if plan.metal or plan.id.startswith("vdm-") else None,
        datacenter=True,
        terms=Terms(disk_included_gb=plan.disk_gb),
        extras=Extras(availability=_in_stock(plan.id, place, stock), disk_gb=plan.disk_gb),
        source_url="https://www.vultr.com/pricing/#cloud-gpu",
        notes=tuple(note for note in (share, cap) if note),
    )


def _in_stock(plan_id: str, place: str | None, stock: Mapping[str, frozenset[str]]) -> Availability:
    """No place has none; a place that lists a plan may be out of it, unless it was asked."""
    if place is None:
        return Availability.NO
    if place not in stock:
        return Availability.UNKNOWN
    return Availability.YES if plan_id in stock[place] else Availability.NO


provider = Provider(
    name="vultr",
    every=timedelta(hours=1),
    config=VultrConfig,
    facts=Facts(
        title="Vultr",
        website="https://www.vultr.com",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="preemptible plans on bare metal",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="VULTR_API_KEY",
        key_adds="what is in stock in each place",
        terms="30 requests a second and address; the key only adds what is in stock",
        verified="parser checked against plans that another project copied from the live service "
        "(2024-2025); cursors, dedicated plans and the list of what is in stock follow the "
        "documentation and have not been seen live, because no live call was possible when this "
        "was written",
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=0.1,
)
