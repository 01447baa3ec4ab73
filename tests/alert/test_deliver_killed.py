"""kill -9 of a delivering process: nothing is lost, and what comes twice has the same id."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.alert.outbox_world import Events, engine_of, statuses
from tests.store.worlds import rows
from tests.support.hook import Hook
from tests.support.replay import Answer, Request

# A delivering process that has looked into the outbox.
POLLING = """
SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()
AND query LIKE '%%alert_outbox%%' AND backend_start > %(after)s
"""

ROOT = Path(__file__).resolve().parents[2]


@contextmanager
def delivering(database_url: str, hook: Hook) -> Iterator[subprocess.Popen[bytes]]:
    """A process that delivers; killed in the end, if it lives."""
    process = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("deliver_process.py")), database_url,
         hook.address],
        cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it did not come to that"
        time.sleep(0.01)


def let_leases_run_out(database_url: str) -> None:
    rows(database_url, "UPDATE alert_outbox SET lease_until = now() WHERE status = 'sending'")


def test_killed_between_send_and_mark_it_sends_the_same_again(database_url: str) -> None:
    killed: list[subprocess.Popen[bytes]] = []

    with Hook() as hook, engine_of(database_url) as engine:

        def take(_request: Request) -> Answer:
            """The notice is here, and its sender dies before it hears of that."""
            if not killed:
                killed.append(process)
                process.kill()
                process.wait()
            return Answer(b"ok")

        hook.handle("POST", hook.path, take)
        now = datetime.now(UTC)
        both = [Events(engine).add(rule=rule, at=now) for rule in ("a", "b")]
        with suppress(ConnectionError), delivering(database_url, hook) as process:
            until(lambda: bool(killed) and process.poll() is not None)
        assert set(statuses(database_url).values()) == {"sending"}
        ((begun,),) = rows(database_url, "SELECT clock_timestamp()")
        with delivering(database_url, hook):
            # Nobody else takes it as long as the lease lasts.
            until(lambda: len(rows(database_url, POLLING, {"after": begun})) > 0)
            assert len(hook.requests) == 1
            let_leases_run_out(database_url)
            until(lambda: set(statuses(database_url).values()) == {"sent"})
    first, second = hook.bodies
    assert hook.ids[0] == hook.ids[1]
    assert first["event_id"] == second["event_id"]
    assert first["events"] == second["events"]
    assert [event["event_id"] for event in first["events"]] == both


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.e2e)])
def test_killed_anywhere_nothing_is_lost_and_the_order_holds(database_url: str, seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311
    with Hook() as hook, engine_of(database_url) as engine:
        events = Events(engine)

        def done() -> bool:
            return set(statuses(database_url).values()) == {"sent"}

        for _ in range(3):
            for number in range(4):
                kind = chance.choice(["data_problem", "data_ok", "fired"])
                events.add(kind, rule=f"r{number}", at=datetime.now(UTC))
            seen = len(hook.requests)
            with delivering(database_url, hook):
                wanted = seen + chance.randrange(1, 3)
                until(lambda n=wanted: len(hook.requests) >= n or done())  # type: ignore[misc]
                time.sleep(chance.uniform(0, 0.03))
            let_leases_run_out(database_url)
        with delivering(database_url, hook):
            until(done)
    told: list[str] = []
    by_id: dict[str, list[str]] = {}
    for body in hook.bodies:
        inside = [event["event_id"] for event in body["events"]]
        # The same id always stands for the same events.
        assert by_id.setdefault(body["event_id"], inside) == inside
        told += [event for event in inside if event not in told]
    assert sorted(told) == sorted(events.ids)
    for number in range(4):
        own = [event for event in told if event.startswith(f"r{number}-")]
        assert own == sorted(own, key=lambda event: int(event.rpartition("-")[2]))
