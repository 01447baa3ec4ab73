"""The deliverer, from PostgreSQL to real receivers: what goes out, when, how often, in order."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Engine

from tests.alert.delivering import deliverer, webhook
from tests.alert.outbox_world import MINUTE, NOW, RULE, Events, context, statuses
from tests.support.hook import Hook
from tests.support.mail import MailServer
from tracker.alert.deliver import Delivered, Pace
from tracker.notify import Notice, load_channels
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio


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
