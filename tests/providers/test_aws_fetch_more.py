"""AWS: which requests savings plans and spot prices by zone need, and what their failures mean."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from providers.aws import AwsConfig, account, parse, provider
from tests.providers.aws_answers import by_id, failed_zones, fixture, identity, zone_row, zones
from tests.providers.test_aws_fetch import PLANS, aws, gone, poll
from tests.support.replay import ReplayServer
from tracker.http import HostGate, make_client
from tracker.provider import Payload
from tracker.settings import Settings

# Savings plans


def test_savings_plans_are_read_where_they_are_asked_for() -> None:
    http = aws()
    poll(http)
    assert not [url for url in http.asked if PLANS in url], "hundreds of MB"
    http = aws()
    parsed = parse(poll(http, savings_plan_regions=["us-east-1", "eu-west-1"], spot=False))
    assert sorted(url for url in http.asked if PLANS in url) == [
        f"https://pricing.us-east-1.amazonaws.com{PLANS}/20261119184447/eu-west-1/index.csv",
        f"https://pricing.us-east-1.amazonaws.com{PLANS}/20261119184447/us-east-1/index.csv",
        f"https://pricing.us-east-1.amazonaws.com{PLANS}/current/region_index.json",
    ]
    assert parsed.complete
    assert {o.region for o in parsed.offers if o.market == "reserved"} == {"us-east-1", "eu-west-1"}


@pytest.mark.parametrize(
    "index",
    [gone(), b"{", [], {"regions": {}}, {"regions": [7, {"regionCode": "us-east-1"}]},
     {"regions": [{"regionCode": "us-east-1", "versionUrl": "//elsewhere.test/index.json"}]}],
)  # fmt: skip
def test_without_an_index_of_plans_the_current_file_is_read(index: Any) -> None:
    http = aws(plan_index=index)
    payloads = poll(http, savings_plan_regions=["us-east-1"], regions=[], spot=False)
    assert http.asked[1].endswith(f"{PLANS}/current/us-east-1/index.csv")
    assert [o.market for o in parse(payloads).offers] == ["reserved"]


def test_a_list_of_plans_that_fails_makes_the_poll_incomplete() -> None:
    http = aws(plan_csv=lambda url: gone(503))
    parsed = parse(poll(http, savings_plan_regions=["us-east-1"], regions=["us-east-1"]))
    assert {offer.market for offer in parsed.offers} == {"on_demand", "spot"}
    assert str(parsed.incomplete_reason).startswith("savings plan list not read: HTTP 503")


def test_lists_streamed_from_a_server_give_the_offers_of_the_recording() -> None:
    recorded = fixture("savings_plans")
    with ReplayServer() as server:
        server.replay(recorded)
        config = AwsConfig(
            regions=("us-east-1",), spot=False, bulk_url=server.url, small_feed_url=server.url,
            savings_plan_regions=("us-east-1", "ap-northeast-1"),
        )  # fmt: skip
        settings = Settings(data_dir=Path("/nowhere"), http={"attempts": 1})

        async def run() -> list[Payload]:
            async with make_client(provider, config, settings, gate=HostGate()) as client:
                return list(await provider.fetch(client, config))

        payloads = asyncio.run(run())
    assert sum(len(kept.body) for kept in payloads) < sum(len(whole.body) for whole in recorded)
    fetched, whole = parse(payloads), parse(recorded)
    assert fetched.complete
    assert [identity(o) for o in fetched.offers] == [identity(o) for o in whole.offers]
    assert [o.price for o in fetched.offers] == [o.price for o in whole.offers]


# Spot prices by zone


@pytest.fixture(name="asked")
def _account(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """An account in which us-east-1 is enabled; gives the regions that were asked for."""
    regions_asked: list[list[str]] = []

    async def spot_by_zone(regions: list[str]) -> list[Payload]:
        regions_asked.append(list(regions))
        rows = [zone_row("p5.48xlarge", "us-east-1b", "use1-az2", "18")]
        return [
            zones(region, *rows) if region == "us-east-1" else failed_zones(region, "AuthFailure")
            for region in regions
        ]

    monkeypatch.setattr(account, "spot_by_zone", spot_by_zone)
    monkeypatch.setattr(account, "credentials_likely", lambda: True)
    return regions_asked


def test_with_credentials_zones_come_beside_spot_json(asked: list[list[str]]) -> None:
    http = aws()
    parsed = parse(poll(http, regions=["us-east-1", "eu-west-1"]))
    assert asked == [["us-east-1", "eu-west-1"]]
    assert [url for url in http.asked if url.endswith("spot.json")]
    spots = {o.region: o.price.amount for o in parsed.offers if o.market == "spot"}
    assert [str(place) for place in spots] == ["us-east-1/use1-az2"]
    assert parsed.complete


@pytest.mark.parametrize(
    ("config", "account_asked", "page_asked"),
    [({"spot_source": "account"}, True, False), ({"spot_source": "page"}, False, True),
     ({"spot": False}, False, False), ({"spot": False, "spot_source": "account"}, False, False),
     ({}, True, True)],
)  # fmt: skip
def test_which_spot_source_is_read_can_be_chosen(
    asked: list[list[str]], config: dict[str, Any], account_asked: bool, page_asked: bool
) -> None:
    http = aws()
    poll(http, regions=["us-east-1"], **config)
    assert bool(asked) is account_asked
    assert any(url.endswith("spot.json") for url in http.asked) is page_asked


@pytest.mark.parametrize("lacking", ["installed", "credentials_likely"])
def test_without_boto3_or_credentials_spot_json_is_all_there_is(
    asked: list[list[str]], monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    monkeypatch.setattr(account, lacking, lambda: False)
    parsed = parse(poll(aws(), regions=["us-east-1"]))
    assert not asked
    assert by_id(parsed)["us-east-1/p5.48xlarge/spot"].price.amount == Decimal("20.1")
    assert parsed.complete


@pytest.mark.usefixtures("asked")
def test_a_configuration_of_boto3_without_a_key_in_it_changes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def spot_by_zone(regions: list[str]) -> list[Payload]:
        return [failed_zones(region, account.NO_CREDENTIALS, 0) for region in regions]

    monkeypatch.setattr(account, "spot_by_zone", spot_by_zone)
    parsed = parse(poll(aws(), regions=["us-east-1"]))
    assert parsed.complete
    assert not parsed.rejected
    only = parse(poll(aws(), regions=["us-east-1"], spot_source="account"))
    assert "boto3 finds no credentials" in str(only.incomplete_reason)
