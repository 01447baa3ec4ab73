"""A poll that could not begin when it was due is counted, and does not vanish from the schedule."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from apscheduler.events import EVENT_JOB_MISSED, JobEvent

from tests.daemon.test_polling import eventually, nothing, poller, provider
from tests.web.test_metrics import told
from tracker.provider import Parsed, Payload

SLOW = 'gpucost_polls_missed_total{provider="slow"}'


def test_a_poll_that_is_due_while_the_last_one_runs_is_counted(database_url: str) -> None:
    begun, go = threading.Event(), threading.Event()

    def parse(payloads: Sequence[Payload]) -> Parsed:
        begun.set()
        go.wait(20)
        return Parsed(())

    async def work() -> None:
        async with poller(database_url, provider("slow", parse)) as it:
            await it.start()
            try:
                await asyncio.to_thread(begun.wait, 20)
                assert told(it.metrics).get(SLOW, 0) == 0
                it._clock.set("slow", datetime.now(UTC))
                await eventually(lambda: told(it.metrics).get(SLOW) == 1)
            finally:
                go.set()
            await eventually(lambda: "slow" in it._clock.due or len(it._running) == 0)
            await eventually(lambda: it.outcomes.get("slow"))

    asyncio.run(work())


def test_an_alarm_that_was_lost_is_counted_and_set_anew(database_url: str) -> None:
    async def work() -> None:
        async with poller(database_url, provider("slow", nothing)) as it:
            far = datetime.now(UTC) + timedelta(hours=1)
            it._clock.set("slow", far)
            it._clock._on_trouble(JobEvent(EVENT_JOB_MISSED, "slow", "default"))
            assert told(it.metrics)[SLOW] == 1
            assert it._clock.due["slow"] < far

    asyncio.run(work())
