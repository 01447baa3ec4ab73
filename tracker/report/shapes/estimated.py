"""How long a job takes on each GPU, as plain values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tracker.domain.cost import LineKind
from tracker.domain.job import Job, NoEstimate
from tracker.report.shapes import texts, words

if TYPE_CHECKING:
    from tracker.domain.job import RuntimeEstimate
    from tracker.domain.runtime.types import Estimate
    from tracker.report.cheapest import Row
    from tracker.report.estimates import OnGpu

_ZERO = Decimal(0)


def remarks(job: Job, remark: str | None, found: Sequence[OnGpu] = ()) -> list[str]:
    """What a reader of the hours must know, with *remark*; of the bills where *found* has some."""
    fewer = words.fewer(job)
    rows = [on.row for on in found if on.row is not None]
    return [text for text in (fewer, remark, *_of_bills(job, rows)) if text]


def _of_bills(job: Job, rows: Sequence[Row]) -> Iterator[str]:
    if not rows:
        return
    if job.count_given or job.gpus_needed > 1:
        yield "A machine is billed whole, with the GPUs that the job leaves idle."
    else:
        yield (
            "On each GPU it is the cheapest way, with so many GPUs as make it that: a machine is "
            "billed whole."
        )
    longest = max(sum((ln.quantity for ln in row.bill.lines if ln.kind is LineKind.SETUP), _ZERO)
                  for row in rows)  # fmt: skip
    if longest:
        yield f"Set-up is billed beside the hours of the run: {texts.hours(longest)} at most."


def worked_out(on: OnGpu) -> Estimate | None:
    """The way to the hours, where there is one."""
    from tracker.domain.runtime.types import Estimate

    return on.answer if isinstance(on.answer, Estimate) else None


def document(job: Job, found: Sequence[OnGpu], remark: str | None) -> dict[str, Any]:
    """The answer; *remark* says why there are no prices beside the hours."""
    return {
        "job": job.name,
        "title": job.title,
        "kind": job.task.kind if job.task is not None else "hours",
        "remark": " ".join(remarks(job, remark, found)) or None,
        "estimates": [_entry(on) for on in found],
    }


def span(hours: RuntimeEstimate) -> str | None:
    """The range of the hours; of a service that of the GPUs that it takes. None: there is none."""
    if hours.low_gpus is not None and hours.high_gpus is not None:
        many = texts.counted(hours.high_gpus, "GPU")
        return many if hours.low_gpus == hours.high_gpus else f"{hours.low_gpus:,} to {many}"
    low, high = hours.low_hours, hours.high_hours
    return None if low is None or high is None else f"{low:,.2f} to {high:,.2f}"


def rented(row: Row) -> str:
    """The machines of an offer and the GPUs in each, all of them billed: ``1 x 8``."""
    return f"{row.bill.machines} x {texts.count(row.bill.gpu_count)}"


def billed(row: Row) -> str:
    """What is billed, in words."""
    b = row.bill
    gpus = "1 GPU" if b.gpu_count == 1 else f"{texts.count(b.gpu_count)} GPUs"
    machines = f"a machine of {gpus}" if b.machines == 1 else f"{b.machines} machines of {gpus}"
    market = "" if row.offer.market == "on_demand" else f" ({row.offer.market.replace('_', ' ')})"
    price = texts.usd(b.price.usd, 4)
    return f"{machines}{market} for {texts.hours(b.billed_hours)} at {price} an hour"


def _entry(on: OnGpu) -> dict[str, Any]:
    from tracker.domain.runtime.types import DoesNotFit

    entry: dict[str, Any] = {"gpu": on.gpu, "gpus": on.gpus, "runs": True, "reason": None}
    if isinstance(on.hours, NoEstimate):
        entry |= {"runs": False, "reason": on.hours.reason}
        if isinstance(on.answer, DoesNotFit):
            entry |= {
                "need_gib": round(on.answer.need_gib, 2), "have_gib": round(on.answer.have_gib, 2),
                "smallest_count": on.answer.smallest_count,
            }  # fmt: skip
        return entry
    hours, made = on.hours, worked_out(on)
    entry |= {
        "hours": texts.quantity(hours.hours),
        "low_hours": texts.quantity(hours.low_hours),
        "high_hours": texts.quantity(hours.high_hours),
        "low_gpus": hours.low_gpus,
        "high_gpus": hours.high_gpus,
        "basis": hours.basis, "note": hours.note, "source": hours.source,
        "lower_bound": hours.lower_bound, "version": hours.version,
    }  # fmt: skip
    if made is not None:
        entry |= {
            "bound": made.bound, "group": made.group, "calibrated": made.calibrated,
            "per_second": made.per_second, "unit": made.unit,
            "vram_gib": round(made.memory.total, 2) if made.memory else None,
            "steps": [step._asdict() for step in made.steps], "notes": list(made.notes),
        }  # fmt: skip
    row = on.row
    entry |= {
        "price_usd_per_gpu_hour": texts.usd_text(row.bill.price.per_gpu(row.bill.gpu_count).usd)
        if row
        else None,
        "total_usd": texts.usd_text(row.bill.total_usd) if row else None,
        "at_least_usd": texts.usd_text(row.bill.at_least_usd) if row else None,
        "low_usd": texts.usd_text(row.low_usd) if row else None,
        "high_usd": texts.usd_text(row.high_usd) if row else None,
        "machines": row.bill.machines if row else None,
        "gpus_per_machine": texts.quantity(row.bill.gpu_count) if row else None,
        "billed_hours": texts.quantity(row.bill.billed_hours) if row else None,
        "market": row.offer.market if row else None,
        "provider": row.offer.provider if row else None,
    }
    return entry
