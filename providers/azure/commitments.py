"""Azure prices for whoever commits to one or several years: reservations and savings plans.

A reservation is a row of its own (``type`` Reservation) whose ``retailPrice`` pays for the whole
term, although its unit says "1 Hour". A savings plan is a field of the on-demand row
(``savingsPlan``), by the hour; only version 2023-01-01-preview of the interface has it. Neither is
believed without the on-demand price of the same size, region and currency: a total that is really
an hourly price, or the other way round, is seen beside it.

https://learn.microsoft.com/rest/api/cost-management/retail-prices/azure-retail-prices
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from providers.azure.rows import Row, years_in
from tracker.provider import Rejected, parse_decimal

HOURS_PER_YEAR = 8760
RESERVATION, SAVINGS_PLAN = "reservation", "savings plan"

# Microsoft saves "up to 72 %" by a reservation and "up to 65 %" by a plan.
LEAST_SHARE = Decimal("0.2")

_PLACES = Decimal("0.000000001")  # a total by the hour has no end

Key = tuple[str, str, str]  # size, region, currency


@dataclass(frozen=True, slots=True)
class Committed:
    """The price of one hour of one VM to whoever commits to *years* of it.

    ``row`` is the reservation's, or the on-demand row that has the plan.
    """

    row: Row
    plan: str
    years: int
    per_hour: Decimal


def committed(
    on_demand: Iterable[Row], reservations: Iterable[Row], rejected: list[Rejected]
) -> Iterator[Committed]:
    """Reservations and savings plans that the on-demand prices bear out; the others are rejected.

    *on_demand* are rows of plain VMs, with spot ones passed over; *reservations* are rows with
    their term in years.
    """
    plain = {_key(row): row for row in on_demand if not row.spot}
    for row in reservations:
        total = row.amount / (HOURS_PER_YEAR * row.years) if row.years else row.amount
        yield from _believed(
            Committed(row, RESERVATION, row.years or 0, total.quantize(_PLACES)), plain, rejected
        )
    for row in plain.values():
        for years, amount in _plans(row, rejected):
            yield from _believed(Committed(row, SAVINGS_PLAN, years, amount), plain, rejected)


def _key(row: Row) -> Key:
    return row.sku.casefold(), row.region, row.currency


def _believed(
    one: Committed, plain: Mapping[Key, Row], rejected: list[Rejected]
) -> Iterator[Committed]:
    full = plain.get(_key(one.row))
    reason = None
    if full is None:
        reason = f"{one.plan} without an on-demand price to compare it with"
    elif one.per_hour >= full.amount:
        reason = f"{one.plan} not below on-demand"
    elif one.per_hour < LEAST_SHARE * full.amount:
        reason = f"{one.plan} far below on-demand: not the price of its term"
    if reason is None:
        yield one
    else:
        shown = f"{one.row.sku} | {one.row.region} | {one.years} years | {one.per_hour}"
        rejected.append(Rejected(reason, shown[:200]))


def _plans(row: Row, rejected: list[Rejected]) -> Iterator[tuple[int, Decimal]]:
    """Years and price of an hour of each savings plan of a row; a term at two prices is none."""
    found: dict[int, set[Decimal]] = {}
    for entry in row.savings_plan:
        try:
            term = years_in(entry.get("term")) if isinstance(entry, dict) else None
            amount = parse_decimal(entry["retailPrice"]) if term else None
        except (KeyError, ValueError):
            term, amount = None, None
        if term is None or amount is None or amount <= 0:
            shown = f"{row.sku} | {row.region} | {str(entry)[:100]}"
            rejected.append(Rejected("savings plan that cannot be read", shown[:200]))
            continue
        found.setdefault(term, set()).add(amount)
    for term, amounts in sorted(found.items()):
        if len(amounts) == 1:
            yield term, min(amounts)
        else:
            shown = f"{row.sku} | {row.region} | {term} years"
            rejected.append(Rejected("two prices for one savings plan", shown[:200]))
