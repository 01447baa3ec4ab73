"""What the kernel knows of a process: time used, memory, files, threads."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Use:
    """One look at a process. ``files`` are its open descriptors."""

    rss_mb: float
    files: int
    threads: int
    cpu_s: float


def cpu_seconds(pid: int) -> float:
    """Processor time used so far, in user and kernel mode, without that of children."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def use(pid: int) -> Use:
    """Look at the process *pid*, which lives."""
    status: dict[str, str] = {}
    with suppress(ValueError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            status[name] = value.strip()
    return Use(
        rss_mb=int(status["VmRSS"].split()[0]) / 1024,
        files=len(list(Path(f"/proc/{pid}/fd").iterdir())),
        threads=int(status["Threads"]),
        cpu_s=cpu_seconds(pid),
    )
