"""Price items as Google's catalogue has them, for tests of what is made of them."""

from __future__ import annotations

import json
from typing import Any

from providers.gcp import provider
from tests.providers.answering import payload
from tests.support.fixtures import FIXTURES
from tracker.provider import Market, Parsed

IOWA = ["us-central1"]
UNITS = {"CPU": "h", "RAM": "GiBy.h", "GPU": "h", "LocalSSD": "GiBy.mo"}


def sku(
    description: str, usd: str, group: str = "GPU", usage: str = "OnDemand",
    regions: list[str] = IOWA,
) -> dict[str, Any]:  # fmt: skip
    """A price item as the catalogue has it."""
    units, _, fraction = usd.partition(".")
    price = {"currencyCode": "USD", "units": units, "nanos": int(fraction.ljust(9, "0"))}
    return {
        "skuId": description,
        "description": description,
        "category": {"resourceGroup": group, "usageType": usage},
        "serviceRegions": regions,
        "pricingInfo": [{
            "pricingExpression": {
                "usageUnit": UNITS[group],
                "tieredRates": [{"startUsageAmount": 0, "unitPrice": price}],
            },
        }],
    }  # fmt: skip


# Google's prices of 2026 in us-central1; a3's host is fitted to the machine's price.
PARTS = [
    sku("A2 Instance Core running in Americas", "0.031611", "CPU"),
    sku("A2 Instance Ram running in Americas", "0.004237", "RAM"),
    sku("Nvidia Tesla A100 GPU running in Americas", "2.933908"),
    sku("Nvidia Tesla A100 80GB GPU running in Americas", "3.92808"),
    sku("A3 Instance Core running in Americas", "0.0255", "CPU"),
    sku("A3 Instance Ram running in Americas", "0.002220118", "RAM"),
    sku("Nvidia H100 80GB GPU running in Americas", "9.796550569"),
    sku("SSD backed Local Storage", "0.08", "LocalSSD"),
    sku("Spot Preemptible A3 Instance Core running in Americas", "0.0102", "CPU", "Preemptible"),
    sku("Spot Preemptible A3 Instance Ram running in Americas", "0.000888", "RAM", "Preemptible"),
    sku("Nvidia H100 80GB GPU attached to Spot Preemptible VMs running in Americas", "3.9186",
        usage="Preemptible"),
    sku("SSD backed Local Storage attached to Spot Preemptible VMs", "0.032", "LocalSSD",
        "Preemptible"),
    sku("Commitment v1: A3 Cpu in Americas for 3 Years", "0.01", "CPU", "Commit3Yr"),
    sku("Commitment v1: A3 Ram in Americas for 3 Years", "0.001", "RAM", "Commit3Yr"),
    sku("Commitment v1: Nvidia H100 80GB GPU running in Americas for 3 Years", "4.5",
        usage="Commit3Yr"),
    sku("Commitment v1: Local SSD In Americas for 3 Years", "0.0365", "LocalSSD", "Commit3Yr"),
]  # fmt: skip

# N1 and the GPUs that one attaches to it, in us-central1; spot and commitments are made up.
N1_PARTS = [
    sku("N1 Predefined Instance Core running in Americas", "0.031611", "CPU"),
    sku("N1 Predefined Instance Ram running in Americas", "0.004237", "RAM"),
    sku("Nvidia Tesla T4 GPU running in Americas", "0.35"),
    sku("Nvidia Tesla V100 GPU running in Americas", "2.48"),
    sku("Nvidia Tesla P100 GPU running in Americas", "1.46"),
    sku("Spot Preemptible N1 Predefined Instance Core running in Americas", "0.0071", "CPU",
        "Preemptible"),
    sku("Spot Preemptible N1 Predefined Instance Ram running in Americas", "0.00095", "RAM",
        "Preemptible"),
    sku("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Americas", "0.14",
        usage="Preemptible"),
    sku("Commitment v1: Cpu in Americas for 1 Year", "0.019915", "CPU", "Commit1Yr"),
    sku("Commitment v1: Ram in Americas for 1 Year", "0.002669", "RAM", "Commit1Yr"),
    sku("Commitment v1: Nvidia Tesla V100 GPU running in Americas for 1 Year", "1.562",
        usage="Commit1Yr"),
]  # fmt: skip


def parsed(*skus: Any, token: str = "", url: str = "") -> Parsed:
    return provider.parse([payload({"skus": list(skus), "nextPageToken": token}, url)])


def price_of(result: Parsed, name: str, market: Market = Market.ON_DEMAND) -> str:
    (found,) = [o for o in result.offers if (o.source_id, o.market) == (name, market)]
    return format(found.price.amount.normalize(), "f")


def open_data() -> str:
    """The recorded open data."""
    recording = json.loads((FIXTURES / "gcp" / "open_data" / "recording.json").read_text())
    return str(recording["payloads"][0]["body"])
