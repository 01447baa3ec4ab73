"""A way to run a job as a straight line: its bill for any price of the machine.

Billed hours, disk and egress do not depend on the price, so that a bill is

    fixed + price of an hour x machine-hours + price of a month x machine-months

with the discounts taken off the prices. The three numbers are read off bills of
``tracker.domain.cost`` at made-up prices, and checked against a bill at a real one.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Context, Decimal
from typing import NamedTuple

from tracker.domain.cost import Bill, CostInputs, bill
from tracker.domain.exact import EXACT
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.money import PerMachineHour
from tracker.report.discounts import DiscountBook
from tracker.report.priced import candidate_of, hour_usd, whole_month_usd
from tracker.store.reads import StoredOffer

_ONE, _TWO = Decimal(1), Decimal(2)
_DIGITS = Context(prec=28)


class Line(NamedTuple):
    """One way to run the job on machines alike. The bill in USD is ``usd`` of the price.

    ``partial``: what is billed at a price that nobody stated; the bill is then an "at least", as it
    is with ``lower_bound`` hours. ``gpu_count`` is of one machine.
    """

    estimate: RuntimeEstimate
    machines: int
    gpu_count: Decimal
    billed_hours: Decimal
    fixed_usd: Decimal
    machine_hours: Decimal
    machine_months: Decimal
    partial: tuple[str, ...]
    lower_bound: bool
    discount_percent: Decimal | None

    def usd(self, hour_usd: Decimal, month_usd: Decimal | None) -> Decimal:
        """The bill where the machine costs so much (after discount) for an hour, and a month."""
        total = EXACT.add(self.fixed_usd, EXACT.multiply(hour_usd, self.machine_hours))
        if month_usd is None:
            return total
        return EXACT.add(total, EXACT.multiply(month_usd, self.machine_months))

    def even_usd_per_gpu_hour(self, usd: Decimal) -> Decimal | None:
        """The price of a GPU for an hour at which the bill is *usd*, to 28 digits; None where no
        price would do, or where whole months are billed and no hours."""
        left = EXACT.subtract(usd, self.fixed_usd)
        if left < 0 or not self.machine_hours:
            return None
        hours = EXACT.multiply(self.machine_hours, self.gpu_count)
        return _DIGITS.divide(left, hours)


def line_of(
    offer: StoredOffer, way: RuntimeEstimate, job: Job, discounts: DiscountBook
) -> Line | None:
    """*way* on machines such as *offer* as a line; None where it makes no bill.

    Raises ValueError when the bill of *offer* itself does not lie on it.
    """
    inputs = candidate_of(offer, way, discounts).inputs._replace(max_duration_hours=None)
    exact = bill(inputs, job, way)
    if not isinstance(exact, Bill):
        return None
    month = None if inputs.month_usd is None else _ONE
    base = _at(inputs, job, way, _ONE, month)
    per_hour = EXACT.subtract(_at(inputs, job, way, _TWO, month), base)
    per_month = Decimal(0)
    if month is not None:
        per_month = EXACT.subtract(_at(inputs, job, way, _ONE, _TWO), base)
    line = Line(
        way, exact.machines, exact.gpu_count, exact.billed_hours,
        EXACT.subtract(EXACT.subtract(base, per_hour), per_month), per_hour, per_month,
        exact.partial, exact.lower_bound, discounts.percent_for(offer),
    )  # fmt: skip
    if line.usd(inputs.price.usd, inputs.month_usd) != exact.at_least_usd:
        raise ValueError(f"the bill on {offer.gpu_key} is no straight line in its price")
    return line


def _at(
    inputs: CostInputs, job: Job, way: RuntimeEstimate, hour: Decimal, month: Decimal | None
) -> Decimal:
    found = bill(inputs._replace(price=PerMachineHour(hour), month_usd=month), job, way)
    if not isinstance(found, Bill):  # what makes no bill does not depend on the price
        raise ValueError(found.reason)
    return found.at_least_usd


class Cost(NamedTuple):
    """The bill of the best of several lines at one price."""

    usd: Decimal
    line: Line
    hour_usd: Decimal  # of the machine, less the discount

    @property
    def partial(self) -> bool:
        """Whether a part of it has no known price: it is an "at least"."""
        return bool(self.line.partial)

    @property
    def price_usd_per_gpu_hour(self) -> Decimal:
        """To 28 digits."""
        return _DIGITS.divide(self.hour_usd, self.line.gpu_count)


def cost_at(
    offer: StoredOffer, lines: Sequence[Line], budget_usd: Decimal | None = None
) -> Cost | None:
    """The cheapest of *lines* at the price that *offer* has; None where all are over the budget.

    Of equal ones that with fewer machines, then the faster one: the order of the live answer.
    """
    costs = []
    for line in lines:
        hour = hour_usd(offer, line.discount_percent)
        month = whole_month_usd(offer, line.discount_percent)
        usd = line.usd(hour, month)
        if budget_usd is None or usd <= budget_usd:
            costs.append(Cost(usd, line, hour))

    def order(cost: Cost) -> tuple[bool, Decimal, int, Decimal]:
        return cost.partial, cost.usd, cost.line.machines, cost.line.estimate.hours

    return min(costs, key=order, default=None)
