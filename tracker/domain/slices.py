"""A part of a GPU: which share of the card it is, and the hours of a job with a workload on it.

The share is told by a count below 1 (a quarter of a card: a quarter of its compute, memory and
bandwidth), or by a MIG profile in the offer's own id: ``1g.10gb`` has 1 of 7 compute slices, and
10 GB of the card's memory with the same share of its bandwidth (NVIDIA MIG User Guide,
"Partitioning"). Otherwise it is not known, and there is no estimate. Of several cards that it may
be of, the slowest counts.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction
from typing import NamedTuple, cast

from tracker.domain.evidence import (
    NOT_FIT,
    NOT_POSSIBLE,
    SLICE,
    anchor,
    estimate_of,
    whole_parts,
)
from tracker.domain.gpu import Catalogue
from tracker.domain.gpu_data import GpuSpec
from tracker.domain.job import GpuCatalogue, Job, NoEstimate, RuntimeEstimate
from tracker.domain.mig import profile_of
from tracker.domain.runtime.serving import at_rate
from tracker.domain.runtime.types import Answer, DoesNotFit, Estimate, Family, Inference

_SLICES = 7  # compute slices of a card that MIG divides

NO_SHARE = "sold as a slice whose share of the GPU is not stated"


class Share(NamedTuple):
    """A part of a card: ``compute`` in (0, 1], and either ``memory`` in (0, 1] or its ``gb``."""

    compute: Fraction
    memory: Fraction | None = None
    gb: int | None = None


def share_of(native_id: str, gpu_count: Decimal) -> Share | None:
    """The share of a slice, by the offer's id and count; None: nobody says."""
    if 0 < gpu_count < 1:
        share = Fraction(gpu_count)
        return Share(share, share)
    profile = profile_of(native_id)
    if profile is None:
        return None
    slices, gb = profile
    return Share(Fraction(slices, _SLICES), gb=gb)


def runtime_on(
    job: Job, gpu_key: str, share: Share | None, catalogue: GpuCatalogue
) -> RuntimeEstimate | NoEstimate:
    """The hours of *job* on one slice of the family of *gpu_key*."""
    task, estimator = job.task, job.estimator
    if task is None or estimator is None:
        return NoEstimate("a slice of a GPU: the hours are for whole GPUs", SLICE)
    if share is None:
        return NoEstimate(f"nobody says which share of a GPU a {gpu_key} is", NO_SHARE)
    if job.gpus_needed > 1:
        return NoEstimate(f"needs {job.gpus_needed} GPUs, and slices do not work together", SLICE)
    whole = cast("Catalogue", catalogue)
    answers = [
        answer
        for part in whole_parts(gpu_key.split("-", 1)[0], whole)
        if (answer := _answer(job, part, share, whole)) is not None
    ]
    if not answers:
        return NoEstimate(f"no card is known that a {gpu_key} could be of", NOT_POSSIBLE)
    worst = max(answers, key=lambda a: a.hours if isinstance(a, Estimate) else float("inf"))
    if isinstance(worst, DoesNotFit):
        return NoEstimate(
            f"needs {worst.need_gib:.1f} GiB, the slice of {worst.gpu} has {worst.have_gib:.1f}",
            NOT_FIT,
        )
    return estimate_of(task, worst, "the rest of the card is taken to leave it its share")


def _answer(job: Job, part: GpuSpec, share: Share, catalogue: Catalogue) -> Answer | None:
    """The slice as one of *part*; None where it cannot be one."""
    task, estimator, size = job.task, job.estimator, part.gpu.vram_gb
    if task is None or estimator is None or not size:
        return None
    memory = share.memory if share.gb is None else Fraction(share.gb, size)
    if memory is None or memory > 1 or (share.gb is not None and not part.mig):
        return None
    workload, known = task.workload, anchor(job, part.gpu.key, 1, catalogue)
    if isinstance(workload, Family) and known is not None:
        where, entry = known
        workload = replace(
            workload, reference_gpu=where, reference_gpus=entry.gpus,
            reference_hours=float(entry.hours),
        )  # fmt: skip
    asked = workload.request_rate if isinstance(workload, Inference) else None
    if isinstance(workload, Inference):
        workload = replace(workload, request_rate=None)
    answer = estimator.estimate_share(workload, part.gpu.key, float(share.compute), float(memory))
    if known is not None and not isinstance(workload, Family) and isinstance(answer, Estimate):
        # What the model gets wrong of this job cancels out, as on whole GPUs.
        where, entry = known
        speed = estimator.speed(workload, where, entry.gpus)
        if speed is not None:
            answer = estimator.times(answer, float(entry.hours) * speed)
    if isinstance(workload, Inference) and asked is not None and isinstance(answer, Estimate):
        return at_rate(workload, asked, answer)
    return answer
