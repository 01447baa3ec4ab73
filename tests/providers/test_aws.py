"""AWS: what becomes an offer, and what does not and why."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from providers.aws import parse, provider
from providers.aws.instances import instance_types, may_have_gpu
from providers.aws.regions import DEFAULT_REGIONS, LOCATIONS, code_of, country_of
from tests.providers.aws_answers import (
    advisor,
    by_id,
    fixture,
    identity,
    machine,
    payload,
    reasons,
    small,
    spot,
)
from tests.support.catalogue import catalogue
from tracker.domain.normalize import normalise
from tracker.domain.offer import Offer
from tracker.provider import Market, PriceKind, PriceUnit

# What an offer says


def test_a_whole_machine_is_offered_with_the_facts_of_its_type() -> None:
    offer = by_id(parse(fixture("on_demand_and_spot")))["us-east-1/p4d.24xlarge/on_demand"]
    assert (offer.gpu_name, offer.gpu_count, offer.vram_gb, offer.form_factor) == (
        "A100", Decimal(8), Decimal(40), "SXM")  # fmt: skip
    assert (offer.price.amount, offer.price.currency) == (Decimal("22.1"), "USD")
    assert offer.price.unit is PriceUnit.MACHINE_HOUR
    assert offer.market is Market.ON_DEMAND
    assert offer.price_kind is PriceKind.FIXED
    assert (offer.tier, offer.region, offer.country) == ("standard", "us-east-1", "US")
    assert (offer.vcpus, offer.ram_gib) == (Decimal(96), Decimal(1152))
    assert "NVLink" in str(offer.interconnect)
    assert offer.terms.billing_increment_seconds == 1
    assert offer.terms.minimum_seconds == 60
    assert offer.terms.disk_included_gb == 8000
    assert offer.terms.egress_usd_per_gb is None
    assert offer.terms.disk_usd_per_gb_hour is None
    assert offer.dedicated is False
    assert "network 4x 100 Gigabit" in offer.notes


def test_one_and_eight_h100_differ_by_the_size_of_the_same_family() -> None:
    offers = by_id(parse(fixture("on_demand_and_spot")))
    assert offers["us-east-1/p5.4xlarge/on_demand"].gpu_count == 1
    assert offers["us-east-1/p5.48xlarge/on_demand"].gpu_count == 8


def test_a_fraction_of_a_card_is_a_slice() -> None:
    offer = by_id(parse(fixture("on_demand_and_spot")))["us-east-1/g6f.large/on_demand"]
    assert offer.slice
    assert offer.gpu_count == Decimal("0.125")


def test_a_spot_price_is_dynamic_and_carries_the_upper_end_of_its_interruption_class() -> None:
    offers = by_id(parse(fixture("on_demand_and_spot")))
    spot_offer = offers["us-east-1/p5.48xlarge/spot"]
    assert spot_offer.market is Market.SPOT
    assert spot_offer.price_kind is PriceKind.DYNAMIC
    assert spot_offer.extras.interruption_percent_max == 100
    assert offers["us-east-1/g4dn.xlarge/spot"].extras.interruption_percent_max == 5
    assert offers["eu-central-1/g6.xlarge/spot"].extras.interruption_percent_max == 10
    assert offers["us-east-1/p5.4xlarge/spot"].extras.interruption_percent_max is None
    on_demand = offers["us-east-1/p5.48xlarge/on_demand"]
    assert on_demand.extras.interruption_percent_max is None


def test_the_label_of_a_class_counts_not_the_odd_end_beside_it() -> None:
    names = ["g6.xlarge", "g5.xlarge", "g4dn.xlarge", "g6e.xlarge", "p5.4xlarge"]
    ranks = {name.replace(".", "_"): rank for rank, name in enumerate(names)}
    parsed = parse([payload(spot([(n, "1.0") for n in names])), payload(advisor(**ranks))])
    percents = {o.source_id: o.extras.interruption_percent_max for o in parsed.offers}
    assert [percents[name] for name in names] == [5, 10, 15, 20, 100]


@pytest.mark.parametrize(
    ("region", "country"),
    [("us-west-2-lax-1", "US"), ("us-east-1-wl1-chi1", "US"), ("us-east-1-bue-1", None),
     ("eu-central-2", "CH"), ("me-central-1", "AE"), ("xx-far-9", None)],
)  # fmt: skip
def test_country_of_regions_and_zones(region: str, country: str | None) -> None:
    assert country_of(region) == country


def test_a_local_zone_stays_a_region_of_its_own() -> None:
    offers = by_id(parse(fixture("on_demand_and_spot")))
    assert offers["us-east-1-atl-1/p5.48xlarge/spot"].price.amount == Decimal("21.4")
    assert offers["us-east-1/p5.48xlarge/spot"].price.amount == Decimal("20.1")


# Identity


def test_an_on_demand_offer_is_the_same_from_every_source() -> None:
    from_csv = by_id(parse(fixture("bulk_csv_filters")))["us-east-2/p4d.24xlarge/on_demand"]
    from_json = by_id(parse(fixture("bulk_json")))["us-east-2/p4d.24xlarge/on_demand"]
    row = machine(
        "p4d.24xlarge", "22.1000000000", vCPU="95", Storage="8 x 1024 SSD", Memory="1 GiB"
    )
    (from_small,) = parse([payload(small(row, location="US East (Ohio)"))]).offers
    assert identity(from_csv) == identity(from_json) == identity(from_small)
    assert from_csv.price == from_json.price == from_small.price


def test_ids_do_not_move_with_the_order_of_the_rows() -> None:
    sizes = [("p5.48xlarge", "20.1"), ("p5.4xlarge", "2.7"), ("g6.xlarge", "0.4")]
    one = parse([payload(spot(sizes))])
    other = parse([payload(spot(sizes[::-1]))])
    assert one.offers == other.offers


def test_where_two_files_disagree_the_documented_list_prevails_and_it_is_said() -> None:
    row = machine("p4d.24xlarge", "25.0")
    feed = payload(small(row, location="US East (Ohio)"))
    for payloads in ([feed, *fixture("bulk_csv_filters")], [*fixture("bulk_csv_filters"), feed]):
        parsed = parse(payloads)
        assert by_id(parsed)["us-east-2/p4d.24xlarge/on_demand"].price.amount == Decimal("22.1")
        assert reasons(parsed)["two files give two prices"] == 1


def test_two_files_of_a_kind_that_disagree_give_no_price() -> None:
    files = [payload(spot([("p5.4xlarge", price), ("g6.xlarge", "0.4")])) for price in ("2", "3")]
    parsed = parse(files)
    assert [offer.source_id for offer in parsed.offers] == ["g6.xlarge"]
    assert reasons(parsed) == {"two files give two prices": 1}


# What is no offer


def test_a_capacity_block_is_never_an_hourly_price() -> None:
    for case in ("bulk_csv_filters", "bulk_json", "small_feed_down_bulk_instead"):
        parsed = parse(fixture(case))
        assert not [offer for offer in parsed.offers if "p5e." in offer.source_id]
        blocks = [r for r in parsed.rejected if r.reason == "capacity block"]
        assert blocks
        assert all("p5e.48xlarge" in reject.sample for reject in blocks)


@pytest.mark.parametrize(
    ("price", "reason"),
    [("0", "price is not above zero"), ("0.0000000000", "price is not above zero"),
     ("-1", "price is not above zero"), ("N/A*", "price is not available"),
     ("N/A", "price is not available"), ("", "price is not a number"),
     ("1,200.00", "price is not a number"), ("NaN", "price is not a number"),
     ("Infinity", "price is not a number"), (None, "price is not a number"),
     (True, "price is not a number"), ({}, "price is not a number")],
)  # fmt: skip
def test_only_a_number_above_zero_is_a_price(price: Any, reason: str) -> None:
    for body in (
        small(machine("p5.48xlarge", price), machine("g6.xlarge", "1.0")),
        spot([("p5.48xlarge", price), ("g6.xlarge", "1.0")]),
    ):
        parsed = parse([payload(body)])
        assert [offer.gpu_name for offer in parsed.offers] == ["L4"]
        assert reasons(parsed) == {reason: 1}
        assert "p5.48xlarge" in parsed.rejected[0].sample


def test_a_price_in_scientific_notation_is_exact() -> None:
    (offer,) = parse([payload(spot([("g6f.large", "5.79E-2")]))]).offers
    assert offer.price.amount == Decimal("0.0579")


def test_an_entry_listed_twice_counts_once_and_two_prices_count_not_at_all() -> None:
    sizes = [("p4de.24xlarge", "21.8"), ("p4de.24xlarge", "21.80"), ("p5.4xlarge", "2.6"),
             ("p5.4xlarge", "2.7")]  # fmt: skip
    parsed = parse([payload(spot(sizes))])
    assert [offer.source_id for offer in parsed.offers] == ["p4de.24xlarge"]
    assert reasons(parsed) == {"several rows for one type in a region": 1}


def test_only_the_linux_column_is_read() -> None:
    body = spot([("g6e.xlarge", "1.6119")])
    size = body["config"]["regions"][0]["instanceTypes"][0]["sizes"][0]
    size["valueColumns"].insert(0, {"name": "mswin", "prices": {"USD": "0.4099"}})
    (offer,) = parse([payload(body)]).offers
    assert offer.price.amount == Decimal("1.6119")


def test_the_label_of_the_small_feed_is_not_believed() -> None:
    body = small(machine("p5.4xlarge", "6.9"))
    body["regions"] = {
        "US East (Ohio)": {"p5 48xlarge US East Ohio Linux": machine("p5.4xlarge", "6.9")}
    }
    (offer,) = parse([payload(body)]).offers
    assert offer.gpu_count == 1


def test_a_gpu_machine_that_the_table_lacks_is_visible_and_others_are_not() -> None:
    rows = [machine("p9.48xlarge", "200"), machine("gr9f.large", "1"), machine("m7i.large", "0.1"),
            machine("c7g.xlarge", "0.1"), machine("hpc7g.4xlarge", "1.7")]  # fmt: skip
    parsed = parse([payload(small(*rows))])
    assert not parsed.offers
    assert reasons(parsed) == {"instance type without GPU facts": 2}
    assert [reject.sample.split()[0] for reject in parsed.rejected] == ["p9.48xlarge", "gr9f.large"]


def test_an_ultraserver_of_unknown_gpu_count_is_not_priced() -> None:
    parsed = parse([payload(small(machine("p6e-gb200.36xlarge", "700")))])
    assert reasons(parsed) == {"GPU count of the instance type is not known": 1}


def test_one_bad_row_does_not_take_the_others_with_it() -> None:
    body = small(machine("p5.48xlarge", "55.2"), machine("g6.xlarge", "0.8"))
    body["regions"]["US East (N. Virginia)"] |= {"a": None, "b": [], "c": {"price": "1"}, "d": "x"}
    parsed = parse([payload(body)])
    assert len(parsed.offers) == 2
    assert reasons(parsed) == {"row without Instance Type": 4}


def test_a_location_without_a_code_is_not_guessed() -> None:
    parsed = parse([payload(small(machine("p5.48xlarge", "55.2"), location="Moon (Tycho)"))])
    assert not parsed.offers
    assert reasons(parsed) == {"location without a known region code": 1}


def test_samples_are_short() -> None:
    parsed = parse([payload(small(machine("p5.48xlarge", "x" * 5000), machine("g6.xlarge", "1")))])
    assert len(parsed.rejected[0].sample) <= 200


@pytest.mark.parametrize(
    ("name", "gpu", "count"),
    [("p3dn.24xlarge", "V100-SXM-32GB", "8"), ("p4d.24xlarge", "A100-SXM-40GB", "8"),
     ("p4de.24xlarge", "A100-SXM-80GB", "8"), ("p5.4xlarge", "H100-SXM-80GB", "1"),
     ("p5.48xlarge", "H100-SXM-80GB", "8"), ("p5e.48xlarge", "H200-SXM-141GB", "8"),
     ("p5en.48xlarge", "H200-SXM-141GB", "8"), ("p6-b200.48xlarge", "B200-SXM-180GB", "8"),
     ("g5.xlarge", "A10G-24GB", "1"), ("g5.48xlarge", "A10G-24GB", "8"),
     ("g6.xlarge", "L4-24GB", "1"), ("g6e.xlarge", "L40S-48GB", "1"),
     ("g6e.48xlarge", "L40S-48GB", "8"), ("g6f.large", "L4-SLICE", "0.125"),
     ("g6f.4xlarge", "L4-SLICE", "0.5"), ("g7e.2xlarge", "RTXPRO6000-SERVER-96GB", "1")],
)  # fmt: skip
def test_which_gpu_a_machine_has(name: str, gpu: str, count: str) -> None:
    (listed,) = parse([payload(small(machine(name, "20")))]).offers
    offer = normalise("aws", listed, catalogue(), {})
    assert isinstance(offer, Offer)
    assert (offer.gpu.key, offer.listed.gpu_count) == (gpu, Decimal(count))


# The table of types, and the facts


def test_the_table_of_types_is_whole() -> None:
    types = instance_types()
    assert len(types) >= 74
    for name, row in types.items():
        assert may_have_gpu(name)
        if row.gpu_count is None:
            continue
        assert row.gpu_count < 1 or row.gpu_count == row.gpu_count.to_integral_value()
        assert row.vram_gb is not None
        assert row.vcpus is not None
        assert row.ram_gib is not None
        assert row.disk_gb is not None
        assert (row.interconnect is None) == (row.gpu_count <= 1), name


def test_every_region_has_a_location_and_a_country() -> None:
    assert set(LOCATIONS) == set(DEFAULT_REGIONS)
    for region, location in LOCATIONS.items():
        assert code_of(location) == region
        assert country_of(region)
    assert code_of("Europe (Frankfurt)") == "eu-central-1"
    assert code_of("EU (Zurich)") == "eu-central-2"


def test_facts_agree_with_the_terms_of_the_offers() -> None:
    for offer in parse(fixture("on_demand_and_spot")).offers:
        assert offer.terms.billing_increment_seconds == provider.facts.billing_increment_seconds
        assert offer.terms.minimum_seconds == provider.facts.minimum_seconds
        assert offer.tier in provider.facts.tiers
