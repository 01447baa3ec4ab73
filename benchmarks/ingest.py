"""How long it takes to record a poll, beside an ORM and COPY with a diff in SQL.

    python -m benchmarks.ingest [--spans N] [--runs N] [--skip-orm]

Runs on an embedded PostgreSQL in a scratch folder with a year of history in it, beside 10,000 live
offers of another provider. Offers arrive with their keys and marks worked out, as they do after
normalisation; that part is a line of its own. Cold is what a process does for its first poll: it
asks what the gates must know, and records.
Nothing here passes or fails by time; what is checked is that every way finds the same changes.
"""

from __future__ import annotations

import argparse
import gc
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Engine

from benchmarks.report import table
from benchmarks.world import a_year_before, offers_of
from benchmarks.yardsticks import copy_and_sql_diff, orm_per_row
from tracker.store import migrate, reads
from tracker.store.embedded import Embedded
from tracker.store.embedded.account import choose_account
from tracker.store.engine import connect, make_engine, read_connection
from tracker.store.polls import Poll, Recorder

START = datetime(2026, 6, 15, tzinfo=UTC)
OTHERS = 10_000  # live offers that a poll has nothing to do with

RESULT = TypeVar("RESULT")


class Stream:
    """One provider in the store; every poll is an hour after the one before."""

    def __init__(self, name: str, count: int, *, hosts: bool) -> None:
        self.name, self.count, self.hosts = name, count, hosts
        self.turn = 0

    def next_poll(self, changed: float) -> Poll:
        """The next poll, the share *changed* of its prices being new."""
        self.turn += 1
        offers = offers_of(self.name, self.count, hosts=self.hosts, turn=self.turn, changed=changed)
        at = START + timedelta(hours=self.turn)
        poll = Poll(source=self.name, status="complete", started_at=at, polled_at=at,
                    every_seconds=3600, accepted=offers)  # fmt: skip
        assert poll.seen  # keys and marks are worked out here, as normalisation's part
        return poll


@dataclass(frozen=True, slots=True)
class Measured:
    """Seconds of each run, and how many spans a run closed."""

    seconds: tuple[float, ...]
    spans: int

    @property
    def typical_ms(self) -> float:
        """The run in the middle."""
        return statistics.median(self.seconds) * 1000

    @property
    def least_ms(self) -> float:
        """The run with the least noise of the machine."""
        return min(self.seconds) * 1000


class Bench:
    """The measurements on one database."""

    def __init__(self, url: str, engine: Engine, runs: int) -> None:
        self.url, self.engine, self.runs = url, engine, runs

    def ours(self, stream: Stream, changed: float, *, cold: bool = False) -> Measured:
        """The recorder; cold: one that has just been started."""
        recorder = Recorder(self.engine)
        recorder.record(stream.next_poll(changed))

        def record(poll: Poll) -> None:
            recorder.record(poll)

        def record_cold(poll: Poll) -> None:
            started = Recorder(self.engine)
            assert started.context(stream.name).complete_count == stream.count
            started.record(poll)

        return self._measure(stream, changed, self.runs, record_cold if cold else record)

    def others(self) -> None:
        """Leave no offers open but those of a provider that is not measured."""
        with connect(self.url, autocommit=True, statement_timeout_s=0) as connection:
            connection.execute("DELETE FROM offer_now")
            connection.execute("VACUUM FULL offer_now")
        others = Stream(f"others{time.perf_counter_ns()}", OTHERS, hosts=True)
        Recorder(self.engine).record(others.next_poll(0))

    def copied(self, stream: Stream, changed: float) -> Measured:
        """COPY and a diff in SQL."""
        source = self._opened(stream, changed)
        with connect(self.url) as connection:
            return self._measure(
                stream, changed, min(self.runs, 5),
                lambda p: copy_and_sql_diff(connection, source, p.accepted, p.polled_at),
            )  # fmt: skip

    def by_orm(self, stream: Stream, changed: float) -> Measured:
        """The ORM, row by row, once: it takes long."""
        source = self._opened(stream, changed)
        return self._measure(
            stream, changed, 1, lambda p: orm_per_row(self.engine, source, p.accepted, p.polled_at)
        )

    def _measure(
        self, stream: Stream, changed: float, runs: int, record: Callable[[Poll], None]
    ) -> Measured:
        before, seconds = self._spans(stream), []
        for _ in range(runs):
            poll = stream.next_poll(changed)
            seconds.append(timed(partial(record, poll))[1])
        return Measured(tuple(seconds), (self._spans(stream) - before) // runs)

    def _opened(self, stream: Stream, changed: float) -> int:
        """The stream's id, after a first poll that opens its offers."""
        Recorder(self.engine).record(stream.next_poll(changed))
        return int(self._value("SELECT id FROM provider WHERE slug = %s", stream.name))

    def _spans(self, stream: Stream) -> int:
        return int(
            self._value(
                "SELECT count(*) FROM price_span s JOIN provider p ON p.id = s.source_id"
                " WHERE p.slug = %s",
                stream.name,
            )
        )

    def _value(self, statement: str, *values: object) -> Any:
        with connect(self.url, autocommit=True) as connection:
            [(value,)] = connection.execute(statement, values).fetchall()
            return value

    def wal_bytes(self, stream: Stream) -> int:
        """Bytes of write-ahead log of a poll that changes nothing."""
        recorder, sizes = Recorder(self.engine), []
        recorder.record(stream.next_poll(0))
        for _ in range(self.runs):
            poll = stream.next_poll(0)
            before = self._value("SELECT pg_current_wal_insert_lsn()")
            recorder.record(poll)
            sizes.append(
                int(self._value("SELECT pg_current_wal_insert_lsn() - %s::pg_lsn", before))
            )
        return min(sizes)  # the others hold whole pages, logged once after each checkpoint

    def read_ms(self, stream: Stream) -> float:
        """The least milliseconds to read all live offers of a provider."""
        with read_connection(self.url) as connection:

            def read() -> int:
                return len(reads.live_offers(connection, providers=[stream.name]))

            runs = [timed(read) for _ in range(self.runs)]
        assert {count for count, _ in runs} == {stream.count}
        return min(seconds for _, seconds in runs) * 1000


def timed(work: Callable[[], RESULT]) -> tuple[RESULT, float]:
    """The result of *work* and the seconds it took."""
    gc.collect()
    start = time.perf_counter()
    result = work()
    return result, time.perf_counter() - start


@dataclass(frozen=True, slots=True)
class Scenario:
    """One line of the table. The goals are those of the project for its 2-core machine."""

    name: str
    offers: int
    changed: float
    goal_ms: int
    hosts: bool = False
    cold: bool = False
    orm: bool = False


SCENARIOS = (
    Scenario("3,000 offers, 1 % changed", 3000, 0.01, 10, hosts=True, orm=True),
    Scenario("20,000, none changed", 20_000, 0, 8, orm=True),
    Scenario("20,000, none changed, cold", 20_000, 0, 40, cold=True),
    Scenario("20,000, 1 % changed", 20_000, 0.01, 35),
    Scenario("20,000, all changed", 20_000, 1, 900),
    Scenario("20,000 hosts, none changed", 20_000, 0, 8, hosts=True),
)


def line(bench: Bench, number: int, scenario: Scenario, *, orm: bool) -> list[str]:
    """Measure a scenario in every way; each has a provider, that is rows, of its own."""

    def stream(way: str) -> Stream:
        return Stream(f"{way}{number}", scenario.offers, hosts=scenario.hosts)

    bench.others()
    ours = bench.ours(stream("ours"), scenario.changed, cold=scenario.cold)
    bench.others()
    copied = bench.copied(stream("copy"), scenario.changed)
    assert ours.spans == copied.spans, (scenario.name, ours.spans, copied.spans)
    cells = [scenario.name, f"{ours.least_ms:,.1f}", f"{ours.typical_ms:,.1f}",
             f"< {scenario.goal_ms}", f"{copied.least_ms:,.0f}",
             f"{copied.least_ms / ours.least_ms:.1f}"]  # fmt: skip
    if not (orm and scenario.orm):
        return [*cells, "-", "-"]
    bench.others()
    by_orm = bench.by_orm(stream("orm"), scenario.changed)
    assert ours.spans == by_orm.spans, (scenario.name, ours.spans, by_orm.spans)
    return [*cells, f"{by_orm.least_ms:,.0f}", f"{by_orm.least_ms / ours.least_ms:,.0f}"]


def preparation_ms(offers: int, runs: int, *, hosts: bool) -> tuple[float, float]:
    """The least milliseconds for the keys of a poll, and then for its marks."""
    keys, marks = [], []
    for _ in range(runs):
        made = offers_of("prepared", offers, hosts=hosts)
        poll = Poll(source="prepared", status="complete", started_at=START, polled_at=START,
                    every_seconds=3600, accepted=made)  # fmt: skip
        keys.append(timed(lambda poll=poll: poll.offers)[1])
        marks.append(timed(lambda poll=poll: poll.seen)[1])
    return min(keys) * 1000, min(marks) * 1000


def run(url: str, options: argparse.Namespace) -> None:
    """Fill the database, measure, print."""
    migrate.upgrade(url)
    print(f"a year of history: {options.spans:,} spans …", flush=True)
    with connect(url, statement_timeout_s=0) as connection:
        a_year_before(connection, START, identities=options.spans // 10, spans=options.spans)
        connection.autocommit = True
        connection.execute("VACUUM ANALYZE")
    engine = make_engine(url)
    try:
        bench = Bench(url, engine, options.runs)
        lines = []
        for number, scenario in enumerate(SCENARIOS):
            lines.append(line(bench, number, scenario, orm=not options.skip_orm))
            print("  " + "  ".join(lines[-1]), flush=True)
        bench.others()
        hosts = Stream("hosts", 20_000, hosts=True)
        wal, read = bench.wal_bytes(hosts), bench.read_ms(hosts)
    finally:
        engine.dispose()
    print()
    print(table(["one poll (milliseconds)", "least", "median", "goal", "COPY + SQL", "times",
                 "ORM", "times"], lines))  # fmt: skip
    print(f"\nwrite-ahead log of an unchanged poll: {wal:,} bytes (goal: < 1,000)")
    for what, are_hosts in (("offers", False), ("hosts", True)):
        keys, marks = preparation_ms(20_000, options.runs, hosts=are_hosts)
        print(f"before the poll, of 20,000 {what}: keys {keys:,.0f} ms, marks {marks:,.0f} ms")
    print(f"reading 20,000 live offers: {read:,.0f} ms (goal: < 120)")


def main() -> None:
    """Start a scratch server, measure and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.ingest", description=__doc__)
    parser.add_argument("--spans", type=int, default=1_000_000, help="of history (1000000)")
    parser.add_argument("--runs", type=int, default=7, help="polls of each kind (7)")
    parser.add_argument("--skip-orm", action="store_true", help="leave out the slow yardstick")
    options = parser.parse_args()
    account = choose_account(None)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # leave no server behind
    with tempfile.TemporaryDirectory(prefix="gpucost-bench-", dir="/tmp") as scratch:
        folder = Path(scratch)
        if account.switch:
            folder.chmod(0o711)  # the server's account must reach its data
        embedded = Embedded(folder / "data")
        try:
            run(embedded.start(), options)
        finally:
            embedded.stop(force=True)


if __name__ == "__main__":
    main()
