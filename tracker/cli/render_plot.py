"""A history as a picture, with matplotlib (the extra ``plot``)."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from tracker.domain.series import Step
from tracker.domain.texts import dollars
from tracker.report.history.steps import series_of
from tracker.report.history.told import Told

_SIZE_INCHES = (10, 5)
_DPI = 120
# Okabe and Ito's colours, which most colour-blind people tell apart ("Color Universal Design",
# 2008), without the yellow.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_WIDE = 20  # from this ratio of the highest to the lowest bill on the scale is logarithmic


def draw(told: Told, path: Path) -> None:
    """Draw every series of *told*, exactly and not by buckets, into *path* (.png or .svg).

    A price is drawn for as long as it was known: changes are vertical, gaps are empty. Raises
    OSError where the file cannot be written.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=_SIZE_INCHES, dpi=_DPI, layout="constrained")
    axes = figure.subplots()
    values = []
    for place, group in enumerate(told.groups):
        series = series_of(group.steps)
        values += [step.value for step in series]
        colour = COLOURS[place % len(COLOURS)]
        label = group.label
        for run in _runs(series):
            axes.plot(*_corners(run), color=colour, linewidth=1.6, label=label)
            label = "_nolegend_"
    if values and min(values) > 0 and max(values) / min(values) >= _WIDE:
        axes.set_yscale("log")
    _label(axes, told)
    figure.savefig(path)


def _runs(series: Sequence[Step]) -> list[list[Step]]:
    """*series* without the gaps: each run is of steps that touch."""
    runs: list[list[Step]] = []
    for step in series:
        if runs and runs[-1][-1].end == step.start:
            runs[-1].append(step)
        else:
            runs.append([step])
    return runs


def _corners(run: Sequence[Step]) -> tuple[list[Any], list[float]]:
    """Both ends of every step; a float is enough for a picture."""
    times = [moment for step in run for moment in (step.start, step.end)]
    return times, [float(step.value) for step in run for _ in range(2)]


def _label(axes: Any, told: Told) -> None:
    report = told.report
    job = report.question.job
    axes.set_title(f"{job.title or job.name}: the cheapest bill on record")
    axes.set_ylabel("USD for the job")
    axes.set_xlim(report.question.start, report.end)
    axes.yaxis.set_major_formatter(lambda value, _place: dollars(Decimal(float(value))))
    axes.yaxis.set_minor_formatter(lambda _value, _place: "")
    axes.grid(visible=True, color="#dddddd", linewidth=0.6)
    if any(group.steps for group in told.groups):
        axes.legend(loc="best", frameon=False)
