"""How long answers with estimated hours take: one job on many GPUs, and the whole command line.

    python -m benchmarks.estimate [--runs N] [--offers N]

In this process: one job on 40 kinds of GPU, beside the rule of thumb that it replaces (6 x
parameters x tokens at 40 % of the peak). As whole processes, like benchmarks.cli and on its market:
the job ranked over all offers and all counts of GPUs, beside a bare interpreter, gpuhunt's query of
all the same offers, and a job whose hours are given. Nothing passes or fails by time; a goal is met
when the median is below it, and at best when the least is.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.cli import environment, fill, gpucost
from benchmarks.market import gpuhunt_catalogue, market
from benchmarks.report import Timing, table, time_in_turns
from tracker.app import App
from tracker.domain import evidence
from tracker.domain.job import Job, RuntimeEstimate
from tracker.domain.runtime.types import NotPossible, Training
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account

JOB, SERVED, GIVEN = "llama-3.1-8b-lora", "llama-3.1-8b-inference", "bert-large"
GPUS = 40
GOAL_MS, PROCESS_GOAL_MS = 5.0, 1000
_GPUHUNT = """
import gpuhunt
found = gpuhunt.Catalog(balance_resources=False, auto_reload=False).query(spot=False)
found.sort(key=lambda item: item.price)
for item in found[:10]:
    print(item.provider, item.instance_name, item.gpu_name, item.gpu_count, item.price)
"""


def main() -> None:
    """Measure and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.estimate", description=__doc__)
    parser.add_argument("--runs", type=int, default=11, help="of each thing (11)")
    parser.add_argument("--offers", type=int, default=20_000, help="live offers (20000)")
    options = parser.parse_args()
    if not Path(gpucost()).exists():
        raise SystemExit("gpucost is not installed beside this interpreter: make bench")
    in_process(20 * options.runs)
    print()
    whole_processes(options.runs, options.offers)


# --- in this process --------------------------------------------------------------------------


def in_process(runs: int) -> None:
    """One job on 40 GPUs, beside the rule of thumb."""
    app = App()
    job = in_fp16(app.job(JOB))
    keys = usable(app, job, GPUS)
    ours = least_and_median(lambda: estimated(app, job, keys), runs)
    thumb = least_and_median(lambda: rule_of_thumb(app, job, keys), runs)
    lines = [
        ("6 N D at 40 % of the peak", *_ms(thumb), "1.0", ""),
        ("gpucost's estimate", *_ms(ours), f"{ours[0] / thumb[0]:.0f}", _goal(ours, GOAL_MS)),
    ]
    fits = estimated(app, job, keys)
    print(
        f"{JOB} in fp16 on one of each of {len(keys)} kinds of GPU ({fits} have hours, on the "
        f"others it does not fit), in this process, {runs} times"
    )
    print(table(["", "least ms", "median ms", "x rule of thumb", "goal"], lines))


def in_fp16(job: Job) -> Job:
    """*job* in the precision that most of the GPUs have whose figures are known."""
    assert job.task is not None
    assert isinstance(job.task.workload, Training)
    workload = replace(job.task.workload, precision="fp16")
    return replace(job, task=replace(job.task, workload=workload))


def usable(app: App, job: Job, count: int) -> list[str]:
    """So many kinds of GPU whose figures are known: *job* has hours on one, or does not fit."""
    keys = [
        spec.gpu.key
        for spec in app.catalogue.specs()
        if not isinstance(evidence.find(job, spec.gpu.key, 1, app.catalogue).answer, NotPossible)
    ]
    if len(keys) < count:
        raise SystemExit(f"only {len(keys)} GPUs compute in fp16 as far as sources say")
    return keys[:count]


def estimated(app: App, job: Job, keys: Sequence[str]) -> int:
    """On how many of the GPUs, one of each, *job* has hours; all are worked out anew."""
    found = (evidence.find(job, key, 1, app.catalogue).hours for key in keys)
    return sum(isinstance(hours, RuntimeEstimate) for hours in found)


def rule_of_thumb(app: App, job: Job, keys: Sequence[str]) -> None:
    """6 x parameters x tokens / (40 % of the peak): what everybody writes down first."""
    assert job.task is not None
    workload = job.task.workload
    assert isinstance(workload, Training)
    flops = 6 * workload.model.params * workload.tokens
    for key in keys:
        spec = app.catalogue.spec(key)
        assert spec is not None
        peak = spec.fp16_tflops or spec.bf16_tflops
        assert peak is not None
        assert flops / (0.4 * float(peak) * 1e12) / 3600 > 0


def least_and_median(work: Callable[[], object], runs: int) -> tuple[float, float]:
    """Seconds of the fastest run and of the one in the middle, after one uncounted."""
    work()
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - start)
    return min(seconds), statistics.median(seconds)


def _ms(found: tuple[float, float]) -> tuple[str, str]:
    return f"{found[0] * 1000:.3f}", f"{found[1] * 1000:.3f}"


def _goal(found: tuple[float, float], limit_ms: float) -> str:
    least, median = (seconds * 1000 for seconds in found)
    met = "met" if median < limit_ms else ("met at best" if least < limit_ms else "missed")
    return f"< {limit_ms:g} ms: {met}"


# --- whole processes --------------------------------------------------------------------------


def whole_processes(runs: int, offers: int) -> None:
    """The command over a market of *offers*, beside the yardsticks."""
    account = choose_account(None)
    with tempfile.TemporaryDirectory(prefix="gpucost-bench-", dir="/tmp") as scratch:
        folder = Path(scratch)
        if account.switch:
            folder.chmod(0o711)  # the server's account must reach its data
        embedded = Embedded(folder / "data")
        try:
            url = embedded.start()
            streams = market(App(env={}).catalogue, offers)
            fill(url, streams)
            gpuhunt_catalogue(streams, folder / "gpuhunt")
            timings = time_in_turns(commands(), environment(folder), runs)
        finally:
            embedded.stop(force=True)
    print_processes(timings, offers, runs)


def commands() -> dict[str, list[str]]:
    """The processes measured, by the name in the table."""
    cheapest = [gpucost(), "cheapest"]
    return {
        "python -c pass": [sys.executable, "-c", "pass"],
        "gpuhunt, the same offers": [sys.executable, "-c", _GPUHUNT],
        f"gpucost cheapest {GIVEN}": [*cheapest, GIVEN],
        f"gpucost cheapest {JOB}": [*cheapest, JOB],
        f"gpucost cheapest {JOB} --market any": [*cheapest, JOB, "--market", "any"],
        f"gpucost cheapest {SERVED}": [*cheapest, SERVED],
    }


def print_processes(timings: Sequence[Timing], offers: int, runs: int) -> None:
    """Milliseconds of whole processes, and ratios against the yardsticks."""
    python, gpuhunt = timings[0], timings[1]
    load = os.getloadavg()[0]
    print(
        f"{offers:,} live offers, all GPUs and counts; {runs} processes each, in turns; load "
        f"{load:.1f} on {os.cpu_count()} processors"
    )
    lines = [
        [
            timing.name, f"{timing.least_s * 1000:.0f}", f"{timing.median_s * 1000:.0f}",
            f"{timing.least_cpu_s * 1000:.0f}", f"{timing.least_s / python.least_s:.1f}",
            f"{timing.least_s / gpuhunt.least_s:.2f}",
            _goal((timing.least_s, timing.median_s), PROCESS_GOAL_MS)
            if timing.name.startswith("gpucost")
            else "",
        ]
        for timing in timings
    ]  # fmt: skip
    columns = ["process", "least ms", "median ms", "least cpu ms", "x python", "x gpuhunt", "goal"]
    print(table(columns, lines))


if __name__ == "__main__":
    main()
