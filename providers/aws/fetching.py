"""Which requests a poll of AWS makes. Nothing here looks at a price.

A request that fails becomes a payload with its HTTP status (0 when there was no answer at all)
and an empty body: the poll goes on, and the parser says what is missing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import UTC, datetime
from typing import Any

from providers.aws import bulk, smallfeed
from providers.aws.config import AwsConfig
from providers.aws.regions import LOCATIONS, RegionCode, twin_location
from tracker.provider import FetchError, HttpClient, ParseError, Payload, load_json

BULK_PATH = "/offers/v1.0/aws/AmazonEC2/current"
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
            self.errors.append(error)
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
    if config.spot:
        groups.append(_single(requests, config.spot_url.rstrip("/") + SPOT_PATH))
        if config.advisor:
            groups.append(_single(requests, config.advisor_url.rstrip("/") + ADVISOR_PATH))
    payloads = [payload for group in await asyncio.gather(*groups) for payload in group]
    if requests.errors and not any(is_answer(payload) for payload in payloads):
        raise requests.errors[0]
    return payloads


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


async def _bulk(requests: Requests, config: AwsConfig) -> list[Payload]:
    """The index of regions, then one CSV for each region, only its lines that can matter."""
    base = config.bulk_url.rstrip("/")
    index = await requests.get(f"{base}{BULK_PATH}/region_index.json")
    paths = _csv_paths(index)

    async def region_file(region: str) -> Payload:
        url = base + paths.get(region, f"{BULK_PATH}/{region}/index.csv")
        request = requests.http.stream_lines(url, bulk.keep_line, cache_variant="gpu 1")
        return await requests.settle(url, asyncio.wait_for(request, config.bulk_timeout_seconds))

    return [index, *await asyncio.gather(*map(region_file, config.bulk_regions))]


def _csv_paths(index: Payload) -> dict[str, str]:
    """Path of the CSV of each region's current version; empty when the index is of no use.

    The versioned path keeps a poll to one version of the list. Without it the short path of the
    region's current file does.
    """
    try:
        data: Any = load_json(index) if is_answer(index) else {}
    except ParseError:
        return {}
    regions = data.get("regions") if isinstance(data, dict) else None
    paths = {}
    for region, entry in regions.items() if isinstance(regions, dict) else ():
        path = entry.get("currentVersionUrl") if isinstance(entry, dict) else None
        if isinstance(path, str) and path.startswith("/offers/") and path.endswith("/index.json"):
            paths[region] = path.removesuffix("json") + "csv"
    return paths
