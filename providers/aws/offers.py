"""From priced rows of all files together to offers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from decimal import Decimal

from providers.aws.instances import InstanceType, instance_types
from providers.aws.regions import country_of
from providers.aws.rows import Plan, PricedRow, Reading, Source, sample
from tracker.provider import (
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    PriceKind,
    PriceUnit,
    Rejected,
    Terms,
)

# Linux on demand and spot: by the second, 60 s at least, as AWS explains at
# https://repost.aws/knowledge-center/ec2-instance-hour-billing
BILLING_INCREMENT_SECONDS = 1
MINIMUM_SECONDS = 60

# AWS saves "up to 72 %" by a plan: https://aws.amazon.com/savingsplans/
LEAST_SHARE = Decimal("0.2")

# Of a savings plan. Partial is 50 to 99 % of the whole, as CreateSavingsPlan's documentation says.
_UPFRONT = {
    "no": "nothing of it upfront",
    "partial": "half of it or more paid upfront, the rest month by month",
    "all": "all of it paid upfront",
}
_KINDS = {
    "compute": "Compute Savings Plan, good for any EC2 machine in any region",
    "ec2": "EC2 Instance Savings Plan, good for this family in this region only",
}


def to_offers(
    readings: Iterable[Reading], interruption: Mapping[tuple[str, str], int]
) -> tuple[list[ListedOffer], list[Rejected]]:
    """Offers of all files together, and the rows that became none.

    *interruption* gives the upper end in % of the interruption class by (region, type).
    """
    out = Reading()
    offers = []
    rows = _agreed(_by_zone_where_known(list(readings), out), out)
    for row in _borne_out(rows, out):
        facts = instance_types().get(row.instance_type)
        if facts is None:
            out.reject("instance type without GPU facts", *sample(row))
        elif facts.gpu_count is None:
            out.reject("GPU count of the instance type is not known", *sample(row))
        else:
            percent = interruption.get((row.region, row.instance_type))
            offers.append(_offer(row, facts, facts.gpu_count, percent))
    return offers, out.rejected


def _by_zone_where_known(readings: list[Reading], out: Reading) -> Iterator[PricedRow]:
    """All rows but spot.json's one price for a region of which every zone's own price is known."""
    zoned = {region for reading in readings for region in reading.zoned}
    for reading in readings:
        for row in reading.rows:
            if row.source is Source.SPOT and row.region in zoned:
                out.reject("a region's one price where its zones have their own", *sample(row))
            else:
                yield row


def _agreed(rows: Iterable[PricedRow], out: Reading) -> list[PricedRow]:
    """One row for each key: the bulk list's where files disagree.

    Two files of the same kind that disagree (recorded at different times) leave none.
    """
    best: dict[Hashable, PricedRow] = {}
    torn = set()
    for row in sorted(rows, key=lambda row: row.source):
        other = best.setdefault(row.key, row)
        if other.usd_per_hour != row.usd_per_hour:
            shown = f"{row.usd_per_hour} against {other.usd_per_hour}"
            out.reject("two files give two prices", *sample(row)[:-1], shown)
            if row.source is other.source:
                torn.add(row.key)
    return [row for key, row in best.items() if key not in torn]


def _borne_out(rows: list[PricedRow], out: Reading) -> Iterator[PricedRow]:
    """All but plans that the price of the same machine without one contradicts, where it is known.

    (Spot prices have a gate of their own, for all providers.)
    """
    on_demand = {
        (row.region, row.instance_type): row.usd_per_hour
        for row in rows
        if row.market is Market.ON_DEMAND
    }
    for row in rows:
        full = on_demand.get((row.region, row.instance_type)) if row.plan else None
        if full is not None and row.usd_per_hour >= full:
            out.reject("savings plan not below on-demand", *sample(row), f"against {full}")
        elif full is not None and row.usd_per_hour < LEAST_SHARE * full:
            out.reject("savings plan far below on-demand", *sample(row), f"against {full}")
        else:
            yield row


def _offer(
    row: PricedRow, facts: InstanceType, gpu_count: Decimal, percent: int | None
) -> ListedOffer:
    spot = row.market is Market.SPOT
    return ListedOffer(
        source_id=f"{row.instance_type}/{row.plan.slug}" if row.plan else row.instance_type,
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
        region=f"{row.region}/{row.zone}" if row.zone else row.region,
        country=country_of(row.region),
        vcpus=facts.vcpus,
        ram_gib=facts.ram_gib,
        dedicated=facts.name.endswith(".metal"),  # all other rows are of shared tenancy
        datacenter=True,
        terms=Terms(
            billing_increment_seconds=BILLING_INCREMENT_SECONDS,
            minimum_seconds=MINIMUM_SECONDS,
            commitment_hours=row.plan.hours if row.plan else None,
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
    """Remarks. They are kept as of the first poll that saw the offer: no amount stands in them."""
    notes = [f"instance type {facts.name}"]
    if facts.network:
        # Bandwidth between instances; what reaches the internet is less and not published here,
        # so it is no download speed.
        notes.append(f"network {facts.network}")
    if row.zone and row.zone_name != row.zone:
        notes.append(f"the zone is {row.zone_name} to the account that was asked")
    if row.market is Market.SPOT:
        whole = "" if row.zone else "one price for the region, not for each zone; "
        notes.append(f"{whole}says nothing of capacity")
    if row.plan:
        notes += _plan_notes(row.plan)
    return tuple(notes)


def _plan_notes(plan: Plan) -> Iterator[str]:
    yield _KINDS[plan.kind]
    years = "1 year" if plan.years == 1 else f"{plan.years} years"
    yield f"{years}, {plan.hours:,} h at this price, used or not; {_UPFRONT[plan.upfront]}"
