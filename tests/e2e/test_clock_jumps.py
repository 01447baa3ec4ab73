"""The machine's clock is set, for days, in either direction, under a daemon and its database."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from functools import partial

import pytest

from tests.daemon.world import until
from tests.e2e.clock import SettableClock
from tests.e2e.killing import Script
from tests.e2e.stage import Stage, assert_told_once, noted
from tests.support.pg import bindir_of_tests

pytestmark = pytest.mark.e2e

DAY = timedelta(days=1)


def asked_since(stage: Stage, count: int) -> bool:
    """Whether the providers have been asked that often."""
    return len(stage.server.requests) >= count


def test_a_clock_that_jumps_fires_and_resolves_nothing(stage: Stage) -> None:
    clock = SettableClock(stage.folder, bindir_of_tests())
    script = Script(stage)
    with stage.daemon(**clock.environment) as daemon:
        daemon.says("leading as")
        for jump, told in (
            (3 * DAY, "3 d 0 h are missing"),
            (-1 * DAY, "the clock was set back by 4 d"),
            (0 * DAY, "24 h 0 min are missing|1 d 0 h are missing"),
            (-30 * DAY, "the clock was set back by 30 d"),
        ):
            before = len(stage.server.requests)
            clock.set(jump)
            daemon.says(told)
            until(partial(asked_since, stage, before + 6))
            assert len(noted(stage.url())) == script.crossings  # as the prices, nothing has moved
            script.turn()
            script.wait(script.told, daemon)
        assert_told_once(stage, stage.url(), script.crossings, Counter())
        assert daemon.get("/livez")[0] == 200
        assert daemon.get("/readyz")[0] == 200
        assert daemon.stop() == 0
    assert not daemon.lines("ERROR|Traceback|no usable prices"), "\n".join(daemon.log)
