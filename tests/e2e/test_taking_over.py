"""Two daemons on one database, and a database that is restarted under one."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import psycopg
import pytest

from tests.daemon.world import Running, until
from tests.e2e.killing import Reaper, Script
from tests.e2e.stage import CHANNELS, Stage, assert_told_once, noted, under_way
from tests.pipeline.e2e.world import assert_sound
from tests.support.replay import Answer, Request

pytestmark = pytest.mark.e2e

TAKEOVERS = 12
RESTARTS = 12


def test_the_leader_is_killed_and_the_other_goes_on(stage: Stage) -> None:
    rng = random.Random(7)  # noqa: S311
    reaper, script = Reaper(stage, rng), Script(stage)
    stage.embedded.acquire()
    leader = stage.start()
    leader.says("leading as .* term 1;")
    took: list[float] = []
    logs: list[str] = []
    other = stage.start()
    for term in range(2, TAKEOVERS + 2):
        other.says("standing by as")
        assert not other.status()["leads"]
        assert "gpucost_polls_total{" not in other.get("/metrics")[1]  # it has asked nobody
        script.wait(script.booked, leader, other)
        script.turn()
        reaper.kill(leader, rng.choice(["poll", *CHANNELS, "in alert_event", "in alert_outbox"]))
        died_at = time.monotonic()
        other.says(f"leading as .* term {term};")
        took.append(time.monotonic() - died_at)
        logs += leader.log
        leader, other = other, stage.start()
    script.wait(script.told, leader)
    assert leader.stop() == 0
    other.says("leading as")
    assert other.stop() == 0
    logs += [*leader.log, *other.log]
    again = assert_told_once(stage, stage.url(), script.crossings, reaper.cut_short)
    recorded = _recorded(stage)
    print(f"\n{TAKEOVERS} takeovers after {sorted(round(s, 1) for s in took)} s; {again} messages "
          f"again; {len(stage.server.requests)} requests, {recorded} polls recorded")  # fmt: skip
    # An answer that nobody recorded was on its way when somebody died or was told to stop.
    assert len(stage.server.requests) - recorded <= (TAKEOVERS + 2) * len(stage.names)
    assert not [line for line in logs if "Traceback" in line or "internal error" in line], logs
    stage.embedded.release()


def test_a_leader_that_was_frozen_awakes_as_one_who_stands_by(stage: Stage) -> None:
    """It stands still with a message in hand, and its connections are given up meanwhile."""
    script = Script(stage)
    stage.embedded.acquire()
    with stage.daemon() as first, stage.daemon() as second:
        until(lambda: first.lines("leading as") or second.lines("leading as"))
        frozen, other = (first, second) if first.lines("leading as") else (second, first)
        other.says("standing by as")

        def freeze(_: Request) -> Answer:
            stage.hook.on_post = None
            frozen.send(signal.SIGSTOP)
            return Answer(b"ok")

        stage.hook.on_post = freeze
        script.turn()
        until(lambda: stage.hook.taken)
        cut_short = Counter(under_way(stage.url()))
        assert ("hook", stage.hook.ids[0]) in cut_short
        with psycopg.connect(stage.url(), autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE application_name = 'gpucost leader' AND pid IN"
                " (SELECT pid FROM pg_locks WHERE locktype = 'advisory')"
            )
        other.says("leading as .* term 2;")
        script.wait(script.told, other)  # once the lease has run out
        script.turn()
        frozen.send(signal.SIGCONT)
        until(lambda: not frozen.status()["leads"])
        script.wait(script.told, other)
        polled = _recorded(stage)
        until(lambda: _recorded(stage) > polled + 4)
        assert other.status()["leads"]
        assert (frozen.stop(), other.stop()) == (0, 0)
    assert_told_once(stage, stage.url(), 2, cut_short)
    for log in (first, second):
        assert not log.lines("Traceback|internal error|no usable prices"), "\n".join(log.log)
    stage.embedded.release()


def test_its_database_is_restarted_under_it(stage: Stage) -> None:
    rng = random.Random(11)  # noqa: S311
    script = Script(stage)
    with stage.daemon() as daemon:
        daemon.says("leading as")
        for number in range(RESTARTS):
            script.turn()
            time.sleep(rng.uniform(0, 1.5))
            how = ("killed", "fast", "immediate", "in order")[number % 4]
            _end_server(stage, how)
            daemon.says(f"leading as .* term {number + 2};")
            script.wait(script.told, daemon)
        url = stage.url()
        allowed = Counter({(c, e.id): 1 for e in noted(url) for c in CHANNELS})
        again = assert_told_once(stage, url, script.crossings, allowed)
        with psycopg.connect(url) as connection:
            assert_sound(connection)
        assert daemon.stop() == 0
    print(f"\n{RESTARTS} restarts, {script.crossings} crossings, {again} messages again")
    assert not stage.embedded.status().running
    assert not daemon.lines("Traceback|internal error|alpha: |beta: "), "\n".join(daemon.log)
    _assert_one_line_each(daemon, RESTARTS)


def _end_server(stage: Stage, how: str) -> None:
    pid = until(lambda: stage.embedded.status().pid or 0)
    if how == "in order":
        stage.embedded.stop(force=True)
        return
    number = {"killed": signal.SIGKILL, "fast": signal.SIGINT, "immediate": signal.SIGQUIT}[how]
    with psycopg.connect(stage.url()) as connection:  # gone when this is
        os.kill(pid, number)
        until(lambda: _gone(connection))


def _gone(connection: psycopg.Connection[object]) -> bool:
    try:
        connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return True
    return False


def _assert_one_line_each(daemon: Running, outages: int) -> None:
    lost, back = daemon.lines("ERROR "), daemon.lines("works again")
    assert len(lost) == len(back) <= outages, "\n".join(daemon.log)


def _recorded(stage: Stage) -> int:
    with psycopg.connect(stage.url()) as connection:
        [(count,)] = connection.execute("SELECT count(*) FROM poll").fetchall()
    return int(count)
