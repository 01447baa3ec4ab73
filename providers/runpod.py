"""RunPod: GPU pods by the second, in its own data centres and at community hosts.

Source: the public GraphQL catalogue at https://api.runpod.io/graphql (``gpuTypes``). List prices
are USD per GPU-hour and the same in every data centre; ``lowestPrice`` is the hour of a whole pod
and tells here only whether a pod of that size is in stock.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._rows import BadRow, amount, number, sample, told_once
from tracker.provider import (
    HOURS_PER_MONTH,
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

COUNTS = (1, 2, 4, 8)

# Disk of a running pod is 0.10 USD per GB-month; traffic is free in both directions.
TERMS = Terms(
    billing_increment_seconds=1,
    disk_usd_per_gb_hour=Decimal("0.10") / HOURS_PER_MONTH,
    egress_usd_per_gb=Decimal(0),
)

# A pod's quote further than this from count x list price is worth a remark on the offer.
QUOTE_TOLERANCE = Decimal("0.02")


class RunpodConfig(ProviderConfig):
    """``[providers.runpod]``. The catalogue answers without a key; one is sent when set."""

    base_url: str = "https://api.runpod.io"
    api_key: SecretStr | None = None


@dataclass(frozen=True, slots=True)
class _Tier:
    """One of the two clouds, and the fields that speak about it."""

    name: str
    open_field: str
    price_field: str
    spot_field: str
    maximum_field: str
    alias: str  # s1, c8: lowestPrice in this cloud for that many GPUs
    datacenter: bool | None


TIERS = (
    _Tier("secure", "secureCloud", "securePrice", "secureSpotPrice",
          "maxGpuCountSecureCloud", "s", True),
    _Tier("community", "communityCloud", "communityPrice", "communitySpotPrice",
          "maxGpuCountCommunityCloud", "c", None),
)  # fmt: skip

_STABLE_FIELDS = (
    "id displayName memoryInGb secureCloud communityCloud securePrice communityPrice "
    "secureSpotPrice communitySpotPrice maxGpuCount"
)


def _query() -> str:
    contexts = " ".join(
        f"{tier.alias}{count}: lowestPrice(input: {{gpuCount: {count}, secureCloud: {secure}}}) "
        "{ minimumBidPrice uninterruptablePrice stockStatus }"
        for tier, secure in zip(TIERS, ("true", "false"), strict=True)
        for count in COUNTS
    )
    maxima = " ".join(tier.maximum_field for tier in TIERS)
    return f"query {{ gpuTypes {{ {_STABLE_FIELDS} {maxima} {contexts} }} }}"


QUERY = _query()
STABLE_QUERY = f"query {{ gpuTypes {{ {_STABLE_FIELDS} }} }}"


async def fetch(http: HttpClient, config: RunpodConfig) -> Sequence[Payload]:
    """Ask for all GPU types with their stock in one request.

    One unknown field makes GraphQL refuse the whole query (HTTP 400, or 200 with ``errors``):
    then the query is repeated with only the fields that have always been there, without stock.
    Raises FetchError when that is refused as well.
    """
    url = f"{config.base_url.rstrip('/')}/graphql"
    headers = {}
    if config.api_key is not None:
        headers["Authorization"] = f"Bearer {config.api_key.get_secret_value()}"
    try:
        payload = await http.post(url, json_body={"query": QUERY}, headers=headers)
    except FetchError as error:
        if error.status != 400:
            raise
    else:
        if _graphql_error(payload) is None:
            return [payload]
    payload = await http.post(url, json_body={"query": STABLE_QUERY}, headers=headers)
    problem = _graphql_error(payload)
    if problem is not None:
        raise FetchError(f"GraphQL error: {problem}", status=payload.status)
    return [payload]


def _graphql_error(payload: Payload) -> str | None:
    """The first GraphQL error of an answer; None when there is none or it is not an envelope."""
    try:
        answer = load_json(payload)
    except ParseError:
        return None  # parse() says what is wrong with it
    return _first_error(answer) if isinstance(answer, dict) else None


def _first_error(answer: Mapping[str, Any]) -> str | None:
    errors = answer.get("errors")
    if not errors:
        return None
    first = errors[0] if isinstance(errors, list) else errors
    message = first.get("message") if isinstance(first, dict) else first
    return " ".join(str(message).split())[:160]


def parse(payloads: Sequence[Payload]) -> Parsed:
    """Offers of one GPU type, cloud and pod size each, from ``gpuTypes`` answers.

    Accepts the GraphQL envelope and the bare array of GPU types. Raises ParseError on any other
    shape, on GraphQL errors, and when a required field is missing in every row.
    """
    found: dict[tuple[str, str, Market, Decimal], list[ListedOffer]] = {}
    rejected: list[Rejected] = []
    for payload in payloads:
        rows = _rows(load_json(payload))
        _require_fields(rows)
        for row in rows:
            for item in _read_row(row):
                if isinstance(item, Rejected):
                    rejected.append(item)
                    continue
                key = (item.source_id, item.tier, item.market, item.gpu_count)
                found.setdefault(key, []).append(item)
    offers = told_once(found.values(), "GPU type listed twice", rejected)
    return Parsed(offers, tuple(rejected))


def _rows(answer: Any) -> list[Any]:
    if isinstance(answer, dict):
        problem = _first_error(answer)
        if problem is not None:
            raise ParseError("errors[0].message", problem)
        data = answer.get("data")
        if not isinstance(data, dict):
            raise ParseError("data", "missing or not an object")
        if "gpuTypes" not in data:
            raise ParseError("data.gpuTypes", "missing")
        answer = data["gpuTypes"]
    if not isinstance(answer, list):
        raise ParseError("data.gpuTypes", f"a list was due, not {type(answer).__name__}")
    return answer


def _require_fields(rows: Sequence[Any]) -> None:
    """Raise when the answer as a whole lacks what no offer can do without."""
    objects = [row for row in rows if isinstance(row, dict)]
    if rows and not objects:
        raise ParseError("data.gpuTypes[]", "an object was due")
    for name in ("id", "memoryInGb", TIERS[0].price_field, TIERS[1].price_field):
        if objects and all(name not in row for row in objects):
            raise ParseError(f"data.gpuTypes[].{name}", f"missing in all {len(objects)} rows")


def _read_row(row: Any) -> Iterator[ListedOffer | Rejected]:
    shown = sample(row)
    if not isinstance(row, dict):
        yield Rejected("row is not an object", shown)
        return
    try:
        problem = _row_problem(row)
    except BadRow as bad:
        problem = str(bad)
    if problem is not None:
        yield Rejected(problem, shown)
        return
    for tier in TIERS:
        try:
            yield from _read_tier(row, tier)
        except BadRow as bad:
            yield Rejected(str(bad), shown)


def _row_problem(row: Mapping[str, Any]) -> str | None:
    """What makes the whole row useless, if anything."""
    name, memory_gb = row.get("id"), number(row, "memoryInGb")
    if not isinstance(name, str) or not name.strip():
        return "id is missing"
    if name.strip().lower() == "unknown" or memory_gb == 0:
        return "placeholder without a GPU"
    if memory_gb is not None and memory_gb < 0:
        return "memoryInGb is negative"
    if all(row.get(tier.open_field) is None for tier in TIERS):
        return "market flag missing"
    return None


def _read_tier(row: Mapping[str, Any], tier: _Tier) -> Iterator[ListedOffer | Rejected]:
    """The offers of one cloud. Its prices count only while its flag says that it is open."""
    shown = sample(row)
    price, spot = _price(row, tier.price_field), _price(row, tier.spot_field)
    is_open = row.get(tier.open_field)
    if is_open is None:
        raise BadRow("market flag missing")
    if not isinstance(is_open, bool):
        raise BadRow("market flag is neither true nor false")
    if not is_open:
        if price is not None or spot is not None:  # left behind when the market closed
            yield Rejected("market closed", shown)
        return
    if price is None:
        yield Rejected("open market without a price", shown)
        return
    if spot is not None and spot >= price:
        yield Rejected("spot price not below on-demand", shown)
        spot = None
    counts = [count for count in COUNTS if count <= _maximum(row, tier)]
    if not counts:
        yield Rejected("no GPU can be rented", shown)
    for count in counts:
        yield _offer(row, tier, count, price, Market.ON_DEMAND)
        if spot is not None:
            yield _offer(row, tier, count, spot, Market.SPOT)


def _offer(
    row: Mapping[str, Any], tier: _Tier, count: int, usd_per_gpu: Decimal, market: Market
) -> ListedOffer:
    name = " ".join(row["id"].split())  # documents and answers differ by a doubled space
    is_spot = market is Market.SPOT
    stock, notes = _stock(row, f"{tier.alias}{count}", count, usd_per_gpu, is_spot)
    return ListedOffer(
        source_id=name,
        gpu_name=name,
        gpu_count=Decimal(count),
        price=NativePrice(usd_per_gpu, "USD", PriceUnit.GPU_HOUR),
        market=market,
        tier=tier.name,
        price_kind=PriceKind.DYNAMIC if is_spot else PriceKind.FIXED,
        vram_gb=number(row, "memoryInGb"),
        slice="MIG" in name.upper().split(),
        datacenter=tier.datacenter,
        terms=TERMS,
        extras=stock,
        source_url="https://www.runpod.io/pricing",
        notes=notes,
    )


def _stock(
    row: Mapping[str, Any], alias: str, count: int, usd_per_gpu: Decimal, is_spot: bool
) -> tuple[Extras, tuple[str, ...]]:
    """Whether a pod of *count* GPUs is there now, and a remark where its quote is another price.

    Null for a context that was asked for means no stock there. The quote (USD per hour for the
    whole pod) is never the price: it covers whatever hosts are free at this moment.
    """
    if alias not in row:
        return Extras(), ()
    context = row[alias]
    if context is None:
        return Extras(availability=Availability.NO), ()
    if not isinstance(context, dict) or "stockStatus" not in context:
        return Extras(), ()
    availability, label = _stock_word(context["stockStatus"])
    quote = _quote(context, "minimumBidPrice" if is_spot else "uninterruptablePrice")
    if is_spot and quote is None and availability is Availability.YES:
        availability = Availability.UNKNOWN  # in stock, but nothing says that bids are taken
    notes: tuple[str, ...] = ()
    listed = usd_per_gpu * count
    if quote is not None and abs(quote - listed) > listed * QUOTE_TOLERANCE:
        # Remarks are kept as of the first poll that saw the offer: no amount stands in them.
        what = "lowest bid" if is_spot else "quote"
        notes = (f"when it was first seen, the {what} for this pod was not the list price",)
    return Extras(availability=availability, stock_label=label), notes


def _stock_word(word: Any) -> tuple[Availability, str | None]:
    if word is None:
        return Availability.NO, None
    label = " ".join(str(word).split())[:40]
    if label.lower() in {"high", "medium", "low"}:
        return Availability.YES, label
    if label.lower() in {"none", "out"}:
        return Availability.NO, label
    return Availability.UNKNOWN, label


def _quote(context: Mapping[str, Any], name: str) -> Decimal | None:
    try:
        return _price(context, name)
    except BadRow:
        return None  # it is a remark only


def _maximum(row: Mapping[str, Any], tier: _Tier) -> Decimal:
    """The largest pod of this cloud. Where no maximum is told, only one GPU is certain."""
    for name in (tier.maximum_field, "maxGpuCount"):
        maximum = number(row, name)
        if maximum is not None:
            return maximum
    return Decimal(1)


def _price(row: Mapping[str, Any], name: str) -> Decimal | None:
    """A price in USD; None for null and 0, which both mean: not offered."""
    return amount(row, name) or None


provider = Provider(
    name="runpod",
    every=timedelta(minutes=10),
    config=RunpodConfig,
    facts=Facts(
        title="RunPod",
        website="https://www.runpod.io",
        price_per="gpu",
        currency="USD",
        billing_increment_seconds=1,
        minimum_seconds=None,
        spot="interruptible pods; shown only where cheaper than on-demand in the same cloud "
        "(in 2026 RunPod listed both at one price)",
        tiers=("secure", "community"),
        default_tiers=("secure", "community"),
        key="optional",
        key_variable="RUNPOD_API_KEY",
        key_adds="nothing that is known of: the catalogue answers without one",
        terms="no published limit for the catalogue; one request per poll with an honest "
        "User-Agent (without one Cloudflare answers 403)",
        verified="parser checked against answers recorded in 2025-06 and 2026-08; the stock "
        "contexts and the fallback query follow the documentation and have not been seen live, "
        "because no live call was possible when this was written",
    ),
    fetch=fetch,
    parse=parse,
    poll_deadline=timedelta(seconds=60),
)
