"""The fit of training and inference: each measured row as a prediction of the estimator's own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache

from tools.fitting import FitRow, Logs, Prior, fit
from tools.inference_rows import InferenceRow, inference_row
from tools.measurements import Row
from tools.training_rows import TrainingRow, training_row
from tracker import data
from tracker.domain.gpu import Catalogue
from tracker.domain.runtime.calibration import (
    INFERENCE_NAMES,
    TRAINING_NAMES,
    inference_scopes,
    training_scopes,
)
from tracker.domain.runtime.figures import Figures, figures
from tracker.domain.runtime.inference import InferenceCoefficients, most_sequences, rates, serve
from tracker.domain.runtime.serving import compute_precision
from tracker.domain.runtime.training import TrainingCoefficients, micro_step
from tracker.domain.runtime.types import Link, Method

_LINK = Link()

# Where a coefficient starts, and how far (a standard deviation of its logarithm) measurements may
# move it: plausible values of the formulas' sources, wide enough not to matter where rows speak.
_TRAINING: dict[str, tuple[float, float]] = {
    "matmul": (0.60, 0.3),
    "attention": (0.55, 0.4),
    "traffic": (100.0, 0.5),
    "logits": (20.0, 0.5),
    "launch": (6e-4, 0.7),
    "unpack": (20.0, 0.7),
    "link": (0.6, 0.5),
    "hop": (1e-4, 1.0),
    "stack": (1.0, 0.01),
}
_INFERENCE: dict[str, tuple[float, float]] = {
    "prefill": (0.55, 0.3),
    "decode": (0.5, 0.4),
    "weights": (0.85, 0.2),
    "cache": (0.8, 0.3),
    "launch": (1e-4, 1.0),
    "link": (0.5, 0.6),
    "hop": (1e-5, 1.0),
    "start": (1e-4, 1.0),
}
# How far the terms of a kind may move: chosen by leaving configurations out, then left alone.
_SPREADS: dict[tuple[str, str], float] = {
    ("training", "precision"): 0.25,
    ("training", "architecture"): 0.25,
    ("training", "gpu"): 0.2,
    ("training", "level"): 0.3,
    ("training", "stack"): 0.3,
    ("training", "config"): 1.0,
    ("inference", "precision"): 0.3,
    ("inference", "architecture"): 0.7,
    ("inference", "gpu"): 0.15,
    ("inference", "level"): 0.3,
    ("inference", "stack"): 0.3,
    ("inference", "link"): 0.5,
}
_LAUNCH_SPREAD = 0.5
_METHOD_SPREAD = 0.1
_NAIVE = math.log(0.5)  # assumed: no measurements of untuned software are absolute


@dataclass(frozen=True)
class PhysicalRow:
    """A row that the formulas predict, and how it enters the fit."""

    model: str  # "training" or "inference"
    row: Row
    measured: TrainingRow | InferenceRow
    fitted: FitRow

    @property
    def absolute(self) -> bool:
        return self.measured.absolute


@cache
def catalogue() -> Catalogue:
    """The shipped catalogue of GPUs."""
    return Catalogue.from_toml(data.text("gpus.toml"), data.text("aliases.toml"))


@cache
def figures_of(runtime_key: str) -> Figures:
    """The figures of a GPU as the tables name it. Raises KeyError."""
    key = catalogue().of_runtime_key(runtime_key)
    spec = catalogue().spec(key) if key else None
    found = figures(spec) if spec else None
    if found is None:
        raise KeyError(f"no figures of {runtime_key}")
    return found


def physical_rows(rows: Iterable[Row]) -> list[PhysicalRow]:
    """The rows that formulas predict, in their order."""
    found = []
    for row in rows:
        training = training_row(row)
        if training is not None:
            found.append(PhysicalRow("training", row, training, _fit_training(training)))
            continue
        inference = inference_row(row)
        if inference is not None:
            found.append(PhysicalRow("inference", row, inference, _fit_inference(inference)))
    return found


def fit_physics(rows: Sequence[PhysicalRow], model: str) -> dict[str, float]:
    """The logarithm of every term of *model*, by ``coefficient:scope``."""
    fitted = [row.fitted for row in rows if row.model == model]
    prior = _training_prior if model == "training" else _inference_prior
    found = fit(fitted, prior)
    return {name: value for name, value in found.items() if ":config/" not in name}


def _fit_training(measured: TrainingRow) -> FitRow:
    gpu = figures_of(measured.row.gpu)
    job = measured.job
    peak = gpu.tflops(job.precision) or gpu.sixteen_bit or 1.0
    scopes = training_scopes(gpu, job.precision, job.stack, job.method)
    _without(scopes, () if measured.gpus > 1 else ("link", "hop"))
    _without(scopes, () if job.method is Method.QLORA else ("unpack",))
    if not measured.absolute:
        scopes["stack"] = (*scopes["stack"], f"config/{measured.row.config}")

    def predict(logs: Logs) -> float:
        logs_of_all = (logs.get(name, 0.0) for name in TRAINING_NAMES)
        coefficients = TrainingCoefficients(*map(math.exp, logs_of_all))
        step = micro_step(job, gpu, peak, coefficients, measured.batch, measured.gpus, _LINK)
        return math.log(step.tokens_per_second)

    return FitRow(scopes, predict, math.log(measured.tokens_per_second))


def _fit_inference(measured: InferenceRow) -> FitRow:
    gpu = figures_of(measured.row.gpu)
    job = measured.job
    compute = compute_precision(job)
    peak = gpu.tflops(compute) or gpu.sixteen_bit or 1.0
    kind = "serve" if job.output_tokens else "prefill"
    scopes = inference_scopes(gpu, compute, job.weights, job.stack, kind)
    _without(scopes, () if measured.gpus > 1 and not job.layer_split else ("link", "hop"))
    _without(scopes, () if job.output_tokens else ("decode", "cache"))
    room = most_sequences(job, gpu, measured.gpus)
    sequences = max(1.0, room if job.concurrency is None else min(room, job.concurrency))

    def predict(logs: Logs) -> float:
        logs_of_all = (logs.get(name, 0.0) for name in INFERENCE_NAMES)
        coefficients = InferenceCoefficients(*map(math.exp, logs_of_all))
        state = serve(job, rates(job, gpu, peak, coefficients, measured.gpus, _LINK), sequences)
        return math.log(state.requests_per_second)

    return FitRow(scopes, predict, math.log(measured.requests_per_second))


def _without(scopes: dict[str, tuple[str, ...]], names: Iterable[str]) -> None:
    """Drop coefficients that do not move this row: it says nothing of them."""
    for name in names:
        del scopes[name]


def _training_prior(name: str) -> Prior:
    return _prior("training", _TRAINING, name)


def _inference_prior(name: str) -> Prior:
    return _prior("inference", _INFERENCE, name)


def _prior(model: str, common: dict[str, tuple[float, float]], name: str) -> Prior:
    coefficient, scope = name.split(":", 1)
    if not scope:
        mean, spread = common[coefficient]
        return Prior(math.log(mean), spread)
    kind = scope.split("/", 1)[0]
    if scope == "level/naive":
        return Prior(_NAIVE if coefficient in ("stack", "prefill", "decode") else 0.0, 0.05)
    spread = _SPREADS[model, kind]
    if coefficient == "launch":
        spread = _LAUNCH_SPREAD
    elif kind == "stack" and scope.count("/") > 1:
        spread = _METHOD_SPREAD if model == "training" else 0.3
    return Prior(0.0, spread)
