"""Recorders side by side, and recorders that die: history stays whole."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pytest

from tests.store import oracle
from tests.store.oracle import RawPoll
from tests.store.worlds import Fault, fused_engine, recording_engine, rows, stored_history
from tests.support.offers import at, make_poll
from tracker.store.polls import Recorder

TTL = timedelta(minutes=3)
ROOT = Path(__file__).parents[2]


def prices_of(number: int) -> dict[str, str]:
    """What poll *number* sees; every one is different from the one before."""
    return {name: str(1 + (number * step) % 7) for name, step in (("a", 1), ("b", 2), ("c", 3))
            if (number + step) % 4}  # fmt: skip


def test_two_daemons_at_once(database_url: str) -> None:
    numbers = iter(range(40))
    lock = threading.Lock()

    def daemon(recorder: Recorder) -> None:
        while True:
            with lock:
                number = next(numbers, None)
            if number is None:
                return
            recorder.record(make_poll(number / 2, prices_of(number)))

    with (
        recording_engine(database_url) as one,
        recording_engine(database_url) as two,
        ThreadPoolExecutor() as pool,
    ):
        first = Recorder(one)
        for done in [pool.submit(daemon, r) for r in (first, first, Recorder(two))]:
            done.result()
    raw = [
        RawPoll(moment, "complete", {n: Decimal(p) for n, p in prices_of(number).items()})
        for moment, number in rows(
            database_url,
            "SELECT polled_at, round(date_part('epoch', polled_at - %s) / 30)::int4"
            " FROM poll ORDER BY id",
            (at(0),),
        )
    ]
    assert len(raw) == 40
    assert stored_history(database_url) == oracle.history(raw, TTL)


def test_two_sources_need_one_new_month_and_one_new_seller(database_url: str) -> None:
    start = threading.Barrier(2)

    def first_poll(source: str) -> None:
        with recording_engine(database_url) as engine:
            start.wait()
            recorder = Recorder(engine)
            for minutes in range(4):
                recorder.record(make_poll(minutes, {"a": str(minutes + 1)}, source=source))

    with ThreadPoolExecutor() as pool:
        for done in [pool.submit(first_poll, source) for source in ("one", "two")]:
            done.result()
    for source in ("one", "two"):
        assert len(stored_history(database_url, source)["a"]) == 4


def test_fault_at_any_statement_leaves_nothing(database_url: str) -> None:
    with fused_engine(database_url) as (engine, fuse):
        recorder = Recorder(engine)
        recorder.record(make_poll(0, {"a": "1", "b": "1", "c": "1"}))
        before = stored_history(database_url)
        busy = make_poll(10, {"a": "2", "b": "1", "d": "1"})
        fuse.statements = 0
        for allowed in range(100):
            fuse.left = allowed
            try:
                recorder.record(busy)
            except Fault:
                assert stored_history(database_url) == before
                assert rows(database_url, "SELECT count(*), max(seq) FROM poll, provider") == [
                    (1, 1)
                ]
            else:
                break
        assert allowed >= 5  # it was not one statement
    assert stored_history(database_url) == {
        "a": [(at(0), at(3), Decimal(1)), (at(10), at(13), Decimal(2))],
        "b": [(at(0), at(3), Decimal(1)), (at(10), at(13), Decimal(1))],
        "c": [(at(0), at(3), Decimal(1))],
        "d": [(at(10), at(13), Decimal(1))],
    }


_VICTIM = """
import os, signal, sys
from tests.store.worlds import Fuse, fused_engine
from tests.support.offers import make_poll
from tracker.store.polls import Recorder

def die(self):
    self.statements += 1
    if self.left is not None and self.statements > self.left:
        os.kill(os.getpid(), signal.SIGKILL)

Fuse.check = die
with fused_engine(sys.argv[1]) as (engine, fuse):
    fuse.left = int(sys.argv[2])
    Recorder(engine).record(make_poll(2, {"a": "2", "d": "1"}))
"""


@pytest.mark.parametrize("statements", [2, 8, 10])
def test_killed_recorder_leaves_no_lock_and_no_half(database_url: str, statements: int) -> None:
    with recording_engine(database_url) as engine:
        recorder = Recorder(engine)
        recorder.record(make_poll(0, {"a": "1", "b": "1"}))
        before = stored_history(database_url)
        command = [sys.executable, "-c", _VICTIM, database_url, str(statements)]
        assert subprocess.run(command, cwd=ROOT, check=False).returncode == -9
        assert stored_history(database_url) == before
        assert recorder.record(make_poll(2, {"a": "3"})).status == "complete"
    assert stored_history(database_url)["a"] == [
        (at(0), at(2), Decimal(1)),
        (at(2), at(5), Decimal(3)),
    ]
