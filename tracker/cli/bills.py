"""Bills and rankings, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.cli import render
from tracker.domain.cost import Bill
from tracker.domain.money import from_micro_usd

if TYPE_CHECKING:
    from tracker.cli.verify import Verdict
    from tracker.report.cheapest import CheapestReport, Comparison, Row

COLUMNS = (
    "rank", "offer", "gpu", "gpus", "provider", "region", "country", "tier", "market",
    "total_usd", "at_least_usd", "partial", "price_usd_per_gpu_hour", "price_usd_per_machine_hour",
    "machines", "runtime_hours", "billed_hours", "basis", "lower_bound", "age_seconds", "stale",
    "valid_as_of", "availability", "discount_percent",
)  # fmt: skip

_RIGHT = frozenset({"#", "GPUS", "$/GPU-H", "HOURS", "BILLED", "TOTAL", "AGE", "$/MACHINE-H",
                    "VCPU", "RAM GiB"})  # fmt: skip


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
        "gpus": o.gpu_count,
        "provider": o.provider,
        "source": o.source,
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
        "runtime_hours": round(b.runtime_hours, 6),
        "billed_hours": round(b.billed_hours, 6),
        "basis": b.basis,
        "basis_note": r.estimate.note,
        "lower_bound": b.lower_bound,
        "age_seconds": int((now - o.seen_at).total_seconds()),
        "seen_at": o.seen_at,
        "stale": r.stale,
        "valid_as_of": o.valid_as_of,
        "availability": o.availability,
        "stock": o.stock_label,
        "discount_percent": r.discount_percent,
        "vcpus": o.vcpus,
        "ram_gib": o.ram_gib,
        "interconnect": o.interconnect,
        "bill": [
            {"kind": line.kind, "label": line.label, "amount_usd": render.usd_text(line.amount_usd)}
            for line in b.lines
        ],
        "notes": list(b.notes),
    }


def document(report: CheapestReport, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The answer around the rows."""
    job = report.job
    return {
        "as_of": report.now,
        "job": {
            "name": job.name,
            "title": job.title,
            "gpus_needed": job.gpus_needed,
            "disk_gb": job.disk_gb,
            "egress_gb": job.egress_gb,
            "setup_hours": job.setup_hours,
            "hours": {
                gpu: {"hours": h.hours, "basis": h.basis, "lower_bound": h.lower_bound}
                for gpu, h in job.hours.items()
            },
        },
        "filters": report.filters.echo(),
        "offers_total": report.total_offers,
        "offers_considered": report.considered,
        "excluded": dict(report.excluded),
        "best_by_gpu": [row(r, report.now) for r in report.best_by_gpu],
        "comparison": comparison(report.comparison, report.now),
        "verified": [v.as_dict() for v in verdicts],
    }


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
        "speed_up_had": round(c.speed.had, 4),
        "speed_up_needed": round(c.speed.needed, 4),
    }


def print_table(
    report: CheapestReport, verdicts: Sequence[Verdict], *, wide: bool, explain: bool
) -> None:
    """The answer as a sentence, the ranking, the best of each GPU, the break-even, the footer."""
    if report.rows:
        render.say(sentence(report))
        for verdict in verdicts:
            render.say(verdict.sentence())
        _ranking(report.rows, report.now, wide=wide)
        shown = {r.offer.key for r in report.rows}
        others = [r for r in report.best_by_gpu if r.offer.key not in shown]
        if others:
            render.say("The best of the other GPUs:")
            _ranking(others, report.now, wide=wide)
        if explain:
            _explain(report.rows)
        for line in _remarks(report):
            render.say(line)
    render.say(render.footer(report.considered, report.total_offers, report.excluded))


def sentence(report: CheapestReport) -> str:
    """The answer in a sentence."""
    best, b = report.rows[0], report.rows[0].bill
    o = best.offer
    gpus = f"{render.count(o.gpu_count)} x {o.gpu_key}"
    machine = gpus if b.machines == 1 else f"{b.machines} machines of {gpus}"
    place = f"{o.provider} ({o.tier}{', ' + o.region if o.region else ''})"
    text = (
        f"{report.job.title or report.job.name}: {_total(b)} on {machine} at {place}, "
        f"{render.hours(b.billed_hours)} x {render.usd(b.price.usd, 4)}/h"
    )
    other = next((r for r in report.rows[1:] if r.offer.gpu_family != o.gpu_family), None)
    other = other or next(
        (r for r in report.best_by_gpu if r.offer.gpu_family != o.gpu_family), None
    )
    if other and b.at_least_usd:
        more = (other.bill.at_least_usd / b.at_least_usd - 1) * 100
        text += f"; next GPU {other.offer.gpu_key} +{more:.0f} %"
    return text + "."


def _total(b: Bill) -> str:
    text = render.usd(b.at_least_usd)
    return f"at least {text}" if b.partial or b.lower_bound else text


def _ranking(rows: Iterable[Row], now: datetime, *, wide: bool) -> None:
    columns = ["#", "GPU", "GPUS", "PROVIDER", "REGION", "TIER", "MARKET", "$/GPU-H", "HOURS",
               "BILLED", "BASIS", "TOTAL", "AGE", "STOCK", "OFFER"]  # fmt: skip
    if wide:
        columns += ["MACHINES", "$/MACHINE-H", "VCPU", "RAM GiB", "INTERCONNECT", "COUNTRY", "ID"]
    cells: list[list[str]] = []
    dim: set[int] = set()
    for index, r in enumerate(rows):
        o, b = r.offer, r.bill
        if r.stale:
            dim.add(index)
        line = [
            str(r.rank or render.DASH), o.gpu_key, render.count(o.gpu_count), o.provider,
            o.region or render.DASH, o.tier, o.market.replace("_", "-"),
            render.usd(b.price.per_gpu(b.gpu_count).usd, 3) + ("*" if r.discount_percent else ""),
            render.hours(b.runtime_hours), render.hours(b.billed_hours), b.basis,
            (">= " if b.partial or b.lower_bound else "") + render.usd(b.at_least_usd),
            _age(r, now), _stock(o.availability, o.stock_label), ref(o.key),
        ]  # fmt: skip
        if wide:
            line += [
                str(b.machines), render.usd(b.price.usd, 4), render.count(o.vcpus),
                render.count(o.ram_gib), o.interconnect or render.DASH, o.country or render.DASH,
                o.native_id,
            ]  # fmt: skip
        cells.append(line)
    render.print_table(columns, cells, right=_RIGHT, dim=frozenset(dim))


def _age(r: Row, now: datetime) -> str:
    if r.offer.valid_as_of is not None:
        return f"list {r.offer.valid_as_of.isoformat()}"
    return render.age(r.offer.seen_at, now) + (" stale" if r.stale else "")


def _stock(availability: str, label: str | None) -> str:
    return {"yes": label or "yes", "no": "none"}.get(availability, render.DASH)


def _explain(rows: Iterable[Row]) -> None:
    for r in rows:
        render.say(f"#{r.rank} {r.offer.gpu_key} at {r.offer.provider}, offer {ref(r.offer.key)}")
        note = f" ({r.estimate.note})" if r.estimate.note else ""
        render.say(f"    hours: {render.hours(r.bill.runtime_hours)} {r.bill.basis}{note}")
        for line in r.bill.lines:
            amount = render.usd(line.amount_usd, 4)
            rate = f"{render.number(round(line.quantity, 4))} {line.unit} x "
            rate += render.usd(line.unit_price_usd, 6)
            render.say(f"    {amount:>12}  {line.label}: {rate}")
        render.say(f"    {render.usd(r.bill.at_least_usd, 4):>12}  total")
        for text in (*r.bill.partial, *r.bill.notes):
            render.say(f"    note: {text}")
    render.say()


def _remarks(report: CheapestReport) -> Iterable[str]:
    c = report.comparison
    if c is not None:
        yield _break_even_sentence(c)
    bounds = sorted({r.offer.gpu_family for r in report.rows + report.best_by_gpu
                     if r.bill.lower_bound})  # fmt: skip
    if bounds:
        yield f"Hours on {', '.join(bounds)} are a lower bound (>=): it takes at least so long."
    if any(r.discount_percent for r in report.rows):
        yield "* less a negotiated discount from your price book."
    if any(r.bill.partial for r in report.rows):
        yield "A total with >= leaves out a part whose price the provider does not state."
    if report.rows and all(r.offer.valid_as_of is not None for r in report.rows):
        yield "Not live: these are list prices from a price book, each as of the date shown."


def _break_even_sentence(c: Comparison) -> str:
    left, right = c.left, c.right
    a, b = left.offer.gpu_key, right.offer.gpu_key
    costs = f"{a} {_total(left.bill)} against {b} {_total(right.bill)}"
    if c.break_even is None:
        return f"Break-even: {costs}; no price of the {a} would make them equal."
    even = c.break_even.per_gpu.usd
    now = left.bill.price.per_gpu(left.bill.gpu_count).usd
    relation = "below" if now < even else ("at" if now == even else "above")
    return (
        f"Break-even: {costs}. The {a} job is the cheaper one below {render.usd(even, 4)} per "
        f"GPU-hour; its price is {render.usd(now, 4)}, {relation} that. It is "
        f"{c.speed.had:.2f} times as fast and costs {c.speed.needed:.2f} times as much an hour."
    )


def offer_row(o: Any, now: datetime, stale: bool) -> dict[str, Any]:
    """A stored offer as plain values, everything the provider said."""
    machine = from_micro_usd(o.price_micro_usd)
    values: dict[str, Any] = {
        "offer": ref(o.key), "gpu": o.gpu_key, "gpus": o.gpu_count, "provider": o.provider,
        "region": o.region, "country": o.country, "tier": o.tier, "market": o.market,
        "price_usd_per_gpu_hour": render.usd_text(machine / Decimal(o.gpu_count)),
        "price_usd_per_machine_hour": render.usd_text(machine),
        "vram_gb": o.vram_gb, "age_seconds": int((now - o.seen_at).total_seconds()),
        "stale": stale, "availability": o.availability,
    }  # fmt: skip
    skip = {"key", "offer_id", "gpu_key", "gpu_count", "price_micro_usd"}
    rest = {k: v for k, v in o._asdict().items() if k not in skip and k not in values}
    return {**values, **rest}
