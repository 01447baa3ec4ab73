"""Bills and rankings, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from typing import TYPE_CHECKING

from tracker.cli import render, units
from tracker.domain.kind import KIND_TEXTS
from tracker.report.ages import age_seconds
from tracker.report.filters import rented_kind
from tracker.report.shapes import goals, words
from tracker.report.shapes.rows import csv_columns as csv_columns
from tracker.report.shapes.rows import document as document
from tracker.report.shapes.rows import held_row as held_row
from tracker.report.shapes.rows import job_values as job_values
from tracker.report.shapes.rows import offer_row as offer_row
from tracker.report.shapes.rows import ref as ref
from tracker.report.shapes.rows import row as row
from tracker.report.shapes.units import lines as unit_lines

if TYPE_CHECKING:
    from tracker.cli.verify import Verdict
    from tracker.report.cheapest import CheapestReport, Row

UNRANKED = "…"

_COLUMNS = (
    render.Column("#", right=True), render.Column("GPU"), render.Column("GPUS", 1, right=True),
    render.Column("PROVIDER"), render.Column("REGION", 9), render.Column("TIER", 6),
    render.Column("MARKET", 2), render.Column("$/GPU-H", 3, right=True),
    render.Column("RUN h", 7, right=True), render.Column("BASIS", 8),
    render.Column("BILLED h", 3, right=True), render.Column("TOTAL", right=True),
    render.Column(goals.UNBEATEN, 4), render.Column("AGE", 1, right=True),
    render.Column("STOCK", 10),
)  # fmt: skip
_WIDE_COLUMNS = (
    render.Column("DONE h", right=True),
    render.Column("$/MACHINE-H", right=True), render.Column("VCPU", right=True),
    render.Column("RAM GiB", right=True), render.Column("INTERCONNECT"), render.Column("COUNTRY"),
    render.Column("ID"),
)  # fmt: skip
_LAST_COLUMN = render.Column("OFFER")
_RANGE_COLUMN = (render.Column("RANGE", right=True),)


def print_table(
    report: CheapestReport, verdicts: Sequence[Verdict], *, wide: bool, explain: bool
) -> None:
    """The answer as a sentence, the ranking, the best of each GPU, the break-even, the footer."""
    if report.rows:
        render.say(words.sentence(report))
        for verdict in verdicts:
            render.say(verdict.sentence())
        render.say()
        shown = {r.offer.key for r in report.rows}
        others = [r for r in report.best_by_gpu if r.offer.key not in shown]
        if not report.filters.gpus:  # all GPUs there are: nobody asked for each of them
            others = []
        ranking([*report.rows, *others], report.now, wide=wide)
        render.say()
        if explain:
            explain_lines([*report.rows, *others])
        if others:
            render.say(f"{UNRANKED} the best of each GPU that is not among the ranked rows.")
        render.say(goals.ranking(report.goal))
        for line in goals.unbeaten(report):
            render.say(line)
    for line in words.remarks(report):
        render.say(line)
    if report.considered > len(report.rows):
        render.say(f"{report.considered - len(report.rows):,} more; --all shows them")
    render.say(render.footer(report.considered, report.total_offers, report.excluded))


def ranking(rows: Sequence[Row], now: datetime, *, wide: bool) -> None:
    """The rows as a table."""
    ranges = any(r.low_usd is not None for r in rows)
    made = units.columns(rows) if wide else ()
    render.print_table(
        (
            *_COLUMNS, *(_RANGE_COLUMN if ranges else ()),
            *(column for column, _ in made), *(_WIDE_COLUMNS if wide else ()), _LAST_COLUMN,
        ),
        [
            [
                *_cells(r, now), *([words.range_text(r)] if ranges else ()),
                *(cell(r) for _, cell in made), *(_wide_cells(r) if wide else ()), ref(r.offer.key),
            ]
            for r in rows
        ],
        dim=frozenset(i for i, r in enumerate(rows) if r.stale),
        wide=wide,
    )  # fmt: skip


def _cells(r: Row, now: datetime) -> list[str]:
    o, b = r.offer, r.bill
    gpus = render.count(o.gpu_count)
    return [
        f"{r.rank or UNRANKED}{'~' if r.tie else ''}", o.gpu_key,
        gpus if b.machines == 1 else f"{b.machines} x {gpus}",
        o.provider, o.region or render.DASH, o.tier, o.market.replace("_", "-"),
        render.usd(b.price.per_gpu(b.gpu_count).usd, 4) + ("*" if r.discount_percent else ""),
        f"{b.runtime_hours:,.2f}", b.basis, f"{b.billed_hours:,.2f}",
        (">= " if words.open_ended(b) else "") + render.usd(b.at_least_usd),
        goals.UNBEATEN if r.unbeaten else "",
        age_text(o.valid_as_of, age_seconds(o, now), stale=r.stale),
        words.stock(o.availability, o.stock_label),
    ]  # fmt: skip


def _wide_cells(r: Row) -> list[str]:
    o = r.offer
    return [
        f"{r.done_hours:,.2f}", render.usd(r.bill.price.usd, 4), render.count(o.vcpus),
        render.count(o.ram_gib), o.interconnect or render.DASH, o.country or render.DASH,
        o.native_id,
    ]  # fmt: skip


def age_text(valid_as_of: date | None, age_s: float | None, *, stale: bool) -> str:
    """How old a price is, a dash where nobody knows; for a typed one the day it was read."""
    if valid_as_of is not None:
        text = valid_as_of.isoformat()
    else:
        text = render.DASH if age_s is None else render.duration(age_s)
    return f"{text} stale" if stale else text


def explain_lines(rows: Iterable[Row]) -> None:
    """The lines of each bill."""
    for r in rows:
        place = f"#{r.rank}" if r.rank else UNRANKED
        render.say(f"{place} {r.offer.gpu_key} at {r.offer.provider}, offer {ref(r.offer.key)}")
        render.say(f"    id: {r.offer.native_id}")
        kind = rented_kind(r.offer)
        render.say(f"    kind: {kind} ({KIND_TEXTS[kind]}){words.listed(r.offer.availability)}")
        note = f" ({r.estimate.note})" if r.estimate.note else ""
        source = f"; source: {r.estimate.source}" if r.estimate.source else ""
        if r.estimate.version:
            source += f"; calibration {r.estimate.version}"
        render.say(f"    hours: {render.hours(r.bill.runtime_hours)} {r.bill.basis}{note}{source}")
        for line in r.bill.lines:
            amount = render.usd(line.amount_usd, 4)
            rate = f"{render.number(round(line.quantity, 4))} {line.unit} x "
            rate += render.usd(line.unit_price_usd, 6)
            render.say(f"    {amount:>12}  {line.label}: {rate}")
        what = "at least, in all" if words.open_ended(r.bill) else "total"
        render.say(f"    {render.usd(r.bill.at_least_usd, 4):>12}  {what}")
        if text := words.range_of(r):
            render.say(f"    range: {text}")
        if r.spot_break_even is not None:
            render.say(f"    {words.spot_break_even(r.spot_break_even)}")
        for text in unit_lines(r):
            render.say(f"    {text}")
        for text in (*r.bill.partial, *r.bill.notes):
            render.say(f"    note: {text}")
        render.say()
