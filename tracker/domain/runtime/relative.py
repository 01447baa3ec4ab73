"""Jobs known by a measurement: carried over by the ratio of speeds of their workload group.

log speed = a log(compute) + b log(bandwidth) + what GPUs of this kind do beyond it; a and b of the
group, the rest shrunk to 0, so that a GPU nobody measured gets the roofline alone.
"""

from __future__ import annotations

import math

from tracker.domain.runtime.calibration import Calibration
from tracker.domain.runtime.figures import Figures
from tracker.domain.runtime.training_path import missing_precision
from tracker.domain.runtime.types import (
    Answer,
    Basis,
    Bound,
    DoesNotFit,
    Estimate,
    Family,
    Memory,
    NotPossible,
    Step,
)

_MLPERF_NOTE = "ratios rest partly on MLPerf results, not verified by MLCommons Association"


def estimate(
    job: Family, reference: Figures, gpu: Figures, gpus: int, calibration: Calibration
) -> Answer:
    """Hours on *gpus* of *gpu* from the job's hours on *reference*."""
    group = job.group
    if (refused := _impossible(job, gpu, gpus, calibration)) is not None:
        return refused
    own = log_speed(calibration, group, gpu, job.precision)
    theirs = log_speed(calibration, group, reference, job.precision)
    if own is None or theirs is None:
        without = gpu if own is None else reference
        return NotPossible(gpu.key, missing_precision(without, job.precision))
    ratio = math.exp(own - theirs)
    theirs = scaling_loss(calibration, reference, job.reference_gpus)
    loss = scaling_loss(calibration, gpu, gpus) / theirs
    hours = job.reference_hours * job.reference_gpus / gpus / ratio / loss
    rows = _rows(job, gpu, calibration)
    same = gpu.key == reference.key
    calibrated = rows > 0 and (same or _rows(job, reference, calibration) > 0)
    band = calibration.band("ratio", group, "calibrated" if calibrated else "roofline").factor
    if same and gpus == job.reference_gpus:
        band = 1.0
    compute = calibration.slope("compute", group)
    memory = calibration.slope("bandwidth", group)
    measured = f"{job.reference_gpus} x {reference.key}"
    return Estimate(
        gpu=gpu.key,
        gpus=gpus,
        hours=hours,
        low=hours / band,
        high=hours * band,
        per_second=1 / hours / 3600,
        unit="jobs/s",
        bound=Bound.COMPUTE if compute >= memory else Bound.BANDWIDTH,
        memory=None,
        steps=(
            Step("measurement", measured, job.reference_hours, "hours"),
            Step("compute", f"exponent of dense {job.precision} TFLOPS in {group}", compute, ""),
            Step("bandwidth", f"exponent of memory bandwidth in {group}", memory, ""),
            Step("ratio", f"speed of one {gpu.key} over one {reference.key}", ratio, "x"),
            Step("GPUs", "what is lost by working together, against the measurement", loss, "x"),
            Step("runtime", "hours x GPUs / ratio / loss / GPUs", hours, "hours"),
        ),
        basis=Basis.SCALED,
        group=group,
        calibrated=calibrated,
        rows=rows,
        version=calibration.version,
        notes=(_MLPERF_NOTE,) if job.precision == "best" else (),
    )


def _impossible(job: Family, gpu: Figures, gpus: int, calibration: Calibration) -> Answer | None:
    """Why the job has no hours on *gpu*, whatever its speed; None where it may have some."""
    if not calibration.has_group(job.group):
        known = ", ".join(calibration.groups())
        return NotPossible(gpu.key, f"no workload group {job.group!r}; there are {known}")
    if job.vram_gib is not None and job.vram_gib > gpu.vram_gib:
        how = f"it needs a GPU with at least {job.vram_gib:g} GiB"
        held = Memory(weights=job.vram_gib)
        return DoesNotFit(gpu.key, gpus, job.vram_gib, gpu.vram_gib, held, None, how)
    return None


def _rows(job: Family, gpu: Figures, calibration: Calibration) -> int:
    """The measurements of this GPU behind what it does beyond the roofline, in the job's group."""
    return calibration.rows("ratio", "gpu", f"gpu/{gpu.key}@{job.precision}/{job.group}")


def log_speed(calibration: Calibration, group: str, gpu: Figures, precision: str) -> float | None:
    """The logarithm of one GPU's speed, up to a constant of the group; None: no such precision."""
    peak = gpu.tflops(precision)
    if peak is None:
        return None
    return calibration.relative(group, gpu, precision, peak)


def scaling_loss(calibration: Calibration, gpu: Figures, gpus: int) -> float:
    """Speed per GPU when so many work together, against one alone: a power of the count."""
    if gpus == 1:
        return 1.0
    wire = "nvlink" if gpu.nvlink_gbps else "pcie"
    exponent = max(0.0, calibration.log("scaling", "loss", (f"link/{wire}",)))
    return float(gpus**-exponent)
