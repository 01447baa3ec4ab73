"""Timing whole processes and printing what came out."""

from __future__ import annotations

import resource
import statistics
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timing:
    """Several runs of one thing: seconds by the clock, and of processor time (all its threads)."""

    name: str
    seconds: tuple[float, ...]
    cpu_seconds: tuple[float, ...]

    @property
    def least_s(self) -> float:
        """The fastest run: what the work itself takes, with the least noise of the machine."""
        return min(self.seconds)

    @property
    def median_s(self) -> float:
        """The run in the middle: what one waits for."""
        return statistics.median(self.seconds)

    @property
    def least_cpu_s(self) -> float:
        """Processor time of the run that needed least: hardly moved by what else runs."""
        return min(self.cpu_seconds)


def time_in_turns(
    commands: Mapping[str, Sequence[str]], env: Mapping[str, str], runs: int
) -> list[Timing]:
    """Run every command *runs* times, in turns, so that a noisy minute hits all of them alike.

    One round goes before, uncounted, to warm the disk cache. Raises SystemExit with what a command
    says when it fails.
    """
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            start, spent = time.perf_counter(), _cpu_of_children()
            done = subprocess.run(
                command, env=env, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            if done.returncode:
                raise SystemExit(f"{name} failed: {done.stderr.decode(errors='replace').strip()}")
            if turn:
                seconds[name].append(time.perf_counter() - start)
                cpu[name].append(_cpu_of_children() - spent)
    return [Timing(name, tuple(seconds[name]), tuple(cpu[name])) for name in commands]


def _cpu_of_children() -> float:
    """Processor seconds of all child processes that have ended (the server is not one of them)."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Plain text: the first column to the left, figures to the right."""
    lines = [list(columns), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i == 0 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )
