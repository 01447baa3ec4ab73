"""The deliverer beside others, around a kill, and as the task the daemon runs."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime
from typing import Any

import pytest
from sqlalchemy import Engine

from tests.alert.delivering import deliverer, until, webhook
from tests.alert.outbox_world import HOUR, MINUTE, NOW, Events, statuses
from tests.store.worlds import rows
from tests.support.hook import Hook
from tracker.alert.deliver import Delivered
from tracker.store.errors import StoreError

pytestmark = pytest.mark.anyio


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
