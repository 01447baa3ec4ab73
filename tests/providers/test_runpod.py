"""RunPod: which rows become offers, at whose price, and how the catalogue is asked."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import runpod
from tracker.provider import (
    Availability,
    FetchError,
    ListedOffer,
    Market,
    Parsed,
    ParseError,
    Payload,
    PriceKind,
    PriceUnit,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SHARED = Path(__file__).resolve().parents[3] / "shared" / "providers" / "payloads" / "runpod"
needs_recordings = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the recorded live answers are not beside this checkout"
)

ROW: dict[str, Any] = {
    "id": "NVIDIA H100 80GB HBM3",
    "memoryInGb": 80,
    "secureCloud": True,
    "communityCloud": True,
    "securePrice": 3.0,
    "communityPrice": 2.5,
    "secureSpotPrice": None,
    "communitySpotPrice": None,
    "maxGpuCount": 8,
}
IN_STOCK: dict[str, Any] = {
    "uninterruptablePrice": 6.0,
    "minimumBidPrice": 4.0,
    "stockStatus": "High",
}
NO_STOCK: dict[str, Any] = {
    "uninterruptablePrice": None,
    "minimumBidPrice": None,
    "stockStatus": None,
}


def _parse(*rows: Any, envelope: bool = True) -> Parsed:
    body = {"data": {"gpuTypes": list(rows)}} if envelope else list(rows)
    return runpod.parse([Payload("", json.dumps(body).encode(), NOW)])


def _find(
    parsed: Parsed, tier: str = "secure", market: Market = Market.ON_DEMAND, count: int = 1
) -> ListedOffer:
    (found,) = (
        o
        for o in parsed.offers
        if (o.tier, o.market, o.gpu_count) == (tier, market, Decimal(count))
    )
    return found


def _reasons(parsed: Parsed) -> Counter[str]:
    return Counter(rejected.reason for rejected in parsed.rejected)


# --- recorded answers, right answers worked out by hand -------------------------------------


@needs_recordings
@pytest.mark.parametrize(
    ("gpu", "market", "tier", "usd"),
    [
        ("NVIDIA A100 80GB PCIe", Market.ON_DEMAND, "secure", "1.64"),
        ("NVIDIA A100 80GB PCIe", Market.SPOT, "community", "0.6"),
        ("NVIDIA H100 80GB HBM3", Market.SPOT, "secure", "1.75"),
        ("NVIDIA GeForce RTX 4090", Market.ON_DEMAND, "community", "0.34"),
    ],
)
def test_recorded_answer_of_2025(gpu: str, market: Market, tier: str, usd: str) -> None:
    body = (SHARED / "gputypes_array_jumbo2020_2025-06-21.json").read_bytes()
    parsed = runpod.parse([Payload("", body, NOW)])
    (offer,) = (
        o
        for o in parsed.offers
        if (o.gpu_name, o.market, o.tier, o.gpu_count) == (gpu, market, tier, Decimal(1))
    )
    assert offer.price.amount == Decimal(usd)
    assert offer.price.unit is PriceUnit.GPU_HOUR
    assert offer.extras.availability is Availability.UNKNOWN


@needs_recordings
def test_recorded_answer_of_2025_leaves_out_closed_markets_and_the_placeholder() -> None:
    body = (SHARED / "gputypes_array_jumbo2020_2025-06-21.json").read_bytes()
    parsed = runpod.parse([Payload("", body, NOW)])
    tiers = {(o.gpu_name, o.tier) for o in parsed.offers}
    assert ("AMD Instinct MI300X OAM", "secure") in tiers
    assert ("AMD Instinct MI300X OAM", "community") not in tiers  # 0.50 left behind, closed
    assert ("NVIDIA A30", "secure") not in tiers
    assert _reasons(parsed) == {"market closed": 15, "placeholder without a GPU": 1}


@needs_recordings
def test_recorded_answer_without_market_flags_gives_no_offer() -> None:
    body = (SHARED / "gputypes_gpu-index_2026-08-22.json").read_bytes()
    parsed = runpod.parse([Payload("", body, NOW)])
    assert parsed.offers == ()
    assert _reasons(parsed) == {"market flag missing": 9}
    assert parsed.complete


@needs_recordings
def test_recorded_graphql_error_is_a_parse_error() -> None:
    answers = json.loads((SHARED / "errors_synthetic.json").read_text())
    body = json.dumps(answers["200_graphql_error"]["body"]).encode()
    with pytest.raises(ParseError, match=r"errors\[0\].message: Cannot query field"):
        runpod.parse([Payload("", body, NOW)])


# --- price and market -----------------------------------------------------------------------


@given(
    cents=st.integers(1, 10**5),
    maximum=st.one_of(st.none(), st.integers(1, 16)),
    tier_maximum=st.one_of(st.none(), st.integers(1, 16)),
)
def test_one_offer_per_pod_size_up_to_the_markets_maximum_at_one_price_per_gpu(
    cents: int, maximum: int | None, tier_maximum: int | None
) -> None:
    price = cents / 100
    row = ROW | {"securePrice": price, "maxGpuCount": maximum,
                 "maxGpuCountSecureCloud": tier_maximum, "communityCloud": False}  # fmt: skip
    offers = _parse(row).offers
    limit = tier_maximum or maximum or 1
    assert [int(o.gpu_count) for o in offers] == [n for n in (1, 2, 4, 8) if n <= limit]
    for offer in offers:
        machine = offer.price.machine_hour(offer.gpu_count, Decimal(1))
        assert machine.usd == Decimal(str(price)) * offer.gpu_count


def test_price_of_the_pod_is_never_taken_for_the_price_of_a_gpu() -> None:
    row = ROW | {"s8": {**IN_STOCK, "uninterruptablePrice": 21.52}}
    offer = _find(_parse(row), count=8)
    assert offer.price.amount == Decimal("3.0")
    assert offer.notes == ("when it was first seen, the quote for this pod was not the list price",)


def test_pod_quote_that_agrees_with_the_list_price_needs_no_remark() -> None:
    assert _find(_parse(ROW | {"s2": IN_STOCK}), count=2).notes == ()


def test_unaliased_lowest_price_is_not_read() -> None:
    offer = _find(_parse(ROW | {"lowestPrice": IN_STOCK}))
    assert offer.extras.availability is Availability.UNKNOWN
    assert offer.extras.stock_label is None


@pytest.mark.parametrize(
    ("context", "availability", "label"),
    [
        ({**IN_STOCK, "stockStatus": "High"}, Availability.YES, "High"),
        ({**IN_STOCK, "stockStatus": "Medium"}, Availability.YES, "Medium"),
        ({**IN_STOCK, "stockStatus": "Low"}, Availability.YES, "Low"),
        (NO_STOCK, Availability.NO, None),
        (None, Availability.NO, None),
        ({**NO_STOCK, "stockStatus": "None"}, Availability.NO, "None"),
        ({**NO_STOCK, "stockStatus": "Out"}, Availability.NO, "Out"),
        ({**IN_STOCK, "stockStatus": "Plenty"}, Availability.UNKNOWN, "Plenty"),
        ({"uninterruptablePrice": 6.0}, Availability.UNKNOWN, None),
        ("High", Availability.UNKNOWN, None),
    ],
)
def test_stock_of_a_pod_size(context: Any, availability: Availability, label: str | None) -> None:
    parsed = _parse(ROW | {"s2": context, "c2": NO_STOCK})
    extras = _find(parsed, count=2).extras
    assert (extras.availability, extras.stock_label) == (availability, label)
    assert _find(parsed, count=4).extras.availability is Availability.UNKNOWN  # not asked for
    assert _find(parsed, "community", count=2).extras.availability is Availability.NO


def test_secure_and_community_are_offers_of_their_own() -> None:
    parsed = _parse(ROW)
    assert _find(parsed, "secure").price.amount == 3
    assert _find(parsed, "community").price.amount == Decimal("2.5")


def test_spot_is_compared_with_on_demand_of_the_same_cloud() -> None:
    # 2.7 is below secure on-demand but above community on-demand.
    parsed = _parse(ROW | {"secureSpotPrice": 2.7, "communitySpotPrice": 2.7})
    spot = _find(parsed, "secure", Market.SPOT)
    assert spot.price.amount == Decimal("2.7")
    assert spot.price_kind is PriceKind.DYNAMIC
    assert not [o for o in parsed.offers if (o.tier, o.market) == ("community", Market.SPOT)]
    assert _reasons(parsed) == {"spot price not below on-demand": 1}


def test_spot_equal_to_on_demand_is_no_spot() -> None:
    parsed = _parse(ROW | {"secureSpotPrice": 3.0})
    assert {o.market for o in parsed.offers} == {Market.ON_DEMAND}
    assert _reasons(parsed) == {"spot price not below on-demand": 1}


def test_spot_in_stock_without_a_bid_price_may_or_may_not_be_rentable() -> None:
    row = ROW | {"secureSpotPrice": 1.5, "s2": {**IN_STOCK, "minimumBidPrice": None}}
    parsed = _parse(row)
    assert _find(parsed, market=Market.SPOT, count=2).extras.availability is Availability.UNKNOWN
    assert _find(parsed, count=2).extras.availability is Availability.YES


@pytest.mark.parametrize("nothing", [None, 0, 0.0])
def test_zero_and_null_mean_not_offered(nothing: Any) -> None:
    parsed = _parse(ROW | {"communityPrice": nothing, "communitySpotPrice": 0.4})
    assert {o.tier for o in parsed.offers} == {"secure"}
    assert _reasons(parsed) == {"open market without a price": 1}


def test_price_left_behind_in_a_closed_market_is_no_offer() -> None:
    parsed = _parse(ROW | {"communityCloud": False, "communityPrice": 0.5})
    assert {o.tier for o in parsed.offers} == {"secure"}
    assert _reasons(parsed) == {"market closed": 1}


def test_one_missing_flag_closes_that_market_only() -> None:
    row = {k: v for k, v in ROW.items() if k != "secureCloud"}
    parsed = _parse(row)
    assert {o.tier for o in parsed.offers} == {"community"}
    assert _reasons(parsed) == {"market flag missing": 1}


def test_terms_and_identity_of_an_offer() -> None:
    offer = _find(_parse(ROW | {"id": "NVIDIA  H100 80GB  HBM3"}))
    assert offer.source_id == offer.gpu_name == "NVIDIA H100 80GB HBM3"
    assert offer.vram_gb == 80
    assert offer.terms.billing_increment_seconds == 1
    assert offer.terms.egress_usd_per_gb == 0
    assert offer.terms.disk_usd_per_gb_hour is not None
    assert round(offer.terms.disk_usd_per_gb_hour * 730, 9) == Decimal("0.10")
    assert (offer.vcpus, offer.ram_gib) == (None, None)  # they move within minutes
    assert not offer.slice


def test_mig_ids_are_slices() -> None:
    parsed = _parse(ROW | {"id": "NVIDIA H200 MIG 1g.34gb", "memoryInGb": 34})
    assert all(offer.slice for offer in parsed.offers)


def test_of_a_type_listed_twice_two_prices_are_left_to_the_gate_that_holds_both() -> None:
    rows = [ROW, ROW | {"id": "NVIDIA H100  80GB HBM3", "securePrice": 2.9}]
    for order in (rows, rows[::-1]):
        parsed = _parse(*order)
        prices = Counter(o.price.amount for o in parsed.offers if o.tier == "secure")
        assert prices[Decimal("2.9")] == prices[Decimal("3.0")] > 0


# --- shapes ---------------------------------------------------------------------------------


def test_bare_array_is_read_like_the_envelope() -> None:
    assert _parse(ROW, envelope=False) == _parse(ROW)


def test_bad_row_does_not_hurt_its_neighbours() -> None:
    parsed = _parse(ROW | {"securePrice": "3 USD"}, None, ROW | {"id": "NVIDIA L4"})
    assert {o.gpu_name for o in parsed.offers if o.tier == "secure"} == {"NVIDIA L4"}
    assert _reasons(parsed) == {"securePrice is not a number": 1, "row is not an object": 1}
    assert all(len(rejected.sample) <= 200 for rejected in parsed.rejected)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "data"),
        ({"data": None}, "data"),
        ({"data": {}}, "data.gpuTypes"),
        ({"data": {"gpuTypes": None}}, "data.gpuTypes"),
        ({"data": {"gpuTypes": {}}}, "data.gpuTypes"),
        ({"data": {"gpuTypes": ["a"]}}, "data.gpuTypes[]"),
        ({"data": {"gpuTypes": [{"name": "H100"}]}}, "data.gpuTypes[].id"),
        ([{"id": "NVIDIA L4"}], "data.gpuTypes[].memoryInGb"),
        ([{"id": "NVIDIA L4", "memoryInGb": 24}], "data.gpuTypes[].securePrice"),
        ({"errors": [{"message": "Unauthorized"}]}, "errors[0].message"),
        ({"errors": ["no"], "data": {"gpuTypes": []}}, "errors[0].message"),
        ("text", "data.gpuTypes"),
    ],
)
def test_another_shape_names_the_field(body: Any, field: str) -> None:
    with pytest.raises(ParseError) as caught:
        runpod.parse([Payload("", json.dumps(body).encode(), NOW)])
    assert caught.value.field == field


def test_no_rows_at_all_is_an_empty_answer_not_an_error() -> None:
    assert _parse() == Parsed(())


# --- fetch ----------------------------------------------------------------------------------


@dataclass
class FakeHttp:
    """Gives the answers in turn; an exception among them is raised."""

    answers: list[Any]
    asked: list[tuple[str, Any, Mapping[str, str]]] = field(default_factory=list)

    async def post(
        self, url: str, *, json_body: Any, headers: Mapping[str, str] | None = None, **_: Any
    ) -> Payload:
        self.asked.append((url, json_body, dict(headers or {})))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return Payload(url, json.dumps(answer).encode(), NOW, "POST")


def _fetch(answers: list[Any], **config: Any) -> tuple[FakeHttp, Sequence[Payload]]:
    http = FakeHttp(answers)
    return http, asyncio.run(runpod.fetch(http, runpod.RunpodConfig(**config)))  # type: ignore[arg-type]


OK = {"data": {"gpuTypes": [dict(ROW)]}}
UNKNOWN_FIELD = {"errors": [{"message": 'Cannot query field "foo" on type "GpuType".'}]}


def test_one_request_asks_every_pod_size_in_both_clouds() -> None:
    http, payloads = _fetch([OK])
    assert len(payloads) == len(http.asked) == 1
    url, body, headers = http.asked[0]
    assert url == "https://api.runpod.io/graphql"
    assert headers == {}
    for count in (1, 2, 4, 8):
        for alias, secure in (("s", "true"), ("c", "false")):
            context = f"{{gpuCount: {count}, secureCloud: {secure}}}"
            assert f"{alias}{count}: lowestPrice(input: {context})" in body["query"]
    assert body["query"].count("{") == body["query"].count("}")


def test_key_is_sent_only_where_there_is_one() -> None:
    http, _ = _fetch([OK], api_key="rpa_1", base_url="http://127.0.0.1:1/")
    assert http.asked[0][0] == "http://127.0.0.1:1/graphql"
    assert http.asked[0][2] == {"Authorization": "Bearer rpa_1"}


@pytest.mark.parametrize("refusal", [UNKNOWN_FIELD, FetchError("HTTP 400", status=400)])
def test_refused_query_is_repeated_with_the_stable_fields(refusal: Any) -> None:
    http, payloads = _fetch([refusal, OK])
    assert len(http.asked) == 2
    assert "lowestPrice" not in http.asked[1][1]["query"]
    assert "communitySpotPrice" in http.asked[1][1]["query"]
    assert len(payloads) == 1
    assert runpod.parse(payloads).offers


def test_errors_in_both_answers_fail_the_poll() -> None:
    with pytest.raises(FetchError, match="GraphQL error: Cannot query field"):
        _fetch([UNKNOWN_FIELD, UNKNOWN_FIELD])


@pytest.mark.parametrize("status", [401, 403, 429, 500, None])
def test_other_failures_are_not_asked_again(status: int | None) -> None:
    with pytest.raises(FetchError):
        _fetch([FetchError("no", status=status)])
