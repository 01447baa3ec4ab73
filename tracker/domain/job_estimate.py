"""The estimator's answer as hours of a job, or why there are none."""

from __future__ import annotations

from decimal import Decimal

from tracker.domain.job import Basis, NoEstimate, RuntimeEstimate, Speeds
from tracker.domain.job_fields import MAX_HOURS
from tracker.domain.job_service import gpus_between
from tracker.domain.job_workload import Task
from tracker.domain.runtime.types import Answer, DoesNotFit, Estimate, NotPossible
from tracker.domain.runtime.types import Basis as Modelled
from tracker.domain.texts import figure

NOT_FIT = "on which the job does not fit"
NOT_POSSIBLE = "on which the job cannot run"


def estimate_of(task: Task, answer: Answer, note: str) -> RuntimeEstimate | NoEstimate:
    """The hours that *answer* comes to, with *note* (empty: none), or why there are none."""
    if isinstance(answer, DoesNotFit):
        return NoEstimate(answer.reason, NOT_FIT)
    if isinstance(answer, NotPossible):
        return NoEstimate(answer.reason, NOT_POSSIBLE)
    if not 0 < answer.hours <= float(MAX_HOURS):
        return NoEstimate(f"takes {answer.hours / 8760:,.0f} years on {answer.gpu}", NOT_POSSIBLE)
    bases = {Modelled.MODELLED: Basis.MODELLED, Modelled.MEASURED: Basis.MEASURED}
    said = [f"{answer.gpus} x {answer.gpu}, {_rate(answer)}, bound by {answer.bound}"]
    if not answer.calibrated:
        said.append("no measurement of this GPU at such a job")
    said += [*filter(None, (note,)), *answer.notes]
    kept = task.service_hours
    low_gpus, high_gpus = gpus_between(answer)
    return RuntimeEstimate(
        hours=_decimal(answer.hours) if kept is None else kept,
        basis=bases.get(answer.basis, Basis.SCALED),
        note="; ".join(said),
        gpus=answer.gpus,
        low_hours=_decimal(answer.low) if kept is None else None,
        high_hours=_decimal(answer.high) if kept is None else None,
        version=answer.version,
        speeds=_speeds(answer),
        low_gpus=low_gpus,
        high_gpus=high_gpus,
    )


def _speeds(answer: Estimate) -> Speeds | None:
    read, written = answer.input_per_second, answer.output_per_second
    if read is None:
        return None
    return Speeds(_decimal(read), None if written is None else _decimal(written))


def _rate(answer: Estimate) -> str:
    if answer.unit == "jobs/s":
        return f"{answer.group} carried over by the ratio of speeds"
    rate = answer.per_second
    if answer.unit in ("FLOP/s", "bytes/s"):
        return f"{figure(rate / 1e12)} T{answer.unit}"
    return f"{rate:,.0f} {answer.unit}" if rate >= 10 else f"{figure(rate)} {answer.unit}"


def _decimal(hours: float) -> Decimal:
    """Six digits: more say nothing."""
    return Decimal(f"{hours:.6g}")
