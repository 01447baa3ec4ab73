"""Two bills against each other: the price at which they are equal, and the speed-up it takes."""

from __future__ import annotations

from decimal import Decimal, localcontext
from enum import StrEnum
from typing import NamedTuple

from tracker.domain.cost import EXACT, Bill
from tracker.domain.money import PerGpuHour, PerMachineHour


class Bound(StrEnum):
    """What a figure is where the hours behind it are lower bounds."""

    EXACT = "exact"
    AT_LEAST = "at_least"
    AT_MOST = "at_most"
    OPEN = "open"  # it may be either


class BreakEven(NamedTuple):
    """The price of an offer at which its bill equals another's.

    ``bound``: with a lower bound for the other bill's hours the true price is no lower; with one
    for its own hours it is no higher; with both it may lie on either side.
    """

    price: PerMachineHour
    per_gpu: PerGpuHour
    bound: Bound = Bound.EXACT


def break_even(a: Bill, b: Bill) -> BreakEven | None:
    """The machine-hour price of *a*'s offer at which its bill is as large as *b*'s.

    Billed hours do not depend on the price, so the bill is linear in it:
    price* = (total of b - extras of a) / (machines of a x billed hours of a), with disk, egress,
    rounding and commitments of both in it. None when nobody knows it (``break_even_is_unknown``),
    or when *a* would cost more than *b* even at a price of nothing.
    """
    if a.total_usd is None or b.total_usd is None:
        return None
    with localcontext(EXACT) as context:
        left_for_machines = b.total_usd - a.extras_usd
        if left_for_machines < 0:
            return None
        context.prec = 50
        price = PerMachineHour(left_for_machines / (a.machines * a.billed_hours))
        return BreakEven(price, price.per_gpu(a.gpu_count), _bound(a, b))


def break_even_is_unknown(a: Bill, b: Bill) -> bool:
    """Whether no ``break_even`` means that it is not known, and not that no price would do.

    A part of a bill has no known price, or *b* costs more than its lower bound says: perhaps so
    much more that there is such a price.
    """
    return bool(a.partial or b.partial or b.lower_bound) and break_even(a, b) is None


def _bound(a: Bill, b: Bill) -> Bound:
    if a.lower_bound:
        return Bound.OPEN if b.lower_bound else Bound.AT_MOST
    return Bound.AT_LEAST if b.lower_bound else Bound.EXACT


class SpeedUp(NamedTuple):
    """How many times faster a is than b (``had``), and how many times faster it must be for equal
    cost by the machine-hours alone (``needed``): a pays off where had > needed."""

    had: Decimal
    needed: Decimal


def speed_up(a: Bill, b: Bill) -> SpeedUp:
    """Speed-up of *a* over *b* against the ratio of what their machines cost by the hour.

    A rule of thumb: set-up, rounding, disk and egress are left out (``break_even`` has them).
    """
    return SpeedUp(
        had=b.runtime_hours / a.runtime_hours,
        needed=a.machines * a.price.usd / (b.machines * b.price.usd),
    )
