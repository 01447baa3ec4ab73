"""AWS: the documented bulk list, whose rows are nearly all something else."""

from __future__ import annotations

import pytest

from providers.aws import parse
from tests.providers.aws_answers import (
    bulk_csv,
    by_id,
    fixture,
    payload,
    reasons,
)
from tracker.provider import ParseError


def test_bulk_columns_go_by_name_and_lines_may_end_either_way() -> None:
    body = bulk_csv(
        {}, {"Instance Type": "g6.xlarge", "Pre Installed S/W": "", "PricePerUnit": "1"}
    )
    for raw in (body, body.replace(b"\r\n", b"\n"), b"\xef\xbb\xbf" + body, body.rstrip()):
        parsed = parse([payload(raw)])
        assert set(by_id(parsed)) == {"us-east-1/p5.48xlarge/on_demand",
                                      "us-east-1/g6.xlarge/on_demand"}  # fmt: skip
        assert parsed.complete


@pytest.mark.parametrize(
    ("column", "value"),
    [("TermType", "Reserved"), ("Tenancy", "Dedicated"), ("Tenancy", "Host"),
     ("Operating System", "Windows"), ("CapacityStatus", "UnusedCapacityReservation"),
     ("CapacityStatus", "AllocatedCapacityReservation"), ("Unit", "Quantity"),
     ("Currency", "CNY"), ("Pre Installed S/W", "SQL Web"), ("MarketOption", "CapacityBlock"),
     ("MarketOption", ""), ("PricePerUnit", "0.0000000000"),
     ("License Model", "Bring your own license"), ("operation", "RunInstances:0002"),
     ("Product Family", "Dedicated Host"), ("Region Code", ""),
     ("Region Code", "cn-north-1-pkx-1"), ("Region Code", "us-gov-west-1"),
     ("Region Code", "us-iso-east-1"), ("Region Code", "eusc-de-east-1"),
     ("usageType", "UnusedBox:p5.48xlarge"), ("usageType", "USE2-HostBoxUsage:p5.48xlarge"),
     ("usageType", "DedicatedUsage:p5.48xlarge"), ("usageType", "Reservation:p5.48xlarge"),
     ("usageType", "BoxUsage:p5.4xlarge"), ("Location Type", "AWS Outposts"),
     ("StartingRange", "744")],
)  # fmt: skip
def test_every_condition_of_the_bulk_filter_must_hold(column: str, value: str) -> None:
    parsed = parse([payload(bulk_csv({column: value}, {"Instance Type": "g6.xlarge"}))])
    assert list(by_id(parsed)) == ["us-east-1/g6.xlarge/on_demand"]
    assert len(parsed.rejected) == 1


@pytest.mark.parametrize(
    ("region", "usage"),
    [("us-east-1", "BoxUsage:p5.48xlarge"), ("us-east-2", "USE2-BoxUsage:p5.48xlarge"),
     ("us-west-2-lax-1", "USW2-LAX1-BoxUsage:p5.48xlarge")],
)  # fmt: skip
def test_an_hour_of_a_machine_is_one_in_every_region(region: str, usage: str) -> None:
    row = {"Region Code": region, "usageType": usage, "Location Type": "AWS Local Zone"}
    assert list(by_id(parse([payload(bulk_csv(row))]))) == [f"{region}/p5.48xlarge/on_demand"]


def test_a_second_bulk_row_for_a_type_leaves_none_even_at_the_same_price() -> None:
    parsed = parse([payload(bulk_csv({}, {}, {"Region Code": "us-east-2"}))])
    assert list(by_id(parsed)) == ["us-east-2/p5.48xlarge/on_demand"]
    assert reasons(parsed) == {"several rows for one type in a region": 1}


def test_bulk_without_a_needed_column_names_it() -> None:
    body = bulk_csv({}).replace(b'"MarketOption"', b'"Market Option"')
    with pytest.raises(ParseError, match=r"header\.MarketOption"):
        parse([payload(body)])


def test_bulk_json_without_a_needed_attribute_names_it() -> None:
    (recorded,) = fixture("bulk_json")
    body = recorded.body.replace(b'"instanceType"', b'"instance_type"')
    with pytest.raises(ParseError, match=r"products\.\*\.attributes\.instanceType"):
        parse([payload(body)])


@pytest.mark.parametrize("cut", range(1, 12))
def test_a_bulk_list_cut_inside_a_row_is_incomplete(cut: int) -> None:
    body = bulk_csv({"Instance Type": "g6.xlarge", "PricePerUnit": "0.8"}, {}).rstrip()
    parsed = parse([payload(body[: -cut * 7])])
    assert list(by_id(parsed)) == ["us-east-1/g6.xlarge/on_demand"]
    assert not parsed.complete
    assert "inside a row" in str(parsed.incomplete_reason)
