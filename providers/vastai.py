"""Vast.ai: a marketplace where many hosts rent out machines, each at its own price.

Source: the search endpoint https://console.vast.ai/api/v0/bundles/. It answers at most 64 rows
and has no page token, so a census is many narrow queries; whether they add up to a whole one is
worked out from the recorded queries and answers alone (providers/_vastai_search.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

from providers._rows import BadRow, amount, number, sample
from providers._vastai_search import (
    VERIFICATIONS,
    Body,
    VastaiConfig,
    cut_off,
    describe,
    fetch,
    request_body,
    require_fields,
    rows_of,
)
from tracker.provider import (
    Availability,
    Extras,
    Facts,
    ListedOffer,
    Market,
    NativePrice,
    Parsed,
    Payload,
    PriceKind,
    PriceUnit,
    Provider,
    Rejected,
    Terms,
    load_json,
)

DISK_HOURS_PER_MONTH = Decimal(720)  # how Vast.ai turns its USD per GB-month into an hour's
TERMS_STEP = Decimal("0.000000001")  # terms are floats with noise in the last digits
CONTINENTS = frozenset({"AF", "AN", "AS", "EU", "NA", "OC", "SA"})


def parse(payloads: Sequence[Payload]) -> Parsed:
    """On-demand and interruptible offers of every machine and size found.

    Accepts ``{"offers": [...]}`` and the bare array that the vendor's own CLI writes. Raises
    ParseError on any other shape and when a required field is missing in every row. The result
    is complete only when no answer was cut off without finer queries that make up for it.
    """
    answers: list[tuple[Body | None, list[Any]]] = []
    problems: list[str] = []
    for payload in payloads:
        if payload.status == 200:
            answers.append((request_body(payload), rows_of(load_json(payload))))
        else:
            said = " ".join(payload.text().split())[:100]
            problems.append(f"no answer for {describe(request_body(payload))} ({said})")
    require_fields([row for _, rows in answers for row in rows])
    problems += cut_off(answers)
    rejected: list[Rejected] = []
    asks = list(_read_asks((rows for _, rows in answers), rejected))
    offers = tuple(_offers(_one_per_machine_and_size(asks, rejected), rejected))
    if not problems:
        return Parsed(offers, tuple(rejected))
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    return Parsed(offers, tuple(rejected), False, f"truncated census: {problems[0]}{more}")


@dataclass(frozen=True, slots=True)
class _Ask:
    """One row that can be rented: what identifies it, its prices, and the row itself."""

    id: str
    machine_id: str
    num_gpus: int
    usd_per_hour: Decimal  # dph_base: the whole offer without disk
    min_bid: Decimal | None
    is_bid: bool
    row: Mapping[str, Any]


def _read_asks(answers: Iterable[list[Any]], rejected: list[Rejected]) -> Iterator[_Ask]:
    """Each ask once: answers overlap, and of the same ask the latest one counts."""
    latest: dict[str, Any] = {}
    for rows in answers:
        here: set[str] = set()
        for row in rows:
            ask_id = row.get("id") if isinstance(row, dict) else None
            key = str(ask_id) if ask_id is not None else f"row {len(latest)}"
            if key in here:
                rejected.append(Rejected("same ask listed twice", sample(row)))
            here.add(key)
            latest[key] = row
    for key in sorted(latest):
        try:
            yield _read_ask(key, latest[key])
        except BadRow as bad:
            rejected.append(Rejected(str(bad), sample(latest[key])))


def _read_ask(key: str, row: Any) -> _Ask:
    if not isinstance(row, dict):
        raise BadRow("row is not an object")
    machine_id, count = row.get("machine_id"), row.get("num_gpus")
    if type(machine_id) is not int or machine_id <= 0:
        raise BadRow("machine_id is missing or not a number")
    if type(count) is not int or count <= 0:
        raise BadRow("num_gpus is missing or not a whole number")
    if not isinstance(row.get("gpu_name"), str) or not row["gpu_name"].strip():
        raise BadRow("gpu_name is missing")
    if row.get("rentable") is False:
        raise BadRow("not rentable")
    if row.get("rented") is True:
        raise BadRow("already rented")
    price = amount(row, "dph_base")
    if not price:
        raise BadRow("no price")
    min_bid = amount(row, "min_bid") or None
    is_bid = row.get("is_bid")
    if not isinstance(is_bid, bool):  # taken for on-demand, a bid would be by far the cheapest
        raise BadRow("is_bid is neither true nor false")
    return _Ask(key, str(machine_id), count, price, min_bid, is_bid, row)


def _one_per_machine_and_size(asks: Iterable[_Ask], rejected: list[Rejected]) -> Iterable[_Ask]:
    """A machine may list one size several times (each rentable): the cheapest stands for all."""
    kept: dict[tuple[str, int, bool], _Ask] = {}
    for ask in asks:
        key = (ask.machine_id, ask.num_gpus, ask.is_bid)
        other = kept.setdefault(key, ask)
        if other is not ask:
            kept[key] = min(other, ask, key=lambda a: (a.usd_per_hour, a.id))
            dropped = ask if kept[key] is other else other
            rejected.append(Rejected("same machine and size listed twice", sample(dropped.row)))
    return kept.values()


def _offers(asks: Iterable[_Ask], rejected: list[Rejected]) -> Iterator[ListedOffer]:
    found: dict[tuple[str, int, Market], ListedOffer] = {}
    for ask in asks:
        try:
            listed = list(_listed(ask))
        except BadRow as bad:
            rejected.append(Rejected(str(bad), sample(ask.row)))
            continue
        if not any(offer.market is Market.SPOT for offer in listed) and ask.min_bid is not None:
            rejected.append(Rejected("spot price not below on-demand", sample(ask.row)))
        for offer in listed:
            key = (ask.machine_id, ask.num_gpus, offer.market)
            other = found.setdefault(key, offer)
            if other is not offer:  # from an ask's min_bid and from a bid query
                rejected.append(Rejected("same machine and size listed twice", sample(ask.row)))
                found[key] = min(other, offer, key=lambda o: o.price.amount)
    # One machine stands in the list at several sizes but can be rented once: within a market it
    # is counted at its largest size, and the other sizes leave the count open.
    largest: dict[tuple[str, Market], int] = {}
    for machine, size, market in found:
        largest[machine, market] = max(size, largest.get((machine, market), 0))
    for (machine, size, market), offer in found.items():
        stock = 1 if largest[machine, market] == size else None
        yield replace(offer, extras=replace(offer.extras, stock_count=stock))


def _listed(ask: _Ask) -> Iterator[ListedOffer]:
    """The on-demand offer of an ask and, where a bid can be lower, its interruptible one."""
    row = ask.row
    verification = row.get("verification")
    known_tier = verification in VERIFICATIONS
    ram_gib = (amount(row, "cpu_ram") or Decimal(0)) / 1024
    region, country = _place(row.get("geolocation"))
    download = amount(row, "inet_down_cost")
    offer = ListedOffer(
        source_id=f"{ask.machine_id}/{ask.num_gpus}",  # ask ids change when the host relists
        gpu_name=" ".join(row["gpu_name"].split()),
        gpu_count=Decimal(ask.num_gpus),
        price=NativePrice(ask.usd_per_hour, "USD", PriceUnit.MACHINE_HOUR),
        market=Market.ON_DEMAND,
        tier=str(verification) if known_tier else "unverified",
        vram_mib=amount(row, "gpu_ram") or None,
        slice="MIG" in row["gpu_name"].upper().split(),
        region=region,
        country=country,
        vcpus=amount(row, "cpu_cores_effective") or None,
        # cpu_ram is that of the machine's part, in MiB: recorded machines list it in proportion
        # to their GPUs. Whole GiB, because a few MiB come and go with the host's kernel.
        ram_gib=ram_gib.quantize(Decimal(1)) or None,
        datacenter={0: False, 1: True}.get(h)
        if type(h := row.get("hosting_type")) is int
        else None,
        terms=_terms(row),
        extras=_extras(row),
        source_url="https://cloud.vast.ai/",
        notes=(
            *(() if known_tier else ("verification is not stated",)),
            *(("download costs extra",) if download else ()),
        ),
    )
    if not ask.is_bid:
        yield offer
        if ask.min_bid is None or ask.min_bid >= ask.usd_per_hour:
            return
    floor = ask.min_bid or ask.usd_per_hour
    yield replace(
        offer,
        # In a bid query dph_base already is a bid; never below the floor.
        price=replace(offer.price, amount=max(floor, ask.usd_per_hour) if ask.is_bid else floor),
        market=Market.SPOT,
        price_kind=PriceKind.AUCTION,
        notes=("min_bid: a floor, not a quote", *offer.notes),
    )


def _terms(row: Mapping[str, Any]) -> Terms:
    """Billing of one host: its disk price and its price for traffic out of the machine."""
    storage, upload = amount(row, "storage_cost"), amount(row, "inet_up_cost")
    return Terms(
        billing_increment_seconds=1,
        disk_usd_per_gb_hour=None
        if storage is None
        else (storage / DISK_HOURS_PER_MONTH).quantize(TERMS_STEP),
        egress_usd_per_gb=None if upload is None else upload.quantize(TERMS_STEP),
    )


def _extras(row: Mapping[str, Any]) -> Extras:
    seconds = number(row, "duration")
    reliability = number(row, "reliability2")
    in_range = reliability is not None and 0 <= reliability <= 1
    return Extras(
        availability=Availability.YES if row.get("rentable") is True else Availability.UNKNOWN,
        disk_gb=amount(row, "disk_space"),
        network_down_mbps=amount(row, "inet_down"),
        network_up_mbps=amount(row, "inet_up"),
        reliability=reliability if in_range else None,
        max_duration_hours=None if seconds is None else max(seconds // 3600, Decimal(0)),
    )


def _place(geolocation: Any) -> tuple[str | None, str | None]:
    """Region text and country: the two letters after the last comma of "Texas, US" or ", US".

    Some tools append the continent ("Texas, US, NA"): then the country stands before it.
    """
    if not isinstance(geolocation, str):
        return None, None
    region = " ".join(geolocation.split()).strip(" ,") or None
    parts = [part.strip() for part in geolocation.split(",")]
    codes = [
        part if len(part) == 2 and part.isascii() and part.isupper() else None for part in parts
    ]
    if len(parts) > 2 and parts[-1] in CONTINENTS and codes[-2]:
        return region, codes[-2]
    return region, codes[-1]


provider = Provider(
    name="vastai",
    every=timedelta(minutes=15),
    config=VastaiConfig,
    facts=Facts(
        title="Vast.ai",
        website="https://vast.ai",
        price_per="machine",
        currency="USD",
        billing_increment_seconds=1,
        minimum_seconds=None,
        spot="interruptible: the lowest bid the host accepts (min_bid), a floor and not a quote; "
        "others may outbid it",
        tiers=VERIFICATIONS,
        default_tiers=("verified",),
        key="optional",
        key_variable="VAST_API_KEY",
        key_adds="nothing that is known of: the search answers without one",
        terms="search is limited per address (a gap of about 3 s, about 10 requests a minute); "
        "the documentation asks for a key, search answers without one",
        verified="parser checked against answers recorded in 2026-07 and 2026-08; splitting of "
        "full answers and paging by dph_total follow the documented query language and have not "
        "been seen live, because no live call was possible when this was written",
        marketplace=True,
        min_every=timedelta(minutes=10),
    ),
    fetch=fetch,
    parse=parse,
    min_seconds_between_requests=3.5,
    poll_deadline=timedelta(seconds=180),
)
