"""Predictions for what a fit has not seen: whole configurations, models, sources or GPUs left out.

What predicts is the estimator itself, with a calibration fitted to the rest.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tools.fit_terms import Sample, fit_terms
from tools.inference_rows import InferenceRow
from tools.measurements import Option, Row
from tools.physics import PhysicalRow, catalogue, figures_of
from tools.training_rows import TrainingRow
from tracker.domain.runtime.calibration import TRAINING_GROUPS, TRAINING_POOL, Band, Calibration
from tracker.domain.runtime.estimator import Estimator
from tracker.domain.runtime.relative import log_speed
from tracker.domain.runtime.serving import group_of
from tracker.domain.runtime.training_path import GROUPS

UNITS: dict[str, Callable[[Row], str]] = {
    "configuration": lambda row: row.group,
    "model": lambda row: row["model"],
    "source": lambda row: row.source,
    "GPU": lambda row: row.gpu,
}

# Of this share of the truths a band is to hold; asked for are 75 to 90 %.
HELD = 0.825
FEWEST = 8  # configurations that a group needs for a band of its own


@dataclass(frozen=True)
class Error:
    """``log`` of prediction over truth; ``config`` counts as one however many errors it has."""

    group: str
    config: str
    log: float
    fold: int
    calibrated: bool
    left_out: bool = True  # of a pair: whether one of the two was the unit left out


@dataclass
class HeldOut:
    """All errors of one way of leaving out, and the predictions behind the pairs."""

    speeds: list[Error] = field(default_factory=list)
    pairs: list[Error] = field(default_factory=list)
    options: dict[str, list[tuple[Option, float]]] = field(default_factory=dict)


class Predictor:
    """The estimator with one calibration, asked for measured rows."""

    def __init__(self, calibration: Calibration) -> None:
        self.calibration = calibration
        self.estimator = Estimator(catalogue().spec, calibration)

    def row(self, physical: PhysicalRow) -> float | None:
        """The logarithm of the speed of *physical*, in the unit it was measured in."""
        measured = physical.measured
        gpu = figures_of(physical.row.gpu).key
        speed = self.estimator.speed(measured.job, gpu, measured.gpus)
        if speed is None:
            return None
        if isinstance(measured, TrainingRow):
            return math.log(speed * measured.job.tokens / 3600 / measured.gpus)
        return math.log(speed * measured.job.requests / 3600)

    def option(self, option: Option, physical: Mapping[int, PhysicalRow]) -> float | None:
        """The logarithm of the speed of *option*, up to a constant of its configuration."""
        rows = [physical.get(id(row)) for row in option.rows]
        known = [row for row in rows if row is not None]
        if len(known) == len(rows):
            found = [self.row(row) for row in known]
            speeds = [speed for speed in found if speed is not None]
            return statistics.median(speeds) if len(speeds) == len(found) else None
        gpu = figures_of(option.gpu)
        return log_speed(self.calibration, option.family, gpu, option.precision)

    def seen(self, option: Option, physical: Mapping[int, PhysicalRow]) -> bool:
        """Whether this GPU at this precision was in the fit."""
        gpu = figures_of(option.gpu)
        found = physical.get(id(option.rows[0]))
        c = self.calibration
        if found is None:
            scope = f"gpu/{gpu.key}@{option.precision}/{option.family}"
            return c.rows("ratio", "gpu", scope) > 0
        if isinstance(found.measured, TrainingRow):
            precision = found.measured.job.precision
            return c.rows("training", "matmul", f"gpu/{gpu.key}@{precision}") > 0
        return c.rows("inference", "weights", f"gpu/{gpu.key}") > 0


def speed_group(physical: PhysicalRow) -> str:
    """The group whose range an absolute estimate of this row would carry."""
    measured = physical.measured
    if isinstance(measured, InferenceRow):
        return group_of(measured.job)
    return GROUPS[measured.job.method]


def leave_out(sample: Sample, unit: str, folds: int) -> HeldOut:
    """Fit to all but a part of the units, predict that part; every unit once.

    Folds take every n-th unit in order.
    """
    of = UNITS[unit]
    rows = [row for option in sample.options for row in option.rows]
    rows += [physical.row for physical in sample.physical]
    units = sorted({of(row) for row in rows})
    found = HeldOut()
    for fold in range(min(folds, len(units))):
        out = set(units[fold::folds])
        terms = fit_terms(sample.without(lambda row, out=out: of(row) in out))
        predictor = Predictor(Calibration("held out", terms, {}))
        _score_fold(found, sample, predictor, lambda row, out=out: of(row) in out, fold, unit)
    return found


def score_all(sample: Sample, calibration: Calibration) -> HeldOut:
    """The errors of one calibration on every row of *sample*."""
    found = HeldOut()
    predictor = Predictor(calibration)
    _score_fold(found, sample, predictor, lambda _: True, 0, "configuration")
    return found


def _score_fold(
    found: HeldOut,
    sample: Sample,
    predictor: Predictor,
    is_out: Callable[[Row], bool],
    fold: int,
    unit: str,
) -> None:
    for physical in sample.physical:
        if physical.absolute and is_out(physical.row):
            predicted = predictor.row(physical)
            if predicted is not None:
                error = predicted - physical.fitted.log_speed
                group = speed_group(physical)
                config = physical.row.group
                found.speeds.append(Error(group, config, error, fold, calibrated=True))
    by_config: dict[str, list[Option]] = defaultdict(list)
    for option in sample.options:
        by_config[option.config].append(option)
    for config, options in by_config.items():
        # Leaving a GPU out leaves the rest of a configuration in: its pairs with them count.
        if unit == "GPU":
            if not any(is_out(option.rows[0]) for option in options):
                continue
        elif not is_out(options[0].rows[0]):
            continue
        predictions = [(o, predictor.option(o, sample.by_row)) for o in options]
        known = [(o, p) for o, p in predictions if p is not None]
        if unit != "GPU":
            found.options[config] = known
        found.pairs.extend(_pairs(known, predictor, sample, is_out, fold, unit))


def _pairs(
    known: Sequence[tuple[Option, float]],
    predictor: Predictor,
    sample: Sample,
    is_out: Callable[[Row], bool],
    fold: int,
    unit: str,
) -> list[Error]:
    errors = []
    for one, predicted in known:
        for other, predicted_other in known:
            if one.gpu == other.gpu:
                continue
            left_out = is_out(one.rows[0]) or is_out(other.rows[0])
            if unit == "GPU" and not left_out:
                continue
            error = (predicted - predicted_other) - (one.log_speed - other.log_speed)
            calibrated = predictor.seen(one, sample.by_row) and predictor.seen(other, sample.by_row)
            errors.append(Error(one.family, one.config, error, fold, calibrated, left_out))
    return errors


def speed_bands(case: str, errors: Sequence[Error]) -> dict[str, Band]:
    """Ranges of absolute speed: small groups of training take the range of all training."""
    training = [error for error in errors if error.group in TRAINING_GROUPS]
    found = bands("speed", case, training)
    found |= bands("speed", case, [e for e in errors if e.group not in TRAINING_GROUPS])
    if training:
        found[f"speed:{TRAINING_POOL}:{case}"] = _band(training)
    return found


def bands(kind: str, case: str, errors: Sequence[Error]) -> dict[str, Band]:
    """The range of every group in *case*, and the pooled one of the groups too small for theirs."""
    found: dict[str, Band] = {}
    pooled: list[Error] = []
    for group, own in sorted(_by_group(errors).items()):
        if len({error.config for error in own}) < FEWEST:
            pooled += own
        else:
            found[f"{kind}:{group}:{case}"] = _band(own)
    rest = pooled or list(errors)
    if rest:
        found[f"{kind}:pooled:{case}"] = _band(rest)
    return found


def ratio_bands(known: Sequence[Error], gpu_left_out: Sequence[Error]) -> dict[str, Band]:
    """Ranges of ratios between GPUs that were measured, and with one that was not.

    A group of a single unit is left out as a whole, and then no GPU counts as measured in it: all
    its errors stand for the range, which is then rather too wide. Never is the range with a GPU
    nobody measured narrower.
    """
    chosen: list[Error] = []
    for own in _by_group(known).values():
        seen = [error for error in own if error.calibrated]
        chosen += seen if len({error.config for error in seen}) >= FEWEST else own
    measured = bands("ratio", "calibrated", chosen)
    roofline = bands("ratio", "roofline", gpu_left_out)
    pooled = measured["ratio:pooled:calibrated"].factor if measured else 1.0
    for name, band in roofline.items():
        least = measured.get(name.replace(":roofline", ":calibrated"))
        factor = max(band.factor, least.factor if least else pooled)
        roofline[name] = Band(factor, band.rows, band.groups)
    return {**measured, **roofline}


def _by_group(errors: Sequence[Error]) -> dict[str, list[Error]]:
    by_group: dict[str, list[Error]] = defaultdict(list)
    for error in errors:
        by_group[error.group].append(error)
    return by_group


def _band(errors: Sequence[Error]) -> Band:
    sizes = sorted(abs(error.log) for error in errors)
    at = min(len(sizes) - 1, math.ceil(HELD * len(sizes)) - 1)
    return Band(math.exp(sizes[at]), len(sizes), len({error.config for error in errors}))
