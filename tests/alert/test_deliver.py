"""The deliverer, from PostgreSQL to real receivers: what goes out, when, how often, in order."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine

from tests.alert.outbox_world import HOUR, MINUTE, NOW, RULE, Events, context, engine_of, statuses
from tests.store.worlds import rows
from tests.support.hook import Hook
from tests.support.mail import MailServer
from tracker.alert.deliver import Delivered, Deliverer, Pace
from tracker.notify import Channel, Notice, load_channels
from tracker.notify.log import LogChannel
from tracker.notify.webhook import WebhookChannel
from tracker.store import outbox_admin
from tracker.store.errors import StoreError
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio

AT_ONCE = Pace(group_wait=timedelta(0), poll=timedelta(seconds=0.05))


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def engine(database_url: str) -> Iterator[Engine]:
    with engine_of(database_url) as made:
        yield made


@pytest.fixture
def events(engine: Engine) -> Events:
    return Events(engine)


@pytest.fixture
def hook() -> Iterator[Hook]:
    with Hook() as running:
        yield running


def webhook(hook: Hook, name: str = "hook") -> Channel:
    return WebhookChannel(
        name, SecretStr(hook.address), allow_private=True, redactor=Redactor([hook.address])
    )


class Longest(random.Random):
    """Draws the upper end."""

    def uniform(self, a: float, b: float) -> float:
        return b


def deliverer(engine: Engine, *channels: Channel, pace: Pace = AT_ONCE, **how: Any) -> Deliverer:
    how.setdefault("redactor", Redactor())
    how.setdefault("rng", Longest())
    return Deliverer(engine, {channel.name: channel for channel in channels}, pace=pace, **how)


def last_errors(url: str) -> list[str]:
    found = rows(url, "SELECT last_error FROM alert_outbox WHERE last_error IS NOT NULL")
    return [error for (error,) in found]


async def until(true: Callable[[], bool], seconds: float = 20) -> None:
    async with asyncio.timeout(seconds):
        while not true():  # noqa: ASYNC110 - what it waits for happens in a database
            await asyncio.sleep(0.02)


# -- what goes out -----------------------------------------------------------------------------


async def test_one_event_to_every_channel(
    engine: Engine, events: Events, hook: Hook, database_url: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    event = events.add(channels=("hook", "mail", "log"))
    with MailServer() as server:
        channels, problems = load_channels(
            {"mail": {"type": "smtp", "host": "localhost", "port": server.port,
                      "security": "none", "from": "a@example.org", "to": "b@example.org"},
             "hook": {"type": "webhook", "url": hook.address}},
            {}, allow_private=True, redactor=Redactor(),
        )  # fmt: skip
        assert problems == ()
        told: list[tuple[str, str, int]] = []
        sender = deliverer(engine, *channels.values(), on_result=lambda *t: told.append(t))
        assert await sender.run_once(NOW) == Delivered(sent=3)
    assert hook.ids == [event]
    assert hook.bodies[0]["event_id"] == event
    assert hook.bodies[0]["events"] == [context(event_id=event)]
    sentence = "BERT-Large on H100 costs $10.76, 9.1 % less than on A100 ($11.83)."
    assert server.mails[0].content["Subject"] == f"gpucost: {sentence}"
    assert server.mails[0].content["Message-ID"] == f"<{event}@example.org>"
    assert sentence in caplog.text
    assert sorted(told) == [("hook", "sent", 1), ("log", "sent", 1), ("mail", "sent", 1)]
    for channel in ("hook", "mail", "log"):
        assert statuses(database_url, channel) == {event: "sent"}
    assert await sender.run_once(NOW) == Delivered()
    assert len(hook.requests) == 1


async def test_several_rules_in_one_message_after_the_wait(
    engine: Engine, events: Events, hook: Hook
) -> None:
    sender = deliverer(engine, webhook(hook), pace=Pace(group_wait=timedelta(seconds=30)))
    events.add(rule="a")
    events.add(rule="b", at=NOW + timedelta(seconds=20))
    assert await sender.run_once(NOW + timedelta(seconds=29)) == Delivered()
    assert await sender.run_once(NOW + timedelta(seconds=30)) == Delivered(sent=2)
    (body,) = hook.bodies
    assert [event["event_id"] for event in body["events"]] == ["a-1", "b-1"]
    assert body["event_id"] == hook.ids[0]
    assert body["event_id"].startswith("group-")
    assert body["text"].endswith("Events: a-1, b-1")


async def test_a_rules_notices_are_in_order(engine: Engine, events: Events, hook: Hook) -> None:
    wanted = [events.add(kind) for kind in ("fired", "data_problem", "data_ok")]
    hook.say(500)
    sender = deliverer(engine, webhook(hook))
    for minutes in (0, 1, 2):
        await sender.run_once(NOW + minutes * MINUTE)
    assert hook.ids == [wanted[0], *wanted]


async def test_fired_and_cleared_is_one_notice_when_the_first_is_late(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    hook.say(503)
    sender = deliverer(engine, webhook(hook))
    fired = events.add("fired")
    await sender.run_once(NOW)
    over = events.add("resolved", value="1.05", firing={
        "since": "2026-03-01T12:00:00Z", "duration_seconds": 2700, "best": "0.9", "worst": "0.97",
    })  # fmt: skip
    assert await sender.run_once(NOW + timedelta(seconds=1)) == Delivered(sent=1)
    assert hook.ids == [fired, over]
    body = hook.bodies[1]
    assert body["text"].startswith("Fired and cleared after 45 min: ")
    assert body["events"][0]["merged"]["event_ids"] == [fired]
    assert statuses(database_url) == {fired: "merged", over: "sent"}


async def test_a_rules_own_template_is_used(engine: Engine, events: Events, hook: Hook) -> None:
    events.add()
    await deliverer(engine, webhook(hook), templates={RULE: "own: {{ rule }}"}).run_once(NOW)
    assert hook.bodies[0]["text"] == f"own: {RULE}\n\nEvent: {RULE}-1"


async def test_a_message_that_cannot_be_worded_is_sent_all_the_same(
    engine: Engine, events: Events, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> Notice:
        raise RuntimeError

    monkeypatch.setattr("tracker.alert.message.notice", broken)
    event = events.add()
    assert await deliverer(engine, webhook(hook)).run_once(NOW) == Delivered(sent=1)
    assert event in hook.bodies[0]["text"]


# -- failures ----------------------------------------------------------------------------------


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


# -- the window between sending and marking -----------------------------------------------------


async def test_a_lost_mark_sends_the_same_message_again(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    """As after a kill -9: the lease runs out and the same id goes out again, whole."""
    events.add(rule="a")
    events.add(rule="b")
    sender = deliverer(engine, webhook(hook))
    await sender.run_once(NOW)
    with_lease = "UPDATE alert_outbox SET status = 'sending', lease_by = 'x y', lease_until = %s"
    rows(database_url, with_lease, (NOW + MINUTE,))
    events.add(rule="c")
    await sender.run_once(NOW)
    assert await sender.run_once(NOW + MINUTE) == Delivered(sent=2)
    first, other, again = hook.bodies
    assert again["event_id"] == first["event_id"]
    assert again["events"] == first["events"]
    assert other["events"][0]["event_id"] == "c-1"


async def test_what_is_sent_while_the_database_goes_away_is_not_sent_twice(
    engine: Engine, events: Events, hook: Hook, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = events.add()
    sender = deliverer(engine, webhook(hook))
    real = sender._outbox.sent
    away = [True]

    def sent(claim: Any, now: datetime) -> int:
        if away[0]:
            raise StoreError("the database is away")
        return real(claim, now)

    monkeypatch.setattr(sender._outbox, "sent", sent)
    with pytest.raises(StoreError):
        await sender.run_once(NOW)
    with pytest.raises(StoreError):
        await sender.run_once(NOW + HOUR)  # the lease has long run out
    away[0] = False
    assert await sender.run_once(NOW + HOUR) == Delivered()
    assert hook.ids == [event]
    assert statuses(database_url) == {event: "sent"}


async def test_two_deliverers_send_nothing_twice(
    engine: Engine, events: Events, hook: Hook
) -> None:
    for number in range(8):
        for kind in ("fired", "data_problem"):
            events.add(kind, rule=f"r{number}")
    pair = [deliverer(engine, webhook(hook)) for _ in range(2)]
    while sum(len(body["events"]) for body in hook.bodies) < len(events.ids):
        await asyncio.gather(*(sender.run_once(NOW) for sender in pair))
    told = [event["event_id"] for body in hook.bodies for event in body["events"]]
    assert sorted(told) == sorted(events.ids)


async def test_who_does_not_lead_sends_nothing(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    def refuse(_cursor: object) -> None:
        raise StoreError("another daemon leads")

    event = events.add()
    with pytest.raises(StoreError, match="another daemon leads"):
        await deliverer(engine, webhook(hook), guard=refuse).run_once(NOW)
    assert hook.requests == []
    assert statuses(database_url) == {event: "pending"}


# -- running -----------------------------------------------------------------------------------


async def test_running_it_delivers_what_comes_and_stops_when_told(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    stop = asyncio.Event()
    sender = deliverer(engine, webhook(hook))
    running = asyncio.create_task(sender.run(stop))
    for number in range(3):
        events.add(rule=f"r{number}")
        sender.wake()
        await until(lambda n=number: len(hook.requests) > n)  # type: ignore[misc]
    await until(lambda: set(statuses(database_url).values()) == {"sent"})
    stop.set()
    await asyncio.wait_for(running, 10)


async def test_a_channel_that_hangs_holds_up_no_other(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    stop = asyncio.Event()
    with Hook() as slow:
        slow.gate.clear()
        sender = deliverer(engine, webhook(slow, "slow"), webhook(hook))
        running = asyncio.create_task(sender.run(stop))
        first = events.add(rule="a", channels=("slow", "hook"))
        await until(lambda: len(slow.requests) == 1 and hook.ids == [first])
        second = events.add(rule="b", channels=("slow", "hook"))
        await until(lambda: hook.ids == [first, second])
        assert len(slow.requests) == 1
        slow.gate.set()
        await until(lambda: set(statuses(database_url, "slow").values()) == {"sent"})
        stop.set()
        await asyncio.wait_for(running, 10)


async def test_a_message_under_way_is_finished_after_a_stop(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    stop = asyncio.Event()
    hook.gate.clear()
    event = events.add()
    running = asyncio.create_task(deliverer(engine, webhook(hook)).run(stop))
    await until(lambda: len(hook.requests) == 1)
    stop.set()
    await asyncio.sleep(0)
    hook.gate.set()
    await asyncio.wait_for(running, 10)
    assert statuses(database_url) == {event: "sent"}


async def test_cancelled_it_gives_its_leases_back(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    hook.gate.clear()
    event = events.add()
    running = asyncio.create_task(deliverer(engine, webhook(hook)).run(asyncio.Event()))
    await until(lambda: len(hook.requests) == 1)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert statuses(database_url) == {event: "pending"}
    hook.gate.set()
    await deliverer(engine, webhook(hook)).run_once()
    assert hook.ids == [event, event]


async def test_who_asks_is_told_of_the_database_and_the_log_is_not(
    engine: Engine, events: Events, hook: Hook, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    told: list[StoreError | None] = []
    sender = deliverer(engine, webhook(hook), on_store=told.append)
    real, error = sender._outbox.waiting, StoreError("cannot connect to the database")

    def away() -> list[str]:
        if len(told) < 2:
            raise error
        return real()

    monkeypatch.setattr(sender._outbox, "waiting", away)
    event, stop = events.add(), asyncio.Event()
    running = asyncio.create_task(sender.run(stop))
    await until(lambda: hook.ids == [event])
    stop.set()
    await asyncio.wait_for(running, 10)
    assert told[:3] == [error, error, None]
    assert [r for r in caplog.records if r.name == "tracker.alert.deliver"] == []


async def test_a_database_that_goes_away_is_waited_for(
    engine: Engine, events: Events, hook: Hook, monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    caplog.set_level(logging.INFO, "tracker")
    stop = asyncio.Event()
    sender = deliverer(engine, webhook(hook))
    real, calls = sender._outbox.waiting, [0]

    def away() -> list[str]:
        calls[0] += 1
        if calls[0] < 5:
            raise StoreError("cannot connect to the database")
        return real()

    monkeypatch.setattr(sender._outbox, "waiting", away)
    event = events.add()
    running = asyncio.create_task(sender.run(stop))
    await until(lambda: hook.ids == [event])
    stop.set()
    await asyncio.wait_for(running, 10)
    said = [r.getMessage() for r in caplog.records if r.name == "tracker.alert.deliver"]
    assert said == [
        "alerts: nothing is delivered for now: cannot connect to the database",
        "alerts: the outbox can be read again",
    ]
