"""Which rows of the Azure price list are the price of a Linux VM that can be rented now.

The list repeats one size many times: Windows twins with the same SKU name, Batch "Low Priority"
meters, Cloud Services, dedicated hosts, reservations, prices of the past and of the future, test
regions, placeholders. Every row ends up either live or rejected under a reason of its own.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from statistics import median
from typing import Any

from tracker.provider import Rejected, parse_decimal

# A price below a fifth of the other regions' median is a placeholder: an 8 x H100 machine was
# listed at 0.01 in one region.
PLACEHOLDER_SHARE = Decimal("0.2")
# The two types of rows that are read; a reservation's term is "1 Year" or "3 Years".
CONSUMPTION, RESERVATION = "Consumption", "Reservation"
_TERM = re.compile(r"([1-9]) Years?")
_MICRO_USD = Decimal("0.000001")
_ABSURD = Decimal(10_000_000)  # per hour; also keeps arithmetic on junk within bounds

_SAME_ROW = ("meterId", "skuId", "type", "reservationTerm", "tierMinimumUnits",
             "effectiveStartDate", "effectiveEndDate", "armRegionName", "armSkuName",
             "productName", "skuName", "meterName", "retailPrice", "unitOfMeasure",
             "currencyCode")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Row:
    """A row that passed the rules: *amount* is for one whole VM for one hour.

    With ``years`` it is that of a reservation: *amount* is for the whole term. ``savings_plan``
    holds the field of that name as it came.
    """

    sku: str
    region: str
    spot: bool
    amount: Decimal
    currency: str
    start: datetime | None
    primary: bool
    sample: str
    years: int | None = None
    savings_plan: tuple[Any, ...] = ()

    @property
    def key(self) -> tuple[str, str, bool, str, int | None]:
        """What may have one price only."""
        return self.sku.casefold(), self.region, self.spot, self.currency, self.years


class _Excluded(Exception):
    """Why a row is not a live price."""


def live_rows(
    items: Sequence[Any], now: datetime, default_currency: str | None = None,
    *, reservations: bool = False,
) -> tuple[list[Row], list[Rejected]]:  # fmt: skip
    """Apply the row rules to *items* as of *now* (aware UTC).

    Returns one row per (size, region, market, currency), and one Rejected for every other item.
    Two different prices for the same key give neither. With *reservations* the rows wanted are
    those of reservations, one per term, and no others.
    """
    rejected: list[Rejected] = []
    by_key: dict[tuple[str, str, bool, str, int | None], list[Row]] = defaultdict(list)
    seen: set[tuple[str, ...]] = set()
    for item in items:
        if not isinstance(item, dict):
            rejected.append(Rejected("not a price row", repr(item)[:200]))
            continue
        same = tuple(str(item.get(name)) for name in _SAME_ROW)
        if item.get("meterId") and same in seen:  # paging by offset can repeat a row
            rejected.append(Rejected("duplicate row", _sample(item)))
            continue
        seen.add(same)
        try:
            row = _row(item, now, default_currency, reservations=reservations)
        except _Excluded as reason:
            rejected.append(Rejected(str(reason), _sample(item)))
        else:
            by_key[row.key].append(row)
    live = [_one(rows, rejected) for rows in by_key.values()]
    return [row for row in live if row is not None], rejected


def without_placeholders(rows: Iterable[Row]) -> tuple[list[Row], list[Rejected]]:
    """Split off the rows priced below a fifth of the median of the *other* regions."""
    groups: dict[tuple[str, bool, str, int | None], list[Row]] = defaultdict(list)
    for row in rows:
        groups[row.sku.casefold(), row.spot, row.currency, row.years].append(row)
    kept: list[Row] = []
    rejected: list[Rejected] = []
    for group in groups.values():
        for row in group:
            others = [other.amount for other in group if other.region != row.region]
            if others and row.amount < PLACEHOLDER_SHARE * median(others):
                rejected.append(Rejected("placeholder price, far below other regions", row.sample))
            else:
                kept.append(row)
    return kept, rejected


def _row(
    item: dict[str, Any], now: datetime, default_currency: str | None, *, reservations: bool
) -> Row:
    """The row rules in their documented order. Raises _Excluded."""
    amount = _price(item, RESERVATION if reservations else CONSUMPTION)
    years = _years(item) if reservations else None
    spot = _is_spot(item)
    if spot and years:
        raise _Excluded("reservation of spot")
    start = _in_force(item, now)
    return Row(
        sku=_text(item, "armSkuName"),
        region=_region(item),
        spot=spot,
        amount=amount,
        currency=_currency(item, default_currency),
        start=start,
        primary=item.get("isPrimaryMeterRegion") is not False,
        sample=_sample(item),
        years=years,
        savings_plan=() if years or spot else _list(item.get("savingsPlan")),
    )


def _years(item: dict[str, Any]) -> int:
    years = years_in(item.get("reservationTerm"))
    if years is None:
        raise _Excluded("term of the reservation is not known")
    return years


def years_in(term: Any) -> int | None:
    """The years of ``1 Year`` or ``3 Years``; None for anything else."""
    found = _TERM.fullmatch(term.strip()) if isinstance(term, str) else None
    return int(found[1]) if found else None


def _list(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, list) else ()


def _price(item: dict[str, Any], wanted: str) -> Decimal:
    kind = _text(item, "type")
    if kind != wanted:
        known = {"DevTestConsumption": "DevTest price", RESERVATION: "reservation price"}
        raise _Excluded(known.get(kind, f"price type is not {wanted}"))
    if _text(item, "unitOfMeasure") != "1 Hour":
        raise _Excluded("unit is not 1 Hour")
    minimum = item.get("tierMinimumUnits")
    if minimum is not None and _number(minimum) != 0:
        raise _Excluded("price of a volume tier")
    if not _text(item, "armSkuName"):
        raise _Excluded("no armSkuName")
    amount = _number(item.get("retailPrice"))
    if amount is None or amount > _ABSURD:
        raise _Excluded("no readable price")
    if amount < _MICRO_USD:
        raise _Excluded("price is not above zero")
    return amount


def _is_spot(item: dict[str, Any]) -> bool:
    """Drops what is not a plain Linux VM; tells spot by the ending of the SKU or meter name."""
    product = _text(item, "productName").casefold()
    names = [
        _text(item, name).casefold()
        for name in ("skuName", "meterName")
        if _text(item, name)  # an absent skuName is the meterName
    ]
    if not product:
        # SKU and meter names are the same for Linux and Windows: only the product tells.
        raise _Excluded("no productName to tell Linux from Windows")
    if "windows" in product or product.endswith(" win"):
        raise _Excluded("Windows")
    if "cloud services" in product or "cloudservices" in product:
        raise _Excluded("Cloud Services")
    if any("dedicated" in name for name in (product, *names)):
        raise _Excluded("Dedicated Host")
    if not names:
        raise _Excluded("no skuName to tell spot from on-demand")
    if any(name.endswith(" low priority") for name in names):
        raise _Excluded("Low Priority")
    return any(name.endswith(" spot") for name in names)


def _in_force(item: dict[str, Any], now: datetime) -> datetime | None:
    """The moment the price began (None: always). Raises unless it holds at *now*."""
    start, end = _moment(item, "effectiveStartDate"), _moment(item, "effectiveEndDate")
    if start is not None and start > now:
        raise _Excluded("not yet in force")
    if end is not None and now >= end:
        raise _Excluded("no longer in force")
    return start


def _region(item: dict[str, Any]) -> str:
    region = _text(item, "armRegionName").casefold()
    if not region:
        raise _Excluded("no region")
    if region.endswith(("euap", "stg")) or region == "brazilus":
        raise _Excluded("test or staging region")
    if region.startswith(("usgov", "usdod")):
        raise _Excluded("US government region")
    if region.startswith("china"):
        raise _Excluded("China region")
    return region


def _currency(item: dict[str, Any], default: str | None) -> str:
    currency = _text(item, "currencyCode") or (default or "").strip()
    if not currency:
        raise _Excluded("no currency")
    return currency.upper()


def _one(rows: list[Row], rejected: list[Rejected]) -> Row | None:
    """The one price of a key: primary meters before others, then the newest start."""

    def drop(reason: str, dropped: Iterable[Row]) -> None:
        rejected.extend(Rejected(reason, row.sample) for row in dropped)

    if any(row.primary for row in rows):  # the server does the same with meterRegion='primary'
        drop("non-primary meter", (row for row in rows if not row.primary))
        rows = [row for row in rows if row.primary]
    newest = max(_since(row) for row in rows)
    drop("superseded by a newer price", (row for row in rows if _since(row) < newest))
    rows = [row for row in rows if _since(row) == newest]
    if len({row.amount for row in rows}) > 1:
        drop("two prices for one size, region and market", rows)
        return None
    drop("duplicate row", rows[1:])
    plans = {str(row.savings_plan): row.savings_plan for row in rows if row.savings_plan}
    if len(plans) > 1:
        drop("two savings plans for one price", rows[:1])
    return replace(rows[0], savings_plan=next(iter(plans.values())) if len(plans) == 1 else ())


def _since(row: Row) -> datetime:
    return row.start or datetime.min.replace(tzinfo=UTC)


def _text(item: dict[str, Any], name: str) -> str:
    value = item.get(name)
    return value.strip() if isinstance(value, str) else ""


def _number(value: Any) -> Decimal | None:
    try:
        return parse_decimal(value)
    except ValueError:
        return None


def _moment(item: dict[str, Any], name: str) -> datetime | None:
    value = item.get(name)
    if value is None or value == "":
        return None
    try:
        moment = datetime.fromisoformat(value)
        return moment.replace(tzinfo=moment.tzinfo or UTC).astimezone(UTC)
    except (TypeError, ValueError, OverflowError):
        raise _Excluded("unreadable date") from None


def _sample(item: dict[str, Any]) -> str:
    names = ("armSkuName", "armRegionName", "retailPrice", "type", "productName", "skuName",
             "effectiveStartDate")  # fmt: skip
    return " | ".join(str(item.get(name, "-")) for name in names)[:200]
