"""Energy and the prices of what a job makes, as columns beside its bill."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tracker.cli import render
from tracker.domain.texts import figure
from tracker.report.shapes import words
from tracker.report.shapes.units import small_usd

if TYPE_CHECKING:
    from tracker.report.cheapest import Row

Cell = Callable[["Row"], str]
_COLUMNS = (
    ("$/REQUEST", "usd_per_request"), ("$/M IN", "usd_per_million_input"),
    ("$/M OUT", "usd_per_million_output"), ("$/JOB", "usd_per_completed"),
    ("$/MONTH", "usd_per_month"), ("BUSY", "utilisation"), ("PER $", "work_per_usd"),
    ("kWh", "kwh"),
)  # fmt: skip


def columns(rows: Sequence[Row]) -> list[tuple[render.Column, Cell]]:
    """The columns of which some row tells anything."""
    return [
        (render.Column(name, right=True), _cell(field))
        for name, field in _COLUMNS
        if any(getattr(r.beside, field, None) is not None for r in rows)
    ]


def _cell(field: str) -> Cell:
    def cell(r: Row) -> str:
        value = getattr(r.beside, field, None)
        if value is None:
            return render.DASH
        if field == "utilisation":
            return f"{value:.0%}"
        if field == "work_per_usd":
            return (
                f"{figure(value, 6)} {r.beside.work_unit}" if r.beside is not None else render.DASH
            )
        if field == "kwh":
            return figure(value)
        text = render.usd(value) if field == "usd_per_month" else f"${small_usd(value)}"
        return f">= {text}" if words.open_ended(r.bill) else text

    return cell
