"""The documented EC2 price list ("bulk list"), one file per region, as CSV or JSON.

Nearly all of its rows are something else than an hour of a shared Linux machine: host tenancy,
reservations, other systems and software, reserved terms, Capacity Blocks (listed at 0, or at the
fee of the operating system alone). One filter serves both formats and says why a row is out.

Terms of reserved instances are among what is left out: the savings plans say the same prices
(docs/adr/0027-savings-plans-and-reserved-instances.md).
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from providers.aws.instances import may_have_gpu
from providers.aws.regions import apart
from providers.aws.rows import PricedRow, Reading, Source, mapping, settle, too_old
from providers.aws.truncation import ends_early
from tracker.provider import ParseError, Payload, load_json

# Header cells that a price cannot be told without. The set of columns differs between files.
REQUIRED = (
    "TermType", "Unit", "PricePerUnit", "Currency", "Product Family", "Instance Type", "Tenancy",
    "Operating System", "License Model", "operation", "CapacityStatus", "MarketOption",
    "Pre Installed S/W", "Region Code",
)  # fmt: skip

# Column of the CSV -> attribute of a product in the JSON.
_ATTRIBUTES = {
    "Instance Type": "instanceType",
    "Tenancy": "tenancy",
    "Operating System": "operatingSystem",
    "License Model": "licenseModel",
    "operation": "operation",
    "CapacityStatus": "capacitystatus",
    "MarketOption": "marketoption",
    "Pre Installed S/W": "preInstalledSw",
    "Region Code": "regionCode",
    "GPU": "gpu",
    "usageType": "usagetype",
    "Location Type": "locationType",
}

_FAMILY = "Compute Instance"  # or "Compute Instance (bare metal)"
_KEPT_PREAMBLE = (b'"FormatVersion"', b'"Publication Date"', b'"Version"', b'"OfferCode"', b'"SKU"')
_GPU_TYPE_CELL = re.compile(rb'"(?:p|gr?)\d[a-z0-9-]*\.[a-z0-9-]+"')
# One SKU in 128, whatever it is of, to see how far the list goes (truncation.py).
_SAMPLED = re.compile(rb'"[A-Z0-9]{10,18}[2-9]Z",')
# An hour of a machine, with its region before it but in us-east-1: USE2-BoxUsage:p5.48xlarge.
# UnusedBox, HostBoxUsage, DedicatedUsage, Reservation and others are something else.
_BOX = re.compile(r"(?:[A-Z0-9]+-)*BoxUsage:(.+)")

Row = Mapping[str, str]


def keep_line(line: bytes) -> bool:
    """Whether a raw line of a region's CSV can matter: header, shared Linux GPU machine, sample.

    Well under 1 % of the lines pass, which is what makes a file of some 300 MB bearable. Only
    quoted cells are looked for; what a line means is for the parser. It keeps no state, so that
    a download may start again.
    """
    if line.startswith(_KEPT_PREAMBLE):
        return True
    if b'"OnDemand"' not in line or b'"Reserved"' in line:
        return False
    return _SAMPLED.match(line) is not None or (
        b'"Shared"' in line
        and b'"Linux"' in line
        and (b'"GPU instance"' in line or _GPU_TYPE_CELL.search(line) is not None)
    )


def read_csv(payload: Payload) -> Reading:
    """Rows of a region's CSV. Raises ParseError when the header lacks a needed column."""
    lines = payload.text().lstrip("\ufeff").split("\n")
    header, start = _header(lines)
    reading = Reading()
    skus = []
    last = max((n for n, line in enumerate(lines) if line.strip()), default=0)
    for number in range(start, last + 1):
        line = lines[number].rstrip("\r")
        if not line:
            continue
        # One line, one row: no cell of this file holds a line break, so that a broken row
        # cannot swallow the ones after it.
        cells = _cells(line)
        if cells is None or len(cells) != len(header):
            if number == last:
                reading.problem = "bulk list ends inside a row"
            reading.reject("row does not match the header", line)
            continue
        row = dict(zip(header, cells, strict=True))
        skus.append(row["SKU"])
        _take(row, reading, payload.url)
    if reading.problem is None and ends_early(skus):
        reading.problem = f"bulk list is cut off (its SKUs end at {skus[-1]})"
    dates = (line for line in lines[:start] if line.startswith('"Publication Date",'))
    published = next(dates, "").partition(",")[2].strip(' "\r')
    return _checked(reading, published, payload)


def read_json(payload: Payload) -> Reading:
    """Rows of a region's JSON. Raises ParseError when ``products`` or ``terms`` is not there."""
    data = mapping(load_json(payload), "body")
    products = mapping(data.get("products"), "products")
    terms = mapping(mapping(data.get("terms"), "terms").get("OnDemand"), "terms.OnDemand")
    reading = Reading()
    seen: set[str] = set()
    for sku, product in products.items():
        attributes = product.get("attributes") if isinstance(product, dict) else None
        if not isinstance(attributes, dict):
            reading.reject("product without attributes", sku)
            continue
        seen |= attributes.keys()
        row = {column: str(attributes.get(key) or "") for column, key in _ATTRIBUTES.items()}
        row["Product Family"] = str(product.get("productFamily") or "")
        for price in _json_prices(terms.get(sku)):
            _take({**row, **price}, reading, payload.url)
    for column, key in _ATTRIBUTES.items():
        if products and column in REQUIRED and key not in seen:
            raise ParseError(f"products.*.attributes.{key}", "missing in every product")
    return _checked(reading, data.get("publicationDate"), payload)


def _checked(reading: Reading, published: Any, payload: Payload) -> Reading:
    if old := too_old(published, payload):
        reading.problem = f"bulk list: {old}"
        reading.rows.clear()
        reading.regions.clear()
    settle(reading, repeats_allowed=False)
    if not reading.regions and reading.problem is None:
        reading.problem = "bulk list without a single machine"
    return reading


def _header(lines: list[str]) -> tuple[list[str], int]:
    """The header's cells and the number of the line after it; the preamble's length varies."""
    for number, line in enumerate(lines):
        if line.startswith('"SKU"'):
            header = _cells(line.rstrip("\r")) or []
            for name in REQUIRED:
                if name not in header:
                    raise ParseError(f"header.{name}", "no such column in the bulk list")
            return header, number + 1
    raise ParseError("header", "the bulk list has no line that starts with SKU")


def _cells(line: str) -> list[str] | None:
    try:
        return next(csv.reader([line], strict=True), None)
    except csv.Error:
        return None


def _json_prices(sku_terms: Any) -> Iterator[Row]:
    """The price columns for each on-demand price of a product; one without a price if none."""
    found = False
    for term in sku_terms.values() if isinstance(sku_terms, dict) else ():
        dimensions = term.get("priceDimensions") if isinstance(term, dict) else None
        for dimension in dimensions.values() if isinstance(dimensions, dict) else ():
            prices = dimension.get("pricePerUnit") if isinstance(dimension, dict) else None
            if not isinstance(prices, dict):
                continue
            for currency, amount in prices.items():
                found = True
                yield {
                    "TermType": "OnDemand",
                    "Unit": str(dimension.get("unit") or ""),
                    "StartingRange": str(dimension.get("beginRange") or ""),
                    "Currency": currency,
                    "PricePerUnit": str(amount),
                }
    if not found:
        yield {"TermType": "", "Unit": "", "Currency": "", "PricePerUnit": ""}


def _take(row: Row, reading: Reading, url: str) -> None:
    """Put *row* among the priced rows, or reject it with its reason."""
    region, name = row["Region Code"], row["Instance Type"]
    if region:
        reading.regions.add(region)
    if not may_have_gpu(name, row.get("GPU", "")):
        return  # thousands of rows about machines without a GPU, volumes and transfer
    sample = (name, region, row["Operating System"], row["PricePerUnit"])
    why = apart(region) or next((reason for reason, fails in _FILTER if fails(row)), None)
    if why:
        reading.reject(why, *sample)
        return
    price: Decimal | None = reading.price(row["PricePerUnit"], *sample[:3])
    if price is not None:
        reading.rows.append(PricedRow(Source.BULK, region, name, price, url))


def _is_not(column: str, *wanted: str) -> Callable[[Row], bool]:
    return lambda row: row[column] not in wanted


def _is(column: str, unwanted: str) -> Callable[[Row], bool]:
    return lambda row: row[column] == unwanted


def _is_box_usage(row: Row) -> bool:
    """Whether the row's usage, where it has that column, is an hour of its own instance type."""
    usage = row.get("usageType")
    box = _BOX.fullmatch(usage) if usage else None
    return not usage or (box is not None and box[1] == row["Instance Type"])


# All must hold for a row to be the hourly price of a machine; the first that fails is the reason.
_FILTER: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    ("not a compute instance", lambda row: not row["Product Family"].startswith(_FAMILY)),
    ("no region code", _is("Region Code", "")),
    ("reserved term", _is("TermType", "Reserved")),
    ("capacity block", _is("MarketOption", "CapacityBlock")),
    ("market option is not on-demand", _is_not("MarketOption", "OnDemand")),
    ("dedicated host", _is("Tenancy", "Host")),
    ("tenancy is not shared", _is_not("Tenancy", "Shared")),
    ("Windows", _is("Operating System", "Windows")),
    ("Red Hat Enterprise Linux", _is("Operating System", "RHEL")),
    ("operating system is not plain Linux", _is_not("Operating System", "Linux")),
    ("pre-installed software", _is_not("Pre Installed S/W", "", "NA")),
    ("capacity reservation", _is_not("CapacityStatus", "Used")),
    ("licence is not free", _is_not("License Model", "No License required")),
    ("operation is not plain RunInstances", _is_not("operation", "RunInstances")),
    ("not an hour of a shared machine", lambda row: not _is_box_usage(row)),
    ("on an Outpost of one's own", lambda row: row.get("Location Type") == "AWS Outposts"),
    ("no on-demand term", _is_not("TermType", "OnDemand")),
    ("unit is not an hour", _is_not("Unit", "Hrs")),
    ("price of a volume tier", lambda row: row.get("StartingRange", "") not in ("", "0")),
    ("currency is not USD", _is_not("Currency", "USD")),
)  # fmt: skip
