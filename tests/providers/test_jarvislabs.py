"""JarvisLabs: rupees and dollars are never mixed up, and prices are of one GPU."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import jarvislabs
from providers.jarvislabs import MOST_USD_PER_GPU_HOUR, provider
from tests.providers.answering import Http, fetched, payload
from tracker.provider import FetchError, Market, ParseError, PriceUnit

ROW: dict[str, Any] = {
    "gpu_type": "L4", "region": "india-noida-01", "num_free_devices": 3, "price_per_hour": 0.44,
    "spot_price": None, "vram": "24", "workload_type": "container", "num_gpus": "8",
}  # fmt: skip


def _parse(currency: str | None = "USD", **fields: Any) -> Any:
    answer: dict[str, Any] = {"server_meta": [ROW | fields]}
    return jarvislabs.parse([payload(answer | ({"currency": currency} if currency else {}))])


def test_it_is_asked_with_the_key_and_the_client_id_that_is_set() -> None:
    http = Http(lambda url, _: {"server_meta": []})
    fetched(provider, http, api_key="key-of-a-test")
    fetched(provider, http, api_key="key-of-a-test", client_id="me")
    assert http.asked == [
        ("https://backendn.jarvislabs.net/misc/server_meta", headers)
        for headers in (
            {"Authorization": "Bearer key-of-a-test"},
            {"Authorization": "Bearer key-of-a-test", "X-Client-Id": "me"},
        )
    ]
    with pytest.raises(FetchError, match="JL_API_KEY"):
        fetched(provider, http)


@pytest.mark.parametrize(
    ("currency", "price"), [("USD", 1.5), ("usd", 25), ("inr", 37.5), (" INR ", 120)]
)
def test_the_currency_is_the_answers(currency: str, price: float) -> None:
    offers = _parse(currency, price_per_hour=price).offers
    assert {o.price.currency for o in offers} == {currency.strip().upper()}
    assert all(o.notes == () for o in offers)


def test_dollars_that_can_only_be_rupees_are_refused_whatever_the_answer_says() -> None:
    with pytest.raises(ParseError, match=r"^currency: said to be USD, and 120 an hour"):
        _parse("USD", price_per_hour=120)


@pytest.mark.parametrize("currency", ["EUR", "", 5])
def test_another_currency_is_refused(currency: Any) -> None:
    with pytest.raises(ParseError, match="currency"):
        jarvislabs.parse([payload({"currency": currency, "server_meta": [ROW]})])


@given(cents=st.integers(1, 10**6))
def test_prices_that_can_only_be_rupees_are_never_taken_for_dollars(cents: int) -> None:
    price = cents / 100
    if price > MOST_USD_PER_GPU_HOUR:
        with pytest.raises(ParseError, match="is not in USD"):
            _parse(None, price_per_hour=price)
    else:
        offers = _parse(None, price_per_hour=price).offers
        assert {(o.price.currency, len(o.notes)) for o in offers} == {("USD", 1)}


@given(largest=st.integers(1, 16), free=st.one_of(st.none(), st.integers(0, 16)))
def test_sizes_up_to_the_largest_and_stock_by_what_is_free(largest: int, free: int | None) -> None:
    offers = _parse(num_gpus=str(largest), num_free_devices=free).offers
    assert [int(o.gpu_count) for o in offers] == [n for n in (1, 2, 4, 8) if n <= largest]
    for o in offers:
        assert (o.price.unit, str(o.price.amount)) == (PriceUnit.GPU_HOUR, "0.44")
        stock = "unknown" if free is None else "yes" if free >= o.gpu_count else "no"
        assert o.extras.availability == stock


def test_spot_is_of_containers_and_below_on_demand_only() -> None:
    assert {o.market for o in _parse(spot_price=0.3).offers} == {Market.ON_DEMAND, Market.SPOT}
    for fields in ({"workload_type": "vm"}, {"workload_type": None}, {"spot_price": 0.44}):
        found = _parse(**({"spot_price": 0.3} | fields))
        assert {o.market for o in found.offers} == {Market.ON_DEMAND}
        assert len(found.rejected) == 1
