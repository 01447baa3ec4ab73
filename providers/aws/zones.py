"""Spot prices by availability zone: answers of EC2's DescribeSpotPriceHistory.

https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_DescribeSpotPriceHistory.html. Asked as
of now, it gives for each zone and type the price that is in force and since when. Zones have names
that differ between accounts (one's us-east-1a is another's us-east-1c) and ids that do not
(use1-az1): the id is the zone here, where the answer has it.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import Any

from providers.aws.instances import may_have_gpu
from providers.aws.regions import apart, region_of_zone
from providers.aws.rows import PricedRow, Reading, Source, listing, mapping, settle
from tracker.provider import ParseError, Payload, load_json

ACTION = "DescribeSpotPriceHistory"
SYSTEM = "Linux/UNIX"

_URL = re.compile(r"https://ec2\.(?P<region>[a-z0-9-]+)\.amazonaws\.com/\?Action=" + ACTION)
_ZONE_ID = re.compile(r"[a-z][a-z0-9]*-(?:[a-z0-9]+-)*az\d+|[a-z][a-z0-9]*-wl\d+-[a-z0-9-]+")
_CLOCKS = timedelta(hours=1)  # by how much ours may be behind

Dated = tuple[datetime | None, PricedRow]


def url_of(region: str) -> str:
    """What stands for the request in a payload; the request itself is made by boto3."""
    return f"https://ec2.{region}.amazonaws.com/?Action={ACTION}"


def asked_region(url: str) -> str | None:
    """The region that a payload's URL stands for; None for other URLs."""
    found = _URL.fullmatch(url)
    return found["region"] if found else None


def error_code(payload: Payload) -> str:
    """The code of AWS's error that a payload of a failed request holds ("AuthFailure")."""
    try:
        code = json.loads(payload.body)["Error"]["Code"]
    except (ValueError, KeyError, TypeError):
        return "no answer"
    return str(code)[:60]


def read(payload: Payload) -> Reading:
    """Linux spot prices by zone. Raises ParseError on another shape."""
    data = mapping(load_json(payload), "body")
    rows = listing(data.get("SpotPriceHistory"), "SpotPriceHistory")
    for field in ("InstanceType", "SpotPrice"):
        if rows and not any(isinstance(row, dict) and field in row for row in rows):
            raise ParseError(f"SpotPriceHistory[].{field}", "missing in every row")
    reading = Reading()
    asked = asked_region(payload.url)
    if asked:
        reading.zoned.add(asked)
    by_key: dict[Any, list[Dated]] = defaultdict(list)
    for row in rows:
        dated = _priced(row, asked, reading, payload)
        if dated is not None:
            by_key[dated[1].key].append(dated)
    for several in by_key.values():
        _take_newest(several, reading)
    reading.zoned |= {row.region for row in reading.rows}
    if data.get("NextToken"):
        reading.problem = f"spot prices of {asked or 'a region'} go on beyond what was read"
    settle(reading, repeats_allowed=False)
    return reading


def _priced(row: object, asked: str | None, reading: Reading, payload: Payload) -> Dated | None:
    """A row of the answer with the moment its price began; None, and rejected, where it is none."""
    name = row.get("InstanceType") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(name, str):
        reading.reject("row without InstanceType", str(row)[:80])
        return None
    if not may_have_gpu(name):
        return None
    zone_name, zone = _text(row, "AvailabilityZone"), _text(row, "AvailabilityZoneId")
    sample = name, zone_name or zone or asked, row.get("SpotPrice")
    region = region_of_zone(zone_name) if zone_name else asked
    since, problem = _since(row.get("Timestamp"))
    if row.get("ProductDescription") != SYSTEM:
        reading.reject("operating system is not plain Linux", *sample)
    elif region is None or not (zone_name or zone):
        reading.reject("no availability zone", *sample)
    elif asked and not region.startswith(asked):
        reading.reject("zone of another region than was asked for", *sample, asked)
    elif why := apart(region):
        reading.reject(why, *sample)
    elif problem:
        reading.reject("unreadable date", *sample, str(row.get("Timestamp"))[:40])
    elif since is not None and since > payload.fetched_at + _CLOCKS:
        reading.reject("not yet in force", *sample, since)
    elif (price := reading.price(row.get("SpotPrice"), *sample[:2])) is not None:
        zone_id = zone if zone and _ZONE_ID.fullmatch(zone) else None
        priced = PricedRow(
            Source.ZONE, region, name, price, payload.url,
            zone=zone_id or zone_name or zone, zone_name=zone_name or zone,
        )  # fmt: skip
        return since, priced
    return None


def _take_newest(several: list[Dated], reading: Reading) -> None:
    """Of one zone's and type's prices that of the latest date; all, where one has no date."""
    dates = [since for since, _ in several if since is not None]
    newest = max(dates) if len(dates) == len(several) else None
    current = {row.usd_per_hour: row for since, row in several if newest is None or since == newest}
    reading.rows += current.values()  # where that is more than one, settle() takes none


def _since(value: Any) -> tuple[datetime | None, bool]:
    """A moment in UTC, None where none is given; and whether what is given cannot be read."""
    if value is None:
        return None, False
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None, True
    return moment.replace(tzinfo=moment.tzinfo or UTC), False


def _text(row: dict[str, Any], name: str) -> str | None:
    value = row.get(name)
    return value if isinstance(value, str) and value else None
