"""AWS: incomplete, frozen and foreign answers, and the recorded ones."""

from __future__ import annotations

import csv
import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.aws import parse
from providers.aws.instances import instance_types
from providers.aws.smallfeed import PATH
from tests.providers.aws_answers import (
    SPOT_URL,
    bulk_csv,
    by_id,
    fixture,
    machine,
    payload,
    plans_csv,
    reasons,
    small,
    spot,
)
from tests.support.fixtures import NO_SHARED, SHARED
from tracker.provider import Parsed, ParseError

RECORDED = SHARED / "providers" / "payloads" / "aws"

# Complete or not, and refused answers


def test_a_region_that_did_not_answer_makes_the_poll_incomplete() -> None:
    parsed = parse(fixture("region_unanswered"))
    assert len(parsed.offers) == 1
    assert not parsed.complete
    assert "EU (Milan) (HTTP 404)" in str(parsed.incomplete_reason)


def test_a_lost_spot_advisor_loses_no_offer() -> None:
    url = "https://spot-bid-advisor.s3.amazonaws.com/spot-advisor-data.json"
    for lost in (payload(b"", url, status=503), payload({"ranges": 7}, url)):
        parsed = parse([payload(spot([("p5.4xlarge", "2.7")]), SPOT_URL), lost])
        assert len(parsed.offers) == 1
        assert parsed.complete
        assert reasons(parsed) == {"Spot Advisor is not usable": 1}


def test_regions_read_from_the_bulk_list_instead_are_not_missing() -> None:
    lost_frankfurt, lost_ohio = fixture("small_feed_down_bulk_instead")[1::-1]
    rest = fixture("small_feed_down_bulk_instead")[2:4]
    assert parse([lost_ohio, *rest]).complete
    assert not parse([lost_frankfurt, *rest]).complete


def test_a_frozen_spot_feed_gives_no_price_in_a_poll_but_can_be_looked_at_by_hand() -> None:
    old = spot([("p4d.24xlarge", "11.5"), ("p5.48xlarge", "19.0")])
    polled = parse([payload(old, SPOT_URL)])
    assert not polled.offers
    assert not polled.complete
    assert "frozen" in str(polled.incomplete_reason)
    assert len(parse([payload(old)]).offers) == 2
    assert len(parse([payload(spot([("p6-b200.48xlarge", "N/A*"), ("g6.xlarge", "1")]), SPOT_URL)])
               .offers) == 1  # fmt: skip


_OLD, _NEW = "2025-11-19T00:00:00Z", "2025-11-21T00:00:00Z"  # NOW is 2026-11-20


def _published(body: bytes, date: str) -> bytes:
    """A list in CSV with this date in its preamble."""
    quote = b'"' if body.startswith(b'"') else b""
    line = quote + b"Publication Date" + quote + b"," + quote + date.encode() + quote + b"\n"
    first, _, rest = body.partition(b"\n")
    return first + b"\n" + line + rest


@pytest.mark.parametrize(
    ("body", "url"),
    [(small(machine("g6.xlarge", "0.8")), f"https://feed.test{PATH}/x/Linux/index.json"),
     (bulk_csv({}), "https://pricing.test/offers/v1.0/aws/AmazonEC2/1/us-east-1/index.csv"),
     (plans_csv({}), "https://pricing.test/v1.0/aws/AWSComputeSavingsPlan/1/x/index.csv")],
)  # fmt: skip
def test_a_copy_left_over_from_a_year_ago_gives_no_price_in_a_poll(body: Any, url: str) -> None:
    def dated(date: str) -> Any:
        if isinstance(body, bytes):
            return _published(body, date)
        return body | {"manifest": {"hawkFilePublicationDate": date}}

    old = parse([payload(dated(_OLD), url)])
    assert not old.offers
    assert "published on 2025-11-19: too old to be used" in str(old.incomplete_reason)
    assert len(parse([payload(dated(_OLD))]).offers) == 1, "one may look at it by hand"
    for date in (_NEW, "yesterday", "2026-11-18"):
        parsed = parse([payload(dated(date), url)])
        assert len(parsed.offers) == 1
        assert parsed.complete


@pytest.mark.parametrize("body", [small(), {"manifest": {}, "regions": {}}, bulk_csv()])
def test_an_answer_without_a_single_row_is_incomplete(body: Any) -> None:
    assert not parse([payload(body)]).complete


def test_one_answer_of_another_shape_among_good_ones_is_said_and_the_rest_kept() -> None:
    url = "https://b0.p.awsstatic.com/pricing/2.0/meteredUnitMaps/ec2/USD/current/ec2-ondemand-without-sec-sel/EU%20(London)/Linux/index.json"
    parsed = parse([payload(small(machine("g6.xlarge", "0.8"))), payload({"error": 1}, url)])
    assert len(parsed.offers) == 1
    assert not parsed.complete
    assert "regions: missing in https://" in str(parsed.incomplete_reason)


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"manifest": {}, "regions": None}, "regions"),
        ({"manifest": {}, "regions": {"EU (Ireland)": []}}, "regions.EU (Ireland)"),
        (small({"Instance Type": "p5.48xlarge", "cost": "1"}), "*.price"),
        (small({"type": "p5.48xlarge", "price": "1"}), "*.Instance Type"),
        ({"config": []}, "config"),
        ({"config": {"rate": "permonth", "regions": []}}, "config.rate"),
        ({"config": {"rate": "perhr", "regions": {}}}, "config.regions"),
        ({"config": {"rate": "perhr", "regions": [{"region": "us-east-1"}]}}, "sizes"),
        (spot([("p5.48xlarge", "1")]) | {"config": {"regions": []}}, "config.rate"),
        ({"products": {}, "terms": {"Reserved": {}}}, "terms.OnDemand"),
        ({"products": [], "terms": {"OnDemand": {}}}, "products"),
        ({"ranges": {}, "spot_advisor": {}}, "ranges"),
        ({"ranges": [{"index": 0, "label": "rare"}], "spot_advisor": {}}, "ranges[]"),
        ({"ranges": [], "spot_advisor": {"us-east-1": []}}, "spot_advisor.us-east-1"),
        ({"InstanceTypes": []}, "body"),
        ([], "body"),
        (b'{"manifest": {"hawk', "body"),
        (b"<html></html>", "body"),
        (b"", "body"),
        (b'"FormatVersion","v1.0"\n', "header"),
    ],
)
def test_another_shape_is_refused_by_the_name_of_the_field(body: Any, field: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse([payload(body)])
    assert field in caught.value.field
    assert "\n" not in str(caught.value)


def test_a_linux_column_that_is_gone_everywhere_is_another_shape() -> None:
    body = json.dumps(spot([("p5.48xlarge", "1"), ("g6.xlarge", "1")])).replace('"linux"', '"l"')
    with pytest.raises(ParseError, match=r"valueColumns\[\]\.prices\.USD"):
        parse([payload(body.encode())])


@given(
    prices=st.dictionaries(
        st.sampled_from(sorted(n for n, t in instance_types().items() if t.gpu_count)),
        st.decimals("0.0001", "500", places=4),
        min_size=1,
    )
)
def test_every_price_above_zero_comes_out_exactly(prices: dict[str, Decimal]) -> None:
    rows = [(name, str(price)) for name, price in prices.items()]
    for body, market in ((spot(rows), "spot"), (small(*(machine(*r) for r in rows)), "on_demand")):
        parsed = parse([payload(body)])
        found = {o.source_id: o.price.amount for o in parsed.offers}
        assert found == prices
        assert all(o.market == market for o in parsed.offers)


# Recorded answers


def test_the_table_of_types_is_the_one_that_was_gathered() -> None:
    if not SHARED.exists():
        pytest.skip(NO_SHARED)
    text = (SHARED / "providers" / "instance_gpus.csv").read_text("utf-8")
    rows = csv.DictReader(text.splitlines())
    seen = 0
    for row in (row for row in rows if row["provider"] == "aws"):
        ours = instance_types()[row["instance_type"]]
        if ours.gpu_count is None:
            continue
        seen += 1
        columns = "gpu_count", "vram_gb_per_gpu", "vcpus", "ram_gb"
        assert [Decimal(row[name]) for name in columns] == [
            ours.gpu_count, ours.vram_gb, ours.vcpus, ours.ram_gib,
        ], ours.name  # fmt: skip
        assert ours.gpu.replace(" ", "").startswith(row["gpu"]) or row["gpu"] == "V520"
        assert (ours.form_factor == "SXM") is row["gpu_variant"].startswith("SXM")
    assert seen == len(instance_types()) - 1


def test_the_table_of_types_is_what_ec2_says_of_them() -> None:
    if not RECORDED.exists():
        pytest.skip(NO_SHARED)
    said = json.loads((RECORDED / "describe_instance_types_gpu.json").read_bytes())["InstanceTypes"]
    assert len(said) >= 8
    for one in said:
        row, gpu = instance_types()[one["InstanceType"]], one["GpuInfo"]["Gpus"][0]
        # A part of a card has Count 0 or 1 and its size beside it.
        size = Decimal(str(gpu.get("GpuPartitionSize", 1)))
        assert row.gpu_count == (size if size < 1 else gpu["Count"]), row.name
        whole_mib = Decimal(gpu["MemoryInfo"]["SizeInMiB"]) / min(size, 1)
        assert row.vram_gb is not None
        # Nominal GB are GiB for some cards and 10^9 bytes for others, and less is usable.
        assert Decimal("0.92") < whole_mib * 2**20 / (row.vram_gb * 10**9) < Decimal("1.08"), row
        assert row.vcpus == one["VCpuInfo"]["DefaultVCpus"], row.name
        assert row.ram_gib == Decimal(one["MemoryInfo"]["SizeInMiB"]) / 1024, row.name
        if disk := one.get("InstanceStorageInfo"):
            assert row.disk_gb == disk["TotalSizeInGB"], row.name


def recorded(name: str) -> Parsed:
    if not RECORDED.exists():
        pytest.skip(NO_SHARED)
    return parse([payload((RECORDED / name).read_bytes())])


def test_recorded_bulk_csv_gives_five_offers() -> None:
    offers = by_id(recorded("bulk_index_us-east-1_synthetic.csv"))
    assert {key.split("/")[1]: (o.gpu_count, o.price.amount) for key, o in offers.items()} == {
        "p4d.24xlarge": (8, Decimal("21.957642")),
        "p4de.24xlarge": (8, Decimal("27.44705")),
        "p5.48xlarge": (8, Decimal("55.04")),
        "p5.4xlarge": (1, Decimal("6.88")),
        "g6f.large": (Decimal("0.125"), Decimal("0.202")),
    }


def test_recorded_bulk_json_gives_the_offers_of_the_csv() -> None:
    from_json = recorded("bulk_index_us-east-1_synthetic.json")
    from_csv = by_id(recorded("bulk_index_us-east-1_synthetic.csv"))
    del from_csv["us-east-1/g6f.large/on_demand"]  # not in the JSON
    assert by_id(from_json) == from_csv


def test_recorded_small_feed_gives_the_same_offers_as_the_bulk_list() -> None:
    feed = by_id(recorded("meteredUnitMaps_us-east-1_linux_trimmed.json"))
    bulk = by_id(recorded("bulk_index_us-east-1_synthetic.csv"))
    assert {key.split("/")[1] for key in feed} == {"p4d.24xlarge", "p5.48xlarge"}
    assert all(offer == bulk[key] for key, offer in feed.items())


def test_recorded_spot_json_counts_duplicates_once() -> None:
    parsed = recorded("spot_json_us-east-1_gpu_trimmed.json")
    offers = by_id(parsed)
    assert len(offers) == 20
    assert offers["us-east-1/p5.48xlarge/spot"].price.amount == Decimal("19.4933")
    assert offers["us-east-1/p5.48xlarge/spot"].gpu_count == 8
    assert offers["us-east-1/p5.4xlarge/spot"].price.amount == Decimal("2.6295")
    assert offers["us-east-1/p4de.24xlarge/spot"].price.amount == Decimal("21.8259")
    assert not parsed.rejected


@pytest.mark.parametrize(
    "name",
    ["region_index_synthetic.json", "offers_index_trimmed_real.json",
     "spot_advisor_gpu_trimmed.json", "bulk_index_csv_header_and_row_real.csv",
     "spot_json_edge_cases_synthetic.json"],
)  # fmt: skip
def test_recorded_files_without_gpu_prices_are_recognised(name: str) -> None:
    assert not recorded(name).offers
