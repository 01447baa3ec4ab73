"""OVHcloud: two entities, prices in 1e-8 units, and plans that only look like instances."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import ovh
from providers.ovh import provider
from tests.providers.answering import Http, fetched, payload, refused
from tracker.provider import FetchError, Market, Parsed, PriceUnit


def addon(**fields: Any) -> dict[str, Any]:
    pricing = {"price": 280000000, "formattedPrice": "2.80 €", "interval": 1,
               "intervalUnit": "hour"} | fields.pop("pricing", {})  # fmt: skip
    technical = {"gpu": {"model": "H100", "number": 1, "memory": {"size": 80}},
                 "os": {"family": "linux"}}  # fmt: skip
    brick = fields.pop("brick", "gpu")
    return {"planCode": "h100-380.consumption", "pricings": [pricing],
            "blobs": {"commercial": {"brick": brick}, "technical": technical}} | fields  # fmt: skip


def catalogue(*addons: Any, currency: str = "EUR", subsidiary: str = "FR") -> dict[str, Any]:
    locale = {"currencyCode": currency, "subsidiary": subsidiary}
    return {"locale": locale, "addons": list(addons)}


def parsed(*addons: Any) -> Parsed:
    return ovh.parse([payload(catalogue(*addons))])


def test_both_entities_are_asked_each_in_its_currency() -> None:
    def answer(url: str, _: Any) -> Any:
        if "us.ovhcloud" in url:
            return catalogue(addon(), currency="USD", subsidiary="US")
        return catalogue(addon())

    http = Http(answer)
    found = ovh.parse(fetched(provider, http))
    path = "/1.0/order/catalog/public/cloud?ovhSubsidiary="
    assert http.urls == [
        f"https://api.ovh.com{path}FR", f"https://api.us.ovhcloud.com{path}US"
    ]  # fmt: skip
    assert {(o.source_id, o.price.currency) for o in found.offers} == {
        ("FR/h100-380.consumption", "EUR"), ("US/h100-380.consumption", "USD")
    }  # fmt: skip
    assert found.complete


def test_one_entity_that_fails_makes_the_poll_partial_and_both_fail_it() -> None:
    def half(url: str, _: Any) -> Any:
        return refused(503) if "us.ovhcloud" in url else catalogue(addon())

    found = ovh.parse(fetched(provider, Http(half)))
    assert (len(found.offers), found.complete) == (1, False)
    assert found.incomplete_reason == "the catalogue of US could not be read"
    with pytest.raises(FetchError, match="HTTP 503"):
        fetched(provider, Http(lambda url, _: refused(503)))


def test_an_entity_without_an_address_is_left_out() -> None:
    http = Http(lambda url, _: catalogue(addon()))
    assert ovh.parse(fetched(provider, http, base_url_us="")).complete
    assert len(http.asked) == 1


@given(cents=st.integers(1, 10**7 - 1), comma=st.booleans(), grouped=st.booleans())
def test_the_price_agrees_with_its_text_however_that_is_written(
    cents: int, comma: bool, grouped: bool
) -> None:
    whole, rest = divmod(cents, 100)
    text = f"{whole:,}".replace(",", " " if comma else ",") if grouped else str(whole)
    shown = f"{text}{',' if comma else '.'}{rest:02} €"
    (offer,) = parsed(addon(pricing={"price": cents * 10**6, "formattedPrice": shown})).offers
    assert offer.price.amount * 100 == cents
    assert (offer.price.currency, offer.price.unit) == ("EUR", PriceUnit.MACHINE_HOUR)


@given(cents=st.integers(1, 10**7 - 1), other=st.integers(1, 10**7))
def test_a_price_that_its_text_contradicts_is_no_offer(cents: int, other: int) -> None:
    shown = f"{other // 100}.{other % 100:02} €"
    found = parsed(addon(pricing={"price": cents * 10**6, "formattedPrice": shown}))
    assert bool(found.offers) == (abs(cents - other) <= 1)


def test_a_monthly_plan_is_paid_for_a_month() -> None:
    plan = addon(planCode="h100-380.monthly.postpaid",
                 pricing={"price": 139700000000, "formattedPrice": "1397.00 €",
                          "intervalUnit": "month"})  # fmt: skip
    (offer,) = parsed(plan).offers
    assert (offer.market, offer.price.unit) == (Market.MONTHLY, PriceUnit.MACHINE_MONTH)
    assert (offer.terms.commitment_hours, offer.price.amount) == (730, 1397)


@pytest.mark.parametrize("unit", ["minute", "month", "day"])
def test_an_hourly_plan_priced_by_anything_else_is_refused(unit: str) -> None:
    found = parsed(addon(pricing={"intervalUnit": unit}))
    assert [r.reason for r in found.rejected] == [
        "the interval of the price is not that of the plan"
    ]


def test_a_gpu_of_the_ai_products_is_counted_and_other_products_are_not() -> None:
    other = addon(brick="instance")
    other["blobs"]["technical"] = {}
    found = parsed(addon(brick="ai-training"), other)
    assert not found.offers
    assert [r.reason for r in found.rejected] == ["GPU of another product than an instance"]
