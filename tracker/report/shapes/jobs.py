"""Jobs as plain values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tracker.domain.job import Job
from tracker.report.shapes import texts

if TYPE_CHECKING:
    from tracker.domain.measurement import Measurement


def kind(job: Job) -> str:
    """What it computes; ``hours`` for a job that says nothing but hours."""
    return job.task.kind if job.task is not None else "hours"


def document(job: Job) -> dict[str, Any]:
    """What a job is, and what it assumes."""
    needs = {
        "gpus_needed": job.gpus_needed if job.task is None or job.count_given else None,
        "min_vram_gb": job.min_vram_gb, "disk_gb": job.disk_gb or None,
        "egress_gb": job.egress_gb or None, "setup_hours": job.setup_hours or None,
    }  # fmt: skip
    limits = job.limits._asdict() if job.limits is not None else {}
    return {
        "name": job.name,
        "title": job.title,
        "description": job.description,
        "kind": kind(job),
        "needs": {k: v for k, v in needs.items() if v is not None},
        "workload": _workload(job),
        "limits": {k: v for k, v in limits.items() if v not in (None, (), False)},
        "hours": {
            gpu: {
                "hours": texts.quantity(h.hours), "gpus": h.gpus, "basis": h.basis,
                "lower_bound": h.lower_bound, "note": h.note, "source": h.source,
            }
            for gpu, h in job.hours.items()
        },
    }  # fmt: skip


def measured(job: Job, found: Sequence[Measurement]) -> list[dict[str, Any]]:
    """Measurements as plain values; ``in_force``: the newest of its GPU and count, if it is of this
    job (of plain hours: the newest of its GPU)."""
    from tracker.domain.measurement import per_second, subject_of

    subject = subject_of(job)

    def place(one: Measurement) -> tuple[str, int]:
        return one.gpu, one.gpus if job.task is not None else 0

    newest = {place(one): one for one in found if one.subject == subject}
    return [
        {
            "gpu": one.gpu, "gpus": one.gpus, "version": one.version,
            "hours": texts.quantity(one.hours), "unit": one.unit,
            "amount": texts.quantity(one.amount), "per_second": texts.quantity(per_second(one)),
            "measured_at": one.measured_at,
            "note": one.note, "in_force": newest.get(place(one)) is one,
            **{name: texts.quantity(value) for name, value in one.utilisation.items()},
        }
        for one in found
    ]  # fmt: skip


def _workload(job: Job) -> dict[str, Any]:
    """The workload's fields that say something, the model by its sizes."""
    if job.task is None:
        return {}
    from dataclasses import fields

    out: dict[str, Any] = {"kind": job.task.kind}
    for field in fields(job.task.workload):
        value = getattr(job.task.workload, field.name)
        if field.name == "model":
            out |= {"model": value.name, "parameters": value.params}
        elif value is not None and not field.name.startswith("reference"):
            out[field.name] = value
    if job.task.service_hours is not None:
        out["service_hours"] = job.task.service_hours
    return out


def listed_row(name: str, origin: str, job: Job | None, problem: str | None) -> dict[str, Any]:
    """One job of a list; *problem* says why one cannot be used."""
    return {
        "job": name, "kind": None if job is None else kind(job), "from": origin,
        "title": None if job is None else job.title, "problem": problem,
    }  # fmt: skip
