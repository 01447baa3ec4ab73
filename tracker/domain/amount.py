"""What a bill comes to, without its lines: the amount of ``cost.bill`` for a part of the work.

A ranking compares thousands of amounts and shows a few bills. A test holds every amount against
the bill.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from typing import NamedTuple

from tracker.domain.cost import (
    EXACT,
    CostInputs,
    billed_hours,
    impossible,
    machines_needed,
    setup_hours,
)
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.money import HOURS_PER_MONTH


class Amount(NamedTuple):
    """As in ``cost.Bill``: USD, exactly, and whether a part of the bill is not known."""

    at_least_usd: Decimal
    partial: bool


def amount(inputs: CostInputs, job: Job, estimate: RuntimeEstimate) -> Amount | None:
    """What ``cost.bill`` of the same comes to; None where there is no bill."""
    if impossible(inputs, job, estimate):
        return None
    machines, terms = machines_needed(inputs, job, estimate), inputs.terms
    billed = billed_for(inputs, used_hours(job, estimate))
    usd = machines_usd(inputs.price.usd, inputs.month_usd, machines, billed)
    disk = disk_usd(
        job.disk_gb, terms.disk_included_gb, terms.disk_usd_per_gb_hour, machines, billed
    )
    egress = egress_usd(job.egress_gb, terms.egress_usd_per_gb)
    unknown = estimate.setup is not None and estimate.setup.hours is None
    for part in (disk, egress):
        if part is None:
            unknown = True
        elif part:
            usd = EXACT.add(usd, part)
    return Amount(usd, unknown)


def used_hours(job: Job, estimate: RuntimeEstimate) -> Decimal:
    """Set-up and runtime of one machine, with what is expected to be done again."""
    used = EXACT.add(setup_hours(job, estimate), estimate.hours)
    if estimate.interrupted is None:
        return used
    return EXACT.add(used, estimate.interrupted.rerun_hours)


def billed_for(inputs: CostInputs, used: Decimal) -> Decimal:
    """The hours of one machine that are billed for *used* ones."""
    with localcontext(EXACT):
        return billed_hours(inputs, used)[0]


def machines_usd(
    price: Decimal, month_usd: Decimal | None, machines: int, billed: Decimal
) -> Decimal:
    """What the hours *billed* of each of the *machines* come to, at *price* an hour.

    Whole months are billed as such where there is a price for them, *month_usd*.
    """
    if month_usd is not None:
        months, rest = EXACT.divmod(billed, HOURS_PER_MONTH)
        if not rest:
            return EXACT.multiply(EXACT.multiply(months, machines), month_usd)
    return EXACT.multiply(EXACT.multiply(billed, machines), price)


def disk_usd(
    needed_gb: Decimal, included_gb: Decimal | None, rate: Decimal | None, machines: int,
    billed: Decimal,
) -> Decimal | None:  # fmt: skip
    """What the disk beyond what is included comes to, at *rate* a GB-hour; None: nobody knows."""
    missing = needed_gb if not included_gb else EXACT.subtract(needed_gb, included_gb)
    if missing <= 0:
        return _NOTHING
    if rate is None:
        return None
    return EXACT.multiply(EXACT.multiply(EXACT.multiply(billed, machines), missing), rate)


def egress_usd(gb: Decimal, rate: Decimal | None) -> Decimal | None:
    """What leaves the provider comes to, at *rate* a GB; None: nobody knows."""
    if not gb:
        return _NOTHING
    return None if rate is None else EXACT.multiply(gb, rate)


_NOTHING = Decimal(0)
