"""Which requests a poll of AWS makes. Nothing here looks at a price.

A request that fails becomes a payload with its HTTP status (0 when there was no answer at all)
and an empty body: the poll goes on, and the parser says what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from providers.aws import account, bulk, plans, smallfeed, zones
from providers.aws.config import AwsConfig
from providers.aws.regions import LOCATIONS, RegionCode, twin_location
from tracker.provider import FetchError, HttpClient, ParseError, Payload, load_json

BULK_PATH = "/offers/v1.0/aws/AmazonEC2/current"
PLANS_PATH = "/savingsPlan/v1.0/aws/AWSComputeSavingsPlan/current"
SPOT_PATH = "/spot.json"
ADVISOR_PATH = "/spot-advisor-data.json"


class Requests:
    """The requests of one poll: failures are kept here and answered with an empty payload."""

    def __init__(self, http: HttpClient) -> None:
        self.http = http
        self.errors: list[FetchError] = []

    async def get(self, url: str) -> Payload:
        """GET a JSON document."""
        return await self.settle(url, self.http.get(url))

    async def settle(self, url: str, request: Awaitable[Payload]) -> Payload:
        """The answer to *request*, or the payload that stands for its failure."""
        try:
            return await request
        except FetchError as error:
            # Without its frames, which hold this list.
            self.errors.append(error.with_traceback(None))
            status = error.status or 0
        except TimeoutError:
            self.errors.append(FetchError(f"{url}: not finished within bulk_timeout_seconds"))
            status = 0
        return Payload(url=url, body=b"", fetched_at=datetime.now(UTC), status=status)


async def fetch(http: HttpClient, config: AwsConfig) -> Sequence[Payload]:
    """All payloads of a poll, on-demand and spot side by side.

    Raises FetchError (the first one met) when not a single request was answered.
    """
    requests = Requests(http)
    groups = [_on_demand(requests, config)]
    if config.savings_plan_regions:
        groups.append(_plans(requests, config))
    if config.spot:
        if config.spot_source != "account":
            groups.append(_single(requests, config.spot_url.rstrip("/") + SPOT_PATH))
        if asks_account(config):
            groups.append(_by_zone(config))
        if config.advisor:
            groups.append(_single(requests, config.advisor_url.rstrip("/") + ADVISOR_PATH))
    payloads = [payload for group in await asyncio.gather(*groups) for payload in group]
    if requests.errors and not any(is_answer(payload) for payload in payloads):
        raise requests.errors[0]
    return payloads


def asks_account(config: AwsConfig) -> bool:
    """Whether a poll asks EC2 for spot prices by zone. Asks nobody by itself."""
    if not config.spot or config.spot_source == "page":
        return False
    return config.spot_source == "account" or (account.installed() and account.credentials_likely())


def is_answer(payload: Payload) -> bool:
    """Whether a payload is an answer and does not stand for a failed request."""
    return 200 <= payload.status < 300


async def _single(requests: Requests, url: str) -> list[Payload]:
    return [await requests.get(url)]


async def _on_demand(requests: Requests, config: AwsConfig) -> list[Payload]:
    """The small feed of every region; the bulk list if asked for, or if no region answered."""
    if config.on_demand_source == "bulk":
        return await _bulk(requests, config)
    payloads = list(
        await asyncio.gather(
            *(_small(requests, config.small_feed_url, region) for region in config.regions)
        )
    )
    if payloads and config.bulk_regions and not any(is_answer(payload) for payload in payloads):
        payloads += await _bulk(requests, config)
    return payloads


async def _small(requests: Requests, base: str, region: RegionCode) -> Payload:
    """One region of the small feed, under its other European name where the first is unknown."""
    location = LOCATIONS[region]
    payload = await requests.get(smallfeed.url_of(base, location))
    twin = twin_location(location)
    if twin and payload.status in (403, 404):
        second = await requests.get(smallfeed.url_of(base, twin))
        return second if is_answer(second) else payload
    return payload


async def _by_zone(config: AwsConfig) -> list[Payload]:
    payloads = await account.spot_by_zone(config.regions)
    if config.spot_source == "auto" and any(
        zones.error_code(payload) == account.NO_CREDENTIALS for payload in payloads
    ):
        return []  # a file of boto3's without a key in it: then there is spot.json
    return payloads


async def _bulk(requests: Requests, config: AwsConfig) -> list[Payload]:
    """The index of regions, then one CSV for each region, only its lines that can matter."""
    return await _listed(requests, config, BULK_PATH, config.bulk_regions, bulk.keep_line, "gpu 2")


async def _plans(requests: Requests, config: AwsConfig) -> list[Payload]:
    """The same of the savings plans."""
    return await _listed(
        requests, config, PLANS_PATH, config.savings_plan_regions, plans.keep_line, "plans 1"
    )


async def _listed(
    requests: Requests,
    config: AwsConfig,
    path: str,
    regions: Sequence[str],
    keep: Callable[[bytes], bool],
    variant: str,
) -> list[Payload]:
    base = config.bulk_url.rstrip("/")
    index = await requests.get(f"{base}{path}/region_index.json")
    paths = _csv_paths(index)

    async def region_file(region: str) -> Payload:
        url = base + paths.get(region, f"{path}/{region}/index.csv")
        request = requests.http.stream_lines(url, keep, cache_variant=variant)
        return await requests.settle(url, asyncio.wait_for(request, config.bulk_timeout_seconds))

    return [index, *await asyncio.gather(*map(region_file, regions))]


def _csv_paths(index: Payload) -> dict[str, str]:
    """Path of the CSV of each region's current version; empty when the index is of no use.

    The versioned path keeps a poll to one version of the list. Without it the short path of the
    region's current file does. The EC2 list has its regions by code, that of the plans in a list.
    """
    try:
        data: Any = load_json(index) if is_answer(index) else {}
    except ParseError:
        return {}
    regions = data.get("regions") if isinstance(data, dict) else None
    entries: Any = regions
    if isinstance(regions, dict):  # what an entry does not say of its region, its key does
        entries = [
            {"regionCode": code, **entry} if isinstance(entry, dict) else entry
            for code, entry in regions.items()
        ]
    paths = {}
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict) or not isinstance(entry.get("regionCode"), str):
            continue
        path = entry.get("currentVersionUrl") or entry.get("versionUrl")
        if (
            isinstance(path, str)
            and path.startswith(("/offers/", "/savingsPlan/"))
            and path.endswith("/index.json")
        ):
            paths[entry["regionCode"]] = path.removesuffix("json") + "csv"
    return paths
