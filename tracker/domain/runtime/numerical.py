"""HPC: the roofline alone. Nothing here is calibrated, and the range says so."""

from __future__ import annotations

from tracker.domain.runtime.figures import Figures
from tracker.domain.runtime.training_path import missing_precision
from tracker.domain.runtime.types import (
    Answer,
    Basis,
    Bound,
    DoesNotFit,
    Estimate,
    Hpc,
    Memory,
    NotPossible,
    Step,
)

# Well-tuned dense linear algebra and streaming reach about these shares of the peaks; real codes
# less. Assumed, not fitted.
_COMPUTE_SHARE = 0.7
_BANDWIDTH_SHARE = 0.8
_BAND = 2.0


def estimate(job: Hpc, gpu: Figures, gpus: int, *, check_memory: bool) -> Answer:
    """Hours by the slower of compute and bandwidth; GPUs share the work evenly."""
    peak = gpu.tflops(job.precision)
    if peak is None:
        return NotPossible(gpu.key, missing_precision(gpu, job.precision))
    held = None
    if job.vram_gib is not None:
        need = job.vram_gib / gpus
        held = Memory(weights=need)
        if check_memory and need > gpu.vram_gib:
            count = int(-(-job.vram_gib // gpu.vram_gib))
            how = f"fits on {count} with the data divided over them"
            return DoesNotFit(gpu.key, gpus, need, gpu.vram_gib, held, count, how)
    compute = job.flops / (gpus * peak * 1e12 * _COMPUTE_SHARE)
    memory = job.bytes_moved / (gpus * gpu.bandwidth_gbps * 1e9 * _BANDWIDTH_SHARE)
    seconds = max(compute, memory)
    hours = seconds / 3600
    steps = (
        Step("compute", f"FLOPs / 70 % of {job.precision} peak", compute, "s"),
        Step("bandwidth", "bytes / 80 % of the memory bandwidth", memory, "s"),
        Step("runtime", "the longer of the two", hours, "hours"),
    )
    return Estimate(
        gpu=gpu.key,
        gpus=gpus,
        hours=hours,
        low=hours / _BAND,
        high=hours * _BAND,
        per_second=(job.flops or job.bytes_moved) / seconds,
        unit="FLOP/s" if job.flops else "bytes/s",
        bound=Bound.COMPUTE if compute >= memory else Bound.BANDWIDTH,
        memory=held,
        steps=steps,
        basis=Basis.MODELLED,
        group="hpc",
        calibrated=False,
        rows=0,
        version="roofline",
        notes=("a roofline with assumed shares of the peaks: measure it on one GPU to know",),
    )
