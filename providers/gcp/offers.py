"""From prices of parts, or of whole machines, to offers of machine types."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from providers.gcp.machines import COMMITTED, MACHINES, N1, ON_DEMAND, SPOT, Machine
from providers.gcp.regions import COUNTRY, is_in
from providers.gcp.skus import CORE, RAM, SSD, Prices, host_part, part_of
from tracker.provider import (
    HOURS_PER_MONTH,
    Extras,
    ListedOffer,
    Market,
    NativePrice,
    PriceKind,
    PriceUnit,
    Rejected,
    Terms,
)

# "charged by the second with a 1 minute minimum": https://cloud.google.com/compute/vm-instance-pricing
BILLING_INCREMENT_SECONDS = 1
MINIMUM_SECONDS = 60
HOURS_PER_YEAR = 8760

NOT_THERE = "the region is not known to have this GPU"

_BELOW = 1 - Decimal("0.000001")  # the same price by month and by hour differs in its last digits
_PLACES = Decimal("0.000000001")  # a month's price by the hour has no end; items have nine digits


@dataclass(frozen=True, slots=True)
class Priced:
    """The price of one machine type in one region and market (see skus: years are "1", "3")."""

    machine: Machine
    region: str
    market: str
    amount: Decimal
    unit: PriceUnit
    note: str
    source_url: str
    expires_at: datetime | None = None

    @property
    def usd_per_hour(self) -> Decimal:
        """USD per machine-hour."""
        by_month = self.unit is PriceUnit.MACHINE_MONTH
        return self.amount / HOURS_PER_MONTH if by_month else self.amount


def assembled(prices: Prices, rejected: list[Rejected]) -> Iterator[Priced]:
    """The machines that the parts make up.

    A type is looked at where its GPU has a price. One part that has none in that region leaves
    the type without a price there.
    """
    for machine in MACHINES:
        if not machine.summed:
            continue
        gpu = part_of(machine.gpu)
        for region, market, _ in sorted(key for key in prices if key[2] == gpu):
            if not is_sold(machine, region, market, rejected):
                continue
            parts = _parts(machine)
            missing = [part for part, _, _ in parts if (region, market, part) not in prices]
            if missing:
                shown = f"{machine.name} | {region} | {market} | {', '.join(missing)}"
                rejected.append(Rejected("no price for every part of the machine", shown[:200]))
                continue
            total = Decimal(0)
            for part, quantity, _ in parts:
                usd = prices[region, market, part]
                total += quantity * usd / (HOURS_PER_MONTH if part == SSD else 1)
            # Remarks are kept as of the first poll that saw the offer: no amount stands in them.
            words = (f"{quantity.normalize():f} {unit}" for _, quantity, unit in parts)
            note = f"the sum of the price items of {' + '.join(words)}"
            yield Priced(
                machine, region, market, total.quantize(_PLACES), PriceUnit.MACHINE_HOUR, note,
                "https://cloud.google.com/compute/all-pricing",
            )  # fmt: skip


def _parts(machine: Machine) -> list[tuple[str, Decimal, str]]:
    """What is billed for a machine: part, how much of it, and of what."""
    parts = [(part_of(machine.gpu), machine.gpu_count, "GPU")]
    if machine.host:
        parts += [
            (host_part(machine.host, CORE), Decimal(machine.vcpus), "vCPU"),
            (host_part(machine.host, RAM), Decimal(machine.ram_gib), "GiB"),
        ]
    if machine.ssd_gib:
        parts.append((SSD, Decimal(machine.ssd_gib), "GiB SSD"))
    return parts


def is_sold(machine: Machine, region: str, market: str, rejected: list[Rejected]) -> bool:
    """Whether the type is sold there in that way; if not, the reason is added to *rejected*."""
    how = f"{market}-year commitment" if market.isdecimal() else market
    shown = f"{machine.name} | {region} | {how}"[:200]
    if is_in(machine.gpu, region) is False:
        rejected.append(Rejected(NOT_THERE, shown))
        return False
    if (COMMITTED if market.isdecimal() else market) not in machine.ways:
        rejected.append(Rejected("machine type is not sold in this way", shown))
        return False
    return True


def to_offers(priced: Iterable[Priced], rejected: list[Rejected]) -> Iterator[ListedOffer]:
    """Offers of the machines sold as they are priced.

    Where spot is not below on-demand one of the two is something else (prices of other ways to
    rent have been taken for on-demand by others): neither is believed. So with a commitment.
    """
    by_type: dict[tuple[str, str], dict[str, Priced]] = {}
    for one in priced:
        by_type.setdefault((one.machine.name, one.region), {})[one.market] = one
    for markets in by_type.values():
        full = markets.get(ON_DEMAND)
        wrong: set[str] = set()
        if full is not None:
            for market, one in markets.items():
                if market != ON_DEMAND and one.usd_per_hour >= full.usd_per_hour * _BELOW:
                    wrong |= {market, ON_DEMAND} if market == SPOT else {market}
        for market, one in markets.items():
            if market not in wrong:
                yield _offer(one)
                continue
            kind = "commitment" if market.isdecimal() else "spot"
            shown = f"{one.machine.name} | {one.region} | {market} | {one.amount}"
            rejected.append(Rejected(f"{kind} price not below on-demand", shown[:200]))


def _offer(one: Priced) -> ListedOffer:
    machine, years = one.machine, one.market
    spot, reserved = one.market == SPOT, years.isdecimal()
    notes = [one.note]
    if is_in(machine.gpu, one.region) is None:
        notes.append("Google has a price here; whether it has the GPU here is not known")
    if machine.network:
        notes.append(f"network {machine.network}")
    if spot:
        notes.append("one price for the region; says nothing of capacity")
    if machine.host == N1 and not spot and not reserved:
        notes.append("before the sustained-use discount of N1, up to 30 % of a whole month")
    if reserved and ON_DEMAND not in machine.ways:
        notes.append("to be had with a reservation of the capacity only")
    if reserved:
        notes.append(f"commitment of {years} year{'s' if years != '1' else ''} to all parts")
    return ListedOffer(
        source_id=machine.name,
        gpu_name=machine.gpu.name,
        gpu_count=machine.gpu_count,
        price=NativePrice(one.amount, "USD", one.unit),
        market=Market.RESERVED if reserved else Market.SPOT if spot else Market.ON_DEMAND,
        tier="standard",
        price_kind=PriceKind.DYNAMIC if spot else PriceKind.FIXED,
        vram_gb=machine.gpu.vram_gb,
        form_factor=machine.gpu.form_factor,
        interconnect=machine.interconnect,
        region=one.region,
        country=COUNTRY.get(one.region),
        vcpus=Decimal(machine.vcpus),
        ram_gib=Decimal(machine.ram_gib),
        datacenter=True,
        terms=Terms(
            billing_increment_seconds=BILLING_INCREMENT_SECONDS,
            minimum_seconds=MINIMUM_SECONDS,
            commitment_hours=int(years) * HOURS_PER_YEAR if reserved else None,
            disk_included_gb=machine.disk_gb,
        ),
        extras=Extras(expires_at=one.expires_at),
        source_url=one.source_url,
        notes=tuple(notes),
    )
