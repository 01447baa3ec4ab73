"""A service of inference: as many copies as the rate asked for takes, and the range of that.

Its hours are those for which it is kept up, whatever its speed. The range of the speed is one of
the number of copies: at a speed that is a factor lower, so many times as many are needed.
"""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

from tracker.domain.job import NoEstimate, RuntimeEstimate, RuntimeHours
from tracker.domain.job_workload import Task
from tracker.domain.runtime.types import Answer, Estimate, Inference, NotPossible
from tracker.domain.texts import figure

TOO_SLOW = "on which the job cannot run"

# Rounded digits must not cost a machine.
_ROUNDED = 1e-6


def gpus_between(answer: Estimate) -> tuple[int, int] | tuple[None, None]:
    """The GPUs that the rate takes at both ends of the range of the speed; None: no rate."""
    needed = answer.copies_needed
    if needed is None:
        return None, None
    low, high = (
        max(1, math.ceil(needed * hours / answer.hours - _ROUNDED)) * answer.copy_gpus
        for hours in (answer.low, answer.high)
    )
    return min(low, answer.gpus), max(high, answer.gpus)


def as_given(
    task: Task, entry: RuntimeHours, gpu: str, gpus: int, per_machine: int
) -> tuple[RuntimeEstimate | NoEstimate, Answer | None]:
    """A service on *gpus* of *gpu*, on which *entry* is given: its GPUs do all requests in its
    hours. As many such groups are kept as the rate takes, each as fast as the one and whole in a
    machine of *per_machine*, unless it is larger than that."""
    workload, kept = task.workload, task.service_hours
    if not isinstance(workload, Inference) or workload.request_rate is None or kept is None:
        raise ValueError("no service")
    in_each = per_machine // entry.gpus
    groups = gpus // entry.gpus
    if in_each:
        full, rest = divmod(gpus, per_machine)
        groups = full * in_each + rest // entry.gpus
    busy = Fraction(entry.hours) / Fraction(kept)  # groups, if they did nothing else
    wanted = busy / Fraction(f"{workload.utilisation:.12g}")
    needed = max(1, math.ceil(wanted - Fraction(_ROUNDED)))
    with localcontext() as context:
        context.prec = 28
        each = task.units["requests"] / entry.hours / 3600
    said = f"{entry.gpus} x {gpu} do {figure(each)} requests/s"
    if needed > groups:
        enough = needed * entry.gpus
        if in_each:
            full, rest = divmod(needed, in_each)
            enough = full * per_machine + rest * entry.gpus
        reason = f"{said}, {figure(workload.request_rate, 6)} are asked for: {enough} GPUs would do"
        return NoEstimate(reason, TOO_SLOW), NotPossible(gpu, reason, enough)
    share = f"busy {float(busy / groups):.0%} of the time at the rate asked for"
    return RuntimeEstimate(
        hours=Decimal(kept),
        basis=entry.basis,
        note="; ".join(filter(None, (said, share, entry.note))),
        lower_bound=entry.lower_bound,
        gpus=gpus,
        source=entry.source,
    ), None
