"""A stored offer as a candidate for a job: its price with the discount, its terms, its hours."""

from __future__ import annotations

from decimal import Decimal
from typing import NamedTuple

from tracker.domain.cost import CostInputs, month_usd
from tracker.domain.job import RuntimeEstimate
from tracker.domain.money import PerMachineHour, from_micro_usd
from tracker.domain.rank import Candidate
from tracker.domain.terms import Availability, Market, Terms
from tracker.report.discounts import DiscountBook
from tracker.store.reads import StoredOffer


class Priced(NamedTuple):
    """A stored offer with the discount that holds for it."""

    offer: StoredOffer
    discount_percent: Decimal | None


def candidate_of(
    o: StoredOffer, estimate: RuntimeEstimate, discounts: DiscountBook
) -> Candidate[Priced]:
    """A stored offer with its hours, its discount taken off."""
    percent = discounts.percent_for(o)
    terms = Terms(
        billing_increment_seconds=o.billing_increment_seconds,
        minimum_seconds=o.minimum_seconds,
        commitment_hours=o.commitment_hours,
        commitment_unknown=o.commitment_unknown,
        disk_included_gb=o.disk_included_gb,
        disk_usd_per_gb_hour=o.disk_usd_per_gb_hour,
        egress_usd_per_gb=o.egress_usd_per_gb,
    )
    return Candidate(
        item=Priced(o, percent),
        inputs=CostInputs(
            PerMachineHour(hour_usd(o, percent)),
            counted(o),
            Market(o.market),
            terms,
            o.max_duration_hours,
            whole_month_usd(o, percent),
        ),
        estimate=estimate,
        provider=o.provider,
        source_id=o.native_id,
        key=o.key,
        tier=o.tier,
        region=o.region,
        availability=Availability(o.availability),
        reliability=o.reliability,
    )


def counted(o: StoredOffer) -> Decimal:
    """GPUs in a machine of *o*; of slices how many there are, one for a part of a card."""
    return max(Decimal(1), o.gpu_count) if o.is_slice else o.gpu_count


def hour_usd(o: StoredOffer, discount_percent: Decimal | None) -> Decimal:
    """The price of the machine for an hour, less the discount."""
    return _less(from_micro_usd(o.price_micro_usd), discount_percent)


def whole_month_usd(o: StoredOffer, discount_percent: Decimal | None) -> Decimal | None:
    """The price of the machine for a month, where it is sold so, less the discount."""
    usd = month_usd(o.price_native, o.price_unit, o.gpu_count, o.fx_rate)
    return None if usd is None else _less(usd, discount_percent)


def _less(usd: Decimal, discount_percent: Decimal | None) -> Decimal:
    return usd if discount_percent is None else usd * (100 - discount_percent) / 100
