"""Bills and rankings, for people and for programs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.cli import render
from tracker.domain.cost import Bill, LineKind
from tracker.domain.money import from_micro_usd
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
)  # fmt: skip

UNRANKED = "…"

_QUANTITIES = ("vcpus", "ram_gib", "disk_included_gb", "disk_gb", "network_down_mbps",
               "network_up_mbps", "reliability", "max_duration_hours")  # fmt: skip

_COLUMNS = (
    render.Column("#", right=True), render.Column("GPU"), render.Column("GPUS", right=True),
    render.Column("PROVIDER"), render.Column("REGION", 6), render.Column("TIER", 2),
    render.Column("MARKET", 1), render.Column("$/GPU-H", right=True),
    render.Column("RUN h", 4, right=True), render.Column("BASIS", 5),
    render.Column("BILLED h", right=True), render.Column("TOTAL", right=True),
    render.Column("AGE", right=True), render.Column("STOCK", 7), render.Column("OFFER", 2),
)  # fmt: skip
_WIDE_COLUMNS = (
    render.Column("$/MACHINE-H", right=True), render.Column("VCPU", right=True),
    render.Column("RAM GiB", right=True), render.Column("INTERCONNECT"), render.Column("COUNTRY"),
    render.Column("ID"),
)  # fmt: skip


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
        "lower_bound": b.lower_bound,
        "age_seconds": int((now - known_at(o)).total_seconds()),
        "seen_at": o.seen_at,
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


def document(report: CheapestReport, verdicts: Sequence[Verdict]) -> dict[str, Any]:
    """The answer around the rows."""
    return {
        "as_of": report.now,
        "answer": sentence(report) if report.rows else None,
        "job": _job(report.job),
        "filters": report.filters.echo(),
        "offers_total": report.total_offers,
        "offers_considered": report.considered,
        "excluded": dict(report.excluded),
        "best_by_gpu": [row(r, report.now) for r in report.best_by_gpu],
        "comparison": comparison(report.comparison, report.now),
        "remarks": list(_remarks(report)),
        "verified": [v.as_dict() for v in verdicts],
    }


def _job(job: Job) -> dict[str, Any]:
    return {
        "name": job.name,
        "title": job.title,
        "gpus_needed": job.gpus_needed,
        "min_vram_gb": render.quantity(job.min_vram_gb),
        "disk_gb": render.quantity(job.disk_gb),
        "egress_gb": render.quantity(job.egress_gb),
        "setup_hours": render.quantity(job.setup_hours),
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
        "speed_up_had": render.quantity(c.speed.had),
        "speed_up_needed": render.quantity(c.speed.needed),
    }


def print_table(
    report: CheapestReport, verdicts: Sequence[Verdict], *, wide: bool, explain: bool
) -> None:
    """The answer as a sentence, the ranking, the best of each GPU, the break-even, the footer."""
    if report.rows:
        render.say(sentence(report))
        for verdict in verdicts:
            render.say(verdict.sentence())
        render.say()
        shown = {r.offer.key for r in report.rows}
        others = [r for r in report.best_by_gpu if r.offer.key not in shown]
        _ranking([*report.rows, *others], report.now, wide=wide)
        render.say()
        if explain:
            _explain([*report.rows, *others])
        if others:
            render.say(f"{UNRANKED} the best of each GPU that is not among the ranked rows.")
        for line in _remarks(report):
            render.say(line)
        if report.considered > len(report.rows):
            render.say(f"{report.considered - len(report.rows):,} more; --all shows them")
    render.say(render.footer(report.considered, report.total_offers, report.excluded))


def sentence(report: CheapestReport) -> str:
    """The answer in a sentence."""
    best, b = report.rows[0], report.rows[0].bill
    o = best.offer
    gpus = f"{render.count(o.gpu_count)} x {o.gpu_key}"
    machine = gpus if b.machines == 1 else f"{b.machines} machines of {gpus}"
    market = None if o.market == "on_demand" else o.market.replace("_", " ")
    place = f"{o.provider} ({', '.join(filter(None, (o.tier, market, o.region)))})"
    count = "" if b.machines == 1 else f"{b.machines} machines x "
    kinds = [ln.kind for ln in b.lines if ln.kind in (LineKind.DISK, LineKind.EGRESS)]
    extras = f" + {render.usd(b.extras_usd)} for {' and '.join(kinds)}" if kinds else ""
    text = (
        f"{report.job.title or report.job.name}: {_total(b)} on {machine} at {place}, "
        f"{count}{render.hours(b.billed_hours)} x {render.usd(b.price.usd, 4)}/h{extras}"
    )
    rows = (*report.rows[1:], *report.best_by_gpu)
    other = next((r for r in rows if r.offer.gpu_family != o.gpu_family), None)
    if other and b.at_least_usd:
        more = (other.bill.at_least_usd / b.at_least_usd - 1) * 100
        text += f"; next GPU {other.offer.gpu_key} {more:+.0f} %"
    if _open_ended(b):
        sure = next((r for r in rows if not _open_ended(r.bill)), None)
        if sure is not None:
            text += (
                f". The cheapest whose bill is certain: {_total(sure.bill)} on {sure.offer.gpu_key}"
                f" at {sure.offer.provider}"
            )
    return text + "."


def _open_ended(b: Bill) -> bool:
    """Whether the bill is only an "at least"."""
    return bool(b.partial) or b.lower_bound


def _total(b: Bill) -> str:
    text = render.usd(b.at_least_usd)
    return f"at least {text}" if _open_ended(b) else text


def _ranking(rows: Sequence[Row], now: datetime, *, wide: bool) -> None:
    render.print_table(
        _COLUMNS + (_WIDE_COLUMNS if wide else ()),
        [_cells(r, now) + (_wide_cells(r) if wide else []) for r in rows],
        dim=frozenset(i for i, r in enumerate(rows) if r.stale),
        wide=wide,
    )


def _cells(r: Row, now: datetime) -> list[str]:
    o, b = r.offer, r.bill
    gpus = render.count(o.gpu_count)
    return [
        str(r.rank or UNRANKED), o.gpu_key,
        gpus if b.machines == 1 else f"{b.machines} x {gpus}",
        o.provider, o.region or render.DASH, o.tier, o.market.replace("_", "-"),
        render.usd(b.price.per_gpu(b.gpu_count).usd, 4) + ("*" if r.discount_percent else ""),
        f"{b.runtime_hours:,.2f}", b.basis, f"{b.billed_hours:,.2f}",
        (">= " if _open_ended(b) else "") + render.usd(b.at_least_usd),
        age_text(o.valid_as_of, (now - known_at(o)).total_seconds(), stale=r.stale),
        stock_text(o.availability, o.stock_label), ref(o.key),
    ]  # fmt: skip


def _wide_cells(r: Row) -> list[str]:
    o = r.offer
    return [
        render.usd(r.bill.price.usd, 4), render.count(o.vcpus), render.count(o.ram_gib),
        o.interconnect or render.DASH, o.country or render.DASH, o.native_id,
    ]  # fmt: skip


def age_text(valid_as_of: date | None, age_s: float, *, stale: bool) -> str:
    """How old a price is; for a typed one the day it was read."""
    text = render.duration(age_s) if valid_as_of is None else valid_as_of.isoformat()
    return f"{text} stale" if stale else text


def stock_text(availability: str, label: str | None) -> str:
    """The provider's word for its stock."""
    return {"yes": label or "yes", "no": "none"}.get(availability, render.DASH)


def _explain(rows: Iterable[Row]) -> None:
    for r in rows:
        place = f"#{r.rank}" if r.rank else UNRANKED
        render.say(f"{place} {r.offer.gpu_key} at {r.offer.provider}, offer {ref(r.offer.key)}")
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
    """What a reader of the figures must know, for people and programs alike."""
    c = report.comparison
    if c is not None:
        yield _break_even_sentence(c)
    rows = report.rows + report.best_by_gpu
    bounds = sorted({r.offer.gpu_family for r in rows if r.bill.lower_bound})
    if bounds:
        yield f"Hours on {', '.join(bounds)} are a lower bound (>=): it takes at least so long."
    fewer = sorted(gpu for gpu, h in report.job.hours.items() if h.gpus < report.job.gpus_needed)
    if fewer:
        yield (
            f"{report.job.gpus_needed} GPUs are billed for the hours that fewer take on "
            f"{', '.join(fewer)}: how the job scales is not modelled."
        )
    if any(r.discount_percent for r in rows):
        yield "* less a negotiated discount from your price book."
    if any(r.bill.partial for r in rows):
        unknown = ", ".join(sorted({part for r in rows for part in r.bill.partial}))
        yield f"A total with >= leaves out what the provider does not state ({unknown})."
    dated = [r.offer.valid_as_of is not None for r in rows]
    if any(dated):
        which = "All prices are" if all(dated) else "A date under AGE marks"
        yield f"{which} list prices from a price book, read on the date shown: not live."
    if any(r.offer.market == "spot" for r in rows):
        yield "Spot: interruptions and repeated work are not in the bill."
    if any(r.stale for r in rows):
        yield "Stale prices are ranked because --include-stale asks for it."


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
        "offer": ref(o.key), "gpu": o.gpu_key, "gpus": render.quantity(o.gpu_count),
        "provider": o.provider, "region": o.region, "country": o.country, "tier": o.tier,
        "market": o.market,
        "price_usd_per_gpu_hour": render.usd_text(machine / Decimal(o.gpu_count)),
        "price_usd_per_machine_hour": render.usd_text(machine),
        "vram_gb": o.vram_gb, "age_seconds": int((now - known_at(o)).total_seconds()),
        "stale": stale, "availability": o.availability,
    }  # fmt: skip
    skip = {"key", "offer_id", "gpu_key", "gpu_count", "price_micro_usd"}
    rest = {k: v for k, v in o._asdict().items() if k not in skip and k not in values}
    rest |= {name: render.quantity(rest[name]) for name in _QUANTITIES}
    return {**values, **rest}


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
