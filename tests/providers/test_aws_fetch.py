"""AWS: which requests a poll makes, and what it makes of those that fail."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any, Literal
from urllib.parse import unquote

import pytest
from pydantic import ValidationError

from providers.aws import AwsConfig, fetch, parse
from providers.aws.bulk import keep_line
from providers.aws.regions import DEFAULT_REGIONS
from tests.providers.aws_answers import (
    NOW,
    advisor,
    bulk_csv,
    by_id,
    machine,
    plans_csv,
    small,
    spot,
)
from tracker.provider import FetchError, Payload

SPOT = spot([("p5.48xlarge", "20.1"), ("p5.4xlarge", "2.7")])
INDEX = {
    "formatVersion": "v1.0",
    "regions": {
        region: {
            "regionCode": region,
            "currentVersionUrl": f"/offers/v1.0/aws/AmazonEC2/20261119000000/{region}/index.json",
        }
        for region in ("us-east-1", "us-east-2")
    },
}

PLANS = "/savingsPlan/v1.0/aws/AWSComputeSavingsPlan"
PLAN_INDEX = {
    "publicationDate": "2026-11-19T18:44:47Z",
    "regions": [
        {"regionCode": region, "versionUrl": f"{PLANS}/20261119184447/{region}/index.json"}
        for region in ("us-east-1", "eu-west-1")
    ],
}

Answer = Callable[[str], Any]


class FakeHttp:
    """Answers each URL with what *answer* returns: JSON, bytes, or an error to raise."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.asked: list[str] = []
        self.running = 0
        self.most_running = 0

    async def get(
        self,
        url: str,
        *,
        params: Mapping[str, str] | None = None,
        headers: Mapping[str, str] | None = None,
        expect: Literal["json", "html", "text", "any"] = "json",
        max_bytes: int = 32 * 2**20,
    ) -> Payload:
        assert params is None
        assert headers is None
        assert expect == "json"
        return await self._respond(url)

    async def post(self, url: str, **_: Any) -> Payload:
        raise AssertionError(f"no POST is due: {url}")

    async def stream_lines(
        self,
        url: str,
        keep: Callable[[bytes], bool],
        *,
        headers: Mapping[str, str] | None = None,
        max_bytes: int = 2 * 2**30,
        max_kept_bytes: int = 64 * 2**20,
        cache_variant: str | None = None,
    ) -> Payload:
        whole = await self._respond(url)
        kept = [line for line in whole.body.splitlines(keepends=True) if keep(line)]
        return Payload(url, b"".join(kept), NOW)

    async def _respond(self, url: str) -> Payload:
        self.asked.append(unquote(url))
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        answer = self.answer(unquote(url))
        if isinstance(answer, Exception):
            raise answer
        body = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        return Payload(url, body, NOW)


def aws(
    *,
    feed: Answer = lambda location: small(machine("p5.48xlarge", "55.2"), location=location),
    index: Any = INDEX,
    csv: Answer = lambda url: bulk_csv({}, {"Instance Type": "m7i.large"}),
    plan_index: Any = PLAN_INDEX,
    plan_csv: Answer = lambda url: plans_csv({"DiscountedRegionCode": url.split("/")[-2]}),
    spot_answer: Any = SPOT,
) -> FakeHttp:
    """A working AWS, of which single parts may be replaced."""

    def answer(url: str) -> Any:
        if "meteredUnitMaps" in url:
            return feed(url.split("without-sec-sel/")[1].split("/")[0])
        if url.endswith("region_index.json"):
            return plan_index if PLANS in url else index
        if url.endswith("index.csv"):
            return plan_csv(url) if PLANS in url else csv(url)
        return advisor(p5_48xlarge=3) if "spot-advisor-data" in url else spot_answer

    return FakeHttp(answer)


def poll(http: FakeHttp, **config: Any) -> list[Payload]:
    return list(asyncio.run(fetch(http, AwsConfig(**config))))


def gone(status: int | None = 404) -> FetchError:
    return FetchError("refused" if status else "timed out", status=status)


def test_by_default_every_region_spot_and_advisor_are_asked_once() -> None:
    http = aws()
    parsed = parse(poll(http))
    assert parsed.complete
    assert len(http.asked) == len(DEFAULT_REGIONS) + 2
    assert len(set(http.asked)) == len(http.asked)
    assert not [url for url in http.asked if "AmazonEC2" in url], "hundreds of MB"
    on_demand = [o for o in parsed.offers if o.market == "on_demand"]
    assert {o.region for o in on_demand} == set(DEFAULT_REGIONS)
    assert by_id(parsed)["us-east-1/p5.48xlarge/spot"].extras.interruption_percent_max == 20


def test_requests_go_side_by_side() -> None:
    http = aws()
    poll(http)
    assert http.most_running == len(http.asked)


def test_sources_can_be_switched_off_and_pointed_elsewhere() -> None:
    http = aws()
    poll(
        http,
        regions=["eu-west-1"],
        advisor=False,
        small_feed_url="http://feed.test/",
        spot_url="http://spot.test/x/",
    )
    assert {url.split("/pricing/2.0")[0] for url in http.asked} == {
        "http://feed.test",
        "http://spot.test/x/spot.json",
    }
    http = aws()
    poll(http, regions=["eu-west-1"], spot=False)
    assert len(http.asked) == 1, "without spot no advisor either"


def test_location_names_are_encoded() -> None:
    urls: list[str] = []

    def answer(url: str) -> Any:
        return small(machine("p5.48xlarge", "1"))

    http = FakeHttp(answer)
    respond = http._respond

    async def note(url: str) -> Payload:
        urls.append(url)
        return await respond(url)

    http._respond = note  # type: ignore[method-assign]
    poll(http, regions=["us-east-1"], spot=False)
    assert urls == [
        "https://b0.p.awsstatic.com/pricing/2.0/meteredUnitMaps/ec2/USD/current/"
        "ec2-ondemand-without-sec-sel/US%20East%20(N.%20Virginia)/Linux/index.json"
    ]


@pytest.mark.parametrize("status", [403, 404])
def test_a_european_region_is_asked_for_under_its_other_name(status: int) -> None:
    def feed(location: str) -> Any:
        if location in ("EU (Milan)", "Europe (Zurich)"):
            return gone(status)
        return small(machine("p5.48xlarge", "60"), location=location)

    http = aws(feed=feed)
    parsed = parse(poll(http, regions=["eu-south-1", "eu-central-2"], spot=False))
    assert parsed.complete
    assert {offer.region for offer in parsed.offers} == {"eu-south-1", "eu-central-2"}
    assert len(http.asked) == 4


def test_another_failure_is_not_tried_under_another_name() -> None:
    http = aws(feed=lambda location: gone(500) if "Milan" in location else small(
        machine("p5.48xlarge", "60"), location=location))  # fmt: skip
    poll(http, regions=["eu-south-1", "us-east-1"], spot=False)
    assert len(http.asked) == 2


@pytest.mark.parametrize(("status", "words"), [(404, "HTTP 404"), (None, "no answer")])
def test_a_region_that_fails_is_said_and_the_others_are_kept(
    status: int | None, words: str
) -> None:
    def feed(location: str) -> Any:
        if "Paris" in location:
            return gone(status)
        return small(machine("p5.48xlarge", "60"), location=location)

    http = aws(feed=feed)
    parsed = parse(poll(http, regions=["us-east-1", "eu-west-3"]))
    assert {o.region for o in parsed.offers} == {"us-east-1"}
    assert not parsed.complete
    assert parsed.incomplete_reason == f"on-demand prices not read for EU (Paris) ({words})"
    assert not [url for url in http.asked if "AmazonEC2" in url]


def test_a_small_feed_that_answers_nowhere_is_replaced_by_the_bulk_list() -> None:
    http = aws(feed=lambda location: gone(403))
    parsed = parse(poll(http, regions=["us-east-1", "us-west-2"]))
    assert set(by_id(parsed)) == {"us-east-1/p5.48xlarge/on_demand", "us-east-1/p5.48xlarge/spot",
                                  "us-east-1/p5.4xlarge/spot"}  # fmt: skip
    assert not parsed.complete
    assert "US West (Oregon) (HTTP 403)" in str(parsed.incomplete_reason)
    assert "Virginia" not in str(parsed.incomplete_reason)


def test_the_fallback_can_be_switched_off() -> None:
    http = aws(feed=lambda location: gone())
    parsed = parse(poll(http, regions=["us-east-1"], bulk_regions=[]))
    assert not [url for url in http.asked if "AmazonEC2" in url]
    assert {offer.market for offer in parsed.offers} == {"spot"}
    assert not parsed.complete


def test_the_bulk_list_is_read_in_the_version_of_the_index() -> None:
    http = aws()
    parsed = parse(poll(http, on_demand_source="bulk", spot=False))
    assert [url.removeprefix("https://pricing.us-east-1.amazonaws.com") for url in http.asked] == [
        "/offers/v1.0/aws/AmazonEC2/current/region_index.json",
        "/offers/v1.0/aws/AmazonEC2/20261119000000/us-east-1/index.csv",
    ]
    assert parsed.complete
    assert list(by_id(parsed)) == ["us-east-1/p5.48xlarge/on_demand"]


@pytest.mark.parametrize(
    "index",
    [gone(), b"{", [], {"regions": []}, {"regions": {"us-east-1": {"currentVersionUrl": 7}}},
     {"regions": {"us-east-1": {"currentVersionUrl": "//elsewhere.test/index.json"}}}],
)  # fmt: skip
def test_without_a_usable_index_the_current_file_is_read(index: Any) -> None:
    http = aws(index=index)
    payloads = poll(http, on_demand_source="bulk", spot=False)
    assert http.asked[1].endswith("/offers/v1.0/aws/AmazonEC2/current/us-east-1/index.csv")
    assert len(parse(payloads).offers) == 1


def test_a_bulk_region_that_fails_makes_the_poll_incomplete() -> None:
    http = aws(csv=lambda url: gone() if "us-east-2" in url else bulk_csv({}))
    parsed = parse(poll(http, on_demand_source="bulk", bulk_regions=["us-east-1", "us-east-2"]))
    assert "us-east-1/p5.48xlarge/on_demand" in by_id(parsed)
    assert not parsed.complete
    assert "us-east-2" in str(parsed.incomplete_reason)


def test_a_bulk_download_that_takes_too_long_leaves_the_rest_of_the_poll() -> None:
    class Slow(FakeHttp):
        async def stream_lines(self, url: str, *_: Any, **__: Any) -> Payload:
            await asyncio.Event().wait()
            raise AssertionError

    http = Slow(aws().answer)
    parsed = parse(poll(http, on_demand_source="bulk", bulk_timeout_seconds=0.01))
    assert {offer.market for offer in parsed.offers} == {"spot"}
    assert not parsed.complete
    assert "no answer" in str(parsed.incomplete_reason)


def test_lost_spot_prices_make_the_poll_incomplete() -> None:
    parsed = parse(poll(aws(spot_answer=gone(503)), regions=["us-east-1"]))
    assert len(parsed.offers) == 1
    assert str(parsed.incomplete_reason).startswith("spot.json not read: HTTP 503")


def test_a_poll_without_any_answer_fails_with_the_first_reason() -> None:
    http = FakeHttp(lambda url: FetchError("no route to host"))
    with pytest.raises(FetchError, match="no route to host"):
        poll(http)


def test_a_region_without_a_known_location_is_refused_in_the_configuration() -> None:
    with pytest.raises(ValidationError, match="us-east-1"):
        AwsConfig(regions=["us-east-9"])  # type: ignore[arg-type]


@pytest.mark.parametrize("region", ["us-gov-west-1", "cn-north-1"])
def test_a_region_of_a_cloud_apart_is_refused_in_the_configuration(region: str) -> None:
    with pytest.raises(ValidationError, match="its prices are not read"):
        AwsConfig(bulk_regions=(region,))
    with pytest.raises(ValidationError, match="its prices are not read"):
        AwsConfig(savings_plan_regions=(region,))


# The lines of the bulk list that are kept


def test_kept_lines_give_what_the_whole_file_gives() -> None:
    rows: list[dict[str, str]] = [
        {}, {"Instance Type": "m7i.large"}, {"Tenancy": "Host"}, {"TermType": "Reserved"},
        {"Operating System": "Windows"}, {"Instance Type": "gr6.8xlarge", "PricePerUnit": "2"},
        {"Instance Type": "g4dn.metal", "Product Family": "Compute Instance (bare metal)"},
        {"Instance Type": "p5e.48xlarge", "MarketOption": "CapacityBlock", "PricePerUnit": "0"},
        {"Instance Type": "p9x-b9.9xlarge"}, {"Instance Type": "c7g.large"},
    ]  # fmt: skip
    body = bulk_csv(*rows)
    kept = b"".join(line for line in body.splitlines(keepends=True) if keep_line(line))
    assert b"m7i" not in kept
    assert b"Windows" not in kept
    assert b"Reserved" not in kept
    whole, thin = (parse([Payload("", text, NOW)]) for text in (body, kept))
    assert whole.offers == thin.offers
    assert {"capacity block", "instance type without GPU facts"} <= {
        reject.reason for reject in thin.rejected
    }


def test_a_row_of_an_unknown_gpu_family_is_kept_by_its_instance_family() -> None:
    line = b'"S","OnDemand","Shared","Linux","h1x.large","GPU instance"\n'
    assert keep_line(line)
    assert not keep_line(line.replace(b"GPU instance", b"Storage optimized"))
