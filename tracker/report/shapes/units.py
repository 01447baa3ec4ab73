"""Energy and the prices of what a job makes, beside its bill: for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.domain.energy import per_watt
from tracker.domain.texts import figure
from tracker.report.shapes import texts, words

if TYPE_CHECKING:
    from tracker.report.beside import Beside
    from tracker.report.cheapest import Row


FIELDS = (
    "usd_per_request", "usd_per_million_input", "usd_per_million_output", "usd_per_month",
    "utilisation", "usd_per_completed", "work_per_usd", "work_unit", "kwh",
)  # fmt: skip


def values(r: Row) -> dict[str, Any]:
    """Plain values; nothing for a job that says neither what it computes nor what it makes."""
    found = r.beside
    if found is None:
        return {}
    return {
        "kwh": texts.quantity(found.kwh),
        "low_kwh": texts.quantity(found.low_kwh),
        "high_kwh": texts.quantity(found.high_kwh),
        "energy_assumptions": list(found.energy_assumptions),
        "co2_kg": texts.quantity(found.co2_kg),
        "tokens_per_kwh": texts.quantity(found.tokens_per_kwh),
        "tokens_per_second_per_watt": _per_watt(found),
        "usd_per_request": small_usd(found.usd_per_request),
        "usd_per_million_input": small_usd(found.usd_per_million_input),
        "usd_per_million_output": small_usd(found.usd_per_million_output),
        "usd_per_month": texts.usd_text(found.usd_per_month),
        "utilisation": texts.quantity(found.utilisation),
        "usd_per_completed": small_usd(found.usd_per_completed),
        "work_per_usd": texts.quantity(found.work_per_usd),
        "work_unit": found.work_unit,
        "unit_hours": texts.quantity(found.unit_hours),
    }


def _per_watt(found: Beside) -> float | None:
    """Tokens a second for each watt, to six digits."""
    if found.tokens_per_kwh is None:
        return None
    return float(f"{per_watt(found.tokens_per_kwh):.6g}")


def small_usd(value: Decimal | None) -> str | None:
    """A unit price, which may be far below a millionth of a dollar: to six digits."""
    return None if value is None else texts.number(Decimal(f"{value:.6g}"))


def lines(r: Row) -> Iterable[str]:
    """The same in sentences."""
    found = r.beside
    if found is None:
        return
    if found.kwh is not None:
        low, high = found.low_kwh or 0.0, found.high_kwh or 0.0
        span = f"{figure(low)} to {figure(high)}"
        why = "; ".join(found.energy_assumptions)
        co2 = "" if found.co2_kg is None else f", {figure(found.co2_kg)} kg of CO2"
        yield f"energy: {figure(found.kwh)} kWh ({span}; {why}){co2}"
    if found.tokens_per_kwh is not None:
        each = f"{figure(_per_watt(found) or 0)} tokens a second for each watt"
        yield f"work per watt: {each}, {found.tokens_per_kwh:,.0f} tokens per kWh"
    for name, value in prices(found):
        yield f"{name}: {_least(r)}${small_usd(value)}"
    if found.unit_hours is not None:
        yield _shared(found.unit_hours, r.offer.commitment_hours)
    if found.usd_per_month is not None:
        busy = "" if found.utilisation is None else f", {found.utilisation:.0%} of the time busy"
        yield f"a month at the rate asked for: {_least(r)}{texts.usd(found.usd_per_month)}{busy}"


def prices(found: Beside) -> Iterable[tuple[str, Decimal]]:
    """The unit prices that there are, each with its name."""
    every = (
        ("per request", found.usd_per_request),
        ("per million input tokens", found.usd_per_million_input),
        (_output(found), found.usd_per_million_output),
        ("per completed job", found.usd_per_completed),
    )
    for name, value in every:
        if value is not None:
            yield name, value


def _shared(hours: Decimal, term: int | None) -> str:
    """Whose requests the unit prices of a commitment are of."""
    if hours == term:
        return f"unit prices: kept up for all of the {term:,} h committed to"
    shared = f"all {term:,} h committed to" if term else "all that is committed to"
    return f"unit prices: the requests of {texts.hours(hours)} pay for {shared}"


def _output(found: Beside) -> str:
    whole = "" if found.usd_per_million_input is not None else ", prompts in it"
    return f"per million output tokens{whole}"


def _least(r: Row) -> str:
    return "at least " if words.open_ended(r.bill) else ""
