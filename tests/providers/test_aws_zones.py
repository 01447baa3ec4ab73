"""AWS: spot prices by availability zone, as EC2's DescribeSpotPriceHistory answers them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from providers.aws import parse
from providers.aws.regions import region_of_zone
from tests.providers.aws_answers import (
    NOW,
    SPOT_URL,
    by_id,
    failed_zones,
    fixture,
    identity,
    machine,
    payload,
    reasons,
    small,
    spot,
    zone_row,
    zones,
)
from tests.support.catalogue import catalogue
from tracker.collect import digest
from tracker.domain.place import region_of
from tracker.domain.quality import Known, Rules
from tracker.provider import Market, PriceKind
from tracker.registry import load

SPOT = spot([("p5.48xlarge", "20.1"), ("p5.4xlarge", "2.7")])


def test_one_machine_in_three_zones_is_three_offers() -> None:
    parsed = parse(fixture("spot_by_zone"))
    zones_of = {
        str(o.region): o
        for o in parsed.offers
        if o.source_id == "p4d.24xlarge" and str(o.region).startswith("us-east-2/")
    }
    assert {region: o.price.amount for region, o in zones_of.items()} == {
        "us-east-2/use2-az1": Decimal("6.0374"),
        "us-east-2/use2-az2": Decimal("6.0965"),
        "us-east-2/use2-az3": Decimal("21.8535"),
    }
    assert len({identity(offer) for offer in zones_of.values()}) == 3
    for offer in zones_of.values():
        assert (offer.market, offer.price_kind) == (Market.SPOT, PriceKind.DYNAMIC)
        assert (offer.country, offer.gpu_count) == ("US", 8)
        assert offer.extras.interruption_percent_max == 10
    assert "the zone is us-east-2a to the account that was asked" in zones_of[
        "us-east-2/use2-az1"
    ].notes  # fmt: skip


def test_the_lowest_price_of_a_region_is_that_of_its_cheapest_zone() -> None:
    offers = parse(fixture("spot_by_zone")).offers
    of_type = [o for o in offers if o.source_id == "p4d.24xlarge"]
    of_ohio = [o.price.amount for o in of_type if region_of(o.region) == "us-east-2"]
    assert min(of_ohio) == Decimal("6.0374"), "and not the one price of spot.json, 6.5"


def test_where_zones_are_known_the_one_price_of_the_region_is_out_and_counted() -> None:
    rows = [zone_row("p5.48xlarge", "us-east-1a", "use1-az4", "21")]
    parsed = parse([payload(SPOT, SPOT_URL), zones("us-east-1", *rows)])
    assert set(by_id(parsed)) == {"us-east-1/use1-az4/p5.48xlarge/spot"}
    assert reasons(parsed) == {"a region's one price where its zones have their own": 2}
    assert parsed.complete


def test_the_id_names_the_zone_whatever_an_account_calls_it() -> None:
    one, other = (
        parse([zones("us-east-1", zone_row("p5.4xlarge", name, "use1-az4", "2.5"))]).offers[0]
        for name in ("us-east-1a", "us-east-1d")
    )
    assert identity(one) == identity(other)
    (unnamed,) = parse([zones("us-east-1", zone_row("p5.4xlarge", None, "use1-az4", "2.5"))]).offers
    assert identity(unnamed) == identity(one)


@pytest.mark.parametrize("odd", ["", "use1 az4", "<b>", None])
def test_without_a_usable_id_the_name_stands_for_it(odd: str | None) -> None:
    (offer,) = parse([zones("us-east-1", zone_row("p5.4xlarge", "us-east-1a", odd, "2.5"))]).offers
    assert offer.region == "us-east-1/us-east-1a"


@pytest.mark.parametrize(
    ("zone", "region"),
    [("us-east-1a", "us-east-1"), ("ap-northeast-1d", "ap-northeast-1"),
     ("us-west-2-lax-1b", "us-west-2-lax-1"), ("us-gov-west-1a", "us-gov-west-1"),
     ("us-east-1-wl1-bos-wlz-1", "us-east-1-wl1-bos-wlz-1"), ("us-east-1", None), ("", None),
     ("zone a", None)],
)  # fmt: skip
def test_a_zone_belongs_to_the_region_that_the_price_lists_know(
    zone: str, region: str | None
) -> None:
    assert region_of_zone(zone) == region


@given(st.permutations([("4.1", 3), ("4.2", 1), ("4.3", 2), ("4.1", 30)]))
def test_of_several_prices_the_one_in_force_counts(order: list[tuple[str, int]]) -> None:
    rows = [
        zone_row("p5.4xlarge", "us-east-1a", "use1-az4", price, NOW - timedelta(days=days))
        for price, days in order
    ]
    (offer,) = parse([zones("us-east-1", *rows)]).offers
    assert offer.price.amount == Decimal("4.2")


def test_two_prices_without_a_date_are_none_and_one_is_enough() -> None:
    row = zone_row("p5.4xlarge", "us-east-1a", "use1-az4", "4.1", None)
    assert len(parse([zones("us-east-1", row, dict(row))]).offers) == 1
    parsed = parse([zones("us-east-1", row, {**row, "SpotPrice": "4.2"})])
    assert not parsed.offers
    assert reasons(parsed) == {"several rows for one type in a region": 1}


@pytest.mark.parametrize(
    ("zone", "reason"),
    [("cn-north-1a", "China region"), ("us-gov-west-1b", "US government region")],
)
def test_the_price_of_a_cloud_apart_is_no_offer(zone: str, reason: str) -> None:
    # EC2 does not name the currency: that of the Chinese regions is CNY.
    parsed = parse([payload({"SpotPriceHistory": [zone_row("p4d.24xlarge", zone, None, "70")]})])
    assert not parsed.offers
    assert reasons(parsed) == {reason: 1}


def test_a_spot_price_above_that_on_demand_is_held_back_zone_by_zone() -> None:
    prices = {"a": "55.2", "b": "55.3", "c": "19"}  # equal is a pool without spare machines
    rows = [
        zone_row("p5.48xlarge", f"us-east-1{letter}", f"use1-az{n}", price)
        for n, (letter, price) in enumerate(prices.items())
    ]
    payloads = [payload(small(machine("p5.48xlarge", "55.2"))), zones("us-east-1", *rows)]
    result = digest(load("aws"), payloads, catalogue(), fx={}, known=Known(), rules=Rules())
    (held,) = result.held
    assert (held.offer.listed.region, held.gate) == ("us-east-1/use1-az1", "spot_against_on_demand")
    assert len(result.accepted) == 3


# Regions that did not answer


def test_a_region_that_is_not_enabled_keeps_the_price_of_spot_json() -> None:
    rows = [zone_row("p5.48xlarge", "us-west-2a", "usw2-az1", "21")]
    parsed = parse([
        payload(SPOT, SPOT_URL), zones("us-west-2", *rows),
        failed_zones("us-east-1", "AuthFailure"),
    ])  # fmt: skip
    assert {o.region for o in parsed.offers} == {"us-west-2/usw2-az1", "us-east-1"}
    assert parsed.complete
    assert reasons(parsed) == {"region not enabled in the account": 1}


def test_a_region_that_fails_for_now_closes_no_offer_of_its_zones() -> None:
    rows = [zone_row("p5.48xlarge", "us-west-2a", "usw2-az1", "21")]
    failed = [
        failed_zones(f"eu-west-{n}", code, status)
        for n, (code, status) in enumerate([("RequestLimitExceeded", 503), ("TimedOut", 0),
                                            ("EndpointConnectionError", 0), ("Other", 500)])
    ]  # fmt: skip
    parsed = parse([payload(SPOT, SPOT_URL), zones("us-west-2", *rows), *failed])
    assert not parsed.complete
    assert parsed.incomplete_reason == (
        "spot prices by zone not read (eu-west-0: RequestLimitExceeded, eu-west-1: not finished in "
        "time, eu-west-2: EndpointConnectionError, and 1 more)"
    )


def test_credentials_that_open_nothing_leave_what_there_is_without_them() -> None:
    failed = [failed_zones(region, "AuthFailure") for region in ("us-east-1", "us-west-2")]
    parsed = parse([payload(SPOT, SPOT_URL), *failed])
    assert len(parsed.offers) == 2
    assert parsed.complete
    assert reasons(parsed) == {"spot prices by zone could not be read": 2}


@pytest.mark.parametrize(
    ("code", "words"),
    [("NotInstalled", "boto3 is not installed: pip install '.[aws]' in gpucost's checkout"),
     ("NoCredentials", "boto3 finds no credentials"), ("AuthFailure", "us-east-1: AuthFailure")],
)  # fmt: skip
def test_without_any_spot_price_it_is_said_what_is_missing(code: str, words: str) -> None:
    on_demand = payload(small(machine("p5.48xlarge", "55.2")))
    parsed = parse([on_demand, failed_zones("us-east-1", code)])
    assert len(parsed.offers) == 1
    assert not parsed.complete
    assert words in str(parsed.incomplete_reason)


@pytest.mark.parametrize("body", [b"", b"{}", b'{"Error": []}', b"<html>"])
def test_a_failure_without_a_code_is_no_answer(body: bytes) -> None:
    bad: Any = failed_zones("us-east-1", "x", 500)
    parsed = parse([payload(small(machine("g6.xlarge", "1"))), payload(body, bad.url, 500)])
    assert "us-east-1: no answer" in str(parsed.incomplete_reason)
