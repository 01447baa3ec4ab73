"""Fit coefficients that multiply: each is the exponential of a sum of terms, shrunk to a prior.

A row names, for each coefficient, the terms that make it up (common, of the GPU, of the software).
The fit is Gauss-Newton on the logarithm of the predicted speed with pseudo-Huber weights, so that
a few odd rows do not lead it. Deterministic: no random start, a fixed number of steps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Logs = dict[str, float]  # log of each coefficient


@dataclass(frozen=True)
class FitRow:
    """``terms``: for each coefficient the names of its terms. ``predict``: logs to log speed."""

    terms: Mapping[str, tuple[str, ...]]
    predict: Callable[[Logs], float]
    log_speed: float


@dataclass(frozen=True)
class Prior:
    """Mean and spread (standard deviation) of a term's logarithm."""

    mean: float
    spread: float


def logs_of(row: FitRow, values: Mapping[str, float]) -> Logs:
    """The coefficients of *row*: terms that are not in *values* count as 0."""
    return {
        name: sum(values.get(f"{name}:{term}", 0.0) for term in terms)
        for name, terms in row.terms.items()
    }


def fit(
    rows: Sequence[FitRow],
    prior: Callable[[str], Prior],
    *,
    noise: float = 0.08,
    steps: int = 8,
) -> dict[str, float]:
    """The logarithms of all terms that *rows* name, by ``coefficient:term``.

    Always from the priors: from the fit of nearly the same rows, what was left out would shine
    through as long as the steps have not forgotten it.
    """
    names = sorted(
        {f"{name}:{term}" for row in rows for name, terms in row.terms.items() for term in terms}
    )
    index = {name: i for i, name in enumerate(names)}
    priors = [prior(name) for name in names]
    mean = np.array([p.mean for p in priors])
    weight = 1 / np.array([p.spread for p in priors]) ** 2
    values = mean.copy()
    truth = np.array([row.log_speed for row in rows])
    damping = 0.01
    best = np.inf
    kept = values
    for _ in range(steps):
        predicted, jacobian = _linearise(rows, names, index, values)
        residual = truth - predicted
        scaled = residual / noise
        cost = float(
            np.sum(2 * (np.sqrt(1 + scaled**2) - 1)) + np.sum(weight * (values - mean) ** 2)
        )
        if cost <= best:
            best, kept = cost, values
            damping = max(damping / 4, 1e-4)
            robust = 1 / np.sqrt(1 + scaled**2) / noise**2
            normal = jacobian.T @ (jacobian * robust[:, None]) + np.diag(weight)
            gradient = jacobian.T @ (robust * residual) - weight * (values - mean)
        else:
            damping *= 8
        move = np.linalg.solve(normal + damping * np.diag(weight), gradient)
        values = kept + np.clip(move, -0.7, 0.7)
    return {name: float(kept[index[name]]) for name in names}


def _linearise(
    rows: Sequence[FitRow], names: Sequence[str], index: Mapping[str, int], values: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Predictions and their slopes: one more prediction for each coefficient of each row."""
    current = dict(zip(names, values.tolist(), strict=True))
    predicted = np.zeros(len(rows))
    jacobian = np.zeros((len(rows), len(names)))
    for i, row in enumerate(rows):
        logs = logs_of(row, current)
        predicted[i] = row.predict(logs)
        for name, terms in row.terms.items():
            at = logs[name]
            logs[name] = at + 1e-4
            slope = (row.predict(logs) - predicted[i]) / 1e-4
            logs[name] = at
            for term in terms:
                jacobian[i, index[f"{name}:{term}"]] += slope
    return predicted, jacobian
