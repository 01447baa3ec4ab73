"""Buying GPUs against renting them, over a term of months of 730 hours.

    write-off   = (price - resale value) / term
    power       = watts x PUE x $/kWh x 730 / 1000, of the used and of the idle share of the month
    own / month = write-off + power + cooling (the part of PUE above 1) + hosting
    rent / month = rented price per machine-hour x 730 x utilisation

Nothing is discounted: a dollar in three years counts as one today. Every line is rounded up to a
millionth of a dollar; their sum is exact. Plain accounting, no source beyond it.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import NamedTuple

from tracker.domain.cost import CostInputs
from tracker.domain.exact import (
    EXACT,
    BadFigure,
    not_negative,
    positive,
    ratio_up,
    share,
    usd_up,
    whole_up,
)
from tracker.domain.money import HOURS_PER_MONTH, PerMachineHour
from tracker.domain.terms import Market, Terms

MAX_TERM_MONTHS = 240

_ZERO, _ONE, _KILO = Decimal(0), Decimal(1), Decimal(1000)


@dataclass(frozen=True, slots=True)
class Purchase:
    """A machine that is bought. USD; watts are those of the whole machine, at full use and idle.

    ``utilisation`` in [0, 1] is the share of all hours in which it is used. Raises BadFigure on
    what cannot be.
    """

    price_usd: Decimal
    gpus: int
    watts: Decimal
    usd_per_kwh: Decimal
    term_months: int
    resale_usd: Decimal = _ZERO
    idle_watts: Decimal = _ZERO
    pue: Decimal = _ONE
    hosting_usd_per_month: Decimal = _ZERO
    utilisation: Decimal = _ONE

    def __post_init__(self) -> None:
        positive("the price of the hardware", self.price_usd)
        not_negative("the resale value", self.resale_usd)
        if self.resale_usd > self.price_usd:
            raise BadFigure("the resale value is above the price of the hardware")
        if self.gpus < 1:
            raise BadFigure(f"a machine has 1 GPU or more, not {self.gpus}")
        positive("watts", self.watts)
        not_negative("the idle watts", self.idle_watts)
        if self.idle_watts > self.watts:
            raise BadFigure("the idle watts are above those at full use")
        not_negative("the price of a kWh", self.usd_per_kwh)
        not_negative("hosting per month", self.hosting_usd_per_month)
        if not 1 <= self.term_months <= MAX_TERM_MONTHS:
            raise BadFigure(
                f"the term must be 1 to {MAX_TERM_MONTHS} months, not {self.term_months}"
            )
        if not (self.pue.is_finite() and self.pue >= 1):
            raise BadFigure(f"PUE must be 1 or more, not {self.pue}")
        share("utilisation", self.utilisation, zero=True)


class Monthly(NamedTuple):
    """What a bought machine costs in a month, USD. ``total_usd`` is the sum of the other four.

    ``usd_per_gpu_hour`` is for the hours used, None when there are none.
    """

    write_off_usd: Decimal
    power_usd: Decimal
    cooling_usd: Decimal
    hosting_usd: Decimal
    total_usd: Decimal
    usd_per_gpu_hour: Decimal | None

    @property
    def running_usd(self) -> Decimal:
        """What is spent every month after the purchase."""
        return EXACT.add(EXACT.add(self.power_usd, self.cooling_usd), self.hosting_usd)


def monthly(purchase: Purchase) -> Monthly:
    """The month's cost of *purchase*, spread evenly over the term."""
    p = purchase
    with localcontext(EXACT):
        write_off = usd_up(ratio_up(p.price_usd - p.resale_usd, Decimal(p.term_months)))
        watts = p.watts * p.utilisation + p.idle_watts * (1 - p.utilisation)
        kwh = watts * HOURS_PER_MONTH / _KILO
        power = usd_up(kwh * p.usd_per_kwh)
        cooling = usd_up(kwh * (p.pue - 1) * p.usd_per_kwh)
        hosting = usd_up(p.hosting_usd_per_month)
        total = write_off + power + cooling + hosting
        used = p.gpus * HOURS_PER_MONTH * p.utilisation
    per_gpu_hour = ratio_up(total, used) if used else None
    return Monthly(write_off, power, cooling, hosting, total, per_gpu_hour)


class BuyOrRent(NamedTuple):
    """Both sides of the question, USD over the whole term.

    ``break_even_month`` is the first month at the end of which buying has cost no more than renting
    (in the last one the hardware is sold); ``break_even_utilisation`` the share of the hours from
    which buying is no dearer over the term, at a rent that grows with the use. None: never.
    """

    own: Monthly
    rent_usd_per_month: Decimal
    own_usd: Decimal
    rent_usd: Decimal
    break_even_month: int | None
    break_even_utilisation: Decimal | None


def buy_or_rent(purchase: Purchase, rented: PerMachineHour) -> BuyOrRent:
    """*purchase* against renting a machine of the same work for the hours used.

    *rented* is the price of machines with as many GPUs. A machine kept rented all month costs the
    same whatever the use: ask with a utilisation of 1. Raises BadFigure for a price not above 0.
    """
    positive("the rented price", rented.usd)
    with localcontext(EXACT):
        rent_month = usd_up(rented.usd * HOURS_PER_MONTH * purchase.utilisation)
    return against_rent(purchase, rent_month)._replace(
        break_even_utilisation=_utilisation(purchase, rented)
    )


def against_rent(purchase: Purchase, rent_usd_per_month: Decimal) -> BuyOrRent:
    """*purchase* against a rent of so much every month (>= 0), whatever the use.

    There is no break-even utilisation then: None. Raises BadFigure for a rent below 0.
    """
    not_negative("the rent of a month", rent_usd_per_month)
    own = monthly(purchase)
    with localcontext(EXACT):
        term = purchase.term_months
        own_usd = purchase.price_usd + own.running_usd * term - purchase.resale_usd
        rent_usd = rent_usd_per_month * term
    return BuyOrRent(
        own=own,
        rent_usd_per_month=rent_usd_per_month,
        own_usd=own_usd,
        rent_usd=rent_usd,
        break_even_month=_month(purchase, own.running_usd, rent_usd_per_month, own_usd <= rent_usd),
        break_even_utilisation=None,
    )


def used_evenly(purchase: Purchase, rent_usd_per_month: Decimal) -> BuyOrRent:
    """``against_rent`` of what is rented for the hours used alone: the rent grows with the use.

    Raises BadFigure for a rent or a utilisation that is not above 0.
    """
    positive("the rent of a month", rent_usd_per_month)
    positive("utilisation", purchase.utilisation)
    with localcontext(EXACT):
        hours = HOURS_PER_MONTH * purchase.utilisation
        hour = PerMachineHour(ratio_up(rent_usd_per_month, hours))
    return against_rent(purchase, rent_usd_per_month)._replace(
        break_even_utilisation=_utilisation(purchase, hour)
    )


# What an hour of rent may be worth of hardware: outside of it a digit, or a unit, is wrong.
_LEAST_HOURS, _MOST_HOURS = Decimal(100), Decimal(60_000)


def plausible_price(
    price_usd: Decimal, gpus: int, rent_band: tuple[Decimal, Decimal]
) -> tuple[Decimal, Decimal] | None:
    """None where a machine with *gpus* GPUs may cost *price_usd*; else what each GPU may cost.

    *rent_band* are plausible USD per GPU-hour of that GPU (the catalogue's). Hardware costs as much
    as 100 to 60,000 hours of rent in the (geometric) middle of it: an assumption of this project,
    wide enough for old cards and new machines, that tells $28 and $28,000,000 from $28,000.
    """
    with localcontext(EXACT) as context:
        context.prec = 28
        middle = (rent_band[0] * rent_band[1]).sqrt()
        least, most = (round(middle * hours, -1) for hours in (_LEAST_HOURS, _MOST_HOURS))
        return None if least * gpus <= price_usd <= most * gpus else (least, most)


def _month(purchase: Purchase, running: Decimal, rent: Decimal, pays: bool) -> int | None:
    """The first month m with price + m x running <= m x rent; the last where resale decides."""
    saved = EXACT.subtract(rent, running)
    if saved > 0:
        month = whole_up(purchase.price_usd, saved)
        if month <= purchase.term_months:
            return month
    return purchase.term_months if pays else None


def _utilisation(purchase: Purchase, rented: PerMachineHour) -> Decimal | None:
    """Fixed costs divided by what each used hour saves; both linear in the utilisation."""
    p = purchase
    with localcontext(EXACT):
        kwh_usd = HOURS_PER_MONTH / _KILO * p.pue * p.usd_per_kwh
        fixed = (p.price_usd - p.resale_usd) + p.term_months * (
            p.hosting_usd_per_month + p.idle_watts * kwh_usd
        )
        saved = p.term_months * (rented.usd * HOURS_PER_MONTH - (p.watts - p.idle_watts) * kwh_usd)
        if saved <= 0 or fixed > saved:
            return None
    return ratio_up(fixed, saved)


# --- a machine one has ----------------------------------------------------------------------


def electricity_price(watts: Decimal, usd_per_kwh: Decimal, pue: Decimal = _ONE) -> PerMachineHour:
    """The electricity of a machine for an hour: watts x PUE x $/kWh / 1000. Exact.

    Raises BadFigure for watts or a price that are not above 0, or a PUE below 1.
    """
    positive("watts", watts)
    positive("the price of a kWh", usd_per_kwh)
    if not (pue.is_finite() and pue >= 1):
        raise BadFigure(f"PUE must be 1 or more, not {pue}")
    with localcontext(EXACT):
        return PerMachineHour(watts * pue * usd_per_kwh / _KILO)


def owned_inputs(gpus: int, price: PerMachineHour) -> CostInputs:
    """A machine one has, to be billed like an offer: by the second, its disk and traffic free."""
    if gpus < 1:
        raise BadFigure(f"a machine has 1 GPU or more, not {gpus}")
    terms = Terms(
        billing_increment_seconds=1,
        disk_usd_per_gb_hour=_ZERO,
        egress_usd_per_gb=_ZERO,
    )
    return CostInputs(price, Decimal(gpus), Market.ON_DEMAND, terms)
