"""Deliveries that do not pass: retries, giving up, channels that are down or gone."""

from __future__ import annotations

import itertools
import logging
from datetime import datetime, timedelta

import pytest
from sqlalchemy import Engine

from tests.alert.delivering import deliverer, last_errors, webhook
from tests.alert.outbox_world import HOUR, MINUTE, NOW, RULE, Events, statuses
from tests.store.worlds import rows
from tests.support.hook import Hook
from tracker.alert.deliver import Delivered, Pace
from tracker.notify.log import LogChannel
from tracker.store import outbox_admin

pytestmark = pytest.mark.anyio


async def test_a_webhook_that_answers_500_for_a_day_loses_nothing_until_it_is_given_up(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    event = events.add()
    hook.say(*[500] * 1000)
    sender = deliverer(engine, webhook(hook))
    tries: list[datetime] = []
    due = "SELECT due_at FROM alert_outbox"
    while statuses(database_url)[event] == "pending":
        ((now,),) = rows(database_url, due)
        if tries:
            assert await sender.run_once(now - timedelta(microseconds=1)) == Delivered()
        await sender.run_once(now)
        tries.append(now)
        assert len(hook.requests) == len(tries) < 100
    pauses = [later - earlier for earlier, later in itertools.pairwise(tries)]
    expected = [15, 30, 60, 120, 240, 480, 960, 1800, 1800]
    assert [pause.total_seconds() for pause in pauses[:9]] == expected
    assert set(pauses[9:]) == {timedelta(minutes=30)}
    assert tries[-1] >= NOW + timedelta(hours=24)
    assert set(hook.ids) == {event}
    assert statuses(database_url) == {event: "dead"}
    (error,) = last_errors(database_url)
    assert error == f"after {len(tries)} tries in 24 h: HTTP 500"
    # The channel is not given up: the next notice goes there.
    hook.answers.clear()
    later = events.add("data_problem", at=now)
    await sender.run_once(now)
    assert hook.ids[-1] == later


@pytest.mark.parametrize("status", [400, 401, 403, 404, 410])
async def test_what_will_not_pass_is_given_up_after_two_tries(
    engine: Engine, events: Events, hook: Hook, database_url: str, status: int,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    event = events.add()
    hook.say(status, status)
    sender = deliverer(engine, webhook(hook))
    assert await sender.run_once(NOW) == Delivered(retried=1)
    assert await sender.run_once(NOW + MINUTE) == Delivered(dead=1)
    assert statuses(database_url) == {event: "dead"}
    assert last_errors(database_url) == [f"after 2 tries: HTTP {status}"]
    assert f"alert channel hook: {event} is given up, after 2 tries: HTTP {status}" in caplog.text
    assert outbox_admin.retry_dead(engine, NOW + HOUR) != []
    assert await sender.run_once(NOW + HOUR) == Delivered(sent=1)


@pytest.mark.parametrize(("asked", "pause"), [("120", 120), ("5", 15), ("999999", 21_600)])
async def test_retry_after_is_honoured_and_bounded(
    engine: Engine, events: Events, hook: Hook, asked: str, pause: int
) -> None:
    events.add(rule="a")
    hook.say(429, retry_after=asked)
    sender = deliverer(engine, webhook(hook))
    await sender.run_once(NOW)
    events.add(rule="b")  # other notices wait as well: it is the channel that asked
    just_before = NOW + timedelta(seconds=pause - 1)
    assert await sender.run_once(just_before) == Delivered()
    assert await sender.run_once(NOW + timedelta(seconds=pause)) == Delivered(sent=2)


async def test_after_a_long_stop_or_a_jump_of_the_clock_there_are_still_three_tries(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    event = events.add()
    hook.say(500, 500)
    sender = deliverer(engine, webhook(hook))
    late = NOW + timedelta(days=3)
    for minutes in (0, 1):
        assert await sender.run_once(late + minutes * MINUTE) == Delivered(retried=1)
    assert await sender.run_once(late + 5 * MINUTE) == Delivered(sent=1)
    assert statuses(database_url) == {event: "sent"}


async def test_a_failing_test_answers_at_once(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    events.add()  # a real notice is left alone
    hook.say(503)
    event = events.add("test")
    sender = deliverer(engine, webhook(hook), pace=Pace())
    assert await sender.run_once(NOW, event_id=event) == Delivered(dead=1)
    assert last_errors(database_url) == ["after 1 try: HTTP 503"]
    again = events.add("test")
    assert await sender.run_once(NOW, event_id=again) == Delivered(sent=1)
    assert hook.bodies[1]["text"].startswith("TEST of rule")
    assert statuses(database_url)[f"{RULE}-1"] == "pending"


async def test_an_outage_of_a_channel_is_one_line_and_its_end_another(
    engine: Engine, events: Events, hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "tracker")
    events.add()
    hook.say(500, 502, 503)
    sender = deliverer(engine, webhook(hook))
    for minutes in (0, 2, 4, 6):
        await sender.run_once(NOW + minutes * MINUTE)
    said = [r.getMessage() for r in caplog.records if r.name == "tracker.alert.deliver"]
    assert said == [
        "alert channel hook: HTTP 500",
        "alert channel hook works again, after 6 min",
    ]


async def test_a_channel_that_is_not_configured_is_visible_and_may_come_back(
    engine: Engine, events: Events, hook: Hook, database_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    event = events.add(channels=("hook", "log"))
    sender = deliverer(engine, LogChannel())
    for _ in range(3):
        await sender.run_once(NOW)
    assert statuses(database_url) == {event: "pending"}
    assert last_errors(database_url) == ["no channel of this name is configured"]
    assert caplog.text.count("no channel is called 'hook'") == 1
    sender.reload({"hook": webhook(hook)})
    await sender.run_once(NOW)
    assert statuses(database_url) == {event: "sent"}


async def test_no_more_messages_a_minute_than_a_channel_may_get(
    engine: Engine, events: Events, hook: Hook
) -> None:
    for _ in range(25):
        events.add("data_problem")
    sender = deliverer(engine, webhook(hook))
    assert await sender.run_once(NOW) == Delivered(sent=20)
    assert await sender.run_once(NOW + timedelta(seconds=59)) == Delivered()
    assert await sender.run_once(NOW + MINUTE) == Delivered(sent=5)
