"""A receiver that fails for a day, a database that is away for an hour.

A day of a receiver's takes 24 s here (tests.e2e.hasty, ``give_up_hours``), an hour of the
database's a minute.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.daemon.world import Running, until
from tests.e2e.killing import Script
from tests.e2e.process import cpu_seconds
from tests.e2e.stage import Stage, assert_told_once, noted
from tests.support.replay import Answer
from tracker.store import migrate

pytestmark = pytest.mark.e2e

DAY_S = 24.0
A_DAY = f"give_up_hours = {DAY_S / 3600:.6f}"
HOUR_S = 60.0


def rows(stage: Stage, channel: str) -> list[str]:
    """What became of the notices for *channel*, in order."""
    return [event.rows[channel] for event in noted(stage.url())]


def pause(end: float) -> None:
    """Let time pass until that moment (monotonic)."""
    time.sleep(max(0.0, end - time.monotonic()))


@contextmanager
def hook_broken(stage: Stage) -> Iterator[Running]:
    """A daemon whose webhook answers 500 from the start, until ``on_post`` is taken away."""
    stage.alert_settings = A_DAY
    stage.configure()
    stage.hook.on_post = lambda _: Answer(b"out of order", 500)
    with stage.daemon() as daemon:
        daemon.says("leading as")
        yield daemon
        assert daemon.stop() == 0
    # However often it was tried, its trouble has one line, and so has its end.
    assert len(daemon.lines("alert channel hook: HTTP 500")) == 1
    assert len(daemon.lines("alert channel hook works again")) == 1
    assert not daemon.lines("Traceback")


def test_a_webhook_that_fails_for_most_of_a_day_gets_it_in_the_end(stage: Stage) -> None:
    script, began = Script(stage), time.monotonic()
    with hook_broken(stage) as daemon:
        for share in (0.3, 0.6):
            script.turn()
            # Mail does not wait for it.
            script.wait(lambda: rows(stage, "mail") == ["sent"] * script.crossings, daemon)
            pause(began + share * DAY_S)
        assert set(rows(stage, "hook")) <= {"pending", "sending", "merged"}
        tries, stage.hook.on_post = stage.hook.tries, None
        script.wait(script.told, daemon)
        assert rows(stage, "hook") == ["merged", "sent"]
        assert_told_once(stage, stage.url(), 2, Counter())
        until(lambda: 'gpucost_outbox_dead{channel="hook"} 0.0' in daemon.get("/metrics")[1])
    assert not daemon.lines("ERROR")
    print(f"\n{tries} tries in a day of {0.6 * DAY_S:.0f} s")
    assert tries >= 3


def test_after_a_whole_day_it_is_parked_and_its_end_tells_of_it(stage: Stage) -> None:
    script = Script(stage)
    with hook_broken(stage) as daemon:
        script.turn()
        script.wait(lambda: rows(stage, "hook") == ["dead"], daemon)
        assert rows(stage, "mail") == ["sent"]
        until(lambda: 'gpucost_outbox_dead{channel="hook"} 1.0' in daemon.get("/metrics")[1])
        assert daemon.lines("alert channel hook: .* is given up, after .* tries")
        stage.hook.on_post = None
        script.turn()
        script.wait(lambda: rows(stage, "hook") == ["dead", "sent"], daemon)
        fired, resolved = (event.id for event in noted(stage.url()))
    [body] = stage.hook.bodies
    assert body["event_id"] == resolved
    assert body["events"][0]["merged"]["event_ids"] == [fired]


def test_a_database_that_is_away_for_an_hour(stage: Stage) -> None:
    url = stage.embedded.acquire()
    migrate.upgrade(url)
    stage.environment = {"GPUCOST_DATABASE_URL": url}
    script = Script(stage)
    with stage.daemon() as daemon:
        daemon.says("leading as")
        script.turn()
        script.wait(script.told, daemon)
        stage.embedded.stop(force=True)
        daemon.says("ERROR .*database: ")
        began, used = time.monotonic(), cpu_seconds(daemon.process.pid)
        asked, lines = len(stage.server.requests), len(daemon.log)
        script.turn()  # nobody sees it for now
        pause(began + HOUR_S)
        used = cpu_seconds(daemon.process.pid) - used
        assert daemon.get("/livez")[0] == 200
        code, body = daemon.get("/readyz")
        assert (code, "database" in body) == (503, True)
        silence, questions = daemon.log[lines:], len(stage.server.requests) - asked
        stage.embedded.acquire()
        daemon.says("database: works again")
        script.wait(script.told, daemon)
        assert_told_once(stage, url, 2, Counter())
        assert daemon.stop() == 0
    stage.embedded.release()
    print(f"\naway for {HOUR_S:.0f} s: {used:.2f} s of processor time, {questions} requests")
    assert silence == []
    assert len(daemon.lines("ERROR ")) == 1, "\n".join(daemon.log)
    assert len(daemon.lines("database: works again")) == 1
    assert questions <= len(stage.names)  # those that were on their way
    assert used < HOUR_S / 4
