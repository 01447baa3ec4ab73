"""How long one poll of every provider takes, and the memory that it needs.

    python -m benchmarks.poll_all [--runs N]

Each provider answers on a server of this machine with its fixture (tests/support/all_clouds.py),
so what is measured is gpucost: start, settings, requests, reading, judging, writing to an embedded
PostgreSQL in a scratch folder. The pauses that real hosts are due are left out, and the fixtures
are smaller than real answers. Of each run: seconds by the clock, seconds of processor time, and the
most memory that the process held. The first finds an empty database, the others change nothing.
Nothing here passes or fails by time; what is checked is that every poll is complete.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import table
from tests.support import all_clouds
from tracker.store import migrate
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account

CHILD = "--poll"  # the process that is measured
_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes of ru_maxrss's unit


@dataclass(frozen=True, slots=True)
class Run:
    """One poll of everything, from the start of the process to its end."""

    seconds: float
    cpu_seconds: float
    peak_mib: float
    offers: int
    providers: int


def poll() -> None:
    """``gpucost poll`` without pauses and with the rates of no bank: what the child runs."""
    from tracker.cli import main as cli
    from tracker.collect import exchange
    from tracker.http import factory
    from tracker.http.gate import HostGate

    factory.make_gate = lambda provider, settings: HostGate()
    exchange.fetch_rates = all_clouds.fetch_rates
    sys.argv = ["gpucost", "poll", "-o", "json"]
    cli.main()


def measure(variables: Mapping[str, str], folder: Path) -> Run:
    """Run one poll of everything. Raises SystemExit when a provider's is not complete."""
    with (folder / "out").open("w+b") as out, (folder / "err").open("w+b") as err:
        start = time.perf_counter()
        child = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.poll_all", CHILD],
            env={**_outside(), **variables}, stdout=out, stderr=err,
        )  # fmt: skip
        _, status, usage = os.wait4(child.pid, 0)
        seconds = time.perf_counter() - start
        child.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if child.returncode:
            raise SystemExit(f"the poll failed: {err.read().decode(errors='replace').strip()}")
        rows = json.loads(out.read())["rows"]
    partial = [row["provider"] for row in rows if row["status"] != "complete"]
    if partial:
        raise SystemExit(f"not complete: {', '.join(partial)}")
    return Run(
        seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * _UNIT / 2**20,
        sum(row["offers"] for row in rows), len(rows),
    )  # fmt: skip


def _outside() -> dict[str, str]:
    """The caller's environment without settings of gpucost."""
    return {name: value for name, value in os.environ.items() if not name.startswith("GPUCOST_")}


def measured(runs: int) -> list[Run]:
    """*runs* polls of everything, one after the other, into one database."""
    account = choose_account(None)
    with (
        tempfile.TemporaryDirectory(prefix="gpucost-bench-", dir="/tmp") as scratch,
        all_clouds.running() as (_, variables),
    ):
        folder = Path(scratch)
        if account.switch:
            folder.chmod(0o711)
        server = Embedded(folder / "data")
        try:
            url = server.start()
            migrate.upgrade(url)
            own = {"GPUCOST_DATABASE_URL": url, "HOME": scratch}
            return [measure(variables | own, folder) for _ in range(runs)]
        finally:
            server.stop(force=True)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.poll_all", description=__doc__)
    parser.add_argument("--runs", type=int, default=4, help="polls of everything (4)")
    parser.add_argument(CHILD, action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.poll:
        poll()
        return
    runs = measured(max(options.runs, 1))
    print(f"{runs[0].providers} providers, {runs[0].offers:,} offers")
    print(
        table(
            ("poll of everything", "seconds", "processor s", "peak MiB"),
            [
                (
                    "first" if number == 0 else "nothing new", f"{run.seconds:.2f}",
                    f"{run.cpu_seconds:.2f}", f"{run.peak_mib:.0f}",
                )
                for number, run in enumerate(runs)
            ],
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
