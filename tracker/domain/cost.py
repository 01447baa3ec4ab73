"""The whole bill of a job on one offer: machines x billed hours x price, and what else is billed.

    machines     = ceil(GPUs needed / GPUs in the offer)
    billed hours = round_up(setup + runtime, increment), at least the minimum and the commitment

Set-up is the job's own hours and, on an offer, the download (tracker.domain.job_download).

Sums are exact: nothing is rounded but hours, upwards to the billionth (3.6 microseconds), because
a third of an hour has no exact decimal. Round for display only. A price that is not known is
never 0: its part is named in ``Bill.partial`` and the bill then has no total, only an "at least".

Interruptions of spot machines are in it where the estimate has them (tracker.domain.spot). Not
modelled: the speed-up of more GPUs than the hours are for.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal, localcontext
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from tracker.domain.job import Basis, Job, RuntimeEstimate
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour
from tracker.domain.terms import Market, Terms

if TYPE_CHECKING:
    from tracker.domain.offer import Offer

SECONDS_PER_HOUR = Decimal(3600)
MONTH_SECONDS = HOURS_PER_MONTH * SECONDS_PER_HOUR

# Wide enough for every product of a price, hours and counts to be exact.
EXACT = Context(prec=200)
_FLOOR = Context(prec=40, rounding=ROUND_FLOOR)
_HOUR_STEP = Decimal("1e-9")
_TERM_MARKETS = (Market.MONTHLY, Market.RESERVED, Market.CAPACITY_BLOCK)


class CostInputs(NamedTuple):
    """What of an offer decides its bill. ``gpu_count`` > 0; ``price`` is for the whole machine.

    ``month_usd``: what a machine sold by the month costs for one, exactly; ``price`` is then its
    730th part, rounded.
    """

    price: PerMachineHour
    gpu_count: Decimal
    market: Market
    terms: Terms = Terms()
    max_duration_hours: Decimal | None = None
    month_usd: Decimal | None = None

    @classmethod
    def of(cls, offer: Offer) -> CostInputs:
        """The inputs of a normalised offer."""
        listed = offer.listed
        return cls(
            offer.price, listed.gpu_count, listed.market, listed.terms,
            listed.extras.max_duration_hours,
            month_usd=month_usd(
                listed.price.amount, listed.price.unit, listed.gpu_count, offer.fx_rate
            ),
        )  # fmt: skip


def month_usd(
    amount: Decimal, unit: str, gpu_count: Decimal, usd_per_unit: Decimal | None
) -> Decimal | None:
    """What a machine costs for a month, exactly; None for a price that is not by the month.

    *usd_per_unit* is the rate of the price's currency, None for USD.
    """
    if unit not in ("machine_month", "gpu_month"):
        return None
    with localcontext(EXACT):
        usd = amount if usd_per_unit is None else amount * usd_per_unit
        return usd * gpu_count if unit == "gpu_month" else usd


def hour_at_least_usd(hour_usd: Decimal, month_usd: Decimal | None) -> Decimal:
    """A price of an hour that neither whole months nor hours are ever billed below."""
    if month_usd is None:
        return hour_usd
    return min(hour_usd, _FLOOR.divide(month_usd, HOURS_PER_MONTH))


class LineKind(StrEnum):
    """What a line of a bill pays for."""

    RUNTIME = "runtime"
    SETUP = "setup"
    RERUN = "rerun"  # expected after interruptions: work and set-up done again, checkpoints
    UNUSED = "unused"  # billed beyond use: increment, minimum or commitment
    DISK = "disk"
    EGRESS = "egress"


class Line(NamedTuple):
    """One item: ``amount_usd`` is exactly ``quantity`` (of ``unit``) x ``unit_price_usd``."""

    kind: LineKind
    label: str
    quantity: Decimal
    unit: str
    unit_price_usd: Decimal
    amount_usd: Decimal


class Bill(NamedTuple):
    """What a job costs on one offer.

    ``at_least_usd`` is the exact sum of ``lines``. ``total_usd`` is the same, or None while
    ``partial`` names something that is billed at a price nobody stated. Hours are per machine.
    ``lower_bound``: the hours, and so the bill, are a lower bound. ``used_hours``: set-up and
    runtime. ``month_usd``: the price of a machine for a month, where months are billed.
    """

    machines: int
    gpu_count: Decimal  # in one machine
    price: PerMachineHour
    runtime_hours: Decimal
    billed_hours: Decimal
    lines: tuple[Line, ...]
    at_least_usd: Decimal
    basis: Basis
    partial: tuple[str, ...] = ()
    lower_bound: bool = False
    notes: tuple[str, ...] = ()
    used_hours: Decimal | None = None
    month_usd: Decimal | None = None

    @property
    def total_usd(self) -> Decimal | None:
        """The whole bill; None when a part of it is not known."""
        return None if self.partial else self.at_least_usd

    @property
    def extras_usd(self) -> Decimal:
        """What is billed beside the machines' hours: disk and egress."""
        extras = (ln.amount_usd for ln in self.lines if ln.kind in (LineKind.DISK, LineKind.EGRESS))
        return _sum(extras)


class Unpriceable(NamedTuple):
    """Why a job has no bill on an offer."""

    reason: str


def bill(inputs: CostInputs, job: Job, estimate: RuntimeEstimate) -> Bill | Unpriceable:
    """The bill of *job*, taking *estimate* hours, on the offer with *inputs*.

    Rules beside the formula above: a machine larger than needed is billed whole; an unstated
    billing increment means the exact hours (said in the notes), but a machine sold or priced by the
    month is billed in whole months of 730 h; disk beyond what is included is billed for all billed
    hours on every machine; without an included amount stated, all of it is.
    """
    problem = impossible(inputs, job, estimate)
    if problem:
        return Unpriceable(problem)
    machines = machines_needed(inputs, job, estimate)
    with localcontext(EXACT):
        plain = setup_hours(job, estimate) + estimate.hours
        used = plain if estimate.interrupted is None else plain + estimate.interrupted.rerun_hours
        billed, why = billed_hours(inputs, used)
        lines = [
            *_machine_lines(inputs, machines, (estimate, plain, used), billed, why),
            *_disk_lines(inputs.terms, job, machines, billed),
            *_egress_lines(inputs.terms, job),
        ]
        return Bill(
            machines=machines,
            gpu_count=inputs.gpu_count,
            price=inputs.price,
            runtime_hours=estimate.hours,
            billed_hours=billed,
            lines=tuple(lines),
            at_least_usd=_sum(line.amount_usd for line in lines),
            basis=estimate.basis,
            partial=_unknown_parts(inputs.terms, job, estimate),
            lower_bound=estimate.lower_bound,
            notes=tuple(_notes(inputs, job, estimate, machines)),
            used_hours=_hours_up(used),
            month_usd=inputs.month_usd,
        )


def setup_hours(job: Job, estimate: RuntimeEstimate) -> Decimal:
    """Hours of set-up on every machine, as far as they are known."""
    known = None if estimate.setup is None else estimate.setup.hours
    return job.setup_hours if known is None else known


def machines_needed(inputs: CostInputs, job: Job, estimate: RuntimeEstimate) -> int:
    """Whole machines for the GPUs that the job needs, or that its hours are for if more."""
    return machines_of(inputs.gpu_count, job, estimate)


def machines_of(gpu_count: Decimal, job: Job, estimate: RuntimeEstimate) -> int:
    """``machines_needed`` of machines with *gpu_count* GPUs."""
    gpus = Decimal(max(job.gpus_needed, estimate.gpus))
    return int((gpus / gpu_count).to_integral_value(ROUND_CEILING))


def lower_bound_usd(inputs: CostInputs, job: Job, estimate: RuntimeEstimate) -> Decimal:
    """An amount that ``bill`` is never below: hours used or committed to, at the machine price.

    Cheap to compute, so that few exact bills are needed (tracker.domain.rank.cheapest_of).
    """
    with localcontext(EXACT):
        hours = least_machine_hours(inputs.gpu_count, inputs.terms.commitment_hours, job, estimate)
        return hour_at_least_usd(inputs.price.usd, inputs.month_usd) * hours


def least_machine_hours(
    gpu_count: Decimal, commitment_hours: int | None, job: Job, estimate: RuntimeEstimate
) -> Decimal:
    """The machine-hours that a bill is never below: machines x hours used or committed to.

    Without what is downloaded, which depends on the offer. Exact, and the same for all offers alike
    in these: work it out once for them.
    """
    with localcontext(EXACT):
        hours = max(job.setup_hours + estimate.hours, Decimal(commitment_hours or 0))
        return machines_of(gpu_count, job, estimate) * hours


def impossible(inputs: CostInputs, job: Job, estimate: RuntimeEstimate) -> str | None:
    """Why *job* has no bill on such an offer; None where it has one."""
    if inputs.gpu_count < 1:
        return "a fraction of a GPU: the hours are for whole GPUs"
    terms = inputs.terms
    if terms.commitment_unknown or (
        inputs.market in _TERM_MARKETS and terms.commitment_hours is None
    ):
        return f"sold for a term ({inputs.market}) that the provider does not state"
    with localcontext(EXACT):
        used = setup_hours(job, estimate) + estimate.hours
    limit = inputs.max_duration_hours
    if limit is not None and used > limit:
        return f"offered for {_show(limit)} h only, the job takes {_show(used)} h"
    return None


def billed_hours(inputs: CostInputs, used: Decimal) -> tuple[Decimal, str]:
    """Billed hours of one machine for *used* ones, and what made them more.

    Exact in the context EXACT alone.
    """
    terms = inputs.terms
    seconds, why = used * SECONDS_PER_HOUR, ""
    increment = _increment_seconds(inputs)
    if increment:
        steps, rest = divmod(seconds, increment)
        seconds = (steps + bool(rest)) * increment
        why = "whole months" if increment == MONTH_SECONDS else f"steps of {_show(increment)} s"
    if (minimum := Decimal(terms.minimum_seconds or 0)) >= seconds:
        seconds, why = minimum, f"minimum of {_show(minimum)} s"
    if (commitment := (terms.commitment_hours or 0) * SECONDS_PER_HOUR) >= seconds:
        seconds, why = commitment, f"commitment of {terms.commitment_hours} h"
    return _hours_up(seconds / SECONDS_PER_HOUR), why


def _increment_seconds(inputs: CostInputs) -> Decimal | None:
    stated = inputs.terms.billing_increment_seconds
    if stated:
        return Decimal(stated)
    return MONTH_SECONDS if _by_the_month(inputs) else None


def _by_the_month(inputs: CostInputs) -> bool:
    """Whether it is sold by the month: by its market or, whatever that is, by its price."""
    return inputs.market is Market.MONTHLY or inputs.month_usd is not None


def _machine_lines(
    inputs: CostInputs,
    machines: int,
    hours: tuple[RuntimeEstimate, Decimal, Decimal],
    billed: Decimal,
    why: str,
) -> Iterator[Line]:
    """Of *hours* the estimate, with set-up, and with what is expected to be done again."""
    # Rounded once for all, so that the quantities add up to the billed hours.
    runtime, plain, used = map(_hours_up, (hours[0].hours, *hours[1:]))
    price = inputs.price.usd
    count = f"{machines} x " if machines > 1 else ""
    months, rest = divmod(billed, HOURS_PER_MONTH)
    if inputs.month_usd is not None and not rest:
        # A 730th part of a month's price has no exact decimal: whole months are billed as such.
        label = f"{count}machine, {_show(months)} x 1 month of {HOURS_PER_MONTH} h"
        label += f" ({why}), {_show(used)} h of them used"
        quantity = machines * months
        yield _line(LineKind.RUNTIME, label, quantity, "machine-month", inputs.month_usd)
        return
    yield _line(
        LineKind.RUNTIME, f"{count}machine, runtime", machines * runtime, "machine-hour", price
    )
    if plain > runtime:
        setup = hours[0].setup
        label = f"{count}machine, set-up" + (f" with {setup.how}" if setup is not None else "")
        yield _line(LineKind.SETUP, label, machines * (plain - runtime), "machine-hour", price)
    if used > plain:
        yield _line(
            LineKind.RERUN, f"{count}machine, expected to be run again", machines * (used - plain),
            "machine-hour", price,
        )  # fmt: skip
    if billed > used:
        yield _line(
            LineKind.UNUSED, f"billed beyond use ({why})", machines * (billed - used),
            "machine-hour", price,
        )  # fmt: skip


def _missing_disk_gb(terms: Terms, job: Job) -> Decimal:
    """Disk that one machine needs beyond what comes with it (nothing, where not stated)."""
    return max(job.disk_gb - (terms.disk_included_gb or Decimal(0)), Decimal(0))


def _disk_lines(terms: Terms, job: Job, machines: int, billed: Decimal) -> Iterator[Line]:
    missing, rate = _missing_disk_gb(terms, job), terms.disk_usd_per_gb_hour
    if missing and rate is not None:
        label = f"disk, {_show(missing)} GB beyond what is included, {_show(billed)} h"
        yield _line(LineKind.DISK, label, machines * missing * billed, "GB-hour", rate)


def _egress_lines(terms: Terms, job: Job) -> Iterator[Line]:
    if job.egress_gb and terms.egress_usd_per_gb is not None:
        yield _line(LineKind.EGRESS, "egress", job.egress_gb, "GB", terms.egress_usd_per_gb)


def _unknown_parts(terms: Terms, job: Job, estimate: RuntimeEstimate) -> tuple[str, ...]:
    parts = []
    if estimate.setup is not None and estimate.setup.hours is None:
        parts.append("set-up time unknown")
    if _missing_disk_gb(terms, job) and terms.disk_usd_per_gb_hour is None:
        parts.append("disk price unknown")
    if job.egress_gb and terms.egress_usd_per_gb is None:
        parts.append("egress price unknown")
    return tuple(parts)


def _notes(inputs: CostInputs, job: Job, estimate: RuntimeEstimate, machines: int) -> Iterator[str]:
    gpus = max(job.gpus_needed, estimate.gpus)
    rented = machines * inputs.gpu_count
    if machines > 1:
        yield separate_machines(machines, job, estimate)
    if rented > gpus:
        yield f"{_show(rented)} GPUs are rented and {gpus} used: a machine is billed whole"
    if estimate.lower_bound:
        yield "the hours are a lower bound, and so is the bill"
    if not inputs.terms.billing_increment_seconds:
        if _by_the_month(inputs):
            yield f"sold by the month: whole months ({_show(HOURS_PER_MONTH)} h) are billed"
        else:
            yield "billing increment not stated: exact hours assumed"
    if estimate.setup is not None and estimate.setup.assumption:
        yield f"set-up: {estimate.setup.assumption}"
    if estimate.interrupted is not None:
        yield from estimate.interrupted.notes
    elif inputs.market is Market.SPOT:
        yield "spot: interruptions and repeated work are not in the bill"


def separate_machines(machines: int, job: Job, estimate: RuntimeEstimate) -> str:
    """What the hours of a job on several machines count on."""
    counted = "the hours assume that the network between them does not slow the job down"
    if job.task is not None and job.task.service_hours is not None:
        counted = "the requests are divided among them"  # whoever says how fast a group is
    elif job.task is not None and estimate.version is not None:
        if job.task.kind in ("training", "finetune"):
            counted = "the network between them is taken to carry 25 GB/s for each GPU"
        elif job.task.kind == "inference":
            counted = "the requests are divided among them"
    return f"{machines} separate machines: {counted}"


def _line(kind: LineKind, label: str, quantity: Decimal, unit: str, unit_price: Decimal) -> Line:
    return Line(kind, label, quantity, unit, unit_price, quantity * unit_price)


def _sum(amounts: Iterator[Decimal]) -> Decimal:
    with localcontext(EXACT):
        return sum(amounts, Decimal(0))


def _hours_up(hours: Decimal) -> Decimal:
    return hours.quantize(_HOUR_STEP, ROUND_CEILING)


def _show(number: Decimal) -> str:
    text = format(round(number, 3), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
