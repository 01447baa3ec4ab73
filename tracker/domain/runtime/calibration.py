"""The fitted coefficients: what tracker/data/efficiency.csv says, and what holds where it does not.

Lines are ``model,coefficient,scope,value,rows,groups``. A coefficient is the product of its terms:
the common one (empty scope) and those of the GPU, precision, architecture and software at hand;
a term that is not there counts as 1, so that a GPU nobody measured gets the common efficiency.
``rows`` and ``groups`` count the measurements and configurations behind a term.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tracker.domain.runtime.figures import Figures
from tracker.domain.runtime.inference import InferenceCoefficients
from tracker.domain.runtime.stacks import stack_habits
from tracker.domain.runtime.training import TrainingCoefficients
from tracker.domain.runtime.types import Method, Stack

COLUMNS = ("model", "coefficient", "scope", "value", "rows", "groups")

TRAINING_NAMES = (
    "matmul", "attention", "traffic", "logits", "launch", "unpack", "link", "hop", "stack",
)  # fmt: skip
INFERENCE_NAMES = ("prefill", "decode", "weights", "cache", "launch", "link", "hop", "start")

# Groups of training: where one has too few configurations, the range of all of them holds.
TRAINING_GROUPS = frozenset({"llm_pretrain", "llm_lora", "llm_qlora"})
TRAINING_POOL = "training"

# The reference speed of the ratios: any would do, a constant keeps the numbers small.
_REFERENCE_TFLOPS = 312.0
_REFERENCE_GBPS = 2039.0


class Term(NamedTuple):
    """One line: ``log`` of a factor, or a slope, and what it rests on."""

    log: float
    rows: int
    groups: int


class Band(NamedTuple):
    """The truth lies between the estimate / factor and the estimate x factor."""

    factor: float
    rows: int
    groups: int


class CalibrationError(ValueError):
    """The file cannot be used. The message names the line."""


@dataclass(frozen=True)
class Calibration:
    """``terms`` by ``model:coefficient:scope``; ``bands`` by ``kind:group:case``.

    ``version`` names the fit. ``groups``: the workload groups that have measured ratios.
    """

    version: str
    terms: Mapping[str, Term]
    bands: Mapping[str, Band]
    _training: dict[tuple[str, ...], TrainingCoefficients] = field(
        default_factory=dict, repr=False, compare=False
    )
    _inference: dict[tuple[str, ...], InferenceCoefficients] = field(
        default_factory=dict, repr=False, compare=False
    )

    @classmethod
    def from_csv(cls, text: str) -> Calibration:
        """Read the file. Raises CalibrationError."""
        version = "unknown"
        terms: dict[str, Term] = {}
        bands: dict[str, Band] = {}
        for number, line in enumerate(text.splitlines(), start=1):
            if line.startswith("# version: "):
                version = line.removeprefix("# version: ").strip()
            if not line or line.startswith("#") or line == ",".join(COLUMNS):
                continue
            try:
                model, coefficient, scope, value, rows, groups = line.split(",")
                number_of = float(value), int(rows), int(groups)
            except ValueError as error:
                raise CalibrationError(f"line {number} is not a coefficient: {line}") from error
            if model.startswith("band-"):
                bands[f"{model[5:]}:{coefficient}:{scope}"] = Band(*number_of)
            else:
                terms[f"{model}:{coefficient}:{scope}"] = Term(*number_of)
        if not terms:
            raise CalibrationError("there are no coefficients")
        return cls(version, terms, bands)

    def log(self, model: str, coefficient: str, scopes: Sequence[str]) -> float:
        """The sum of the terms that there are."""
        total = 0.0
        for scope in scopes:
            term = self.terms.get(f"{model}:{coefficient}:{scope}")
            if term is not None:
                total += term.log
        return total

    def rows(self, model: str, coefficient: str, scope: str) -> int:
        """How many measurements a term rests on; 0: there is none."""
        term = self.terms.get(f"{model}:{coefficient}:{scope}")
        return term.rows if term else 0

    def training(
        self, gpu: Figures, precision: str, stack: str, method: Method
    ) -> TrainingCoefficients:
        """The coefficients of training with *stack* on *gpu*."""
        key = (gpu.key, precision, stack, method)
        found = self._training.get(key)
        if found is None:
            scopes = training_scopes(gpu, precision, stack, method)
            logs = (self.log("training", name, scopes[name]) for name in TRAINING_NAMES)
            found = self._training[key] = TrainingCoefficients(*map(math.exp, logs))
        return found

    def inference(
        self, gpu: Figures, compute: str, weights: str, stack: str, kind: str
    ) -> InferenceCoefficients:
        """The coefficients of *kind* (``serve``, ``decode``, ``prefill``) with *stack* on *gpu*."""
        key = (gpu.key, compute, weights, stack, kind)
        found = self._inference.get(key)
        if found is None:
            scopes = inference_scopes(gpu, compute, weights, stack, kind)
            logs = (self.log("inference", name, scopes[name]) for name in INFERENCE_NAMES)
            found = self._inference[key] = InferenceCoefficients(*map(math.exp, logs))
        return found

    def relative(self, group: str, gpu: Figures, precision: str, tflops: float) -> float:
        """The logarithm of the speed of one GPU at a job of *group*, up to a constant."""
        compute = self.slope("compute", group) * math.log(tflops / _REFERENCE_TFLOPS)
        memory = self.slope("bandwidth", group)
        scopes = relative_scopes(group, gpu, precision)
        return (
            compute
            + memory * math.log(gpu.bandwidth_gbps / _REFERENCE_GBPS)
            + self.log("ratio", "gpu", scopes)
        )

    def slope(self, of: str, group: str) -> float:
        """How much of a factor in ``compute`` or ``bandwidth`` shows in speed; never negative."""
        return max(0.0, self.log("ratio", of, ("", f"group/{group}")))

    def has_group(self, group: str) -> bool:
        """Whether ratios of this group were measured."""
        return f"ratio:compute:group/{group}" in self.terms

    def groups(self) -> tuple[str, ...]:
        """The workload groups with measured ratios, sorted."""
        start = "ratio:compute:group/"
        return tuple(sorted(key[len(start) :] for key in self.terms if key.startswith(start)))

    def speed_band(self, group: str, *, gpu_known: bool, stack_known: bool) -> float:
        """The factor of an estimate's range by what was measured: the widest that applies."""
        cases = ["stack"]
        if not stack_known:
            cases.append("level")
        if not gpu_known:
            cases.append("roofline")
        return max(self.band("speed", group, case).factor for case in cases)

    def band(self, kind: str, group: str, case: str) -> Band:
        """The range of *group* in *case*; else the pooled one of the kind, else a factor of 2."""
        small = TRAINING_POOL if kind == "speed" and group in TRAINING_GROUPS else "pooled"
        for name in (group, small, "pooled"):
            found = self.bands.get(f"{kind}:{name}:{case}")
            if found is not None:
                return found
        return Band(2.0, 0, 0)


def training_scopes(
    gpu: Figures, precision: str, stack: str, method: Method
) -> dict[str, tuple[str, ...]]:
    """The terms of each training coefficient, from the common to the particular."""
    level = f"level/{_level(stack)}"
    software = (level,) if stack in tuple(Stack) else (level, f"stack/{stack}")
    common = ("",)
    return {
        "matmul": ("", f"precision/{precision}", f"gpu/{gpu.key}@{precision}"),
        "attention": ("", f"architecture/{gpu.architecture}", f"gpu/{gpu.key}"),
        "traffic": common,
        "logits": common,
        "launch": ("", *software),
        "unpack": common,
        "link": common,
        "hop": common,
        "stack": (*software, f"stack/{stack}/{method}"),
    }


def inference_scopes(
    gpu: Figures, compute: str, weights: str, stack: str, kind: str
) -> dict[str, tuple[str, ...]]:
    """The terms of each inference coefficient, from the common to the particular."""
    own = f"gpu/{gpu.key}"
    level = f"level/{_level(stack)}"
    software = (level,) if stack in tuple(Stack) else (level, f"stack/{stack}")
    wire = "link/nvlink" if gpu.nvlink_gbps else "link/pcie"
    stored = "packed" if weights not in ("fp64", "fp32", "fp16", "bf16", "fp8", "fp4") else "plain"
    narrow = compute if compute in ("fp8", "fp4", "int8") else "16"
    packed = f"{software[-1]}/{stored}"
    return {
        "prefill": (
            "",
            f"precision/{narrow}",
            f"{own}@{narrow}",
            *software,
            f"{software[-1]}/{kind}",
        ),
        "decode": ("", f"precision/{narrow}", f"{own}@{narrow}", *software),
        "weights": ("", own, *software, packed),
        "cache": ("", own, *software),
        "launch": ("", *software, f"{software[-1]}@{gpu.architecture}"),
        "link": ("", wire),
        "hop": ("", wire),
        "start": ("", *software),
    }


def relative_scopes(group: str, gpu: Figures, precision: str) -> tuple[str, ...]:
    """The terms of a GPU's part in a ratio, from the common to the particular."""
    option = f"{gpu.key}@{precision}"
    return (
        f"architecture/{gpu.architecture}",
        f"architecture/{gpu.architecture}@{precision}",
        f"architecture/{gpu.architecture}/{group}",
        f"gpu/{gpu.key}",
        f"gpu/{option}",
        f"gpu/{option}/{group}",
    )


def _level(stack: str) -> str:
    return stack_habits(stack).level.value
