"""Azure: which rows are prices, what a size holds, and how the pages are asked for."""

from __future__ import annotations

import csv
import json
from collections import Counter
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.azure import HOST, provider
from providers.azure.rows import live_rows
from providers.azure.sizes import SIZES, find
from tests.providers.azure_answers import H100, NOW, payload, row
from tests.support.fixtures import NO_SHARED, SHARED, Case, cases
from tracker.provider import (
    ListedOffer,
    Market,
    Parsed,
    ParseError,
    Payload,
    PriceKind,
    PriceUnit,
)

RECORDED = SHARED / "providers" / "payloads" / "azure"


def parsed(*items: Any) -> Parsed:
    return provider.parse([payload(*items)])


def reasons(result: Parsed) -> Counter[str]:
    return Counter(r.reason for r in result.rejected)


def test_an_offer_is_the_whole_vm_with_the_facts_of_its_size() -> None:
    (offer,) = parsed(row(14.61, "swedencentral", armSkuName="Standard_NC80adis_H100_v5")).offers
    assert offer == ListedOffer(
        source_id="Standard_NC80adis_H100_v5",
        gpu_name="H100 NVL",
        gpu_count=Decimal(2),
        price=offer.price,
        market=Market.ON_DEMAND,
        tier="standard",
        price_kind=PriceKind.FIXED,
        vram_gb=Decimal(94),
        form_factor="NVL",
        interconnect="NVLink bridge",
        region="swedencentral",
        country="SE",
        vcpus=Decimal(80),
        ram_gib=Decimal(640),
        datacenter=True,
        source_url=offer.source_url,
    )
    assert str(offer.price.amount) == "14.61"  # exactly the digits of the answer
    assert (offer.price.currency, offer.price.unit) == ("USD", PriceUnit.MACHINE_HOUR)
    assert offer.source_url is not None
    assert "swedencentral" in offer.source_url


def test_spot_is_told_by_the_ending_of_either_name() -> None:
    by_sku = row(2.0, skuName="NC40ads H100 v5 Spot")
    by_meter = row(2.1, "westus", meterName="NC40ads H100 v5 Spot", skuName=None)
    result = parsed(by_sku, by_meter)
    assert {(o.market, o.price_kind) for o in result.offers} == {
        (Market.SPOT, PriceKind.DYNAMIC)
    }  # fmt: skip


def test_spot_at_the_on_demand_price_is_kept_with_a_remark() -> None:
    result = parsed(row(7.0), row(7.0, skuName="NC40ads H100 v5 Spot"))
    spot = next(o for o in result.offers if o.market is Market.SPOT)
    assert "spot price equals the on-demand price" in spot.notes


def test_a_vgpu_size_is_a_slice_of_one_card() -> None:
    (offer,) = parsed(row(0.9, armSkuName="Standard_NV12ads_A10_v5")).offers
    assert offer.slice
    assert offer.gpu_count == Decimal("0.3333")
    assert offer.vram_gb == Decimal(24)


def test_the_size_name_is_matched_in_any_case_and_listed_in_one_spelling() -> None:
    (offer,) = parsed(row(armSkuName=" standard_nc40ADS_h100_v5 ")).offers
    assert offer.source_id == H100


def test_identity_does_not_depend_on_the_meter() -> None:
    first = parsed(row(meterId="a", skuId="b")).offers
    assert first == parsed(row(meterId="c", skuId="d")).offers


def test_a_repeated_row_counts_once_only_when_all_of_it_is_the_same() -> None:
    # One meter serves several regions: the same meterId elsewhere is another price.
    result = parsed(row(meterId="m"), row(meterId="m"), row(7.2, "westus", meterId="m"))
    assert sorted(str(o.price.amount) for o in result.offers) == ["7.0", "7.2"]
    assert reasons(result) == {"duplicate row": 1}


def test_two_prices_for_one_key_give_none_whatever_the_order() -> None:
    for items in ([row(7.0), row(7.5)], [row(7.5), row(7.0)]):
        result = parsed(*items)
        assert not result.offers
        assert reasons(result) == {"two prices for one size, region and market": 2}


def test_a_primary_meter_goes_before_a_newer_one_that_is_not() -> None:
    other = row(8.0, isPrimaryMeterRegion=False, effectiveStartDate="2026-01-01T00:00:00Z")
    result = parsed(row(7.0), other)
    assert [str(o.price.amount) for o in result.offers] == ["7.0"]
    assert reasons(result) == {"non-primary meter": 1}


def test_a_non_primary_meter_alone_is_a_price_with_a_remark() -> None:
    (offer,) = parsed(row(isPrimaryMeterRegion=False)).offers
    assert offer.notes == ("price of a non-primary meter",)


@pytest.mark.parametrize(
    ("start", "end", "lives"),
    [
        (NOW, None, True),
        (NOW + timedelta(seconds=1), None, False),
        (None, NOW, False),
        (None, NOW + timedelta(seconds=1), True),
        (None, None, True),
    ],
)
def test_validity_includes_its_start_and_excludes_its_end(
    start: datetime | None, end: datetime | None, lives: bool
) -> None:
    item = row(
        effectiveStartDate=start.isoformat() if start else None,
        effectiveEndDate=end.isoformat() if end else None,
    )
    assert bool(parsed(item).offers) == lives


@pytest.mark.parametrize(
    ("share", "kept"), [("0.19", False), ("0.2", True), ("1", True), ("30", True)]
)
def test_a_placeholder_is_below_a_fifth_of_the_other_regions_median(
    share: str, kept: bool
) -> None:  # fmt: skip
    others = [row(p, r) for p, r in ((8, "westus"), (10, "eastus2"), (13, "uksouth"))]
    result = parsed(*others, row(float(Decimal(10) * Decimal(share))))
    assert ("eastus" in {o.region for o in result.offers}) == kept
    assert len(result.offers) == 3 + kept


def test_a_price_far_below_in_the_only_region_stays() -> None:
    assert len(parsed(row(0.01)).offers) == 1  # nothing to compare with: later gates judge it


def test_currency_is_the_rows_else_the_pages() -> None:
    assert parsed(row(currencyCode=None)).offers[0].price.currency == "USD"
    assert parsed(row(currencyCode="eur")).offers[0].price.currency == "EUR"
    body = json.dumps({"Items": [row(currencyCode=None)]}).encode()
    result = provider.parse([Payload("", body, NOW)])
    assert reasons(result) == {"no currency": 1}


@pytest.mark.parametrize("price", ["7,5", "NaN", "Infinity", True, [], {"a": 1}, 1e30])
def test_an_unreadable_price_rejects_the_row_alone(price: Any) -> None:
    result = parsed(row(price), row(7.0, "westus"))
    assert [o.region for o in result.offers] == ["westus"]
    assert reasons(result) == {"no readable price": 1}


@pytest.mark.parametrize(
    ("body", "field"),
    [
        (b"", "body"),
        (b"[]", "body"),
        (b'{"Items": {}}', "Items"),
        (b'{"Items": NaN}', "body"),
        (b"{}", "Items"),
    ],
)
def test_another_shape_is_a_parse_error_that_names_the_field(body: bytes, field: str) -> None:
    with pytest.raises(ParseError) as error:
        provider.parse([Payload("", body, NOW)])
    assert error.value.field == field


def test_an_error_answer_is_quoted() -> None:
    with pytest.raises(ParseError, match="Invalid OData"):
        provider.parse([Payload("", b'{"Error": {"Message": "Invalid OData"}}', NOW)])


# --- completeness


def test_a_followed_link_is_recognised_in_any_encoding() -> None:
    link = f"https://{HOST}:443/api/retail/prices?$filter=armSkuName%20eq%20%27x%27&$skip=1000"
    url = "http://127.0.0.1:9/api/retail/prices?%24skip=1000&%24filter=armSkuName+eq+'x'"
    first = payload(row(), link=link)
    assert provider.parse([first, payload(url=url)]).complete
    alone = provider.parse([first])
    assert not alone.complete
    assert alone.incomplete_reason == "a further page (NextPageLink) was not read"


@pytest.mark.parametrize("link", ["http://[bad", 7, {"a": 1}])
def test_an_unreadable_link_makes_the_poll_incomplete(link: Any) -> None:
    assert not provider.parse([payload(row(), link=link)]).complete


def test_a_price_that_a_later_page_supersedes_is_dropped() -> None:
    link = f"https://{HOST}/api/retail/prices?$skip=1000"
    newer = row(7.5, effectiveStartDate="2026-01-01T00:00:00Z")
    result = provider.parse([payload(row(), link=link), payload(newer, url=link)])
    assert [str(o.price.amount) for o in result.offers] == ["7.5"]


# --- invariants

_ODD: st.SearchStrategy[Any] = st.sampled_from(
    [None, "", "x", 0, -1, 1e30, "1e9", [], {}, True, "Windows", "usgovx"]
)
_ITEMS = st.lists(
    st.one_of(
        st.builds(
            lambda price, region, over: row(price, region) | over,
            st.sampled_from([7.0, 7.5, 0.01, 0]),
            st.sampled_from(["eastus", "westus", "ukwest"]),
            st.dictionaries(st.sampled_from([*row(), "meterId", "effectiveEndDate"]), _ODD,
                            max_size=2),
        ),
        _ODD,
    ),
    max_size=8,
)  # fmt: skip


@given(_ITEMS)
def test_every_row_is_an_offer_or_a_reject_and_every_price_is_positive(items: list[Any]) -> None:
    result = parsed(*items)
    assert len(result.offers) + len(result.rejected) == len(items)
    assert all(o.price.amount > 0 for o in result.offers)
    keys = [(o.source_id, o.region, o.market, o.price.currency) for o in result.offers]
    assert len(set(keys)) == len(keys)


@given(_ITEMS, st.randoms())
def test_the_order_of_rows_does_not_matter(items: list[Any], random: Any) -> None:
    shuffled = items.copy()
    random.shuffle(shuffled)

    def offers(rows: list[Any]) -> list[str]:
        return sorted(str((o.source_id, o.region, o.market, o.price)) for o in parsed(*rows).offers)

    assert offers(items) == offers(shuffled)


@pytest.mark.parametrize("case", [c for c in cases() if c.provider == "azure"], ids=str)
def test_fixture(case: Case) -> None:
    expected = case.expected()
    if "parse_error" in expected:
        with pytest.raises(ParseError, match=expected["parse_error"]):
            provider.parse(case.payloads())
        return
    result = provider.parse(case.payloads())
    assert reasons(result) == expected["rejected"]
    assert result.complete == expected["complete"]
    names = ("source_id", "market", "region", "country", "price_usd_per_machine_hour")
    assert sorted(
        (o.source_id, o.market, o.region, o.country, str(o.price.amount)) for o in result.offers
    ) == sorted(tuple(offer[name] for name in names) for offer in expected["offers"])


# --- recorded answers


@pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)
def test_the_recorded_page_gives_the_nine_offers_checked_by_hand() -> None:
    body = (RECORDED / "retail_page_synthetic.json").read_bytes()
    result = provider.parse([Payload("", body, NOW)])
    assert sorted((o.source_id, str(o.market), str(o.price.amount)) for o in result.offers) == [
        ("Standard_NC24ads_A100_v4", "on_demand", "3.673"),
        ("Standard_NC24ads_A100_v4", "spot", "0.7345"),
        ("Standard_NC40ads_H100_v5", "on_demand", "6.98"),
        ("Standard_NC80adis_H100_v5", "on_demand", "13.96"),
        ("Standard_NCC40ads_H100_v5", "on_demand", "6.98"),
        ("Standard_ND96amsr_A100_v4", "on_demand", "32.77"),
        ("Standard_ND96asr_v4", "on_demand", "27.197"),
        ("Standard_ND96isr_H100_v5", "on_demand", "98.32"),
        ("Standard_ND96isr_H100_v5", "spot", "18.169536"),
    ]
    assert len(result.rejected) == 10
    assert {o.region for o in result.offers} == {"eastus"}
    assert not result.complete  # its NextPageLink was not followed


@pytest.mark.skipif(not RECORDED.is_dir(), reason=NO_SHARED)
def test_the_row_rules_leave_one_spot_and_one_on_demand_of_the_third_party_page() -> None:
    body = (RECORDED / "retail_page_shape_spotinfo_fixture.json").read_bytes()
    items = json.loads(body, parse_float=Decimal)["Items"]
    rows, rejected = live_rows(items, NOW)
    assert [(r.spot, str(r.amount)) for r in rows] == [(True, "0.0412"), (False, "0.096")]
    assert len(rejected) == 5
    # Its two live rows are of a size without GPUs, so no offer comes of them.
    result = provider.parse([Payload("", body, NOW)])
    assert not result.offers
    assert reasons(result)["not a GPU size"] == 2


@pytest.mark.skipif(not SHARED.is_dir(), reason=NO_SHARED)
def test_the_size_table_agrees_with_the_collected_facts() -> None:
    with (SHARED / "providers" / "instance_gpus.csv").open() as lines:
        facts = [f for f in csv.DictReader(lines) if f["provider"] == "azure"]
    assert len(facts) == len(SIZES)
    for fact in facts:
        found = find(fact["instance_type"])
        assert found is not None, fact["instance_type"]
        size = found[1]
        assert size.gpu.split()[0] == fact["gpu"]
        assert size.gpu_count == Decimal(fact["gpu_count"])
        assert size.vram_gb == Decimal(fact["vram_gb_per_gpu"])
        assert size.vcpus == Decimal(fact["vcpus"])
        assert size.ram_gib == Decimal(fact["ram_gb"])
        if size.form_factor is not None:
            assert size.form_factor.casefold() in fact["gpu_variant"].casefold()
