"""Azure for one or three years: totals by the hour, savings plans, and what neither may become."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.azure import API_VERSION, HOST, PATH, provider
from tests.providers.azure_answers import H100, NOW, payload, row
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.provider import ListedOffer, Market, Parsed, Payload, PriceUnit

RECORDED = SHARED / "providers" / "payloads" / "azure" / "retail_page_synthetic.json"


def url(kind: str, version: str = API_VERSION) -> str:
    asked = {"api-version": version, "$filter": f"priceType eq '{kind}' and (x)"}
    return f"https://{HOST}{PATH}?{urlencode(asked)}"


def reserved(
    total: Any, term: Any = "1 Year", region: str = "eastus", **over: Any
) -> dict[str, Any]:  # fmt: skip
    """A reservation row as documented: the unit says an hour, the price is for the term."""
    return row(total, region, type="Reservation", reservationTerm=term, **over)


def parsed(plain: list[Any], reservations: list[Any] = [], version: str = API_VERSION) -> Parsed:  # noqa: B006
    return provider.parse(
        [
            payload(*plain, url=url("Consumption", version)),
            payload(*reservations, url=url("Reservation")),
        ]
    )


def by_id(result: Parsed) -> dict[tuple[str, int | None], ListedOffer]:
    found = {(o.source_id, o.terms.commitment_hours): o for o in result.offers}
    assert len(found) == len(result.offers)
    return found


def reasons(result: Parsed) -> Counter[str]:
    return Counter(r.reason for r in result.rejected)


def test_the_total_of_a_term_becomes_the_price_of_its_hour() -> None:
    # 39,420 / 8,760 = 4.50 and 65,700 / (3 x 8,760) = 2.50
    result = parsed([row(7.0)], [reserved(39_420), reserved(65_700, "3 Years")])
    offers = by_id(result)
    one, three = offers[f"{H100}/reservation", 8760], offers[f"{H100}/reservation", 26_280]
    assert (one.price.amount, three.price.amount) == (Decimal("4.5"), Decimal("2.5"))
    assert one.price.amount * 8760 == 39_420
    for offer in (one, three):
        assert offer.market is Market.RESERVED
        assert (offer.price.unit, offer.price.currency) == (PriceUnit.MACHINE_HOUR, "USD")
        assert (offer.gpu_count, offer.vram_gb, offer.region) == (1, 94, "eastus")
    assert offers[H100, None].market is Market.ON_DEMAND
    assert not result.rejected


def test_a_total_without_an_end_by_the_hour_comes_back_to_the_cent() -> None:
    offer = by_id(parsed([row(7.0)], [reserved(42_066)]))[f"{H100}/reservation", 8760]
    assert offer.price.amount == Decimal("4.802054795")
    assert round(offer.price.amount * 8760, 2) == 42_066


def test_plans_are_prices_of_an_hour_beside_the_plain_one() -> None:
    plan = [{"unitPrice": 5.1, "retailPrice": 5.1, "term": "1 Year"},
            {"unitPrice": 3.3, "retailPrice": 3.3, "term": "3 Years"}]  # fmt: skip
    offers = by_id(parsed([row(7.0, savingsPlan=plan)]))
    assert {key: str(o.price.amount) for key, o in offers.items()} == {
        (H100, None): "7.0",
        (f"{H100}/savings plan", 8760): "5.1",
        (f"{H100}/savings plan", 26_280): "3.3",
    }
    assert {o.market for (_, hours), o in offers.items() if hours} == {Market.RESERVED}


def test_spot_windows_and_their_plans_stay_out_of_it() -> None:
    plan = [{"retailPrice": 5.1, "term": "1 Year"}]
    result = parsed(
        [row(7.0), row(1.0, skuName="NC40ads H100 v5 Spot", savingsPlan=plan),
         row(9.0, productName="Virtual Machines NCads H100 v5 Series Windows", savingsPlan=plan)],
        [reserved(39_420, productName="Virtual Machines NCads H100 v5 Series Windows"),
         reserved(39_421, skuName="NC40ads H100 v5 Spot")],
    )  # fmt: skip
    assert [(o.source_id, str(o.market)) for o in result.offers] == [
        (H100, "on_demand"), (H100, "spot")
    ]  # fmt: skip
    assert reasons(result) == {"Windows": 2, "reservation of spot": 1}


@pytest.mark.parametrize("version", ["2021-10-01-preview", "2021-10-01", ""])
def test_the_field_means_nothing_in_another_version(version: str) -> None:
    plan = [{"retailPrice": 5.1, "term": "1 Year"}]
    assert set(by_id(parsed([row(7.0, savingsPlan=plan)], version=version))) == {(H100, None)}


@pytest.mark.parametrize(
    ("total", "reason"),
    [
        (4.5, "reservation far below on-demand: not the price of its term"),  # by the hour
        (3_285, "reservation far below on-demand: not the price of its term"),  # by the month
        (61_320, "reservation not below on-demand"),  # 7.00 an hour
        (118_260, "reservation not below on-demand"),  # of three years, said to be of one
    ],
)
def test_what_cannot_be_the_price_of_a_year_is_none(total: float, reason: str) -> None:
    result = parsed([row(7.0)], [reserved(total)])
    assert set(by_id(result)) == {(H100, None)}
    assert reasons(result) == {reason: 1}


@pytest.mark.parametrize("hour", [7.0, 39_420, 0.5, -1, 0, "x", None, 1e30])
def test_a_plan_that_is_no_price_of_an_hour_is_none(hour: Any) -> None:
    result = parsed([row(7.0, savingsPlan=[{"retailPrice": hour, "term": "1 Year"}])])
    assert set(by_id(result)) == {(H100, None)}
    assert len(result.rejected) == 1


@pytest.mark.parametrize("term", ["1 year", "12 Months", "", None, 1, "0 Years", "Year"])
def test_a_term_that_is_not_known_is_none(term: Any) -> None:
    result = parsed([row(7.0)], [reserved(39_420, term)])
    assert set(by_id(result)) == {(H100, None)}
    assert reasons(result) == {"term of the reservation is not known": 1}


@pytest.mark.parametrize("plan", ["x", {"term": "1 Year"}, [None], [{"term": "1 Year"}], [[]], 7])
def test_a_plan_of_another_shape_costs_only_itself(plan: Any) -> None:
    assert set(by_id(parsed([row(7.0, savingsPlan=plan)]))) == {(H100, None)}


def test_a_reservation_without_a_plain_price_beside_it_is_not_believed() -> None:
    result = parsed([row(7.0, "westus")], [reserved(39_420), reserved(39_421, region="westus")])
    assert {o.region for o in result.offers if o.market is Market.RESERVED} == {"westus"}
    assert reasons(result) == {
        "reservation without an on-demand price to compare it with": 1
    }  # fmt: skip


def test_two_prices_for_one_term_are_none() -> None:
    result = parsed([row(7.0)], [reserved(39_420), reserved(40_000), reserved(65_700, "3 Years")])
    assert {hours for _, hours in by_id(result)} == {None, 26_280}
    plans = [{"retailPrice": 5.1, "term": "1 Year"}, {"retailPrice": 5.2, "term": "1 Year"}]
    result = parsed([row(7.0, savingsPlan=plans)])
    assert set(by_id(result)) == {(H100, None)}
    assert reasons(result) == {"two prices for one savings plan": 1}
    twice = [row(7.0, meterId=str(at), savingsPlan=plans[at : at + 1]) for at in (0, 1)]
    for rows in (twice, twice[::-1]):
        assert set(by_id(parsed(rows))) == {(H100, None)}


def test_rows_are_read_as_what_was_asked_for() -> None:
    """A reservation in an answer of plain prices, or the other way round, is a mistake."""
    mixed = [row(7.0), reserved(39_420)]
    assert set(by_id(parsed(mixed))) == {(H100, None)}
    assert reasons(parsed(mixed)) == {"reservation price": 1}
    result = parsed([row(7.0)], [row(1.5)])
    assert set(by_id(result)) == {(H100, None)}
    assert reasons(result) == {"price type is not Reservation": 1}
    unknown = provider.parse([payload(*mixed)])  # a file without its address
    assert [o.source_id for o in unknown.offers] == [H100]


@given(
    plain=st.lists(
        st.builds(
            lambda price, region, plan: row(price, region, savingsPlan=plan),
            st.sampled_from([7.0, 3.0, 100.0]), st.sampled_from(["eastus", "westus"]),
            st.sampled_from([None, [], [{"retailPrice": 4.2, "term": "1 Year"}]]),
        ), max_size=3,
    ),
    reservations=st.lists(
        st.builds(
            reserved, st.sampled_from([4.5, 39_420, 65_700, 500_000]),
            st.sampled_from(["1 Year", "3 Years", "5 Years"]),
            st.sampled_from(["eastus", "westus"]),
        ), max_size=4,
    ),
)  # fmt: skip
def test_a_commitment_always_costs_less_by_the_hour_and_says_its_term(
    plain: list[Any], reservations: list[Any]
) -> None:
    offers = by_region(parsed(plain, reservations))
    for key, offer in offers.items():
        if offer.market is Market.RESERVED:
            full = offers[H100, None, key[2]]
            assert full.price.amount / 5 <= offer.price.amount < full.price.amount
            assert offer.terms.commitment_hours in (8760, 26_280, 43_800)
            assert offer.source_id != H100
        else:
            assert offer.terms.commitment_hours is None


def by_region(result: Parsed) -> dict[tuple[str, int | None, str | None], ListedOffer]:
    return {(o.source_id, o.terms.commitment_hours, o.region): o for o in result.offers}


@pytest.mark.skipif(not RECORDED.is_file(), reason=NO_SHARED)
def test_recorded_plans_are_read_where_the_address_says_the_version() -> None:
    result = provider.parse([Payload(url("Consumption"), RECORDED.read_bytes(), NOW)])
    plans = {key: str(o.price.amount) for key, o in by_region(result).items() if key[1]}
    name = "Standard_NC24ads_A100_v4/savings plan"
    assert plans == {(name, 8760, "eastus"): "2.49", (name, 26_280, "eastus"): "1.67"}
    assert len(result.offers) == 9 + 2
    assert reasons(result)["reservation price"] == 1
