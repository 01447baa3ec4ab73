"""Answers of AWS's price files for the tests: invented prices in the documented shapes."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from providers.aws.zones import url_of
from tests.support.fixtures import FIXTURES
from tracker.provider import ListedOffer, Parsed, Payload, payload_from_dict

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
SPOT_URL = "https://website.spot.ec2.aws.a2z.com/spot.json"


def payload(body: Any, url: str = "", status: int = 200) -> Payload:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return Payload(url, raw, NOW, status=status)


def fixture(case: str) -> list[Payload]:
    data = json.loads((FIXTURES / "aws" / case / "recording.json").read_text())
    return [payload_from_dict(entry) for entry in data["payloads"]]


def small(*rows: dict[str, Any], location: str = "US East (N. Virginia)") -> dict[str, Any]:
    return {
        "manifest": {"hawkFilePublicationDate": "2026-11-18T20:11:40Z"},
        "regions": {location: {f"label {n}": row for n, row in enumerate(rows)}},
    }


def machine(name: str, price: Any, **more: Any) -> dict[str, Any]:
    return {"Instance Type": name, "Operating System": "Linux", "price": price, **more}


def spot(sizes: list[tuple[str, Any]], region: str = "us-east-1") -> dict[str, Any]:
    entries = [
        {"size": size, "valueColumns": [{"name": "linux", "prices": {"USD": price}}]}
        for size, price in sizes
    ]
    groups = [{"type": "gpuCurrentGen", "sizes": entries}]
    regions = [{"region": region, "instanceTypes": groups}]
    return {"config": {"rate": "perhr", "regions": regions}}


def zone_row(
    name: str, zone: str | None, zone_id: str | None, price: Any, since: datetime | None = NOW
) -> dict[str, Any]:
    """A row of DescribeSpotPriceHistory; what is None is left out."""
    row = {"AvailabilityZone": zone, "AvailabilityZoneId": zone_id, "InstanceType": name,
           "ProductDescription": "Linux/UNIX", "SpotPrice": price,
           "Timestamp": since and since.isoformat()}  # fmt: skip
    return {key: value for key, value in row.items() if value is not None}


def zones(region: str, *rows: dict[str, Any], token: str = "") -> Payload:
    return payload({"SpotPriceHistory": list(rows), "NextToken": token}, url_of(region))


def failed_zones(region: str, code: str, status: int = 401) -> Payload:
    return payload({"Error": {"Code": code}}, url_of(region), status)


def advisor(**ranks: int) -> dict[str, Any]:
    labels = [("<5%", 5), ("5-10%", 11), ("10-15%", 16), ("15-20%", 22), (">20%", 100)]
    ranges = [{"index": n, "label": text, "max": end} for n, (text, end) in enumerate(labels)]
    linux = {name.replace("_", "."): {"s": 50, "r": rank} for name, rank in ranks.items()}
    return {"ranges": ranges, "spot_advisor": {"us-east-1": {"Linux": linux}}}


def by_id(parsed: Parsed) -> dict[str, ListedOffer]:
    offers = {f"{o.region}/{o.source_id}/{o.market}": o for o in parsed.offers}
    assert len(offers) == len(parsed.offers), "ids are unique"
    return offers


def reasons(parsed: Parsed) -> Counter[str]:
    return Counter(reject.reason for reject in parsed.rejected)


def identity(offer: ListedOffer) -> tuple[Any, ...]:
    """All that takes part in Offer.key, but the GPU that is made of name, form and VRAM."""
    return (
        offer.source_id, offer.gpu_name, offer.gpu_count, offer.vram_gb, offer.form_factor,
        offer.slice, offer.market, offer.tier, offer.price_kind, offer.region, offer.country,
        offer.interconnect, offer.vcpus, offer.ram_gib, offer.dedicated, offer.datacenter,
        offer.upstream, offer.price.currency, offer.price.unit, offer.terms,
    )  # fmt: skip


def plans_csv(*rows: dict[str, str]) -> bytes:
    """A savings plan list: of a row's usage type only the part before the colon need be given."""
    plain = {"SKU": "PLAN", "RateCode": "PLAN.SKU", "Unit": "Hrs", "DiscountedRate": "40.5",
             "Currency": "USD", "DiscountedServiceCode": "AmazonEC2",
             "DiscountedUsageType": "BoxUsage", "DiscountedOperation": "RunInstances",
             "PurchaseOption": "No Upfront", "LeaseContractLength": "1",
             "LeaseContractLengthUnit": "year", "A column of tomorrow": "",
             "Product Family": "ComputeSavingsPlans", "DiscountedRegionCode": "us-east-1",
             "DiscountedInstanceType": "p5.48xlarge"}  # fmt: skip
    lines = ["FormatVersion,v1.0", ",".join(plain)]
    for row in rows:
        cells = plain | row
        if ":" not in cells["DiscountedUsageType"]:
            cells["DiscountedUsageType"] += f":{cells['DiscountedInstanceType']}"
        lines.append(",".join(cells.values()))
    return "".join(f"{line}\n" for line in lines).encode()


def bulk_csv(*rows: dict[str, str]) -> bytes:
    plain = {"TermType": "OnDemand", "Unit": "Hrs", "Currency": "USD", "Tenancy": "Shared",
             "Product Family": "Compute Instance", "Operating System": "Linux",
             "License Model": "No License required", "operation": "RunInstances",
             "CapacityStatus": "Used", "MarketOption": "OnDemand", "Pre Installed S/W": "NA",
             "Region Code": "us-east-1", "Instance Type": "p5.48xlarge",
             "usageType": "", "Location Type": "AWS Region", "StartingRange": "0",
             "PricePerUnit": "55.2"}  # fmt: skip
    out = io.StringIO()
    writer = csv.writer(out, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(["FormatVersion", "v1.0"])
    columns = ["SKU", *sorted(plain, reverse=True), "A column of tomorrow"]
    writer.writerow(columns)
    for row in rows:
        writer.writerow([(plain | row).get(column, "") for column in columns])
    return out.getvalue().encode()
