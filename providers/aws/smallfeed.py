"""The small on-demand feed behind AWS's EC2 pricing page: one JSON per region, Linux only.

Undocumented. ``regions.<location>.<label> = {"Instance Type", "price", ...}``, USD per hour of a
shared machine without software. The label is squashed text ("p5 48xlarge US East ..."), so the
row's own ``Instance Type`` is what counts.
"""

from __future__ import annotations

from urllib.parse import quote, unquote

from providers.aws.instances import may_have_gpu
from providers.aws.regions import code_of
from providers.aws.rows import PricedRow, Reading, Source, mapping, settle, too_old
from tracker.provider import ParseError, Payload, load_json

PATH = "/pricing/2.0/meteredUnitMaps/ec2/USD/current/ec2-ondemand-without-sec-sel"


def url_of(base: str, location: str) -> str:
    """Where the feed of a location is."""
    return f"{base.rstrip('/')}{PATH}/{quote(location, safe='()')}/Linux/index.json"


def location_of(url: str) -> str | None:
    """The location that a URL of the feed asks for."""
    _, found, rest = url.partition(PATH + "/")
    return unquote(rest.split("/")[0]) if found else None


def read(payload: Payload) -> Reading:
    """Rows of the feed. Raises ParseError on another shape or when no row has the known fields."""
    data = mapping(load_json(payload), "body")
    reading = Reading()
    total = 0
    for location, rows in mapping(data.get("regions"), "regions").items():
        rows = mapping(rows, f"regions.{location}")
        total += len(rows)
        for field in ("Instance Type", "price"):
            if rows and not any(isinstance(row, dict) and field in row for row in rows.values()):
                raise ParseError(f"regions.{location}.*.{field}", "missing in every row")
        region = code_of(location)
        if rows and region:
            reading.regions.add(region)
        for label, row in rows.items():
            _take(label, row, location, region, reading, payload.url)
    if not total:
        reading.problem = "small feed without a single row"
    manifest = data.get("manifest")
    published = manifest.get("hawkFilePublicationDate") if isinstance(manifest, dict) else None
    if old := too_old(published, payload):
        reading.problem = f"small feed of {location_of(payload.url) or 'a region'}: {old}"
        reading.rows.clear()
        reading.regions.clear()
    settle(reading, repeats_allowed=True)
    return reading


def _take(
    label: str, row: object, location: str, region: str | None, reading: Reading, url: str
) -> None:
    name = row.get("Instance Type") if isinstance(row, dict) else None
    if not isinstance(row, dict) or not isinstance(name, str):
        reading.reject("row without Instance Type", label, location)
        return
    if not may_have_gpu(name):
        return
    system = row.get("Operating System", "Linux")
    if system != "Linux":
        reading.reject("operating system is not plain Linux", name, location, system)
    elif region is None:
        reading.reject("location without a known region code", name, location)
    else:
        price = reading.price(row.get("price"), name, location)
        if price is not None:
            reading.rows.append(PricedRow(Source.SMALL, region, name, price, url))
