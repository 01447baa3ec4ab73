"""Estimates: a workload on so many of one GPU, in hours, with a range and the way there."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tracker.domain.gpu_data import GpuSpec
from tracker.domain.runtime import numerical, relative, serving, training_path
from tracker.domain.runtime.calibration import Calibration
from tracker.domain.runtime.figures import Figures, figures, share_of
from tracker.domain.runtime.types import (
    Answer,
    Basis,
    Estimate,
    Family,
    Hpc,
    Inference,
    Link,
    NotPossible,
    Step,
    Training,
    Workload,
)

_DEFAULT_LINK = Link()


class Estimator:
    """Estimates with one calibration. *spec* gives a GPU's figures by its key."""

    def __init__(self, spec: Callable[[str], GpuSpec | None], calibration: Calibration) -> None:
        self._spec = spec
        self.calibration = calibration
        self._figures: dict[str, Figures | None] = {}

    def estimate(
        self, workload: Workload, gpu: str, gpus: int = 1, link: Link = _DEFAULT_LINK
    ) -> Answer:
        """Hours of *workload* on *gpus* GPUs of the kind *gpu*, or why there are none."""
        return self._answer(workload, gpu, gpus, link, check_memory=True)

    def estimate_share(
        self, workload: Workload, gpu: str, compute_share: float, memory_share: float
    ) -> Answer:
        """Hours on a part of one GPU (MIG slice, fraction), with the range of an unmeasured GPU.

        A 1g.10gb slice of an A100 has 1/7 of the compute and 1/8 of memory and bandwidth. Raises
        ValueError for shares outside (0, 1].
        """
        whole = self._of(gpu)
        if whole is None:
            return self._unknown(gpu)
        part = share_of(whole, compute_share, memory_share)
        answer = self._on(workload, part, 1, _DEFAULT_LINK, check_memory=True)
        if not isinstance(answer, Estimate) or compute_share == memory_share == 1:
            return answer
        kind = "ratio" if isinstance(workload, Family) else "speed"
        band = self.calibration.band(kind, answer.group, "roofline").factor
        return replace(
            answer,
            low=min(answer.low, answer.hours / band),
            high=max(answer.high, answer.hours * band),
            calibrated=False,
            notes=(*answer.notes, f"{compute_share:.0%} of the compute of a whole {gpu}"),
        )

    def speed(
        self, workload: Workload, gpu: str, gpus: int = 1, link: Link = _DEFAULT_LINK
    ) -> float | None:
        """Jobs an hour as modelled, whether it fits or not; None: cannot be told.

        Of a service as many as it can do, not those asked for.
        """
        if isinstance(workload, Inference):
            workload = replace(workload, request_rate=None)
        answer = self._answer(workload, gpu, gpus, link, check_memory=False)
        return 1 / answer.hours if isinstance(answer, Estimate) else None

    def scale(
        self,
        workload: Workload,
        measured_gpu: str,
        measured_gpus: int,
        measured_hours: float,
        gpu: str,
        gpus: int = 1,
        link: Link = _DEFAULT_LINK,
    ) -> Answer:
        """Hours on *gpu* from a measurement of the same workload on another GPU or count.

        The measurement replaces the model where it was made, and everywhere else the model says
        only by how much faster or slower: what the model gets wrong of this job cancels out. It
        is taken as it is, so that what ran is not asked whether it fits.
        """
        if isinstance(workload, Inference) and (asked := workload.request_rate) is not None:
            free = replace(workload, request_rate=None)
            full = self.scale(free, measured_gpu, measured_gpus, measured_hours, gpu, gpus, link)
            return serving.at_rate(workload, asked, full) if isinstance(full, Estimate) else full
        if not 0 < measured_hours <= 87_600 or measured_gpus < 1:
            return NotPossible(gpu, "a measurement needs hours in (0, 87,600] and a GPU count")
        if isinstance(workload, Family):
            workload = replace(
                workload,
                reference_gpu=measured_gpu,
                reference_gpus=measured_gpus,
                reference_hours=measured_hours,
            )
        answer = self.estimate(workload, gpu, gpus, link)
        # What was measured worked together in machines of up to 8, whatever is asked of.
        together = replace(link, gpus_per_machine=max(link.gpus_per_machine, min(8, measured_gpus)))
        same = (gpu, gpus, link) == (measured_gpu, measured_gpus, together)
        if same:
            answer = self._answer(workload, gpu, gpus, link, check_memory=False)
        if not isinstance(answer, Estimate):
            return answer
        there = self._answer(workload, measured_gpu, measured_gpus, together, check_memory=False)
        if not isinstance(there, Estimate):
            return NotPossible(gpu, f"the measurement cannot be carried over: {there.reason}")
        step = Step(
            "measurement",
            f"hours measured on {measured_gpus} x {measured_gpu}, times the ratio modelled",
            measured_hours,
            "hours",
        )
        return self._carried_over(step, there, answer, same=same)

    def _carried_over(self, step: Step, there: Estimate, answer: Estimate, *, same: bool) -> Answer:
        """*answer* by the hours measured of *step*, of which the model says what *there* has.

        *same*: the measurement is of this very GPU and count.
        """
        hours = step.value * answer.hours / there.hours
        both = answer.calibrated and there.calibrated
        kind = "calibrated" if both else "roofline"
        band = 1.0 if same else self.calibration.band("ratio", answer.group, kind).factor
        return replace(
            answer,
            hours=hours,
            low=hours / band,
            high=hours * band,
            per_second=answer.per_second * answer.hours / hours,
            input_per_second=_faster(answer.input_per_second, answer.hours / hours),
            output_per_second=_faster(answer.output_per_second, answer.hours / hours),
            calibrated=both,
            basis=Basis.MEASURED if same else Basis.SCALED,
            steps=(
                *(s._replace(name="modelled") if s.name == "runtime" else s for s in answer.steps),
                step,
                Step("runtime", "carried over", hours, "hours"),
            ),
        )

    @staticmethod
    def times(answer: Estimate, factor: float) -> Estimate:
        """*answer* by a measurement of the job that took *factor* (> 0) times what was modelled."""
        hours = answer.hours * factor
        return replace(
            answer,
            hours=hours,
            low=answer.low * factor,
            high=answer.high * factor,
            per_second=answer.per_second / factor,
            input_per_second=_faster(answer.input_per_second, 1 / factor),
            output_per_second=_faster(answer.output_per_second, 1 / factor),
            basis=Basis.SCALED,
            steps=(
                *answer.steps,
                Step("runtime", "carried over from a measurement", hours, "hours"),
            ),
        )

    def _answer(
        self, workload: Workload, gpu: str, gpus: int, link: Link, *, check_memory: bool
    ) -> Answer:
        if gpus < 1:
            return NotPossible(gpu, "at least 1 GPU is needed")
        known = self._of(gpu)
        if known is None:
            return self._unknown(gpu)
        return self._on(workload, known, gpus, link, check_memory=check_memory)

    def _on(
        self, workload: Workload, gpu: Figures, gpus: int, link: Link, *, check_memory: bool
    ) -> Answer:
        if isinstance(workload, Training):
            return training_path.estimate(
                workload, gpu, gpus, link, self.calibration, check_memory=check_memory
            )
        if isinstance(workload, Inference):
            return serving.estimate(
                workload, gpu, gpus, link, self.calibration, check_memory=check_memory
            )
        if isinstance(workload, Hpc):
            return numerical.estimate(workload, gpu, gpus, check_memory=check_memory)
        reference = self._of(workload.reference_gpu)
        if reference is None:
            reason = f"no source gives the figures of {workload.reference_gpu}, measured on"
            return NotPossible(gpu.key, reason)
        return relative.estimate(workload, reference, gpu, gpus, self.calibration)

    @staticmethod
    def _unknown(gpu: str) -> NotPossible:
        return NotPossible(gpu, f"no source gives compute and bandwidth of {gpu}")

    def _of(self, gpu: str) -> Figures | None:
        if gpu not in self._figures:
            spec = self._spec(gpu)
            self._figures[gpu] = None if spec is None else figures(spec)
        return self._figures[gpu]


def _faster(speed: float | None, times: float) -> float | None:
    return None if speed is None else speed * times
