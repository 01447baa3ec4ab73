"""Hyperbolic, Lium, CloudRift, Thunder Compute and Salad: one request, one list of rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import cloudrift, hyperbolic, lium, salad, thundercompute
from tests.providers.answering import Http, fetched, payload
from tracker.provider import FetchError, ParseError, Payload, PriceUnit

H100: dict[str, Any] = {
    "enabled": True, "costPerHourCents": 319, "providerCostPerHourCents": 1, "region": "us-east-1",
    "gpuCount": 1, "gpuType": "h100", "gpuFormFactor": "sxm5",
}  # fmt: skip
HOST: dict[str, Any] = {
    "id": "a", "machine_name": "NVIDIA L40S", "price_per_gpu": 0.9, "gpu_count": 8,
    "available_gpu_count": 8, "specs": {"is_spot": False}, "tier": "secure",
}  # fmt: skip


class Asked(Http):
    """Also takes a POST, and keeps what it asks."""

    posted: Any = None

    async def post(self, url: str, *, json_body: Any, **_: Any) -> Payload:
        self.posted = json_body
        return await self.get(url)


@pytest.mark.parametrize(
    ("module", "config", "url", "headers", "answer"),
    [
        (hyperbolic, {}, "https://api.hyperbolic.ai/v2/alpha/on-demand/rental-options", {}, [H100]),
        (hyperbolic, {"api_key": "k-of-a-test"},
         "https://api.hyperbolic.ai/v2/alpha/on-demand/rental-options",
         {"Authorization": "Bearer k-of-a-test"}, [H100]),
        (lium, {}, "https://lium.io/api/executors", {}, [HOST]),
        (thundercompute, {}, "https://api.thundercompute.com:8443/v1/pricing", {},
         {"pricing": {"a100_x1_production": 1.5}}),
        (salad, {"api_key": "k-of-a-test", "organization": "a/b"},
         "https://api.salad.com/api/public/organizations/a%2Fb/gpu-classes",
         {"Salad-Api-Key": "k-of-a-test"},
         {"items": [{"id": "c", "name": "RTX 4090 (24 GB)",
                     "prices": [{"priority": "low", "price": "0.18"}]}]}),
    ],
)  # fmt: skip
def test_what_is_asked(
    module: Any, config: Mapping[str, Any], url: str, headers: Mapping[str, str], answer: Any
) -> None:
    http = Http(lambda *_: answer)
    parsed = module.parse(fetched(module.provider, http, **config))
    assert http.asked == [(url, headers)]
    assert parsed.offers
    assert parsed.complete


def test_cloudrift_is_asked_for_virtual_machines() -> None:
    answer = {"data": {"instance_types": [{"brand_short": "RTX 4090", "variants": [
        {"name": "x", "cost_per_hour": 39.0, "gpu_count": 1}]}]}}  # fmt: skip
    http = Asked(lambda *_: answer)
    (offer,) = cloudrift.parse(fetched(cloudrift.provider, http)).offers
    assert http.urls == ["https://api.cloudrift.ai/api/v1/instance-types/list"]
    assert http.posted["data"]["selector"] == {"ByServiceAndLocation": {"services": ["vm"]}}
    assert (str(offer.price.amount), str(offer.extras.availability)) == ("0.39", "unknown")


@pytest.mark.parametrize("config", [{}, {"api_key": "k"}, {"organization": "acme"}])
def test_salad_says_what_it_lacks(config: dict[str, str]) -> None:
    with pytest.raises(FetchError, match=r"SALAD_API_KEY|organization"):
        fetched(salad.provider, Http(lambda *_: {}), **config)


def test_no_tier_of_salad_is_ranked_by_default() -> None:
    facts = salad.provider.facts
    assert not set(facts.default_tiers) & set(salad.PRIORITIES)
    assert facts.default_tiers, "empty would mean all"


@given(cents=st.integers(1, 10**6), count=st.integers(1, 64), theirs=st.integers(1, 10**6))
def test_hyperbolic_prices_the_whole_option_and_never_its_own_cost(
    cents: int, count: int, theirs: int
) -> None:
    row = H100 | {"costPerHourCents": cents, "gpuCount": count, "providerCostPerHourCents": theirs}
    (offer,) = hyperbolic.parse([payload([row])]).offers
    assert offer.price.amount * 100 == cents
    assert (offer.price.unit, offer.gpu_count) == (PriceUnit.MACHINE_HOUR, count)


@given(
    whole=st.integers(1, 16), least=st.one_of(st.none(), st.integers(0, 16)),
    free=st.one_of(st.none(), st.integers(0, 16)),
)  # fmt: skip
def test_lium_sells_a_host_whole_or_from_its_smallest_size_up(
    whole: int, least: int | None, free: int | None
) -> None:
    row = HOST | {"gpu_count": whole, "min_gpu_count_for_rental": least,
                  "available_gpu_count": free}  # fmt: skip
    offers = lium.parse([payload([row])]).offers
    sizes = {int(o.gpu_count) for o in offers}
    assert whole in sizes
    assert all(n == whole or (least and least <= n < whole and n in (1, 2, 4, 8)) for n in sizes)
    for o in offers:
        assert (o.price.unit, str(o.price.amount)) == (PriceUnit.GPU_HOUR, "0.9")
        stock = "unknown" if free is None else "yes" if free >= o.gpu_count else "no"
        assert o.extras.availability == stock
    assert sum(o.extras.stock_count or 0 for o in offers) == bool(
        free is not None and free >= whole
    )


@given(cents=st.integers(1, 10**6), count=st.integers(1, 16))
def test_cloudrift_prices_the_whole_machine_in_cents(cents: int, count: int) -> None:
    variant = {"name": "x", "cost_per_hour": cents, "gpu_count": count, "vram": 25769803776,
               "nodes_per_dc": {"us-1": {"nodes": 1}, "us-2": 0}}  # fmt: skip
    answer = {"data": {"instance_types": [{"brand_short": "RTX 4090", "variants": [variant]}]}}
    offers = cloudrift.parse([payload(answer)]).offers
    assert {(o.region, str(o.extras.availability)) for o in offers} == {
        ("us-1", "yes"), ("us-2", "no")
    }  # fmt: skip
    for o in offers:
        assert o.price.amount * 100 == cents
        assert o.vram_mib == (24576 if count == 1 else None), "of all or of one is not documented"


@pytest.mark.parametrize(
    ("module", "answer"),
    [
        (hyperbolic, [{"gpuCount": 1}]), (lium, [{"id": "a"}]), (lium, {"detail": "x"}),
        (cloudrift, {"data": {"instance_types": [{"variants": []}]}}),
        (cloudrift, {"data": {"instance_types": [{"brand_short": "L4", "variants": [{"a": 1}]}]}}),
        (thundercompute, {"pricing": {"h100": 1}}), (salad, {"items": [{"id": "c"}]}),
    ],
)  # fmt: skip
def test_a_field_that_no_row_has_is_a_changed_format(module: Any, answer: Any) -> None:
    with pytest.raises(ParseError, match=r"missing|no key|a list was due"):
        module.parse([payload(answer)])
