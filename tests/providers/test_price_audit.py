"""What a second look at the lists found: units, currencies, stock and remarks that mislead."""

from __future__ import annotations

import re
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest

from providers import cudo, digitalocean, hyperbolic, hyperstack, lium, ovh, scaleway
from providers._hyperstack_page import read_page
from providers.thundercompute import parse as thunder
from tests.providers.answering import payload
from tests.support.fixtures import Case, cases
from tracker import registry
from tracker.provider import Availability, Parsed, ParseError


def reasons(result: Parsed) -> Counter[str]:
    return Counter(r.reason for r in result.rejected)


# -- cents and dollars, hours and months -----------------------------------------------------------

OPTION: dict[str, Any] = {
    "enabled": True, "costPerHourCents": 319, "gpuCount": 1, "gpuType": "h100",
    "gpuFormFactor": "sxm5",
}  # fmt: skip


@pytest.mark.parametrize("cents", [3.19, "4.19", 0.5, 318.75])
def test_hyperbolic_dollars_where_cents_were_due_are_no_cents(cents: Any) -> None:
    result = hyperbolic.parse([payload([OPTION | {"costPerHourCents": cents}, OPTION])])
    assert [o.price.amount for o in result.offers] == [Decimal("3.19")]
    assert reasons(result) == {"costPerHourCents is not whole cents": 1}


SERVER: dict[str, Any] = {
    "gpu": 1, "hourly_price": 2.73, "monthly_price": 1992.9,
    "gpu_info": {"gpu_name": "H100-PCIe", "gpu_memory": 80 * 2**30},
}  # fmt: skip
SIZE: dict[str, Any] = {
    "slug": "gpu-h100x1-80gb", "price_hourly": 4.41, "price_monthly": 3281.04, "regions": ["nyc2"],
    "available": True,
    "gpu_info": {"count": 1, "model": "nvidia_h100", "vram": {"amount": 80, "unit": "gib"}},
}  # fmt: skip
TWO_PRICES = "the prices of an hour and of a month contradict each other"


@pytest.mark.parametrize(
    ("hour", "month", "believed"),
    [
        (2.73, 1992.9, True), (2.73, 1100, True), (2.73, None, True), (2.73, 0, True),
        (1992.9, 1992.9, False),  # the month's in the place of the hour's
        (0.0455, 1992.9, False),  # by the minute
        (2.73, 15_943.2, False),  # one machine by the hour, eight by the month
    ],
)  # fmt: skip
def test_an_hour_and_a_month_must_agree(hour: float, month: float | None, believed: bool) -> None:
    server = SERVER | {"hourly_price": hour, "monthly_price": month}
    result = scaleway.parse([payload({"servers": {"H100-1-80G": server}})])
    assert bool(result.offers) == believed
    assert reasons(result) == ({} if believed else {TWO_PRICES: 1})
    size = SIZE | {"price_hourly": hour, "price_monthly": month}
    result = digitalocean.parse([payload({"sizes": [size]})])
    assert bool(result.offers) == believed
    assert reasons(result) == ({} if believed else {TWO_PRICES: 1})


# -- prices of other things ------------------------------------------------------------------------


def plan(*pricings: dict[str, Any], code: str = "h100-380.consumption") -> Parsed:
    technical = {"gpu": {"model": "H100", "number": 1, "memory": {"size": 80}}}
    row = {"planCode": code, "pricings": list(pricings),
           "blobs": {"commercial": {"brick": "gpu"}, "technical": technical}}  # fmt: skip
    locale = {"currencyCode": "EUR", "subsidiary": "FR"}
    return ovh.parse([payload({"locale": locale, "addons": [row]})])


SETUP = {"capacities": ["installation"], "price": 100_000_000, "interval": 0,
         "intervalUnit": "none"}  # fmt: skip
USE = {"capacities": ["consumption"], "price": 280_000_000, "interval": 1, "intervalUnit": "hour"}
TERM = USE | {"price": 140_000_000, "commitment": 12}
MONTH = {"capacities": ["renew"], "price": 138_700_000_000, "interval": 1, "intervalUnit": "month"}


@pytest.mark.parametrize("pricings", [(USE,), (SETUP, USE), (USE, SETUP), (TERM, SETUP, USE)])
def test_ovh_setting_up_and_terms_are_no_price_of_an_hour(pricings: Any) -> None:
    (offer,) = plan(*pricings).offers
    assert offer.price.amount == Decimal("2.8")


def test_ovh_a_plan_without_its_own_price_has_none() -> None:
    assert reasons(plan(SETUP)) == {"no price of the plan's own kind": 1}
    assert reasons(plan(TERM)) == {"no price of the plan's own kind": 1}
    assert reasons(plan(USE, USE | {"price": 290_000_000})) == {"several prices for one plan": 1}
    monthly = plan(SETUP, MONTH, code="h100-380.monthly.postpaid")
    assert [o.price.amount for o in monthly.offers] == [Decimal(1387)]
    assert reasons(plan(MONTH)) == {"no price of the plan's own kind": 1}


def page(price: str) -> str:
    head = "".join(
        f"<span class='page-price_card_head_item'>{t}</span>"
        for t in ("GPU Model", "VRAM (GB)", "Pricing Per Hour")
    )
    cells = "".join(
        f"<span class='page-price_card_row_item_col'>{t}</span>"
        for t in ("NVIDIA H100 SXM", "80", price)
    )
    return (
        "<div id='cloud-pricing'><div class='page-price_card'><h3>On-Demand GPU Pricing</h3>"
        f"<div class='page-price_card_head'>{head}</div>"
        f"<div class='page-price_card_row_item'>{cells}</div></div></div></html>"
    )


@pytest.mark.parametrize("price", ["$3.99 $3.20", "$1.90 - $3.20", "from $2 to $3"])
def test_hyperstack_two_prices_in_a_cell_are_none(price: str) -> None:
    assert [str(o.price.amount) for o in read_page(page("$3.20"))[0]] == ["3.20"]
    offers, rejected = read_page(page(price))
    assert not offers
    assert [r.reason for r in rejected] == ["several prices"]


@pytest.mark.parametrize("free_part", ["vcpuPriceHr", "memoryGibPriceHr"])
def test_cudo_parts_that_cost_nothing_would_make_the_sum_too_low(free_part: str) -> None:
    row = MACHINE | {free_part: {"value": "0"}}
    result = cudo.parse([payload({"machineTypes": [row]})])
    assert not result.offers
    assert reasons(result) == {"no price of the vCPU or the memory": 1}


# -- spot and stock --------------------------------------------------------------------------------

MACHINE: dict[str, Any] = {
    "gpuModel": "H100 SXM", "gpuModelId": "h100", "machineType": "sapphire", "maxGpuFree": 8,
    "dataCenterId": "se-smedjebacken-1", "gpuPriceHr": {"value": "1.9"}, "totalGpuFree": 16,
    "vcpuPriceHr": {"value": "0.0021"}, "memoryGibPriceHr": {"value": "0.0034"},
}  # fmt: skip


@pytest.mark.parametrize("on_one_host", [8, 1, 0, None])
def test_cudo_none_free_in_all_is_sold_out(on_one_host: int | None) -> None:
    row = MACHINE | {"totalGpuFree": 0, "maxGpuFree": on_one_host}
    (offer,) = cudo.parse([payload({"machineTypes": [row]})]).offers
    assert offer.extras.availability is Availability.NO


def test_lium_a_spot_host_is_never_on_demand() -> None:
    host = {"id": "a", "machine_name": "NVIDIA H200", "price_per_gpu": 3.1, "gpu_count": 8}
    said = {"tier": "spot", "specs": {"is_spot": False}}
    result = lium.parse([payload([host | said])])
    assert not result.offers
    assert reasons(result) == {"said to be spot and not to be": 1}
    (offer,) = lium.parse([payload([host | said | {"specs": {"is_spot": True}}])]).offers
    assert offer.market == "spot"


def test_hyperstack_a_size_of_which_none_is_free_is_sold_out() -> None:
    flavor = {"name": "n3-H100x8", "gpu": "H100-80G-SXM5", "gpu_count": 8, "region_name": "US-1",
              "stock_available": True}  # fmt: skip
    free = {"region": "US-1", "models": [
        {"model": "H100-80G-SXM5", "configurations": {"1x": 3, "8x": 0}}]}  # fmt: skip
    result = hyperstack.parse([
        payload([{"name": "H100-80G-SXM5", "value": "2.4"}]),
        payload({"data": [{"gpu": "H100-80G-SXM5", "region_name": "US-1", "flavors": [flavor]}]}),
        payload({"stocks": [free]}),
    ])  # fmt: skip
    (offer,) = result.offers
    assert offer.extras.availability is Availability.NO
    assert offer.extras.stock_count == 0


def test_thunder_vcpus_of_several_gpus_are_not_said() -> None:
    prices = {"h100_x1_production": 2.49, "h100_x8_production": 19.92}
    offers = thunder([payload({"pricing": prices})]).offers
    assert {int(o.gpu_count): (o.vcpus, o.ram_gib) for o in offers} == {
        1: (4, 32), 8: (None, None)
    }  # fmt: skip


# -- remarks ---------------------------------------------------------------------------------------

# An amount of money, or a rate: it would stand there as it was at the first poll.
_AMOUNT = re.compile(
    r"[$€₹]\s?\d|\d\s?(?:USD|EUR|INR)\b|\b(?:USD|EUR|INR)\b[^.]*\d|\bat \d|x 0\.\d"
)


@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_no_remark_holds_an_amount(case: Case) -> None:
    if case.provider == "pricebook":  # typed, with its own date
        return
    try:
        offers = registry.load(case.provider).parse(case.payloads()).offers
    except ParseError:
        return
    for offer in offers:
        for note in offer.notes:
            assert not _AMOUNT.search(note), (offer.source_id, note)
            assert format(offer.price.amount.normalize(), "f") not in note.split()
