"""Exchange rates: the European Central Bank's daily reference rates, in USD per unit.

Source: the ECB's keyless daily XML (euro foreign exchange reference rates), published on working
days about 16:00 CET as units of a currency for one euro.
"""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal

from tracker.domain.money import parse_decimal
from tracker.domain.normalize import FxRate
from tracker.provider import HttpClient

ECB_DAILY_URL = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml"
# Fixed on working days: the longest pause, Good Friday to Easter Monday, is five days.
MAX_AGE = timedelta(days=10)
_PER_EURO = (Decimal("1e-6"), Decimal("1e9"))  # what one euro may be worth; anything else is broken


async def fetch_rates(http: HttpClient, url: str = ECB_DAILY_URL) -> Mapping[str, FxRate]:
    """Today's rates. Raises FetchError on no answer, ValueError on an unexpected one."""
    payload = await http.get(url, expect="any", max_bytes=256 * 1024)
    return parse_ecb(payload.body)


def parse_ecb(body: bytes) -> dict[str, FxRate]:
    """Read the ECB's daily file: currency code to USD per unit, with the day of the fixing.

    Raises ValueError when the day, the dollar or a rate is missing, or a rate is no possible one.
    """
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise ValueError("exchange rates: a document type is not expected here")
    try:
        root = ElementTree.fromstring(body)  # noqa: S314 - entities are refused above
    except ElementTree.ParseError as error:
        raise ValueError(f"exchange rates: not XML ({error})") from None
    day: date | None = None
    per_euro: dict[str, Decimal] = {"EUR": Decimal(1)}
    for node in root.iter():
        if "time" in node.attrib:
            day = date.fromisoformat(node.attrib["time"])
        if "currency" in node.attrib:
            rate = parse_decimal(node.attrib.get("rate", ""))
            if not _PER_EURO[0] <= rate <= _PER_EURO[1]:
                raise ValueError(f"exchange rates: {node.attrib['currency']} is out of range")
            per_euro[node.attrib["currency"]] = rate
    if day is None or "USD" not in per_euro:
        raise ValueError("exchange rates: the day or the dollar is missing")
    return {code: FxRate(per_euro["USD"] / rate, day) for code, rate in per_euro.items()}


def current(rates: Mapping[str, FxRate], today: date) -> Mapping[str, FxRate]:
    """*rates* if they were fixed within MAX_AGE of *today*; else raises ValueError."""
    for rate in rates.values():
        if abs(today - rate.on) > MAX_AGE:
            raise ValueError(f"exchange rates: those of {rate.on} are too old")
    return rates
