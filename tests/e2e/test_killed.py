"""kill -9 at any moment, of the daemon, of the one that leads, and of the database under it."""

from __future__ import annotations

import random
from collections import Counter

import psycopg
import pytest

from tests.e2e.killing import Reaper, Script, moments
from tests.e2e.stage import CHANNELS, Stage, assert_told_once
from tests.pipeline.e2e.world import assert_sound

pytestmark = pytest.mark.e2e

KILLS = 44
NEWS = (*CHANNELS, "in alert_event", "in alert_outbox")


def test_killed_at_any_moment_nothing_is_lost_or_told_twice(stage: Stage) -> None:
    rng = random.Random(20261130)  # noqa: S311
    reaper, script = Reaper(stage, rng), Script(stage)
    logs: list[str] = []
    plan = moments() * (KILLS // len(moments()))
    rng.shuffle(plan)
    stage.embedded.acquire()
    daemon = stage.start()
    daemon.says("leading as")  # there are tables
    for number, moment in enumerate(plan):
        # Some moments come only when there is something to tell; the others meet whatever goes on.
        if moment in NEWS or rng.random() < 0.5:
            script.wait(script.booked, daemon)
            script.turn()
        alone = number % 6 == 5  # nobody else keeps the server when its daemon dies
        if alone:
            daemon.says("leading as")
            stage.embedded.release()
        reaper.kill(daemon, moment)
        logs += daemon.log
        daemon = stage.start()
        if alone:
            daemon.says("leading as")
            stage.embedded.acquire()
        if rng.random() < 0.3:
            script.wait(script.told, daemon)
    script.wait(script.told, daemon)
    assert daemon.stop() == 0
    logs += daemon.log
    _assert_all_is_well(stage, script, reaper.cut_short, logs)
    print(f"{reaper.kills.total()} kills: {dict(sorted(reaper.kills.items()))}")
    assert reaper.kills.total() == KILLS >= 40
    assert all(reaper.kills[moment] for moment in moments())  # each was hit at least once
    stage.embedded.release()
    assert not stage.embedded.status().running


def _assert_all_is_well(
    stage: Stage, script: Script, cut_short: Counter[tuple[str, str]], logs: list[str]
) -> None:
    url = stage.url()
    again = assert_told_once(stage, url, script.crossings, cut_short)
    print(f"\n{script.crossings} crossings; {cut_short.total()} notices cut short, {again} again")
    with psycopg.connect(url) as connection:
        assert_sound(connection)
        [(recorded,)] = connection.execute("SELECT count(*) FROM poll").fetchall()
    print(f"{len(stage.server.requests)} requests, {recorded} polls recorded")
    # An answer that nobody recorded was on its way when somebody died.
    assert len(stage.server.requests) - recorded <= (KILLS + 1) * len(stage.names)
    assert not [line for line in logs if "Traceback" in line or "internal error" in line], logs
