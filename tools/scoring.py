"""Scores of predictions: ratios between GPUs, the cheapest option, absolute speed, ranges held."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tools.held_out import FEWEST, Error
from tools.measurements import Option
from tools.physics import figures_of
from tracker.domain.runtime.calibration import Band

THREE = ("a100", "h100", "rtx4090")  # every form of these families
DRAWS = 60
PRICE_SPREAD = 0.35

# USD per GPU-hour, orders of magnitude of 2026: what "cheapest" is drawn around.
PRICES = {
    "a100-pcie-40gb": 1.1, "a100-sxm-40gb": 1.2, "a100-pcie-80gb": 1.19, "a100-sxm-80gb": 1.39,
    "h100-pcie-80gb": 1.99, "h100-sxm-80gb": 2.69, "h100-nvl-94gb": 2.6, "h200-sxm-141gb": 3.59,
    "gh200-sxm-96gb": 2.0, "b200-sxm-180gb": 5.98, "rtx4090-pcie-24gb": 0.44,
    "rtx3090-pcie-24gb": 0.28, "l40s-pcie-48gb": 0.87, "l40-pcie-48gb": 0.75,
    "l4-pcie-24gb": 0.44, "a6000-pcie-48gb": 0.5, "rtx6000ada-pcie-48gb": 0.75,
    "rtxpro6000-pcie-96gb": 1.8, "v100-sxm-16gb": 0.35, "v100-sxm-32gb": 0.45,
    "t4-pcie-16gb": 0.25, "a10-pcie-24gb": 0.5, "a30-pcie-24gb": 0.45, "a40-pcie-48gb": 0.4,
    "mi300x-oam-192gb": 2.1,
}  # fmt: skip

Predictions = Mapping[str, Sequence[tuple[Option, float]]]


@dataclass(frozen=True)
class RatioScore:
    """``error``: median of |predicted ratio / true ratio - 1|; ``cheapest``: share picked right."""

    configs: int
    pairs: int
    error: float
    cheapest: float


def ratio_score(predictions: Predictions, keep: Callable[[Option], bool]) -> RatioScore | None:
    """The score over the options that *keep* leaves; None where no configuration has two GPUs."""
    errors: list[float] = []
    right = drawn = configs = 0
    random = np.random.default_rng(2026)
    for _, predicted in sorted(predictions.items()):
        known = [(option, log) for option, log in predicted if keep(option)]
        if len({option.gpu for option, _ in known}) < 2:
            continue
        configs += 1
        errors += [
            abs(math.expm1((log - other_log) - (option.log_speed - other.log_speed)))
            for option, log in known
            for other, other_log in known
            if option.gpu != other.gpu
        ]
        priced = [(option, log) for option, log in known if option.gpu in PRICES]
        if len({option.gpu for option, _ in priced}) > 1:
            drawn += DRAWS
            right += _right(priced, random)
    if not errors:
        return None
    share = right / drawn if drawn else math.nan
    return RatioScore(configs, len(errors), statistics.median(errors), share)


def _right(priced: Sequence[tuple[Option, float]], random: np.random.Generator) -> int:
    gpus = sorted({option.gpu for option, _ in priced})
    truth = np.array([option.log_speed for option, _ in priced])
    predicted = np.array([log for _, log in priced])
    right = 0
    for _ in range(DRAWS):
        drawn = dict(zip(gpus, random.normal(0, PRICE_SPREAD, len(gpus)), strict=True))
        price = np.array([math.log(PRICES[option.gpu]) + drawn[option.gpu] for option, _ in priced])
        right += int(np.argmin(price - truth) == np.argmin(price - predicted))
    return right


def naive(predictions: Predictions, of: str) -> dict[str, list[tuple[Option, float]]]:
    """The same options, predicted by dense 16-bit (or fp8) peak or by bandwidth alone."""
    return {
        config: [(option, _naive(option, of)) for option, _ in predicted]
        for config, predicted in predictions.items()
    }


def _naive(option: Option, of: str) -> float:
    gpu = figures_of(option.gpu)
    if of == "bandwidth":
        return math.log(gpu.bandwidth_gbps)
    return math.log(gpu.tflops(option.precision) or gpu.sixteen_bit or 1.0)


def in_three(option: Option) -> bool:
    """Whether the option is a form of the A100, the H100 or the RTX 4090."""
    return option.gpu.split("-")[0] in THREE


def error_of(errors: Sequence[Error], share: float = 0.5) -> float:
    """The quantile *share* of |predicted / true - 1|."""
    return float(np.quantile([abs(math.expm1(error.log)) for error in errors], share))


@dataclass(frozen=True)
class Coverage:
    """How often the range of a group held the truth, and whether 75-90 % is within two errors."""

    group: str
    configs: int
    errors: int
    band: float
    held: float

    @property
    def passes(self) -> bool:
        slack = 2 * math.sqrt(0.825 * 0.175 / self.configs)
        return 0.75 - slack <= self.held <= 0.90 + slack


def coverage(errors: Sequence[Error], band_of: Callable[[Error], Band]) -> list[Coverage]:
    """The coverage of each group with enough configurations, and of the others together."""
    groups: dict[str, list[Error]] = defaultdict(list)
    for error in errors:
        groups[error.group].append(error)
    judged: dict[str, list[Error]] = {}
    for group, own in sorted(groups.items()):
        large = len({error.config for error in own}) >= FEWEST
        judged.setdefault(group if large else "the others, pooled", []).extend(own)
    found = []
    for group, own in judged.items():
        bands = [band_of(error).factor for error in own]
        held = sum(
            abs(error.log) <= math.log(band) + 1e-12 for error, band in zip(own, bands, strict=True)
        )
        configs = len({error.config for error in own})
        found.append(Coverage(group, configs, len(own), statistics.median(bands), held / len(own)))
    return found
