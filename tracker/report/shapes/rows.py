"""Rankings and offers as plain values, the same for every program that asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.domain.break_even import break_even_is_unknown
from tracker.domain.money import from_micro_usd
from tracker.domain.terms import OWN
from tracker.report.ages import age_seconds, known_at
from tracker.report.filters import rented_kind
from tracker.report.shapes import goals, texts, units, words

if TYPE_CHECKING:
    from tracker.domain.job import Job
    from tracker.report.cheapest import CheapestReport, Comparison, Row

COLUMNS = (
    "rank", "offer", "gpu", "gpus", "provider", "region", "country", "tier", "market",
    "total_usd", "at_least_usd", "partial", "price_usd_per_gpu_hour", "price_usd_per_machine_hour",
    "machines", "runtime_hours", "billed_hours", "basis", "lower_bound", "seen_at", "age_seconds",
    "stale", "valid_as_of", "availability", "stock", "discount_percent", "source", "offer_id",
    "low_usd", "high_usd", "tie", "done_hours", "unbeaten", "kind", "list_price",
)  # fmt: skip

OFFER_COLUMNS = (
    "offer", "gpu", "gpus", "provider", "region", "country", "tier", "market",
    "price_usd_per_gpu_hour", "price_usd_per_machine_hour", "vram_gb", "vcpus", "ram_gib",
    "interconnect", "dedicated", "reliability", "availability", "stock_label", "age_seconds",
    "stale", "valid_as_of", "commitment_hours", "billing_increment_seconds", "disk_included_gb",
    "disk_usd_per_gb_hour", "egress_usd_per_gb", "price_native", "currency", "price_unit",
    "native_id", "source", "seen_at", "kind", "list_price",
)  # fmt: skip
_QUANTITIES = ("vcpus", "ram_gib", "disk_included_gb", "disk_gb", "network_down_mbps",
               "network_up_mbps", "reliability", "max_duration_hours")  # fmt: skip


def csv_columns(rows: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """COLUMNS, and those of unit prices where a row has them."""
    return COLUMNS + tuple(name for name in units.FIELDS if any(name in row for row in rows))


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
        "gpus": texts.quantity(o.gpu_count),
        "provider": o.provider,
        "source": o.source,
        "owned": o.source == OWN,
        "upstream": o.upstream,
        "offer_id": o.native_id,
        **_kind(o),
        "region": o.region,
        "country": o.country,
        "tier": o.tier,
        "market": o.market,
        "price_kind": o.price_kind,
        "total_usd": texts.usd_text(b.total_usd),
        "at_least_usd": texts.usd_text(b.at_least_usd),
        "partial": list(b.partial),
        "price_usd_per_gpu_hour": texts.usd_text(b.price.per_gpu(b.gpu_count).usd),
        "price_usd_per_machine_hour": texts.usd_text(b.price.usd),
        "machines": b.machines,
        "runtime_hours": texts.quantity(b.runtime_hours),
        "billed_hours": texts.quantity(b.billed_hours),
        "basis": b.basis,
        "basis_note": r.estimate.note,
        "basis_source": r.estimate.source,
        "gpus_used": max(r.estimate.gpus, 1),
        "runtime_low_hours": texts.quantity(r.estimate.low_hours),
        "runtime_high_hours": texts.quantity(r.estimate.high_hours),
        "low_usd": texts.usd_text(r.low_usd),
        "high_usd": texts.usd_text(r.high_usd),
        "low_machines": r.low_machines,
        "high_machines": r.high_machines,
        "tie": r.tie,
        "done_hours": texts.quantity(r.done_hours),
        "unbeaten": r.unbeaten,
        "estimate_version": r.estimate.version,
        **_interruptions(r),
        **units.values(r),
        "lower_bound": b.lower_bound,
        "age_seconds": age_seconds(o, now),
        "seen_at": known_at(o),
        "stale": r.stale,
        "valid_as_of": o.valid_as_of,
        "availability": o.availability,
        "stock": o.stock_label,
        "discount_percent": texts.quantity(r.discount_percent),
        "vcpus": texts.quantity(o.vcpus),
        "ram_gib": texts.quantity(o.ram_gib),
        "interconnect": o.interconnect,
        "bill": [
            {"kind": line.kind, "label": line.label, "amount_usd": texts.usd_text(line.amount_usd)}
            for line in b.lines
        ],
        "notes": list(b.notes),
    }


def _kind(o: Any) -> dict[str, Any]:
    """What is rented; and whether nobody says that anything is to be had at the price."""
    return {"kind": rented_kind(o), "list_price": o.availability == "unknown"}


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
        "rerun_hours": texts.quantity(found.rerun_hours),
        "wall_hours": texts.quantity(found.wall_hours),
        "interruptions": round(found.interruptions, 6),
        "interruption_basis": found.rate.basis,
        "chance_in_time": round(found.chance, 4),
    }


def document(report: CheapestReport, verified: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """The answer around the rows; *verified* is what asking again found."""
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
        "verified": list(verified),
    }


def job_values(job: Job) -> dict[str, Any]:
    """What was asked for, as plain values."""
    return {
        "name": job.name,
        "title": job.title,
        "gpus_needed": job.gpus_needed,
        "min_vram_gb": texts.quantity(job.min_vram_gb),
        "disk_gb": texts.quantity(job.disk_gb),
        "egress_gb": texts.quantity(job.egress_gb),
        "setup_hours": texts.quantity(job.setup_hours),
        "download_gb": texts.quantity(job.download.sizes.total_gb) if job.download else None,
        "assumed_mbps": texts.quantity(job.download.assumed_mbps) if job.download else None,
        "completes": job.completes,
        "workload": job.task.kind if job.task is not None else None,
        "limits": job.limits._asdict() if job.limits is not None else None,
        "spot": job.spot._asdict() if job.spot is not None else None,
        "hours": {
            gpu: {
                "hours": texts.quantity(h.hours), "gpus": h.gpus, "basis": h.basis,
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
        "break_even_usd_per_machine_hour": texts.usd_text(even.price.usd) if even else None,
        "break_even_usd_per_gpu_hour": texts.usd_text(even.per_gpu.usd) if even else None,
        "break_even_bound": even.bound if even else None,
        "break_even_unknown": break_even_is_unknown(c.left.bill, c.right.bill),
        "speed_up_had": texts.quantity(c.speed.had),
        "speed_up_needed": texts.quantity(c.speed.needed),
    }


def offer_row(o: Any, now: datetime, stale: bool) -> dict[str, Any]:
    """A stored offer as plain values, everything the provider said."""
    machine = from_micro_usd(o.price_micro_usd)
    values: dict[str, Any] = {
        "offer": ref(o.key), "gpu": o.gpu_key, "gpus": texts.quantity(o.gpu_count),
        "provider": o.provider, "upstream": o.upstream, "region": o.region, "country": o.country,
        "tier": o.tier, "market": o.market,
        "price_usd_per_gpu_hour": texts.usd_text(machine / Decimal(o.gpu_count)),
        "price_usd_per_machine_hour": texts.usd_text(machine),
        "vram_gb": o.vram_gb, "age_seconds": age_seconds(o, now),
        "stale": stale, "availability": o.availability,
        **_kind(o),
    }  # fmt: skip
    skip = {"key", "offer_id", "gpu_key", "gpu_count", "price_micro_usd"}
    rest = {k: v for k, v in o._asdict().items() if k not in skip and k not in values}
    rest |= {name: texts.quantity(rest[name]) for name in _QUANTITIES}
    return {**values, **rest, "seen_at": known_at(o)}


def held_row(q: Any) -> dict[str, Any]:
    """A quarantined offer as plain values, with the gate and its reason."""
    return {
        "offer": ref(q.offer_key), "gpu": q.gpu_key, "gpus": texts.quantity(q.gpu_count),
        "provider": q.seller, "region": q.region, "tier": q.tier, "market": q.market,
        "price_usd_per_machine_hour": texts.usd_text(from_micro_usd(q.price_micro_usd)),
        "gate": q.gate, "reason": q.reason, "confirmations": q.confirmations,
        "releasable": q.releasable, "first_seen_at": q.first_seen_at,
        "last_seen_at": q.last_seen_at,
    }  # fmt: skip
