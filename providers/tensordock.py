"""TensorDock: hosts in many places, with CPU, RAM and storage billed beside the GPUs.

Source: https://dashboard.tensordock.com/api/v2/locations. ``price_per_hr`` is USD per GPU; a
machine also has vCPUs, RAM and storage at the place's rates, so an offer here is the machine that
can be compared with others: 8 vCPUs, 32 GB of RAM and 100 GB of storage for each GPU. The older
list of single hosts (v0) is gone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._countries import country_of
from providers._rows import BadRow, amount, sample, told_once
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

PATH = "/api/v2/locations"
COUNTS = (1, 2, 4, 8)

# What a machine has for each GPU, where the place has that much.
VCPUS, RAM_GB, STORAGE_GB = Decimal(8), Decimal(32), Decimal(100)


class TensordockConfig(ProviderConfig):
    """``[providers.tensordock]``. The list is asked for without a key unless one is set."""

    base_url: str = "https://dashboard.tensordock.com"
    api_key: SecretStr | None = None


async def fetch(http: HttpClient, config: TensordockConfig) -> Sequence[Payload]:
    """All places in one request. Raises FetchError, which says so where a key seems to be due."""
    headers = {}
    if config.api_key is not None:
        headers["Authorization"] = f"Bearer {config.api_key.get_secret_value()}"
    try:
        return [await http.get(config.base_url.rstrip("/") + PATH, headers=headers)]
    except FetchError as error:
        if config.api_key is not None or error.status not in (401, 403, 404):
            raise
        raise FetchError(
            f"{error}; the list may need a key now: set {provider.facts.key_variable}",
            status=error.status,
        ) from None


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers of 1, 2, 4 and 8 GPUs of each kind in each place, up to the largest machine there.

    Accepts ``{"data": {"locations": [...]}}`` and ``{"locations": [...]}``. Raises ParseError on
    any other shape, and when a required field is missing in every row.
    """
    found: dict[tuple[str, Decimal], list[ListedOffer]] = {}
    rejected: list[Rejected] = []
    for payload in payloads:
        places = _places(load_json(payload))
        _require_fields(places)
        for place in places:
            for item in _read(place):
                if isinstance(item, Rejected):
                    rejected.append(item)
                    continue
                found.setdefault((item.source_id, item.gpu_count), []).append(item)
    offers = told_once(found.values(), "GPU listed twice in a place", rejected)
    return Parsed(offers, tuple(rejected))


def _places(answer: Any) -> list[Any]:
    holder = answer.get("data") if isinstance(answer, dict) and "data" in answer else answer
    places = holder.get("locations") if isinstance(holder, dict) else None
    if isinstance(places, list):
        return list(places)
    said = answer.get("error") if isinstance(answer, dict) else None
    words = f" (the service says: {' '.join(str(said).split())[:80]})" if said else ""
    raise ParseError("data.locations", f"missing or not a list{words}")


def _require_fields(places: Sequence[Any]) -> None:
    objects = [place for place in places if isinstance(place, dict)]
    if places and not objects:
        raise ParseError("data.locations[]", "an object was due")
    for name in ("id", "gpus"):
        if objects and all(name not in place for place in objects):
            raise ParseError(f"data.locations[].{name}", f"missing in all {len(objects)} places")
    gpus = [
        gpu
        for place in objects
        if isinstance(place.get("gpus"), list)
        for gpu in place["gpus"]
        if isinstance(gpu, dict)
    ]
    if gpus and all("price_per_hr" not in gpu for gpu in gpus):
        field = "data.locations[].gpus[].price_per_hr"
        raise ParseError(field, f"missing in all {len(gpus)} rows")


def _read(place: Any) -> Iterator[ListedOffer | Rejected]:
    if not isinstance(place, dict):
        yield Rejected("place is not an object", sample(place))
        return
    if _text(place, "id") is None or not isinstance(place.get("gpus"), list):
        yield Rejected("place without an id or a list of GPUs", sample(place))
        return
    for gpu in place["gpus"]:
        try:
            yield from _offers(place, gpu)
        except BadRow as bad:
            yield Rejected(str(bad), sample(gpu))


def _offers(place: Mapping[str, Any], gpu: Any) -> Iterator[ListedOffer]:
    """The machines of one GPU in one place. Raises BadRow.

    Nobody rents where the largest machine has no GPU: the price is kept, out of stock.
    """
    if not isinstance(gpu, dict):
        raise BadRow("GPU is not an object")
    name = _text(gpu, "v0Name") or _text(gpu, "displayName")
    if name is None:
        raise BadRow("GPU without a name")
    price, largest = amount(gpu, "price_per_hr"), amount(gpu, "max_count")
    if not price:
        raise BadRow("no price")
    if largest is None:
        raise BadRow("max_count is missing")
    if largest != largest.to_integral_value():
        raise BadRow("max_count is not whole")
    rates = gpu.get("pricing")
    vcpu, ram, storage = (
        amount(rates, field) if isinstance(rates, dict) else None
        for field in ("per_vcpu_hr", "per_gb_ram_hr", "per_gb_storage_hr")
    )
    if vcpu is None or ram is None or storage is None:
        raise BadRow("no price for vCPUs, RAM or storage")
    if not (vcpu and ram and storage):  # nobody gives them away: the sum would be too low
        raise BadRow("vCPUs, RAM or storage at a price of zero")
    for count in (n for n in COUNTS if n <= max(largest, Decimal(1))):
        cpus, memory, disk = _machine(gpu, count, in_stock=largest > 0)
        usd = count * price + cpus * vcpu + memory * ram + disk * storage
        city = ", ".join(filter(None, (_text(place, "city"), _text(place, "stateprovince"))))
        yield ListedOffer(
            source_id=f"{_text(place, 'id')}/{name}",
            gpu_name=name,
            gpu_count=Decimal(count),
            price=NativePrice(usd, "USD", PriceUnit.MACHINE_HOUR),
            market=Market.ON_DEMAND,
            tier="standard",
            region=city or None,
            country=country_of(place.get("country")),
            vcpus=cpus,
            ram_gib=memory,
            terms=Terms(disk_included_gb=disk, disk_usd_per_gb_hour=storage),
            extras=Extras(availability=Availability.YES if largest else Availability.NO),
            source_url="https://www.tensordock.com/",
            notes=(
                f"the sum of the GPUs, {cpus:f} vCPUs, {memory:f} GB of RAM and {disk:f} GB of "
                "storage, each at the place's own rate",
            ),
        )


def _machine(
    gpu: Mapping[str, Any], count: int, *, in_stock: bool
) -> tuple[Decimal, Decimal, Decimal]:
    """vCPUs, GB of RAM and of storage of a machine with *count* GPUs: the usual ones, or the most
    that the place has."""
    found = gpu.get("resources")
    limits = found if in_stock and isinstance(found, dict) else {}
    wanted = (
        ("max_vcpus", VCPUS), ("max_ram_gb", RAM_GB), ("max_storage_gb", STORAGE_GB),
    )  # fmt: skip
    vcpus, ram, storage = (
        min(each * count, amount(limits, name) or each * count) for name, each in wanted
    )
    return vcpus, ram, storage


def _text(row: Mapping[str, Any], name: str) -> str | None:
    value = row.get(name)
    return " ".join(value.split()) or None if isinstance(value, str) else None


provider: Provider[TensordockConfig] = Provider(
    name="tensordock",
    every=timedelta(hours=1),
    config=TensordockConfig,
    facts=Facts(
        title="TensorDock",
        website="https://www.tensordock.com",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=None,
        minimum_seconds=None,
        spot="none",
        tiers=("standard",),
        default_tiers=("standard",),
        key="optional",
        key_variable="TENSORDOCK_API_KEY",
        key_adds="an answer, should the list be refused without one",
        terms="no published limit; one request a poll. What is listed is often gone when one "
        "orders it",
        verified="nothing live, and no recorded answer: parser and fixtures follow the types of a "
        "client that calls the list; whether it answers without a key is reported both ways, "
        "because no live call was possible when this was written",
        min_every=timedelta(minutes=15),
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=0.5,
    poll_deadline=timedelta(seconds=60),
)
