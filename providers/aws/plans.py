"""The documented price lists of savings plans, one CSV per region.

https://docs.aws.amazon.com/awsaccountbilling/latest/aboutv2/sp-offer-file.html: a preamble of five
lines, a header, and one row for each plan and each thing that it discounts: every operating system
and tenancy, unused reservations, other services. ``DiscountedRate`` is what an hour then costs,
whatever of it is paid upfront: the plan is bought as an amount an hour for 1 or 3 years.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from typing import Final, Literal

from providers.aws.instances import may_have_gpu
from providers.aws.regions import apart
from providers.aws.rows import Plan, PricedRow, Reading, Source, settle, too_old
from providers.aws.truncation import ends_early
from tracker.provider import ParseError, Payload

# Header cells that a price cannot be told without.
REQUIRED = (
    "SKU", "Unit", "DiscountedRate", "Currency", "DiscountedServiceCode", "DiscountedUsageType",
    "DiscountedOperation", "PurchaseOption", "LeaseContractLength", "LeaseContractLengthUnit",
    "Product Family", "DiscountedRegionCode", "DiscountedInstanceType",
)  # fmt: skip

_KINDS: Final[Mapping[str, Literal["compute", "ec2"]]] = {
    "ComputeSavingsPlans": "compute",
    "EC2InstanceSavingsPlans": "ec2",
}
_UPFRONT: Final[Mapping[str, Literal["no", "partial", "all"]]] = {
    "No Upfront": "no",
    "Partial Upfront": "partial",
    "All Upfront": "all",
}
_YEARS: Final[Mapping[tuple[str, str], Literal[1, 3]]] = {("1", "year"): 1, ("3", "year"): 3}

_KEPT_PREAMBLE = (b"FormatVersion,", b"Publication Date,", b"Version,", b"OfferCode,", b"SKU,")
# BoxUsage is an hour of a shared machine, with the region before it but in us-east-1:
# APN1-BoxUsage:g5.xlarge. DedicatedUsage, HostBoxUsage, UnusedBox and others are something else.
_BOX = re.compile(r"(?:[A-Z0-9]+-)*BoxUsage:(.+)")
_GPU_BOX_CELL = re.compile(rb"[,-]BoxUsage:(?:p|gr?)\d[a-z0-9-]*\.[a-z0-9-]+,")
# One row in 1,024, whatever it is of, to see how far the list goes (truncation.py).
_SAMPLED = re.compile(rb"[A-Z0-9]{10,20},[A-Z0-9]{10,20}\.[A-Z0-9]{8,18}ZZ,")

Row = Mapping[str, str]


def keep_line(line: bytes) -> bool:
    """Whether a raw line can matter: header, a shared Linux GPU machine, or one of a sample.

    Keeps no state, so that a download may start again.
    """
    if line.startswith(_KEPT_PREAMBLE) or _SAMPLED.match(line):
        return True
    return (
        b",AmazonEC2," in line
        and b",RunInstances," in line
        and _GPU_BOX_CELL.search(line) is not None
    )


def read(payload: Payload) -> Reading:
    """Rows of a region's list. Raises ParseError when the header lacks a needed column."""
    lines = payload.text().lstrip("\ufeff").splitlines()
    start, header = _header(lines)
    reading = Reading()
    skus = []
    last = max((n for n, line in enumerate(lines) if line.strip()), default=0)
    for number in range(start, last + 1):
        line = lines[number]
        if not line:
            continue
        cells = _cells(line)
        if len(cells) != len(header):
            if number == last:
                reading.problem = "savings plan list ends inside a row"
            reading.reject("row does not match the header", line)
            continue
        row = dict(zip(header, cells, strict=True))
        skus.append(row["SKU"])
        _take(row, reading, payload.url)
    if reading.problem is None and ends_early(skus):
        reading.problem = f"savings plan list is cut off (its SKUs end at {skus[-1]})"
    if not skus:
        reading.problem = "savings plan list without a single row"
    dates = (line for line in lines[:start] if line.startswith("Publication Date,"))
    if old := too_old(next(dates, "").partition(",")[2], payload):
        reading.problem = f"savings plan list: {old}"
        reading.rows.clear()
    settle(reading, repeats_allowed=True)
    return reading


def _header(lines: list[str]) -> tuple[int, list[str]]:
    """The number of the line after the header, and the header's cells."""
    for number, line in enumerate(lines):
        if line.startswith(("SKU,", '"SKU",')):
            header = _cells(line)
            for name in REQUIRED:
                if name not in header:
                    raise ParseError(f"header.{name}", "no such column in the savings plan list")
            return number + 1, header
    raise ParseError("header", "the savings plan list has no line that starts with SKU")


def _cells(line: str) -> list[str]:
    try:
        return next(csv.reader([line], strict=True), [])
    except csv.Error:
        return []


def _take(row: Row, reading: Reading, url: str) -> None:
    """Put *row* among the priced rows, or reject it with its reason."""
    name, region = row["DiscountedInstanceType"], row["DiscountedRegionCode"]
    if row["DiscountedServiceCode"] != "AmazonEC2" or not may_have_gpu(name):
        return  # hundreds of thousands of rows about functions, containers and other machines
    sample = name, region, row["DiscountedUsageType"], row["DiscountedRate"]
    box = _BOX.fullmatch(row["DiscountedUsageType"])
    kind, upfront = _KINDS.get(row["Product Family"]), _UPFRONT.get(row["PurchaseOption"])
    years = _YEARS.get((row["LeaseContractLength"], row["LeaseContractLengthUnit"]))
    if box is None:
        reading.reject("not an hour of a shared machine", *sample)
    elif box[1] != name:
        reading.reject("two instance types in one row", *sample)
    elif row["DiscountedOperation"] != "RunInstances":
        reading.reject("operation is not plain RunInstances", *sample, row["DiscountedOperation"])
    elif row["Unit"] != "Hrs":
        reading.reject("unit is not an hour", *sample, row["Unit"])
    elif why := apart(region):
        reading.reject(why, *sample)
    elif not region:
        reading.reject("no region code", *sample)
    elif row["Currency"] != "USD":
        reading.reject("currency is not USD", *sample, row["Currency"])
    elif kind is None or years is None or upfront is None:
        term = row["LeaseContractLength"], row["LeaseContractLengthUnit"]
        shown = row["Product Family"], row["PurchaseOption"], *term
        reading.reject("savings plan of an unknown kind", *sample[:2], *shown)
    else:
        price = reading.price(row["DiscountedRate"], *sample[:3])
        if price is not None:
            plan = Plan(kind, years, upfront)
            reading.rows.append(PricedRow(Source.PLAN, region, name, price, url, plan=plan))
