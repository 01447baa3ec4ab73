"""The month's bill of jobs that run again and again.

    by the run: runs per month x bill of a run
    by the month: machines x price x 730 h, once for all the jobs on that offer, and their egress

An offer with a commitment of a month or more is paid for whether it is used or not, so jobs that
run on the same one share it: as many machines as the widest run takes, more where the runs together
need more machine-hours than these have (730 h each), and so many that as wide runs as there are go
side by side as often as their hours take (a run on 7 machines leaves 3 of 10 idle to the likes of
it). The runs are taken to wait for one another. A commitment shorter than a month is in the bill of
every run. Sums are exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from decimal import Decimal, localcontext
from typing import NamedTuple

from tracker.domain.cost import Bill, Line, LineKind
from tracker.domain.exact import (
    EXACT,
    HOUR_STEP,
    BadFigure,
    not_negative,
    plain,
    ratio_up,
    whole_up,
)
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour
from tracker.domain.texts import dollars

_ZERO = Decimal(0)
_USED = (LineKind.RUNTIME, LineKind.SETUP)


class Recurring(NamedTuple):
    """A job that runs ``runs_per_month`` times (>= 0, fractions allowed) on one offer.

    ``bill`` is that of one run, ``offer`` identifies the offer, ``commitment_hours`` is its term.
    """

    name: str
    runs_per_month: Decimal
    bill: Bill
    offer: bytes
    commitment_hours: int = 0

    @property
    def by_the_month(self) -> bool:
        """Whether the machines are paid for all month, used or not."""
        return self.commitment_hours >= HOURS_PER_MONTH


class MonthLine(NamedTuple):
    """One item of the month: exactly ``quantity`` (of ``unit``) x ``unit_price_usd``."""

    label: str
    quantity: Decimal
    unit: str
    unit_price_usd: Decimal
    amount_usd: Decimal


class MonthBill(NamedTuple):
    """The month's bill. ``at_least_usd`` is the exact sum of ``lines``.

    ``partial`` names what is billed at a price nobody stated; ``lower_bound``: hours behind it are
    lower bounds.
    """

    lines: tuple[MonthLine, ...]
    at_least_usd: Decimal
    partial: tuple[str, ...] = ()
    lower_bound: bool = False
    notes: tuple[str, ...] = ()

    @property
    def total_usd(self) -> Decimal | None:
        """The whole bill; None when a part of it is not known."""
        return None if self.partial else self.at_least_usd


def month_bill(jobs: Sequence[Recurring]) -> MonthBill:
    """The bill of all *jobs* in a month of 730 hours, in the order given.

    Raises BadFigure for runs below 0, and for jobs on one offer at different prices or terms.
    """
    lines: list[MonthLine] = []
    notes: list[str] = []
    running = [job for job in jobs if _runs(job)]
    shared: dict[bytes, list[Recurring]] = {}
    for job in running:
        if job.by_the_month:
            shared.setdefault(job.offer, []).append(job)
        else:
            lines.append(
                _line(f"{job.name}, run", job.runs_per_month, "run", job.bill.at_least_usd)
            )
    with localcontext(EXACT):
        for group in shared.values():
            lines += _committed(group, notes)
        total = sum((line.amount_usd for line in lines), _ZERO)
    partial = dict.fromkeys(f"{job.name}: {part}" for job in running for part in job.bill.partial)
    return MonthBill(
        lines=tuple(lines),
        at_least_usd=total,
        partial=tuple(partial),
        lower_bound=any(job.bill.lower_bound for job in running),
        notes=tuple(notes),
    )


def _runs(job: Recurring) -> bool:
    not_negative(f"runs per month of {job.name}", job.runs_per_month)
    return job.runs_per_month > 0


def _committed(group: Sequence[Recurring], notes: list[str]) -> Iterable[MonthLine]:
    """The lines of the jobs that share an offer paid for by the month."""
    names = ", ".join(job.name for job in group)
    first = group[0]
    price: PerMachineHour = first.bill.price
    for job in group:
        if (job.bill.price, job.commitment_hours) != (price, first.commitment_hours):
            raise BadFigure(f"{first.name} and {job.name} name one offer at different terms")
    used = sum((job.runs_per_month * _used_hours(job.bill) for job in group), _ZERO)
    machines = max(_machines(group, width) for width in {job.bill.machines for job in group})
    paid = machines * HOURS_PER_MONTH
    label, month_usd = f"{names}: machines by the month", first.bill.month_usd
    if month_usd is None:
        yield _line(label, paid, "machine-hour", price.usd)
    else:  # exactly: the price of the hour is a rounded 730th part of it
        yield _line(label, Decimal(machines), "machine-month", month_usd)
    disk = max((_disk(job.bill) for job in group), key=lambda d: d[0] * d[1])
    if disk[0]:
        yield _line(f"{names}: disk", paid * disk[0], "GB-hour", disk[1])
    for job in group:
        for line in _of(job.bill, LineKind.EGRESS):
            moved = job.runs_per_month * line.quantity
            yield _line(f"{job.name}: egress", moved, line.unit, line.unit_price_usd)
    busy = plain(100 * ratio_up(used, paid), 1)
    notes.append(
        f"{names}: {plain(used)} of {plain(paid)} machine-hours are used ({busy} %); the runs wait "
        "for one another"
    )
    if first.commitment_hours > HOURS_PER_MONTH:
        months, each = first.commitment_hours / HOURS_PER_MONTH, month_usd
        each = machines * (price.usd * HOURS_PER_MONTH if each is None else each)
        notes.append(
            f"{names}: committed to for {first.commitment_hours:,} h ({plain(months, 1)} months of "
            f"{dollars(each)}): {dollars(months * each)} in all, used or not"
        )


def _machines(group: Sequence[Recurring], width: int) -> int:
    """Machines that runs on *width* of them or more take, and all the runs together.

    Of these runs each blocks *width* at least while it runs, so they go in whole lanes of as many.
    """
    with localcontext(EXACT):
        hours = [job.runs_per_month * _used_hours(job.bill) for job in group]
        lanes = sum(
            (h / job.bill.machines for h, job in zip(hours, group, strict=True)
             if job.bill.machines >= width),
            _ZERO,
        )  # fmt: skip
        return max(width, width * _months(lanes), _months(sum(hours, _ZERO)))


def _months(hours: Decimal) -> int:
    """Months that hold so many hours. Runs that are a quotient, rounded up in its last digit, take
    a trifle more than the month that they were made of: no more of it than a billionth counts."""
    return whole_up(hours.quantize(HOUR_STEP, context=EXACT), HOURS_PER_MONTH)


def _used_hours(bill: Bill) -> Decimal:
    """Machine-hours of a run without what is billed beyond use."""
    if bill.month_usd is not None and bill.used_hours is not None:
        return bill.machines * bill.used_hours
    return sum((line.quantity for kind in _USED for line in _of(bill, kind)), _ZERO)


def _disk(bill: Bill) -> tuple[Decimal, Decimal]:
    """GB on one machine beyond what is included, and USD per GB-hour; zeros where there is none."""
    for line in _of(bill, LineKind.DISK):
        return ratio_up(line.quantity, bill.machines * bill.billed_hours), line.unit_price_usd
    return _ZERO, _ZERO


def _of(bill: Bill, kind: LineKind) -> Iterable[Line]:
    return (line for line in bill.lines if line.kind is kind)


def _line(label: str, quantity: Decimal, unit: str, unit_price: Decimal) -> MonthLine:
    return MonthLine(label, quantity, unit, unit_price, EXACT.multiply(quantity, unit_price))
