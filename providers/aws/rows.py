"""What the readers of the AWS price files share: a priced row, and the way from rows to offers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import IntEnum
from typing import Any

from providers.aws.instances import InstanceType, instance_types
from providers.aws.regions import country_of
from tracker.provider import (
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    ParseError,
    PriceKind,
    PriceUnit,
    Rejected,
    Terms,
    parse_decimal,
)

MAX_SAMPLE = 200

# Linux on demand and spot: by the second, 60 s at least, as AWS explains at
# https://repost.aws/knowledge-center/ec2-instance-hour-billing
BILLING_INCREMENT_SECONDS = 1
MINIMUM_SECONDS = 60


class Source(IntEnum):
    """Where a price was read; a lower one prevails where two of a kind disagree."""

    BULK = 0  # the documented list
    SMALL = 1
    SPOT = 2


@dataclass(frozen=True, slots=True)
class PricedRow:
    """USD per machine-hour of one instance type in one region, as one file says it."""

    source: Source
    region: str
    instance_type: str
    usd_per_hour: Decimal
    url: str

    @property
    def market(self) -> Market:
        return Market.SPOT if self.source is Source.SPOT else Market.ON_DEMAND


@dataclass(slots=True)
class Reading:
    """What one file gave.

    ``regions`` are those whose on-demand prices it holds. ``problem`` says why the file is known
    not to hold everything.
    """

    rows: list[PricedRow] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    regions: set[str] = field(default_factory=set)
    problem: str | None = None

    def reject(self, reason: str, *sample: object) -> None:
        """Count a row out; *sample* is what there is to look at."""
        text = " ".join(str(part) for part in sample if part not in (None, ""))
        self.rejected.append(Rejected(reason, text[:MAX_SAMPLE]))

    def price(self, raw: Any, *sample: object) -> Decimal | None:
        """*raw* as a price above zero, or None with the row rejected."""
        if isinstance(raw, str) and raw.strip().upper().startswith("N/A"):
            self.reject("price is not available", *sample, raw)
            return None
        try:
            amount = parse_decimal(raw)
        except ValueError:
            self.reject("price is not a number", *sample, raw)
            return None
        if amount <= 0:
            self.reject("price is not above zero", *sample, raw)
            return None
        return amount


def mapping(value: Any, name: str) -> dict[str, Any]:
    """*value* if it is a JSON object; raises ParseError naming the field *name* otherwise."""
    if not isinstance(value, dict):
        raise ParseError(name, "missing" if value is None else "not an object")
    return value


def listing(value: Any, name: str) -> list[Any]:
    """*value* if it is a JSON array; raises ParseError naming the field *name* otherwise."""
    if not isinstance(value, list):
        raise ParseError(name, "missing" if value is None else "not an array")
    return value


def settle(reading: Reading, *, repeats_allowed: bool) -> None:
    """Leave one row for each region and type of a file.

    Files whose entries may be listed twice (*repeats_allowed*) may say the same price again. Any
    other second row means that the file is not understood: none of them is taken.
    """
    by_type: dict[tuple[str, str], list[PricedRow]] = defaultdict(list)
    for row in reading.rows:
        by_type[row.region, row.instance_type].append(row)
    kept = []
    for (region, name), rows in by_type.items():
        prices = {row.usd_per_hour for row in rows}
        if len(rows) == 1 or (repeats_allowed and len(prices) == 1):
            kept.append(rows[0])
        else:
            shown = ", ".join(str(price) for price in sorted(prices))
            reading.reject("several rows for one type in a region", name, region, shown)
    reading.rows = kept


def to_offers(
    readings: Iterable[Reading], interruption: Mapping[tuple[str, str], int]
) -> tuple[list[ListedOffer], list[Rejected]]:
    """Offers of all files together, and the rows that became none.

    *interruption* gives the upper end in % of the interruption class by (region, type).
    """
    out = Reading()
    offers = []
    for row in _agreed([row for reading in readings for row in reading.rows], out):
        facts = instance_types().get(row.instance_type)
        if facts is None:
            out.reject("instance type without GPU facts", *_sample(row))
        elif facts.gpu_count is None:
            out.reject("GPU count of the instance type is not known", *_sample(row))
        else:
            percent = interruption.get((row.region, row.instance_type))
            offers.append(_offer(row, facts, facts.gpu_count, percent))
    return offers, out.rejected


def _agreed(rows: list[PricedRow], out: Reading) -> list[PricedRow]:
    """One row for each market, region and type: the bulk list's where files disagree.

    Two files of the same kind that disagree (recorded at different times) leave none.
    """
    best: dict[tuple[Market, str, str], PricedRow] = {}
    torn = set()
    for row in sorted(rows, key=lambda row: row.source):
        key = (row.market, row.region, row.instance_type)
        other = best.setdefault(key, row)
        if other.usd_per_hour != row.usd_per_hour:
            shown = f"{row.usd_per_hour} against {other.usd_per_hour}"
            out.reject("two files give two prices", row.instance_type, row.region, shown)
            if row.source is other.source:
                torn.add(key)
    return [row for key, row in best.items() if key not in torn]


def _sample(row: PricedRow) -> tuple[object, ...]:
    return row.instance_type, row.region, row.market, row.usd_per_hour


def _offer(
    row: PricedRow, facts: InstanceType, gpu_count: Decimal, percent: int | None
) -> ListedOffer:
    spot = row.market is Market.SPOT
    return ListedOffer(
        source_id=row.instance_type,
        gpu_name=facts.gpu,
        gpu_count=gpu_count,
        price=NativePrice(row.usd_per_hour, "USD", PriceUnit.MACHINE_HOUR),
        market=row.market,
        tier="standard",
        price_kind=PriceKind.DYNAMIC if spot else PriceKind.FIXED,
        vram_gb=facts.vram_gb,
        form_factor=facts.form_factor,
        slice=gpu_count < 1,
        interconnect=facts.interconnect,
        region=row.region,
        country=country_of(row.region),
        vcpus=facts.vcpus,
        ram_gib=facts.ram_gib,
        dedicated=facts.name.endswith(".metal"),  # all other rows are of shared tenancy
        datacenter=True,
        terms=Terms(
            billing_increment_seconds=BILLING_INCREMENT_SECONDS,
            minimum_seconds=MINIMUM_SECONDS,
            disk_included_gb=facts.disk_gb,
        ),
        extras=Extras(
            disk_gb=facts.disk_gb,
            interruption_percent_max=percent if spot else None,
        ),
        source_url=row.url or None,
        notes=_notes(row, facts),
    )


def _notes(row: PricedRow, facts: InstanceType) -> tuple[str, ...]:
    notes = [f"instance type {facts.name}"]
    if facts.network:
        # Bandwidth between instances; what reaches the internet is less and not published here,
        # so it is no download speed.
        notes.append(f"network {facts.network}")
    if row.market is Market.SPOT:
        notes.append("one price for the region, not for each zone; says nothing of capacity")
    return tuple(notes)
