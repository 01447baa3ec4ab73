"""Answers of the Retail Prices API, made up row by row."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

from tracker.provider import Payload

NOW = datetime(2026, 11, 30, 6, tzinfo=UTC)
H100 = "Standard_NC40ads_H100_v5"


def row(price: Any = 7.0, region: str = "eastus", **over: Any) -> dict[str, Any]:
    """A valid on-demand row; keyword None removes a field."""
    item = {
        "currencyCode": "USD",
        "tierMinimumUnits": 0.0,
        "retailPrice": price,
        "armRegionName": region,
        "effectiveStartDate": "2025-01-01T00:00:00Z",
        "meterName": "NC40ads H100 v5",
        "productName": "Virtual Machines NCads H100 v5 Series",
        "skuName": "NC40ads H100 v5",
        "unitOfMeasure": "1 Hour",
        "type": "Consumption",
        "isPrimaryMeterRegion": True,
        "armSkuName": H100,
    } | over
    return {name: value for name, value in item.items() if value is not None}


def payload(*items: Any, link: Any = None, url: str = "", at: datetime = NOW) -> Payload:
    body = {"BillingCurrency": "USD", "Items": list(items), "NextPageLink": link}
    return Payload(url=url, body=json.dumps(body).encode(), fetched_at=at)
