"""Vast.ai: which rows become offers, at which price, and what identifies them."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers import vastai
from tracker.provider import (
    Availability,
    ListedOffer,
    Market,
    Parsed,
    ParseError,
    Payload,
    PriceKind,
    PriceUnit,
)

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
SHARED = Path(__file__).resolve().parents[3] / "shared" / "providers" / "payloads" / "vastai"
needs_recordings = pytest.mark.skipif(
    not SHARED.is_dir(), reason="the recorded live answers are not beside this checkout"
)
OD, SPOT = Market.ON_DEMAND, Market.SPOT

ROW: dict[str, Any] = {
    "id": 1000,
    "machine_id": 10,
    "gpu_name": "RTX 4090",
    "num_gpus": 1,
    "gpu_ram": 24564,
    "dph_base": 0.35,
    "dph_total": 0.352,
    "min_bid": 0.2,
    "is_bid": False,
    "storage_cost": 0.18,
    "verification": "verified",
    "rentable": True,
    "rented": False,
}


def _payload(rows: Any) -> Payload:
    body = rows if isinstance(rows, bytes) else json.dumps({"offers": rows}).encode()
    return Payload("", body, NOW, "POST")


def _parse(*rows: Any) -> Parsed:
    return vastai.parse([_payload(list(rows))])


def _one(parsed: Parsed, market: Market = OD) -> ListedOffer:
    (offer,) = (offer for offer in parsed.offers if offer.market is market)
    return offer


def _reasons(parsed: Parsed) -> Counter[str]:
    return Counter(rejected.reason for rejected in parsed.rejected)


# --- recorded answers, right answers worked out by hand -------------------------------------

H100 = "bundles_h100_2026-07-18.json"
EDGE = "bundles_edge_cases_gpu-index_2026-08-22_trimmed.json"
MIXED = "bundles_mixed_synthetic.json"


def _recorded(name: str) -> tuple[Parsed, dict[int, str]]:
    """What the parser makes of a recording, and the source id of each ask in it."""
    body = (SHARED / name).read_bytes()
    rows = json.loads(body)["offers"]
    ids = {row["id"]: f"{row['machine_id']}/{row['num_gpus']}" for row in rows}
    return vastai.parse([_payload(body)]), ids


@needs_recordings
@pytest.mark.parametrize(
    ("name", "ask", "market", "gpu", "vram_mib", "count", "tier", "usd", "with_8_gb"),
    [
        (H100, 43704244, OD, "H100 NVL", 95830, 1, "verified", "2.133333", "2.135556"),
        (H100, 40228016, OD, "H100 SXM", 81559, 8, "unverified", "16", "16.002222"),
        (H100, 36742498, OD, "H100 SXM", 81559, 2, "verified", "4.40", "4.402222"),
        (H100, 36473840, OD, "H100 SXM", 81559, 2, "deverified", "7.56", "7.560148"),
        (H100, 41072831, OD, "H100 NVL", 95830, 1, "verified", "2.666667", "2.668148"),
        (EDGE, 48370130, OD, "H100 SXM", 81559, 8, "unverified", "15.466677", "15.468159"),
        (EDGE, 47905647, SPOT, "H100 SXM", 81559, 4, "verified", "14.944", "14.946222"),
        (MIXED, 900001, OD, "A100 SXM4", 40960, 1, "verified", "0.60", "0.601667"),
        (MIXED, 900002, OD, "A100 SXM4", 81920, 4, "verified", "3.20", "3.201667"),
        (MIXED, 900009, OD, "RTX 4090", 49140, 1, "verified", "0.40", "0.401667"),
        (MIXED, 900010, OD, "RTX 4090D", 24564, 1, "unverified", "0.24", "0.241667"),
        (MIXED, 900011, OD, "A100 SXM4", 9856, 1, "verified", "0.15", "0.151667"),  # a slice
    ],
)
def test_recorded_ask(
    name: str, ask: int, market: Market, gpu: str, vram_mib: int, count: int,
    tier: str, usd: str, with_8_gb: str,
) -> None:  # fmt: skip
    parsed, ids = _recorded(name)
    (offer,) = (o for o in parsed.offers if (o.source_id, o.market) == (ids[ask], market))
    assert (offer.gpu_name, offer.vram_mib) == (gpu, Decimal(vram_mib))
    assert offer.gpu_count == count
    assert (offer.tier, offer.price.unit) == (tier, PriceUnit.MACHINE_HOUR)
    assert round(offer.price.amount, 6) == Decimal(usd)
    assert offer.terms.disk_usd_per_gb_hour is not None
    total = offer.price.amount + 8 * offer.terms.disk_usd_per_gb_hour
    assert round(total, 6) == Decimal(with_8_gb)


@needs_recordings
@pytest.mark.parametrize(
    ("name", "on_demand", "spot"), [(H100, 24, 19), (EDGE, 6, 4), (MIXED, 11, 11)]
)
def test_recorded_answers_in_all(name: str, on_demand: int, spot: int) -> None:
    parsed, _ = _recorded(name)
    assert Counter(o.market for o in parsed.offers) == {OD: on_demand, SPOT: spot}
    assert parsed.complete


@needs_recordings
@pytest.mark.parametrize(
    ("name", "ask"), [(H100, 36473840), (H100, 41072831), (EDGE, 48370130), (MIXED, 900012)]
)
def test_recorded_asks_without_a_spot_offer(name: str, ask: int) -> None:
    parsed, ids = _recorded(name)
    assert not [o for o in parsed.offers if (o.source_id, o.market) == (ids[ask], SPOT)]


@needs_recordings
def test_recorded_sizes_of_one_machine_count_as_one_in_stock() -> None:
    parsed, _ = _recorded(H100)
    machine = [o for o in parsed.offers if o.source_id.startswith("68392/") and o.market is OD]
    assert {int(o.gpu_count): o.extras.stock_count for o in machine} == {
        1: None, 2: None, 4: None, 8: 1,
    }  # fmt: skip
    # Recorded memory grows with the part of the machine: it is not the whole machine's.
    assert {int(o.gpu_count): o.ram_gib for o in machine} == {1: 283, 2: 567, 4: 1134, 8: 2268}


@needs_recordings
def test_recorded_error_answer_is_a_parse_error() -> None:
    answers = json.loads((SHARED / "errors_synthetic.json").read_text())
    body = json.dumps(answers["400_wrapped_query"]["body"]).encode()
    with pytest.raises(ParseError, match=r"offers: missing .*invalid_args"):
        vastai.parse([_payload(body)])


# --- price and market -----------------------------------------------------------------------


def test_machine_price_is_dph_base_and_disk_a_separate_line() -> None:
    offer = _one(_parse(ROW | {"num_gpus": 4, "dph_base": 1.4, "dph_total": 1.9}))
    assert offer.price.amount == Decimal("1.4")
    assert offer.terms.disk_usd_per_gb_hour == Decimal("0.00025")  # 0.18 / 720
    assert offer.terms.egress_usd_per_gb is None  # not said


def test_spot_is_the_floor_of_the_bids_and_says_so() -> None:
    offer = _one(_parse(ROW), SPOT)
    assert offer.price.amount == Decimal("0.2")
    assert offer.price_kind is PriceKind.AUCTION
    assert "min_bid: a floor, not a quote" in offer.notes


@given(base=st.integers(1, 5000), bid=st.one_of(st.none(), st.integers(0, 5000)))
def test_spot_only_where_a_bid_can_be_below_on_demand(base: int, bid: int | None) -> None:
    row = ROW | {"dph_base": base / 1000, "min_bid": None if bid is None else bid / 1000}
    parsed = _parse(row)
    assert bool([o for o in parsed.offers if o.market is SPOT]) == (
        bid is not None and 0 < bid < base
    )
    assert _one(parsed).price.amount == Decimal(str(base / 1000))


def test_spot_is_not_found_between_dph_base_and_dph_total() -> None:
    parsed = _parse(ROW | {"min_bid": 0.351})
    assert {o.market for o in parsed.offers} == {OD}
    assert _reasons(parsed) == {"spot price not below on-demand": 1}


@pytest.mark.parametrize(("base", "bid", "usd"), [(0.25, 0.2, "0.25"), (0.2, 0.3, "0.3")])
def test_row_of_a_bid_query_is_spot_only_and_never_below_its_floor(
    base: float, bid: float, usd: str
) -> None:
    parsed = _parse(ROW | {"is_bid": True, "dph_base": base, "min_bid": bid})
    assert [(o.market, o.price.amount) for o in parsed.offers] == [(SPOT, Decimal(usd))]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"rentable": False}, "not rentable"),
        ({"rented": True}, "already rented"),
        ({"dph_base": 0.0}, "no price"),
        ({"dph_base": None}, "no price"),
        ({"dph_base": "cheap"}, "dph_base is not a number"),
        ({"dph_base": 1e30}, "dph_base is out of all range"),
        ({"min_bid": -1}, "min_bid is negative"),
        ({"machine_id": None}, "machine_id is missing or not a number"),
        ({"num_gpus": True}, "num_gpus is missing or not a whole number"),
        ({"gpu_name": "  "}, "gpu_name is missing"),
        ({"inet_up_cost": {}}, "inet_up_cost is not a number"),
    ],
)
def test_bad_row_is_rejected_alone(change: Mapping[str, Any], reason: str) -> None:
    parsed = _parse({**ROW, **change}, ROW | {"id": 2, "machine_id": 20})
    assert {o.source_id for o in parsed.offers} == {"20/1"}
    assert _reasons(parsed) == {reason: 1}
    assert len(parsed.rejected[0].sample) <= 200


# --- identity, tier, place, hardware --------------------------------------------------------


def test_relisted_machine_keeps_its_identity() -> None:
    before, after = _one(_parse(ROW)), _one(_parse(ROW | {"id": 99, "ask_contract_id": 99}))
    assert before.source_id == after.source_id == "10/1"


def test_what_fluctuates_stays_out_of_the_fields_that_identify_an_offer() -> None:
    first = _one(_parse(ROW | {"cpu_ram": 128861, "storage_cost": 0.2, "disk_space": 100.5}))
    second = _one(
        _parse(ROW | {"cpu_ram": 128902, "storage_cost": 0.19999999999999998, "disk_space": 9})
    )
    assert (first.ram_gib, first.terms) == (second.ram_gib, second.terms)


@pytest.mark.parametrize(
    ("verification", "tier"),
    [("verified", "verified"), ("deverified", "deverified"), (None, "unverified"),
     ("platinum", "unverified")],
)  # fmt: skip
def test_unknown_verification_is_the_cautious_class(verification: Any, tier: str) -> None:
    offer = _one(_parse(ROW | {"verification": verification}))
    assert offer.tier == tier
    assert ("verification is not stated" in offer.notes) == (verification != tier)


@pytest.mark.parametrize(
    ("geolocation", "region", "country"),
    [
        ("Texas, US", "Texas, US", "US"),
        (", US", "US", "US"),
        ("US", "US", "US"),
        ("Texas, US, NA", "Texas, US, NA", "US"),
        ("Windhoek, NA", "Windhoek, NA", "NA"),
        ("The Netherlands", "The Netherlands", None),
        ("", None, None),
        (None, None, None),
        (7, None, None),
    ],
)
def test_place(geolocation: Any, region: str | None, country: str | None) -> None:
    offer = _one(_parse(ROW | {"geolocation": geolocation}))
    assert (offer.region, offer.country) == (region, country)


@pytest.mark.parametrize(("hosting", "datacenter"), [(1, True), (0, False), (None, None)])
def test_datacenter_is_a_flag_beside_the_tier(hosting: Any, datacenter: bool | None) -> None:
    assert _one(_parse(ROW | {"hosting_type": hosting})).datacenter is datacenter


def test_unknown_hardware_is_none_not_zero() -> None:
    offer = _one(_parse(ROW | {"cpu_cores_effective": 0.0, "cpu_ram": None, "gpu_ram": None}))
    assert (offer.vcpus, offer.ram_gib, offer.vram_mib) == (None, None, None)
    assert offer.extras.reliability is None
    assert offer.extras.max_duration_hours is None


def test_what_moves_from_poll_to_poll() -> None:
    offer = _one(
        _parse(ROW | {"duration": 7199.9, "reliability2": 0.99, "inet_up": 500.5, "inet_down": 900,
                      "inet_up_cost": 0.004, "inet_down_cost": 0.0026, "disk_space": 77.5})
    )  # fmt: skip
    assert offer.extras.availability is Availability.YES
    assert offer.extras.max_duration_hours == 1
    assert offer.extras.reliability == Decimal("0.99")
    assert offer.extras.network_up_mbps == Decimal("500.5")
    assert offer.extras.network_down_mbps == 900
    assert offer.extras.disk_gb == Decimal("77.5")
    assert offer.terms.egress_usd_per_gb == Decimal("0.004")  # out of the machine
    assert offer.notes == ("download costs extra",)


def test_share_of_the_machine_is_not_a_slice_of_a_gpu() -> None:
    offer = _one(_parse(ROW | {"gpu_frac": 0.125}))
    assert not offer.slice
    assert offer.gpu_count == 1


def test_same_machine_and_size_twice_keeps_the_cheaper_whatever_the_order() -> None:
    rows = [ROW, ROW | {"id": 1001, "dph_base": 0.3, "min_bid": 0.25}]
    for order in (rows, rows[::-1]):
        parsed = _parse(*order)
        assert _one(parsed).price.amount == Decimal("0.3")
        assert _one(parsed, SPOT).price.amount == Decimal("0.25")
        assert _reasons(parsed) == {"same machine and size listed twice": 1}


def test_ask_seen_in_two_answers_counts_once_as_seen_last() -> None:
    parsed = vastai.parse([_payload([ROW]), _payload([ROW | {"dph_base": 0.36}])])
    assert _one(parsed).price.amount == Decimal("0.36")
    assert not parsed.rejected


# --- shapes ---------------------------------------------------------------------------------


def test_bare_array_is_read_like_the_object() -> None:
    assert vastai.parse([_payload(json.dumps([ROW]).encode())]) == _parse(ROW)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "offers"),
        ({"success": False, "error": "auth_error"}, "offers"),
        ({"offers": None}, "offers"),
        ({"offers": {"id": 1}}, "offers"),
        ({"offers": ["row"]}, "offers[]"),
        ({"offers": [{"id": 1}]}, "offers[].machine_id"),
        ({"offers": [{k: v for k, v in ROW.items() if k != "dph_base"}]}, "offers[].dph_base"),
        ("API requests too frequent", "offers"),
    ],
)
def test_another_shape_names_the_field(body: Any, field: str) -> None:
    with pytest.raises(ParseError) as caught:
        vastai.parse([_payload(json.dumps(body).encode())])
    assert caught.value.field == field


@pytest.mark.parametrize("told", [None, "no", 0])
def test_a_row_that_does_not_say_whether_it_is_a_bid_is_no_offer(told: Any) -> None:
    unsaid = {name: value for name, value in ROW.items() if name != "is_bid"}
    for row in (unsaid, ROW | {"is_bid": told}):
        parsed = _parse(row)
        assert not parsed.offers
        assert [r.reason for r in parsed.rejected] == ["is_bid is neither true nor false"]
