"""Buying against renting: worked figures, a month-by-month oracle, and what must hold."""

from __future__ import annotations

import dataclasses
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tracker.domain.cost import Bill, bill
from tracker.domain.exact import BadFigure
from tracker.domain.job import Basis, Job, RuntimeEstimate
from tracker.domain.money import PerMachineHour
from tracker.domain.ownership import (
    BuyOrRent,
    Purchase,
    against_rent,
    buy_or_rent,
    electricity_price,
    monthly,
    owned_inputs,
    plausible_price,
    used_evenly,
)

D = Decimal

BOUGHT = Purchase(
    price_usd=D(36_000), gpus=1, watts=D(1000), usd_per_kwh=D("0.2"), term_months=36,
    resale_usd=D(7200), idle_watts=D(200), pue=D("1.5"), hosting_usd_per_month=D(50),
    utilisation=D("0.5"),
)  # fmt: skip


def usd(price: str) -> PerMachineHour:
    return PerMachineHour(D(price))


def test_the_month_of_a_bought_machine() -> None:
    got = monthly(BOUGHT)
    # 600 W on average x 730 h = 438 kWh.
    assert got.write_off_usd == 800
    assert (got.power_usd, got.cooling_usd, got.hosting_usd) == (D("87.6"), D("43.8"), D(50))
    assert (got.total_usd, got.running_usd) == (D("981.4"), D("181.4"))
    assert got.usd_per_gpu_hour is not None
    assert round(got.usd_per_gpu_hour, 4) == D("2.6888")  # 981.40 / 365 h


def test_buying_pays_where_the_rent_saved_covers_the_price() -> None:
    got = buy_or_rent(BOUGHT, usd("5"))
    assert got.rent_usd_per_month == 1825
    assert (got.own_usd, got.rent_usd) == (D("35330.4"), D(65_700))
    # 36,000 / (1,825 - 181.40) = 21.9 months.
    assert got.break_even_month == 22
    # Fixed 36 x (800 + 50 + 43.80), saved 36 x (3,650 - 175.20) per unit of use.
    assert got.break_even_utilisation is not None
    assert round(got.break_even_utilisation, 4) == D("0.2572")


def test_the_resale_may_decide_in_the_last_month() -> None:
    # Saved 36 x 800 = 28,800 by then, which is the price less the resale.
    got = buy_or_rent(BOUGHT, usd("2.6887672"))
    assert got.break_even_month == 36
    assert buy_or_rent(BOUGHT, usd("2.6887")).break_even_month is None


def test_what_is_hardly_used_never_pays() -> None:
    got = buy_or_rent(dataclasses.replace(BOUGHT, utilisation=D(0)), usd("5"))
    assert got.own.usd_per_gpu_hour is None
    assert (got.rent_usd, got.break_even_month) == (0, None)
    assert got.break_even_utilisation is not None
    cheap = buy_or_rent(BOUGHT, usd("0.2"))
    assert (cheap.break_even_month, cheap.break_even_utilisation) == (None, None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"price_usd": D(0)}, "price of the hardware must be above 0"),
        ({"resale_usd": D(40_000)}, "resale value is above"),
        ({"gpus": 0}, "1 GPU or more"),
        ({"idle_watts": D(2000)}, "idle watts are above"),
        ({"term_months": 0}, "1 to 240 months"),
        ({"pue": D("0.5")}, "PUE must be 1 or more"),
        ({"utilisation": D(2)}, "utilisation must be from 0 to 1"),
        ({"usd_per_kwh": D("NaN")}, "price of a kWh must be 0 or more"),
    ],
)
def test_figures_that_cannot_be_are_refused(change: dict[str, Decimal], message: str) -> None:
    with pytest.raises(BadFigure, match=message):
        dataclasses.replace(BOUGHT, **change)  # type: ignore[arg-type]
    with pytest.raises(BadFigure, match="rented price must be above 0"):
        buy_or_rent(BOUGHT, usd("0"))


money = st.decimals("0", "5000", places=2)


@st.composite
def purchases(draw: st.DrawFn) -> Purchase:
    price = draw(st.decimals("1", "400000", places=2))
    watts = draw(st.decimals("1", "10000", places=0))
    return Purchase(
        price_usd=price,
        gpus=draw(st.integers(1, 8)),
        watts=watts,
        usd_per_kwh=draw(st.decimals("0", "1", places=3)),
        term_months=draw(st.integers(1, 60)),
        resale_usd=price * draw(st.integers(0, 100)) / 100,
        idle_watts=watts * draw(st.integers(0, 100)) / 100,
        pue=draw(st.decimals("1", "2", places=2)),
        hosting_usd_per_month=draw(money),
        utilisation=draw(st.decimals("0", "1", places=2)),
    )


rents = st.decimals("0.01", "100", places=2).map(PerMachineHour)


def month_by_month(purchase: Purchase, got: BuyOrRent) -> int | None:
    """The break-even month, by walking through the term with both purses."""
    own, rent = purchase.price_usd, D(0)
    for month in range(1, purchase.term_months + 1):
        own += got.own.running_usd
        rent += got.rent_usd_per_month
        sold = purchase.resale_usd if month == purchase.term_months else D(0)
        if own - sold <= rent:
            return month
    return None


@given(purchases(), rents)
def test_the_break_even_month_is_where_the_purses_meet(
    purchase: Purchase, rented: PerMachineHour
) -> None:
    got = buy_or_rent(purchase, rented)
    assert got.break_even_month == month_by_month(purchase, got)


@given(purchases(), rents)
def test_the_break_even_utilisation_makes_both_cost_the_same(
    purchase: Purchase, rented: PerMachineHour
) -> None:
    at = buy_or_rent(purchase, rented).break_even_utilisation
    full = buy_or_rent(dataclasses.replace(purchase, utilisation=D(1)), rented)
    step = D("0.00001") * (purchase.term_months + 1)  # lines are rounded to millionths
    if at is None:
        assert full.own_usd > full.rent_usd - step
        return
    there = buy_or_rent(dataclasses.replace(purchase, utilisation=at), rented)
    assert abs(there.own_usd - there.rent_usd) <= step
    assert full.own_usd <= full.rent_usd + step


@given(purchases(), st.decimals("0", "50000", places=2))
def test_a_rent_of_a_month_is_weighed_alike_however_it_came_about(
    purchase: Purchase, rent: Decimal
) -> None:
    flat = against_rent(purchase, rent)
    assert flat.break_even_month == month_by_month(purchase, flat)
    assert (flat.rent_usd_per_month, flat.break_even_utilisation) == (rent, None)
    if not rent or not purchase.utilisation:
        return
    used = used_evenly(purchase, rent)
    assert used._replace(break_even_utilisation=None) == flat
    by_hour = buy_or_rent(purchase, PerMachineHour(rent / (730 * purchase.utilisation)))
    if used.break_even_utilisation is None or by_hour.break_even_utilisation is None:
        return  # at the edge the last digit of a quotient decides
    assert used.break_even_utilisation == pytest.approx(by_hour.break_even_utilisation)


def test_a_price_that_is_off_by_thousands_is_told() -> None:
    band = (D("0.6"), D(15))  # USD per GPU-hour: in the middle 3
    assert plausible_price(D(28_000), 1, band) is None
    assert plausible_price(D(28), 1, band) == (300, 180_000)
    assert plausible_price(D(28_000_000), 1, band) == (300, 180_000)
    assert plausible_price(D(300_000), 8, band) is None
    assert plausible_price(D(300_000), 1, band) is not None


@given(purchases(), rents)
def test_the_lines_of_a_month_sum_to_its_total(purchase: Purchase, rented: PerMachineHour) -> None:
    got = buy_or_rent(purchase, rented)
    own = got.own
    lines = own.write_off_usd, own.power_usd, own.cooling_usd, own.hosting_usd
    assert sum(lines) == own.total_usd
    assert all(line >= 0 for line in lines)
    # The months of the term pay for the purchase, to the cent.
    assert 0 <= own.total_usd * purchase.term_months - got.own_usd < D("0.01")
    if own.usd_per_gpu_hour is not None:
        used = purchase.gpus * 730 * purchase.utilisation
        assert own.usd_per_gpu_hour * used == pytest.approx(own.total_usd, abs=D("0.01"))


@given(purchases(), rents, st.decimals("0.01", "100", places=2))
def test_dearer_electricity_hosting_or_hardware_never_costs_less(
    purchase: Purchase, rented: PerMachineHour, more: Decimal
) -> None:
    base = buy_or_rent(purchase, rented)
    for dearer in (
        dataclasses.replace(purchase, price_usd=purchase.price_usd + more),
        dataclasses.replace(purchase, usd_per_kwh=purchase.usd_per_kwh + more),
        dataclasses.replace(purchase, hosting_usd_per_month=purchase.hosting_usd_per_month + more),
    ):
        assert buy_or_rent(dearer, rented).own_usd >= base.own_usd
    if base.break_even_month is not None:
        dear = buy_or_rent(purchase, PerMachineHour(rented.usd + more))
        assert dear.break_even_month is not None
        assert dear.break_even_month <= base.break_even_month


def test_a_gpu_one_has_costs_its_electricity() -> None:
    price = electricity_price(D(600), D("0.30"), D("1.1"))
    assert price.usd == D("0.198")
    job = Job("j", {}, disk_gb=D(100), egress_gb=D(50))
    got = bill(owned_inputs(2, price), job, RuntimeEstimate(D(10), Basis.MEASURED))
    assert isinstance(got, Bill)
    assert (got.total_usd, got.partial, got.machines) == (D("1.98"), (), 1)
    with pytest.raises(BadFigure, match="price of a kWh must be above 0"):
        electricity_price(D(600), D(0))
    with pytest.raises(BadFigure, match="1 GPU or more"):
        owned_inputs(0, price)
