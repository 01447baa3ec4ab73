"""How long it takes to bring one's own history into a database, beside a bare COPY of its rows.

    python -m benchmarks.importing [--spans N] [--format parquet|csv]

Two years of ``history_world.py`` are written as the files that ``gpucost export history`` writes,
and imported into an empty embedded PostgreSQL by what ``gpucost import`` calls. The yardsticks are
COPY alone (the same rows, in the binary format, into one table without indexes) and the indexes
alone (made once more, on two connections, as the import does beside adding its offers). The goal is
10 million spans in 15 seconds, indexes (and what else is made of the rows afterwards: floors) not
counted. Where the machine does other things as well, look at the ratio to COPY and at the seconds
of processors.
"""

from __future__ import annotations

import argparse
import csv
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.history import placed
from benchmarks.report import table
from tracker import data
from tracker.collect.importing import by_columns, tables
from tracker.collect.importing.opening import Request, open_source
from tracker.collect.importing.run import Judging, Outcome, run_import
from tracker.domain.gpu import Catalogue
from tracker.domain.quality import Rules
from tracker.store import floor_rebuild, import_merge, migrate
from tracker.store.bulk import months
from tracker.store.embedded import Embedded
from tracker.store.engine import connect

GOAL_S_PER_SPAN = 15 / 10_000_000
_TICKS = os.sysconf("SC_CLK_TCK")
# What is timed, by the functions that do it. The floors are built within the merge.
_STEPS = {"read": (by_columns, "stage"), "index": (months, "index"),
          "merge": (import_merge, "merge"), "floors": (floor_rebuild, "rebuild_all")}  # fmt: skip


@dataclass(slots=True)
class Spent:
    """Seconds by the clock, and of processors: of this process and of the server."""

    clock: float = 0
    client: float = 0
    server: float = 0

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.clock - other.clock, self.client - other.client,
                     self.server - other.server)  # fmt: skip

    def __add__(self, other: Spent) -> Spent:
        return Spent(self.clock + other.clock, self.client + other.client,
                     self.server + other.server)  # fmt: skip


@dataclass(slots=True)
class Watch:
    """Measures steps. *server* is the process number of the postmaster."""

    server: int
    spent: dict[str, Spent] = field(default_factory=dict)

    def now(self) -> Spent:
        """What has been spent so far."""
        return Spent(time.perf_counter(), time.process_time(), cpu_of_family(self.server))

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Add what the block takes to the step *name*."""
        before = self.now()
        yield
        self.spent[name] = self.spent.get(name, Spent()) + (self.now() - before)

    def watched(self, name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        """*work* as a step."""

        def measured(*arguments: Any, **options: Any) -> Any:
            with self.step(name):
                return work(*arguments, **options)

        return measured


def cpu_of_family(pid: int) -> float:
    """Processor seconds of a process and its children, those that have ended included. 0 where the
    system does not say."""
    total = 0
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue  # it has ended
        numbers = rest.split()
        if int(name.split(" ")[0]) == pid:
            total += sum(map(int, numbers[11:15]))
        elif int(numbers[1]) == pid:
            total += sum(map(int, numbers[11:13]))
    return total / _TICKS


def bring(url: str, kind: str, place: Path, watch: Watch) -> Outcome:
    """Import *place* as the command line does."""
    with ExitStack() as patches:
        for name, (module, function) in _STEPS.items():
            work = watch.watched(name, getattr(module, function))
            patches.enter_context(mock.patch.object(module, function, work))
        with watch.step("all"):
            request = Request(kind, str(place), datetime.now(UTC))
            source = open_source(request, lambda _url: None)
            known = Catalogue.from_toml(data.text("gpus.toml"), data.text("aliases.toml"))
            judging = Judging(known, Rules())
            return run_import(url, source, judging, lambda *_: None)


def bare_copy(url: str, scratch: Path, watch: Watch) -> int:
    """COPY all spans out into a file, and that into an empty table; how many bytes."""
    with connect(url, statement_timeout_s=0) as connection:
        with scratch.open("wb") as out, connection.cursor().copy(
            "COPY (SELECT * FROM price_span) TO STDOUT (FORMAT BINARY)"
        ) as copy:  # fmt: skip
            for piece in copy:
                out.write(piece)
        connection.rollback()
        with scratch.open("rb") as file, watch.step("copy"):
            connection.execute("CREATE TABLE bare (LIKE price_span INCLUDING CONSTRAINTS)")
            with connection.cursor().copy("COPY bare FROM STDIN (FORMAT BINARY)") as copy:
                while piece := file.read(2**20):
                    copy.write(piece)
            connection.commit()
        connection.execute("DROP TABLE bare")
        connection.commit()
    return scratch.stat().st_size


def reindex(url: str, watch: Watch) -> None:
    """Make all months' indexes once more."""
    with connect(url, autocommit=True) as connection:
        names = [name for (name,) in connection.execute(
            "SELECT relid::regclass::text FROM pg_partition_tree('price_span') WHERE isleaf"
        )]  # fmt: skip

    def work(share: list[str]) -> None:
        with connect(url, statement_timeout_s=0, autocommit=True) as connection:
            months.build_alone(connection)
            for name in share:
                connection.execute(f"REINDEX TABLE {name}")

    with watch.step("reindex"), ThreadPoolExecutor(months.CONNECTIONS) as pool:
        list(pool.map(work, [names[n :: months.CONNECTIONS] for n in range(months.CONNECTIONS)]))


def as_csv(folder: Path, place: Path) -> None:
    """The same rows as ``gpucost export history -o csv`` has them."""
    with tables.open_table(folder, "parquet") as found, place.open("w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(found.header)
        writer.writerows(row for _, row in found.rows)


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.importing", description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000, help="about so many (1,000,000)")
    parser.add_argument("--format", choices=("parquet", "csv"), default="parquet")
    options = parser.parse_args()
    with placed(None) as folder:
        files = folder / "history"
        # By another process: what it takes of memory is not the import's.
        subprocess.run(
            [sys.executable, "-m", "benchmarks.importing_files", files, str(options.spans)],
            check=True, stdout=subprocess.DEVNULL,
        )  # fmt: skip
        if options.format == "csv":
            as_csv(files, folder / "history.csv")
            files = folder / "history.csv"
        embedded = Embedded(folder / "data")
        try:
            url = embedded.start()
            migrate.upgrade(url)
            watch = Watch(embedded.status().pid or 0)
            outcome = bring(url, options.format, files, watch)
            memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            assert outcome.spans == outcome.report.kept
            reindex(url, watch)
            bare_copy(url, folder / "rows", watch)
        finally:
            embedded.stop(force=True)
    print_report(options.format, outcome.spans, watch.spent, memory)


def print_report(kind: str, spans: int, spent: dict[str, Spent], memory: int) -> None:
    """A line for each step, and beside the bare COPY."""
    floors, copy, indexes = spent["floors"], spent["copy"], spent["reindex"]
    rest = spent["all"] - spent["read"] - spent["index"] - spent["merge"]
    counted = spent["all"] - floors - indexes
    rows = {
        "bare COPY": copy, "indexes alone": indexes, "reading and writing": spent["read"],
        "indexes and offers": spent["index"], "merging": spent["merge"] - floors,
        "the rest": rest, "floors": floors, "everything": spent["all"],
        "but for floors and indexes": counted,
    }  # fmt: skip
    goal = spans * GOAL_S_PER_SPAN
    lines = []
    for name, took in rows.items():
        told = ""
        if took is counted:
            told = f"< {goal:.1f} s: {'met' if took.clock < goal else 'missed'}"
        lines.append((
            name, f"{took.clock:.2f}", f"{took.client:.2f}", f"{took.server:.2f}",
            f"{spans / max(took.clock, 1e-9) / 1000:,.0f}", f"{took.clock / copy.clock:.2f}", told,
        ))  # fmt: skip
    head = ("step", "s", "client CPU s", "server CPU s", "1,000 rows/s", "x COPY", "goal")
    print(
        f"{spans:,} spans from {kind}; {memory} MB of memory at most; load {os.getloadavg()[0]:.1f}"
    )
    print(table(head, lines))


if __name__ == "__main__":
    main()
