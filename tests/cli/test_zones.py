"""Zones of a region with prices of their own: the region asked for means all of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

import pytest
import yaml

from tests.cli.harness import H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.domain.offer import Market, Offer, Terms

ZONES = {"us-east-1/use1-az1": "21", "us-east-1/use1-az4": "19.5", "us-east-1/use1-az6": "55"}
MARKET = ("--gpu", "H100", "--market", "spot")


def _of(region: str, usd: str, market: Market = Market.SPOT) -> Offer:
    return make_offer(
        "p5.48xlarge", usd, source="aws", gpu=H100, gpu_count=Decimal(8), region=region,
        market=market, terms=Terms(disk_included_gb=Decimal(1000)),
    )  # fmt: skip


@pytest.fixture(scope="module")
def url(database_server: TestServer) -> Iterator[str]:
    offers = [
        *(_of(region, usd) for region, usd in ZONES.items()),
        _of("us-east-10/use10-az1", "5"), _of("us-west-2/usw2-az1", "15"), _of("eu-west-1", "17"),
        _of("us-east-1", "56", Market.ON_DEMAND),
    ]  # fmt: skip
    with filled(database_server, polled("aws", offers)) as url:
        yield url


@pytest.fixture(autouse=True)
def _database(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", url)


@pytest.mark.parametrize(
    ("asked", "found"),
    [("us-east-1", set(ZONES)), ("US-EAST-1/*", set(ZONES)),
     ("us-east-1/use1-az4", {"us-east-1/use1-az4"}), ("eu-west-1", {"eu-west-1"}),
     ("us-*", {*ZONES, "us-east-10/use10-az1", "us-west-2/usw2-az1"})],
)  # fmt: skip
def test_a_region_means_its_zones(asked: str, found: set[str]) -> None:
    rows = run("offers", *MARKET, "--region", asked, "-o", "json").json()["rows"]
    assert {row["region"] for row in rows} == found
    exported = run(
        "export", "offers", "-", *MARKET, "--region", asked, "-o", "ndjson"
    ).out.splitlines()
    assert {json.loads(line)["region"] for line in exported} == found


def test_the_least_price_of_a_region_is_that_of_its_cheapest_zone() -> None:
    asked = ("cheapest", "bert-large", *MARKET, "--region", "us-east-1")
    (best, *_) = run(*asked, "-o", "json").json()["rows"]
    assert (best["region"], Decimal(best["price_usd_per_machine_hour"])) == (
        "us-east-1/use1-az4", Decimal("19.5"),
    )  # fmt: skip


def test_what_launches_it_is_told_the_region_and_says_the_zone() -> None:
    done = run("cheapest", "bert-large", *MARKET, "--region", "us-east-1", "--as", "skypilot")
    assert yaml.safe_load(done.out)["resources"]["infra"] == "aws/us-east-1"
    assert "the zone: the price is that of us-east-1/use1-az4" in done.out
