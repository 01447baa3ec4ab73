"""``gpucost jobs measure``: a run of one's own, judged and written down."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tracker.app import App, measuring
from tracker.app.asked import BadQuestion
from tracker.cli import render
from tracker.cli.exits import EXIT_USAGE, Exit
from tracker.domain.job import Job
from tracker.domain.measurement import Measurement, per_second


def record(app: App, job: Job, options: Mapping[str, Any]) -> str:
    """Write the measurement that *options* tell of, and say what was written. Raises Exit."""
    try:
        one = measuring.measurement(app, job, options)
    except BadQuestion as error:
        told = error.said(_option)
        text = told if error.parameter is None else f"{_option(error.parameter)}: {told}"
        raise Exit(EXIT_USAGE, text) from None
    version = measuring.record(app, one)
    took = render.hours(one.hours)
    if job.task is not None and job.task.service_hours is not None:
        took = f"{per_second(one)} {one.unit}/s"
    run = f"{job.name} on {one.gpus} x {one.gpu}: {took} measured, version {version}."
    return f"{run} It holds there{_carried(job, one)}."


def _carried(job: Job, one: Measurement) -> str:
    """What becomes of the other GPUs: a job that is not modelled there tells nothing of them."""
    task, estimator = job.task, job.estimator
    if task is None or estimator is None:
        return " alone: the job does not say what it computes"
    known = task.reference_open or estimator.speed(task.workload, one.gpu, one.gpus) is not None
    if known:
        return ", and the other GPUs are scaled from it"
    return f" alone: such a job is not modelled on {one.gpu}, and nothing is scaled from it"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"
