"""Bills and rankings, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.cli import goals, render, units, words
from tracker.domain.break_even import break_even_is_unknown
from tracker.domain.money import from_micro_usd
from tracker.domain.terms import OWN
from tracker.report.filters import known_at

if TYPE_CHECKING:
    from tracker.cli.verify import Verdict
    from tracker.domain.job import Job
    from tracker.report.cheapest import CheapestReport, Comparison, Row

COLUMNS = (
    "rank", "offer", "gpu", "gpus", "provider", "region", "country", "tier", "market",
    "total_usd", "at_least_usd", "partial", "price_usd_per_gpu_hour", "price_usd_per_machine_hour",
    "machines", "runtime_hours", "billed_hours", "basis", "lower_bound", "seen_at", "age_seconds",
    "stale", "valid_as_of", "availability", "stock", "discount_percent", "source", "offer_id",
    "low_usd", "high_usd", "tie", "done_hours", "unbeaten",
)  # fmt: skip

UNRANKED = "…"


def csv_columns(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """COLUMNS, and those of unit prices where a row has them."""
    return COLUMNS + tuple(name for name in units.FIELDS if any(name in row for row in rows))


_QUANTITIES = ("vcpus", "ram_gib", "disk_included_gb", "disk_gb", "network_down_mbps",
               "network_up_mbps", "reliability", "max_duration_hours")  # fmt: skip

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


def ref(key: bytes) -> str:
    """The short id of an offer: what `gpucost explain` takes."""
    return key.hex()[:10]


def row(r: Row, now: datetime) -> dict[str, Any]:
    """One ranked offer as plain values: money as text, ``null`` for what is not known."""
    o, b = r.offer, r.bill
    return {
        "rank": r.rank or None,
        "offer": ref(o.key),
        "gpu": o.gpu_key,
        "gpus": render.quantity(o.gpu_count),
        "provider": o.provider,
        "source": o.source,
        "owned": o.source == OWN,
        "upstream": o.upstream,
        "offer_id": o.native_id,
        "region": o.region,
        "country": o.country,
        "tier": o.tier,
        "market": o.market,
        "price_kind": o.price_kind,
        "total_usd": render.usd_text(b.total_usd),
        "at_least_usd": render.usd_text(b.at_least_usd),
        "partial": list(b.partial),
        "price_usd_per_gpu_hour": render.usd_text(b.price.per_gpu(b.gpu_count).usd),
        "price_usd_per_machine_hour": render.usd_text(b.price.usd),
        "machines": b.machines,
        "runtime_hours": render.quantity(b.runtime_hours),
        "billed_hours": render.quantity(b.billed_hours),
        "basis": b.basis,
        "basis_note": r.estimate.note,
        "basis_source": r.estimate.source,
        "gpus_used": max(r.estimate.gpus, 1),
        "runtime_low_hours": render.quantity(r.estimate.low_hours),
        "runtime_high_hours": render.quantity(r.estimate.high_hours),
        "low_usd": render.usd_text(r.low_usd),
        "high_usd": render.usd_text(r.high_usd),
        "tie": r.tie,
        "done_hours": render.quantity(r.done_hours),
        "unbeaten": r.unbeaten,
        "estimate_version": r.estimate.version,
        **_interruptions(r),
        **units.values(r),
        "lower_bound": b.lower_bound,
        "age_seconds": int((now - known_at(o)).total_seconds()),
        "seen_at": known_at(o),
        "stale": r.stale,
        "valid_as_of": o.valid_as_of,
        "availability": o.availability,
        "stock": o.stock_label,
        "discount_percent": render.quantity(r.discount_percent),
        "vcpus": render.quantity(o.vcpus),
        "ram_gib": render.quantity(o.ram_gib),
        "interconnect": o.interconnect,
        "bill": [
            {"kind": line.kind, "label": line.label, "amount_usd": render.usd_text(line.amount_usd)}
            for line in b.lines
        ],
        "notes": list(b.notes),
    }


def _interruptions(r: Row) -> dict[str, Any]:
    """What is expected of interruptions; nothing where they are not reckoned with."""
    found, even = r.estimate.interrupted, r.spot_break_even
    values: dict[str, Any] = {}
    if even is not None:
        values |= {
            "break_even_interruptions": round(even.interruptions, 4),
            "break_even_interruptions_per_hour": float(f"{even.per_hour:.6g}"),
        }
    if found is None:
        return values
    return values | {
        "rerun_hours": render.quantity(found.rerun_hours),
        "wall_hours": render.quantity(found.wall_hours),
        "interruptions": round(found.interruptions, 6),
        "interruption_basis": found.rate.basis,
        "chance_in_time": round(found.chance, 4),
    }


def document(report: CheapestReport, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The answer around the rows."""
    return {
        "as_of": report.now,
        "answer": words.sentence(report) if report.rows else None,
        "job": job_values(report.job),
        "goal": report.goal,
        "ranking": goals.ranking(report.goal),
        "unbeaten": [row(r, report.now) for r in report.unbeaten],
        "slices": [row(r, report.now) for r in report.slices],
        "filters": report.filters.echo(),
        "offers_total": report.total_offers,
        "offers_considered": report.considered,
        "excluded": dict(report.excluded),
        "best_by_gpu": [row(r, report.now) for r in report.best_by_gpu],
        "comparison": comparison(report.comparison, report.now),
        "remarks": list(words.remarks(report)),
        "verified": [v.as_dict() for v in verdicts],
    }


def job_values(job: Job) -> dict[str, Any]:
    """What was asked for, as plain values."""
    return {
        "name": job.name,
        "title": job.title,
        "gpus_needed": job.gpus_needed,
        "min_vram_gb": render.quantity(job.min_vram_gb),
        "disk_gb": render.quantity(job.disk_gb),
        "egress_gb": render.quantity(job.egress_gb),
        "setup_hours": render.quantity(job.setup_hours),
        "download_gb": render.quantity(job.download.sizes.total_gb) if job.download else None,
        "assumed_mbps": render.quantity(job.download.assumed_mbps) if job.download else None,
        "completes": job.completes,
        "workload": job.task.kind if job.task is not None else None,
        "limits": job.limits._asdict() if job.limits is not None else None,
        "spot": job.spot._asdict() if job.spot is not None else None,
        "hours": {
            gpu: {
                "hours": render.quantity(h.hours), "gpus": h.gpus, "basis": h.basis,
                "lower_bound": h.lower_bound, "note": h.note, "source": h.source,
            }
            for gpu, h in job.hours.items()
        },
    }  # fmt: skip


def comparison(c: Comparison | None, now: datetime) -> dict[str, Any] | None:
    """One GPU against another, as plain values."""
    if c is None:
        return None
    even = c.break_even
    return {
        "left": row(c.left, now),
        "right": row(c.right, now),
        "break_even_usd_per_machine_hour": render.usd_text(even.price.usd) if even else None,
        "break_even_usd_per_gpu_hour": render.usd_text(even.per_gpu.usd) if even else None,
        "break_even_bound": even.bound if even else None,
        "break_even_unknown": break_even_is_unknown(c.left.bill, c.right.bill),
        "speed_up_had": render.quantity(c.speed.had),
        "speed_up_needed": render.quantity(c.speed.needed),
    }


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
                *_cells(r, now), *([range_text(r)] if ranges else ()),
                *(cell(r) for _, cell in made), *(_wide_cells(r) if wide else ()), ref(r.offer.key),
            ]
            for r in rows
        ],
        dim=frozenset(i for i, r in enumerate(rows) if r.stale),
        wide=wide,
    )  # fmt: skip


def range_text(r: Row) -> str:
    """The bill at both ends of the estimate."""
    if r.low_usd is None or r.high_usd is None:
        return render.DASH
    return f"{render.usd(r.low_usd)} to {render.usd(r.high_usd)}"


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
        age_text(o.valid_as_of, (now - known_at(o)).total_seconds(), stale=r.stale),
        stock_text(o.availability, o.stock_label),
    ]  # fmt: skip


def _wide_cells(r: Row) -> list[str]:
    o = r.offer
    return [
        f"{r.done_hours:,.2f}", render.usd(r.bill.price.usd, 4), render.count(o.vcpus),
        render.count(o.ram_gib), o.interconnect or render.DASH, o.country or render.DASH,
        o.native_id,
    ]  # fmt: skip


def age_text(valid_as_of: date | None, age_s: float, *, stale: bool) -> str:
    """How old a price is; for a typed one the day it was read."""
    text = render.duration(age_s) if valid_as_of is None else valid_as_of.isoformat()
    return f"{text} stale" if stale else text


def stock_text(availability: str, label: str | None) -> str:
    """The provider's word for its stock."""
    return {"yes": label or "yes", "no": "none"}.get(availability, render.DASH)


def explain_lines(rows: Iterable[Row]) -> None:
    """The lines of each bill."""
    for r in rows:
        place = f"#{r.rank}" if r.rank else UNRANKED
        render.say(f"{place} {r.offer.gpu_key} at {r.offer.provider}, offer {ref(r.offer.key)}")
        render.say(f"    id: {r.offer.native_id}")
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
        if r.spot_break_even is not None:
            render.say(f"    {words.spot_break_even(r.spot_break_even)}")
        for text in units.lines(r):
            render.say(f"    {text}")
        for text in (*r.bill.partial, *r.bill.notes):
            render.say(f"    note: {text}")
        render.say()


def offer_row(o: Any, now: datetime, stale: bool) -> dict[str, Any]:
    """A stored offer as plain values, everything the provider said."""
    machine = from_micro_usd(o.price_micro_usd)
    values: dict[str, Any] = {
        "offer": ref(o.key), "gpu": o.gpu_key, "gpus": render.quantity(o.gpu_count),
        "provider": o.provider, "upstream": o.upstream, "region": o.region, "country": o.country,
        "tier": o.tier, "market": o.market,
        "price_usd_per_gpu_hour": render.usd_text(machine / Decimal(o.gpu_count)),
        "price_usd_per_machine_hour": render.usd_text(machine),
        "vram_gb": o.vram_gb, "age_seconds": int((now - known_at(o)).total_seconds()),
        "stale": stale, "availability": o.availability,
    }  # fmt: skip
    skip = {"key", "offer_id", "gpu_key", "gpu_count", "price_micro_usd"}
    rest = {k: v for k, v in o._asdict().items() if k not in skip and k not in values}
    rest |= {name: render.quantity(rest[name]) for name in _QUANTITIES}
    return {**values, **rest, "seen_at": known_at(o)}


def held_row(q: Any) -> dict[str, Any]:
    """A quarantined offer as plain values, with the gate and its reason."""
    return {
        "offer": ref(q.offer_key), "gpu": q.gpu_key, "gpus": render.quantity(q.gpu_count),
        "provider": q.seller, "region": q.region, "tier": q.tier, "market": q.market,
        "price_usd_per_machine_hour": render.usd_text(from_micro_usd(q.price_micro_usd)),
        "gate": q.gate, "reason": q.reason, "confirmations": q.confirmations,
        "releasable": q.releasable, "first_seen_at": q.first_seen_at,
        "last_seen_at": q.last_seen_at,
    }  # fmt: skip
