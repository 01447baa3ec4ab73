"""The fit of speed ratios: exponents of compute and bandwidth, and what GPUs do beyond them.

A linear model of log speed with an intercept of its own for every configuration. Each term is
shrunk to 0, the particular ones (this GPU in this group) more than the common ones, by weights that
were chosen by leaving configurations out. Pseudo-Huber weights, because some tables have bad rows.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tools.measurements import Option, Row
from tools.physics import figures_of
from tracker.domain.runtime.calibration import relative_scopes

_ROBUST = 0.15
_PENALTIES = {
    "compute": 0.01,
    "bandwidth": 0.01,
    "compute-group": 3.0,
    "bandwidth-group": 3.0,
    "architecture": 2.0,
    "gpu": 2.0,
    "option": 4.0,
    "option-group": 2.0,
}
_FORBIDDEN = 1e7  # the penalty on the sum of two exponents that would be negative


@dataclass(frozen=True)
class RatioFit:
    """Terms by ``coefficient:scope``, and how many options and groups name each."""

    terms: dict[str, float]
    rows: dict[str, int]
    groups: dict[str, int]


def fit_ratios(options: Sequence[Option]) -> RatioFit:
    """The terms of model ``ratio``, fitted to *options*."""
    described = [_terms(option) for option in options]
    names = sorted({name for terms in described for name in terms})
    index = {name: i for i, name in enumerate(names)}
    design = np.zeros((len(options), len(names)))
    for i, terms in enumerate(described):
        for name, value in terms.items():
            design[i, index[name]] = value
    centre = _centred(options)
    design = design - centre @ design
    truth = np.array([option.log_speed for option in options])
    truth = truth - centre @ truth
    penalty = np.diag([_penalty(name) for name in names])
    solution = _solve(design, truth, penalty)
    # More compute or bandwidth never makes a job slower: exponents that say so are held at 0.
    for _ in range(3):
        negative = [pair for pair in _exponents(names) if sum(solution[i] for i in pair) < -1e-6]
        if not negative:
            break
        for pair in negative:
            for i in pair:
                for j in pair:
                    penalty[i, j] += _FORBIDDEN
        solution = _solve(design, truth, penalty)
    rows: Counter[str] = Counter()
    groups: dict[str, set[str]] = defaultdict(set)
    for option, terms in zip(options, described, strict=True):
        for name in terms:
            rows[name] += len(option.rows)
            groups[name].add(option.group)
    values = {name: float(solution[index[name]]) for name in names}
    return RatioFit(values, dict(rows), {name: len(of) for name, of in groups.items()})


def fit_scaling(rows: Sequence[Row]) -> dict[str, tuple[float, int, int]]:
    """How speed per GPU falls with their number in a machine: exponent, rows, groups by link.

    From tables that ran the same job on one and on several GPUs of a machine.
    """
    single: dict[tuple[str, ...], float] = {}
    several: list[tuple[Row, tuple[str, ...]]] = []
    for row in rows:
        if not row.usable or not row.source.startswith("lambdal"):
            continue
        name = (row["source"], row["model"], row.precision, row.gpu, row["metric"])
        if row.gpus == 1:
            single[name] = row.speed
        elif row.gpus <= 8:
            several.append((row, name))
    found: dict[str, tuple[float, int, int]] = {}
    for wire, has in (("nvlink", True), ("pcie", False)):
        losses, groups = [], set()
        for row, name in several:
            if name in single and bool(figures_of(row.gpu).nvlink_gbps) is has:
                losses.append(-math.log(row.speed / single[name]) / math.log(row.gpus))
                groups.add(row.group)
        if losses:
            found[f"link/{wire}"] = (max(0.0, float(np.median(losses))), len(losses), len(groups))
    return found


def _terms(option: Option) -> dict[str, float]:
    gpu = figures_of(option.gpu)
    peak = gpu.tflops(option.precision) or gpu.sixteen_bit or 1.0
    compute, memory = math.log(peak / 312.0), math.log(gpu.bandwidth_gbps / 2039.0)
    terms = {
        "compute:": compute,
        "bandwidth:": memory,
        f"compute:group/{option.family}": compute,
        f"bandwidth:group/{option.family}": memory,
    }
    for scope in relative_scopes(option.family, gpu, option.precision):
        terms[f"gpu:{scope}"] = 1.0
    return terms


def _penalty(name: str) -> float:
    coefficient, scope = name.split(":", 1)
    if coefficient != "gpu":
        return _PENALTIES[f"{coefficient}-group" if scope else coefficient]
    kind, rest = scope.split("/", 1)
    if kind == "architecture":
        return _PENALTIES["architecture"]
    if "@" not in rest:
        return _PENALTIES["gpu"]
    return _PENALTIES["option-group" if "/" in rest else "option"]


def _exponents(names: Sequence[str]) -> list[tuple[int, ...]]:
    index = {name: i for i, name in enumerate(names)}
    pairs: list[tuple[int, ...]] = []
    for of in ("compute", "bandwidth"):
        common = index[f"{of}:"]
        pairs.append((common,))
        pairs += [(common, i) for name, i in index.items() if name.startswith(f"{of}:group/")]
    return pairs


def _centred(options: Sequence[Option]) -> np.ndarray:
    """The matrix that takes the mean over each configuration."""
    configs = sorted({option.config for option in options})
    index = {config: i for i, config in enumerate(configs)}
    member = np.zeros((len(options), len(configs)))
    for i, option in enumerate(options):
        member[i, index[option.config]] = 1.0
    mean: np.ndarray = member @ (member / member.sum(axis=0)).T
    return mean


def _solve(design: np.ndarray, truth: np.ndarray, penalty: np.ndarray) -> np.ndarray:
    weight = np.ones(len(truth))
    solution = np.zeros(design.shape[1])
    for _ in range(5):
        normal = design.T @ (design * weight[:, None]) + penalty
        solution = np.linalg.solve(normal, design.T @ (weight * truth))
        weight = 1 / np.maximum(1.0, np.abs(truth - design @ solution) / _ROBUST)
    return solution
