"""Google Cloud: sums of parts to the cent, and the recorded answers."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from providers.gcp import provider
from providers.gcp.machines import BY_NAME, MACHINES
from providers.gcp.regions import COUNTRY
from tests.providers.answering import NOW, payload
from tests.providers.gcp_skus import PARTS, open_data, parsed, price_of, sku
from tests.support.catalogue import catalogue
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.collect import digest
from tracker.domain.offer import Offer
from tracker.domain.quality import Known, Rules
from tracker.provider import Market, ParseError, Payload

RECORDED = SHARED / "providers" / "payloads" / "gcp"
needs_recordings = pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)


def accepted(name: str) -> tuple[dict[tuple[str, str, str, int | None], Offer], Counter[str]]:
    """The offers of a recorded answer by type, region, market and commitment; the rejects."""
    body = (RECORDED / name).read_bytes()
    found = digest(
        provider, [Payload("", body, NOW)], catalogue(), fx={}, known=Known(), rules=Rules()
    )
    assert not found.held
    assert not found.unmapped
    assert found.parsed.complete
    offers = {
        (x.source_id, x.region or "", str(x.market), x.terms.commitment_hours): o
        for o in found.accepted
        for x in (o.listed,)
    }
    assert len(offers) == len(found.accepted)
    return offers, Counter(r.reason for r in found.rejected)


def usd(offer: Offer) -> str:
    return format(round(offer.price.usd, 6).normalize(), "f")


# -- sums ------------------------------------------------------------------------------------------


def test_a_machine_costs_host_gpus_and_local_ssd() -> None:
    result = parsed(*PARTS)
    assert price_of(result, "a2-highgpu-1g") == "3.673385"
    assert price_of(result, "a2-ultragpu-1g")[:9] == "5.0687978"  # 5.06879789041...
    assert price_of(result, "a3-highgpu-8g")[:5] == "88.48"  # 88.489999695: listed as 88.49
    assert price_of(result, "a3-highgpu-1g", Market.SPOT) == "4.424468712"
    ultra = next(o for o in result.offers if o.source_id == "a2-ultragpu-1g")
    assert ultra.notes[0] == (
        "the sum of the price items of 1 GPU + 12 vCPU + 170 GiB + 375 GiB SSD"
    )
    assert round(ultra.terms.disk_included_gb or 0, 3) == Decimal("402.653")  # 375 GiB


def test_a_commitment_is_reserved_for_its_years() -> None:
    result = parsed(*PARTS)
    # 8 x 4.5 + 208 x 0.01 + 1872 x 0.001 + 6000 x 0.0365 / 730
    assert price_of(result, "a3-highgpu-8g", Market.RESERVED) == "40.252"
    terms = {o.terms.commitment_hours for o in result.offers if o.market is Market.RESERVED}
    assert terms == {3 * 8760}
    assert {o.terms.commitment_hours for o in result.offers if o.market is not Market.RESERVED} == {
        None
    }


@pytest.mark.parametrize("left_out", range(len(PARTS)))
def test_a_type_with_a_part_missing_has_no_price(left_out: int) -> None:
    whole, missing = parsed(*PARTS), parsed(*PARTS[:left_out], *PARTS[left_out + 1 :])
    assert len(missing.offers) < len(whole.offers)
    assert set(missing.offers) < set(whole.offers)


@settings(max_examples=25)
@given(order=st.permutations(PARTS))
def test_the_order_of_the_catalogue_changes_nothing(order: list[dict[str, Any]]) -> None:
    assert set(parsed(*order).offers) == set(parsed(*PARTS).offers)


@pytest.mark.parametrize("newest_first", [False, True])
def test_of_a_timeline_the_price_in_force_counts(newest_first: bool) -> None:
    def at(usd: str, moment: str | None) -> dict[str, Any]:
        (info,) = sku("Nvidia Tesla A100 GPU running in Americas", usd)["pricingInfo"]
        return {**info, "effectiveTime": moment} if moment else dict(info)

    timeline = [at("1", None), at("2.9", "2026-11-01T00:00:00Z"), at("9", "2026-12-31T00:00:00Z")]
    gpu = sku("Nvidia Tesla A100 GPU running in Americas", "7")
    gpu["pricingInfo"] = timeline[::-1] if newest_first else timeline
    assert price_of(parsed(*PARTS[:2], gpu), "a2-highgpu-1g") == "3.639477"  # with 2.9 for the GPU
    gpu["pricingInfo"] = timeline[2:]
    result = parsed(*PARTS[:2], gpu)
    assert not result.offers
    assert [r.reason for r in result.rejected] == ["not yet in force"]


def test_one_part_at_two_prices_leaves_none_in_that_region_only() -> None:
    both = ["us-central1", "us-east4"]
    parts = [{**part, "serviceRegions": both} for part in PARTS]
    other = sku("A3 Instance Core running in Virginia", "0.03", "CPU", regions=["us-east4"])
    result = parsed(*parts, other)
    regions = {
        o.region
        for o in result.offers
        if o.source_id == "a3-highgpu-8g" and o.market is Market.ON_DEMAND
    }
    assert regions == {"us-central1"}


@pytest.mark.parametrize("name", ["Nvidia H100 80GB Mega GPU", "Nvidia H100 80GB Plus GPU",
                                  "H100 Mega 80GB GPU"])  # fmt: skip
def test_the_h100_of_a3_mega_goes_by_several_names(name: str) -> None:
    parts = [
        sku("A3Plus Instance Core running in Virginia", "0.025", "CPU", regions=["us-east4"]),
        sku("A3Plus Instance Ram running in Virginia", "0.002", "RAM", regions=["us-east4"]),
        sku("SSD backed Local Storage in Virginia", "0.073", "LocalSSD", regions=["us-east4"]),
        sku(f"{name} running in Virginia", "10", regions=["us-east4"]),
    ]
    (offer,) = parsed(*parts).offers
    # 8 x 10 + 208 x 0.025 + 1872 x 0.002 + 6000 x 0.073 / 730
    assert (offer.source_id, offer.price.amount) == ("a3-megagpu-8g", Decimal("89.544"))
    # Of the plain H100's machines none is made of it.
    assert not parsed(*parts[1:], sku(f"{name} running in X", "10")).offers


def test_a_machine_is_the_same_offer_from_either_source() -> None:
    text = open_data()
    found = [
        digest(provider, [answer], catalogue(), fx={}, known=Known(), rules=Rules()).accepted
        for answer in (payload({"skus": PARTS, "nextPageToken": ""}), payload(text))
    ]
    keys = [{o.key for o in offers if o.listed.market is not Market.RESERVED} for offers in found]
    shared = keys[0] & keys[1]
    assert {o.listed.source_id for o in found[0] if o.key in shared} == {
        "a2-highgpu-1g", "a3-highgpu-1g", "a3-highgpu-8g"
    }  # fmt: skip


def test_regions_without_the_gpu_are_left_out_and_named() -> None:
    parts = [{**part, "serviceRegions": ["africa-south1"]} for part in PARTS]
    result = parsed(*parts)
    assert not result.offers
    assert {r.reason for r in result.rejected} == {"the region is not known to have this GPU"}


def test_tables_agree_with_one_another() -> None:
    assert len(BY_NAME) == len(MACHINES)
    assert {len(code) for code in COUNTRY.values()} == {2}
    for machine in MACHINES:
        gpu = catalogue().identify(
            machine.gpu.name, gpu_count=machine.gpu_count, vram_gb=machine.gpu.vram_gb,
            form_factor=machine.gpu.form_factor,
        )  # fmt: skip
        assert getattr(gpu, "vram_gb", None) == machine.gpu.vram_gb, machine.name


# -- recorded --------------------------------------------------------------------------------------


@needs_recordings
def test_three_real_skus_make_every_a2_with_40_gb() -> None:
    offers, rejected = accepted("skus_a2_a100_americas.json")
    assert not rejected
    assert {key[1:] for key in offers} == {
        (region, "on_demand", None) for region in ("us-central1", "us-east1", "us-west1")
    }
    assert {(key[0], usd(offer)) for key, offer in offers.items()} == {
        ("a2-highgpu-1g", "3.673385"),
        ("a2-highgpu-2g", "7.34677"),
        ("a2-highgpu-4g", "14.69354"),
        ("a2-highgpu-8g", "29.38708"),
        ("a2-megagpu-16g", "55.739504"),
    }
    assert {offer.gpu.key for offer in offers.values()} == {"A100-SXM-40GB"}


@needs_recordings
def test_a_catalogue_full_of_look_alikes_gives_the_listed_prices() -> None:
    offers, rejected = accepted("skus_a2_a3_synthetic.json")
    iowa = {key[0::2]: usd(offer) for key, offer in offers.items() if key[1] == "us-central1"}
    assert iowa == {
        ("a2-highgpu-1g", "on_demand"): "3.673385",
        ("a2-highgpu-2g", "on_demand"): "7.34677",
        ("a2-highgpu-4g", "on_demand"): "14.69354",
        ("a2-highgpu-8g", "on_demand"): "29.38708",
        ("a2-megagpu-16g", "on_demand"): "55.739504",
        ("a2-ultragpu-1g", "on_demand"): "5.068798",
        ("a2-ultragpu-2g", "on_demand"): "10.137596",
        ("a2-ultragpu-4g", "on_demand"): "20.275192",
        ("a2-ultragpu-8g", "on_demand"): "40.550383",
        ("a3-highgpu-1g", "spot"): "4.424469",
        ("a3-highgpu-2g", "spot"): "8.848937",
        ("a3-highgpu-4g", "spot"): "17.697875",
        ("a3-highgpu-8g", "on_demand"): "88.49",
        ("a3-highgpu-8g", "spot"): "35.39575",
        ("a4-highgpu-8g", "spot"): "39.6336",
    }
    # Elsewhere: A100 40 GB in two more regions, H100 in one more.
    assert len(offers) == len(iowa) + 2 * 5 + 5
    assert rejected == {
        "Dynamic Workload Scheduler price": 1,
        "calendar mode price": 1,
        "price of an unused reservation": 1,
        "sole tenancy": 1,
        "virtual workstation licence": 1,
        # Spot of the A100 80 GB, 8 G2 types in 3 regions, a3-megagpu without SSD in us-east4, and
        # the commitment on the GPU of an a3-highgpu-8g alone in 2 regions.
        "no price for every part of the machine": 4 + 24 + 1 + 2,
        # 3 small A3 in 2 regions, on demand and committed; a4.
        "machine type is not sold in this way": 3 * 2 * 2 + 1,
        # A100 80 GB in 2 regions and H100 in 1, four sizes, in every market that has a price.
        "the region is not known to have this GPU": 4 * 2 * 2 + 4 * 3,
    }


@needs_recordings
def test_recorded_open_data_is_read_and_has_grown_too_old() -> None:
    offers, rejected = accepted("cyclenerd_pricing_2025-03-06_trimmed.json")
    assert len(offers) == 53
    assert rejected == {
        "the region is not known to have this GPU": 1,  # an A100 in africa-south1
        "machine type is not sold in this way": 3,  # a3-highgpu-1g
    }
    for key, price in {
        ("a2-highgpu-1g", "us-central1", "on_demand", None): "3.673385",
        ("a2-ultragpu-1g", "us-central1", "on_demand", None): "5.068798",
        ("a2-ultragpu-8g", "us-central1", "on_demand", None): "40.550383",
        ("a2-ultragpu-8g", "us-central1", "spot", None): "16.219747",
        ("a3-highgpu-8g", "us-central1", "on_demand", None): "88.49",
        ("a3-highgpu-8g", "us-central1", "spot", None): "35.39575",
        ("a3-highgpu-8g", "us-central1", "reserved", 8760): "61.383672",  # 44810.08066464 / 730
        ("a3-highgpu-8g", "us-central1", "reserved", 26280): "38.864381",  # 28370.99821392 / 730
        ("a3-megagpu-8g", "us-east4", "on_demand", None): "92.937588",
        ("a3-megagpu-8g", "us-east4", "spot", None): "37.391837",
    }.items():
        assert usd(offers[key]) == price, key
    (expires,) = {offer.listed.extras.expires_at for offer in offers.values()}
    assert expires is not None
    assert expires < NOW - timedelta(days=365)


@needs_recordings
@pytest.mark.parametrize(
    ("name", "says"),
    [("error_403_no_key_synthetic.json", "carried no API key"),
     ("error_429_synthetic.json", "quota exceeded"),
     ("skypilot_v8_gpu_rows.csv", "not JSON")],
)  # fmt: skip
def test_a_recorded_refusal_is_quoted(name: str, says: str) -> None:
    with pytest.raises(ParseError, match=says):
        provider.parse([Payload("", (RECORDED / name).read_bytes(), NOW)])
