"""Shadeform: a reseller of many clouds' machines, by one list of instance types.

Source: https://api.shadeform.ai/v1/instances/types (``hourly_price`` in US cents for the whole
instance; the answer does not name the currency). The same objects stand in the home page, which is
read where the list asks for a key and none is set.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._countries import country_of
from providers._flight import objects, unescaped
from providers._rows import BadRow, amount, in_stock, sample, told_once
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
    PriceUnit,
    Provider,
    ProviderConfig,
    Rejected,
    SecretStr,
    Terms,
    load_json,
)

PATH = "/v1/instances/types"
_CENTS = Decimal(100)
_COUNT = re.compile(r"(?<=[A-Za-z0-9])x(\d{1,2})(?=_|$)")  # "A100_80Gx8_NVLINK"
_MAX_PLACE = 100  # characters: digits are sought at its end, which takes their square
_FORM = re.compile(r"(?<![a-z])(sxm\d?|pcie|nvl)(?![a-z])", re.IGNORECASE)


class ShadeformConfig(ProviderConfig):
    """``[providers.shadeform]``. Off until it is enabled: read its terms first.

    Without ``api_key`` the list is asked for as it is, and where that is refused the home page.
    """

    enabled: bool = False
    base_url: str = "https://api.shadeform.ai"
    home_url: str = "https://shadeform.com"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: ShadeformConfig) -> Sequence[Payload]:
    """The list of instance types in one request; without a key the home page is the second try.

    Raises FetchError.
    """
    url = config.base_url.rstrip("/") + PATH
    if config.api_key is not None:
        headers = {"X-API-KEY": config.api_key.get_secret_value()}
        return [await http.get(url, headers=headers)]
    try:
        return [await http.get(url)]
    except FetchError as error:
        if error.status not in (401, 403):
            raise
    home = config.home_url.rstrip("/") + "/"
    return [await http.get(home, expect="html", max_bytes=16 * 2**20)]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """One offer for each region of each instance type with GPUs.

    Accepts the list (``{"instance_types": [...]}``) and the home page that holds its objects.
    Raises ParseError on any other shape, and when a required field is missing in every row.
    """
    found: dict[tuple[str, str | None], list[ListedOffer]] = {}
    rejected: list[Rejected] = []
    for payload in payloads:
        rows = _rows(payload)
        _require_fields(rows)
        for row in rows:
            try:
                listed = list(_read(row))
            except BadRow as bad:
                rejected.append(Rejected(str(bad), sample(row)))
                continue
            for offer in listed:
                found.setdefault((offer.source_id, offer.region), []).append(offer)
    offers = told_once(found.values(), "instance type listed twice", rejected)
    return Parsed(offers, tuple(rejected))


def _rows(payload: Payload) -> list[Any]:
    if payload.body.lstrip()[:1] == b"<":
        return _rows_of_page(payload.text())
    answer = load_json(payload)
    if isinstance(answer, dict) and isinstance(answer.get("instance_types"), list):
        return list(answer["instance_types"])
    raise ParseError("instance_types", f"missing or not a list{_said(answer)}")


def _said(answer: Any) -> str:
    """What an error answer (``error_code``, ``error``) says of itself."""
    words = answer.get("error") or answer.get("error_code") if isinstance(answer, dict) else None
    return f" (the service says: {' '.join(str(words).split())[:80]})" if words else ""


def _rows_of_page(page: str) -> list[Any]:
    rows = [row for row in objects(unescaped(page), '{"cloud":"') if "shade_instance_type" in row]
    if not rows:
        raise ParseError("page", "no instance types in it")
    return rows


def _require_fields(rows: Sequence[Any]) -> None:
    objects = [row for row in rows if isinstance(row, dict)]
    if rows and not objects:
        raise ParseError("instance_types[]", "an object was due")
    for name in ("cloud", "shade_instance_type", "hourly_price"):
        if objects and all(name not in row for row in objects):
            raise ParseError(f"instance_types[].{name}", f"missing in all {len(objects)} rows")


def _read(row: Any) -> Iterator[ListedOffer]:
    """An instance type's offers. Raises BadRow."""
    if not isinstance(row, dict):
        raise BadRow("row is not an object")
    facts = row.get("configuration")
    facts = row | facts if isinstance(facts, dict) else row
    gpu, cloud = _text(facts, "gpu_type"), upstream_of(row.get("cloud"))
    if gpu is not None and gpu.upper() == "CPU":
        raise BadRow("no GPU")
    if gpu is None or cloud is None:
        raise BadRow("gpu_type is missing" if gpu is None else "cloud is missing")
    names = [_text(row, name) for name in ("cloud_instance_type", "shade_instance_type")]
    count, cents = _gpus(row, facts, names[1]), amount(row, "hourly_price")
    if not cents:
        raise BadRow("no price")
    if cents != cents.to_integral_value():
        raise BadRow("hourly_price is not whole cents")
    ids = "/".join([cloud, *filter(None, names)])
    if not any(names):
        raise BadRow("shade_instance_type is missing")
    disk = amount(facts, "storage_in_gb")
    kind = row.get("deployment_type")
    for region, country, availability in _regions(row.get("availability")):
        yield ListedOffer(
            source_id=ids,
            gpu_name=gpu,
            gpu_count=count,
            price=NativePrice(cents / _CENTS, "USD", PriceUnit.MACHINE_HOUR),
            market=Market.ON_DEMAND,
            tier="standard",
            vram_gb=amount(facts, "vram_per_gpu_in_gb") or None,
            form_factor=_form((gpu, *names), facts),
            interconnect="NVLink" if _nvlink(names, facts) else None,
            region=region,
            country=country,
            vcpus=amount(facts, "vcpus") or None,
            ram_gib=amount(facts, "memory_in_gb") or None,
            dedicated=True if kind == "baremetal" else None,
            upstream=cloud,
            terms=Terms(disk_included_gb=disk or None),
            extras=Extras(availability=availability, disk_gb=disk or None),
            source_url="https://www.shadeform.ai/instances",
            notes=(
                f"a machine of {cloud}, sold by Shadeform",
                *(("a container, not a machine of one's own",) if kind == "container" else ()),
            ),
        )


def _gpus(row: Mapping[str, Any], facts: Mapping[str, Any], shade_type: str | None) -> Decimal:
    """GPUs of the machine. It is said up to three times; the price of a GPU hangs on it, so that
    where they contradict each other none is believed. Raises BadRow."""
    count = amount(facts, "num_gpus")
    if not count:
        raise BadRow("num_gpus is missing or zero")
    flat = amount(row, "num_gpus")
    named = _COUNT.search(shade_type or "")
    if flat not in (None, count) or (named and Decimal(named[1]) != count):
        raise BadRow("the number of GPUs is told in two ways")
    return count


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return " ".join(value.split()) or None if isinstance(value, str) else None


def _form(names: Sequence[str | None], facts: Mapping[str, Any]) -> str | None:
    """The form factor: what a type's names say goes before ``interconnect``, which is sometimes
    wrong (an SXM machine tagged pcie)."""
    for text in (*names, _text(facts, "interconnect")):
        found = _FORM.search((text or "").replace("_", " "))
        if found:
            return found[1]
    return None


def _nvlink(names: Sequence[str | None], facts: Mapping[str, Any]) -> bool:
    return facts.get("nvlink") is True or any("nvlink" in (name or "").lower() for name in names)


def _regions(found: Any) -> Iterator[tuple[str | None, str | None, Availability]]:
    """Region, country and stock. A type without regions is listed, and its stock is not said."""
    places = [p for p in found if isinstance(p, dict)] if isinstance(found, list) else []
    if not places:
        yield None, None, Availability.UNKNOWN
    for place in places:
        region = _text(place, "region")
        shown = _text(place, "display_name") or ""
        before = shown.partition(",")[0][:_MAX_PLACE]
        country = country_of(before) or country_of(re.sub(r"[-_ ]?\d+$", "", before))
        yield region, country, in_stock(place.get("available"))


provider = Provider(
    name="shadeform",
    every=timedelta(hours=1),
    config=ShadeformConfig,
    facts=Facts(
        title="Shadeform",
        website="https://www.shadeform.ai",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="SHADEFORM_API_KEY",
        key_adds="the list instead of the home page, where it is refused without one",
        terms="they restrict systematic compilation of its listings: off until you have read them "
        "and set enabled = true",
        verified="parser checked against ten entries recorded in 2026-08; whether the list answers "
        "without a key is reported both ways, and neither it nor the home page has been seen "
        "live, because no live call was possible when this was written",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
    poll_deadline=timedelta(seconds=60),
)
