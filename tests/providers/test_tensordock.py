"""TensorDock: whole machines made of a GPU's price and a place's rates."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import tensordock
from tests.providers.answering import NOW, Http, fetched, payload, refused
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect import digest
from tracker.domain.quality import Known, Rules
from tracker.provider import FetchError, Parsed, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "tensordock"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)

GPU: dict[str, Any] = {
    "v0Name": "h100-sxm5-80gb", "max_count": 8, "price_per_hr": 2.0,
    "resources": {"max_vcpus": 1000, "max_ram_gb": 9000, "max_storage_gb": 90000},
    "pricing": {"per_vcpu_hr": 0.003, "per_gb_ram_hr": 0.002, "per_gb_storage_hr": 0.00005},
}  # fmt: skip


def _parse(*gpus: Any, **place: Any) -> Parsed:
    where = {"id": "a", "city": "Oslo", "country": "Norway", "gpus": list(gpus)} | place
    return tensordock.parse([payload({"data": {"locations": [where]}})])


@needs_recordings
def test_answer_in_the_shape_of_the_list() -> None:
    payloads = [Payload("", (RECORDED / "locations_v2_synthetic.json").read_bytes(), NOW)]
    found = digest(
        tensordock.provider, payloads, catalogue(), fx={}, known=Known(), rules=Rules()
    )  # fmt: skip
    # 8 vCPUs, 32 GB and 100 GB for each GPU: 0.024 + 0.064 + 0.005 = 0.093 USD an hour.
    assert {
        (o.gpu.key, int(o.listed.gpu_count), format(o.price.usd.normalize(), "f"),
         str(o.listed.extras.availability))
        for o in found.accepted
    } == {
        ("RTX4090-24GB", 1, "0.463", "yes"), ("RTX4090-24GB", 2, "0.926", "yes"),
        ("RTX4090-24GB", 4, "1.852", "yes"), ("H100-SXM-80GB", 1, "2.343", "yes"),
        ("H100-SXM-80GB", 2, "4.686", "yes"), ("H100-SXM-80GB", 4, "9.372", "yes"),
        ("H100-SXM-80GB", 8, "18.744", "yes"), ("A100-PCIE-80GB", 1, "0.993", "no"),
    }  # fmt: skip
    assert (found.held, found.rejected) == ((), ())


@needs_recordings
def test_the_retired_list_of_hosts_is_another_shape() -> None:
    for name in (
        "hostnodes_v0_example_api-evangelist.json",
        "hostnode_specs_v0_gpuhunt_tests.json",
    ):
        with pytest.raises(ParseError, match=r"data\.locations"):
            tensordock.parse([Payload("", (RECORDED / name).read_bytes(), NOW)])


@given(
    price=st.integers(1, 10**6), vcpu=st.integers(1, 10**4), ram=st.integers(1, 10**4),
    disk=st.integers(1, 10**4), largest=st.integers(1, 10),
)  # fmt: skip
def test_every_size_costs_its_gpus_and_what_comes_with_them(
    price: int, vcpu: int, ram: int, disk: int, largest: int
) -> None:
    rates = {"per_vcpu_hr": vcpu / 10**6, "per_gb_ram_hr": ram / 10**6,
             "per_gb_storage_hr": disk / 10**6}  # fmt: skip
    row = GPU | {"price_per_hr": price / 10**6, "pricing": rates, "max_count": largest}
    found = {int(o.gpu_count): o.price.amount * 10**6 for o in _parse(row).offers}
    each = price + 8 * vcpu + 32 * ram + 100 * disk
    assert found == {n: n * each for n in (1, 2, 4, 8) if n <= largest}


def test_a_place_with_less_gives_the_most_that_it_has_and_the_offer_says_so() -> None:
    row = GPU | {"max_count": 2, "resources": {"max_vcpus": 12, "max_ram_gb": 40}}
    one, two = _parse(row).offers
    assert (one.vcpus, one.ram_gib, one.terms.disk_included_gb) == (8, 32, 100)
    assert (two.vcpus, two.ram_gib, two.terms.disk_included_gb) == (12, 40, 200)
    assert two.price.amount == Decimal("4") + Decimal("0.036") + Decimal("0.08") + Decimal("0.01")


def test_a_rate_that_is_not_told_is_not_zero() -> None:
    for missing in GPU["pricing"]:
        rates = {name: rate for name, rate in GPU["pricing"].items() if name != missing}
        parsed = _parse(GPU | {"pricing": rates})
        assert parsed.offers == ()
        assert [r.reason for r in parsed.rejected] == ["no price for vCPUs, RAM or storage"]


@pytest.mark.parametrize("rate", sorted(GPU["pricing"]))
@pytest.mark.parametrize("zero", [0, "0.000"])
def test_a_rate_of_zero_would_make_the_sum_too_low(rate: str, zero: Any) -> None:
    parsed = _parse(GPU | {"pricing": GPU["pricing"] | {rate: zero}})
    assert parsed.offers == ()
    reasons = [r.reason for r in parsed.rejected]
    assert reasons == ["vCPUs, RAM or storage at a price of zero"]


def test_a_part_of_a_gpu_is_not_the_largest_machine() -> None:
    parsed = _parse(GPU | {"max_count": 1.5})
    assert (parsed.offers, [r.reason for r in parsed.rejected]) == ((), ["max_count is not whole"])


@pytest.mark.parametrize("order", [1, -1])
def test_a_cheaper_price_that_nobody_can_have_hides_no_other(order: int) -> None:
    twice = [GPU | {"max_count": 0, "price_per_hr": 1.0}, GPU | {"max_count": 1}]
    parsed = _parse(*twice[::order])
    (offer,) = parsed.offers
    assert (offer.price.amount, str(offer.extras.availability)) == (Decimal("2.093"), "yes")
    assert [r.reason for r in parsed.rejected] == ["GPU listed twice in a place"]


@pytest.mark.parametrize(
    ("answer", "field"),
    [
        ({}, "data.locations"),
        ({"data": {"locations": {}}}, "data.locations"),
        ({"data": None, "locations": []}, "data.locations"),
        ({"locations": [1]}, "data.locations[]"),
        ({"locations": [{"gpus": []}]}, "data.locations[].id"),
        ({"locations": [{"id": "a"}]}, "data.locations[].gpus"),
        ({"locations": [{"id": "a", "gpus": [{}]}]}, "data.locations[].gpus[].price_per_hr"),
    ],
)
def test_another_shape_names_the_field(answer: Any, field: str) -> None:
    with pytest.raises(ParseError) as caught:
        tensordock.parse([payload(answer)])
    assert caught.value.field == field


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_refusal_without_a_key_says_which_key_to_set(status: int) -> None:
    http = Http(lambda *_: refused(status))
    with pytest.raises(FetchError, match=f"HTTP {status}; .* set TENSORDOCK_API_KEY") as caught:
        fetched(tensordock.provider, http)
    assert caught.value.status == status
    assert http.asked == [("https://dashboard.tensordock.com/api/v2/locations", {})]


@pytest.mark.parametrize(("status", "key"), [(500, None), (401, "k")])
def test_other_refusals_are_told_as_they_are(status: int, key: str | None) -> None:
    http = Http(lambda *_: refused(status))
    with pytest.raises(FetchError, match=f"^HTTP {status}$"):
        fetched(tensordock.provider, http, api_key=key)
    assert http.asked[0][1] == ({} if key is None else {"Authorization": "Bearer k"})
