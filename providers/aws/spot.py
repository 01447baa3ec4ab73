"""AWS's keyless spot sources: spot.json (prices) and the Spot Advisor file (interruption).

Both are undocumented files behind AWS's own pages. spot.json has one Linux price for a region and
size, no zones; sizes may be listed twice, prices may be "N/A*" or in scientific notation.
"""

from __future__ import annotations

import re
from typing import Any

from providers.aws.instances import may_have_gpu
from providers.aws.regions import apart
from providers.aws.rows import PricedRow, Reading, Source, listing, mapping, settle
from tracker.provider import ParseError, Payload, load_json

_SIZES = "config.regions[].instanceTypes[].sizes"
_NO_PRICE = "no Linux price in USD"
_MAX_LABEL = 40  # characters of "5-10%": a search in a row of digits takes their square
_LABEL = re.compile(r"(?:<|\d+\s*-\s*)(\d+)\s*%")


def read(payload: Payload) -> Reading:
    """Linux spot prices of spot.json. Raises ParseError on another shape or price unit.

    A copy of this feed that stopped in May 2024 is still served under other names. When the
    payload comes from a poll (it has a URL), a list with neither p5.4xlarge nor any p6 is taken
    for frozen: no price of it is used. A file parsed by hand is not held to that.
    """
    config = mapping(mapping(load_json(payload), "body").get("config"), "config")
    if config.get("rate") != "perhr":
        raise ParseError("config.rate", f"{config.get('rate')!r} instead of 'perhr'")
    regions = listing(config.get("regions"), "config.regions")
    reading = Reading()
    names: set[str] = set()
    for entry in regions:
        region = entry.get("region") if isinstance(entry, dict) else None
        if not isinstance(region, str) or not region:
            _unread(reading, "region entry without a name", str(entry)[:80])
            continue
        for size in _sizes(entry, region, reading):
            names.add(size["size"])
            _take(size, region, reading, payload.url)
    if regions and not names:
        raise ParseError(f"{_SIZES}[].size", "missing in every region")
    no_price = [reject for reject in reading.rejected if reject.reason == _NO_PRICE]
    if no_price and len(no_price) == len(reading.rejected) and not reading.rows:
        raise ParseError(f"{_SIZES}[].valueColumns[].prices.USD", "missing for every GPU machine")
    if not regions:
        reading.problem = "spot.json without a single region"
    elif payload.url and not any(map(_is_recent, names)):
        reading.problem = "spot.json is frozen (it lists neither p5.4xlarge nor a p6): not used"
        reading.rows.clear()
    settle(reading, repeats_allowed=True)
    return reading


def interruption_percent(payload: Payload) -> dict[tuple[str, str], int]:
    """Upper end in % of the interruption class of Linux spot, by (region, instance type).

    The end is the one in the class's label ("5-10%" is 10); for the open class ">20%" it is the
    file's own ``max``, 100. Raises ParseError on another shape.
    """
    data = mapping(load_json(payload), "body")
    upper: dict[int, int] = {}
    for entry in listing(data.get("ranges"), "ranges"):
        index, label, end = (mapping(entry, "ranges[]").get(k) for k in ("index", "label", "max"))
        match = _LABEL.search(label[:_MAX_LABEL]) if isinstance(label, str) else None
        percent = int(match[1]) if match else end
        if not isinstance(index, int) or not isinstance(percent, int) or not 0 < percent <= 100:
            raise ParseError("ranges[]", f"no upper end in {str(entry)[:80]}")
        upper[index] = percent
    found: dict[tuple[str, str], int] = {}
    for region, systems in mapping(data.get("spot_advisor"), "spot_advisor").items():
        linux = mapping(systems, f"spot_advisor.{region}").get("Linux", {})
        for name, entry in mapping(linux, f"spot_advisor.{region}.Linux").items():
            index = entry.get("r") if isinstance(entry, dict) else None
            if isinstance(index, int) and index in upper:
                found[region, name] = upper[index]
    return found


def _sizes(entry: dict[str, Any], region: str, reading: Reading) -> list[dict[str, Any]]:
    """All size entries of a region that have a name."""
    found = []
    groups = entry.get("instanceTypes")
    for group in groups if isinstance(groups, list) else [None]:
        sizes = group.get("sizes") if isinstance(group, dict) else None
        if not isinstance(sizes, list):
            _unread(reading, "region entry without sizes", region)
            continue
        for size in sizes:
            if isinstance(size, dict) and isinstance(size.get("size"), str):
                found.append(size)
            else:
                reading.reject("size without a name", region, str(size)[:80])
    return found


def _unread(reading: Reading, reason: str, sample: str) -> None:
    """Reject a whole region entry: what it should have listed is then missing."""
    reading.reject(reason, sample)
    reading.problem = "spot.json has regions that cannot be read"


def _take(size: dict[str, Any], region: str, reading: Reading, url: str) -> None:
    name = size["size"]
    if not may_have_gpu(name):
        return
    columns = size.get("valueColumns")
    linux = [
        column
        for column in (columns if isinstance(columns, list) else ())
        if isinstance(column, dict) and column.get("name") == "linux"
    ]
    prices = linux[0].get("prices") if len(linux) == 1 else None
    if why := apart(region):
        reading.reject(why, name, region)
    elif not isinstance(prices, dict) or "USD" not in prices:
        reading.reject(_NO_PRICE, name, region)
    else:
        price = reading.price(prices["USD"], name, region)
        if price is not None:
            reading.rows.append(PricedRow(Source.SPOT, region, name, price, url))


def _is_recent(name: str) -> bool:
    return name == "p5.4xlarge" or name.startswith("p6-")
