"""Receivers that take a message and do not say so: few copies, and told."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from pydantic import SecretStr
from sqlalchemy import Engine

from tests.alert.delivering import deliverer, last_errors, webhook
from tests.alert.outbox_world import HOUR, NOW, Events, statuses
from tests.support.hook import Hook
from tests.support.mail import MailServer
from tracker.alert import deliver
from tracker.alert.deliver import Delivered
from tracker.http.limits import Limits
from tracker.notify import Channel
from tracker.notify.mail import MailChannel, Server
from tracker.notify.webhook import WebhookChannel
from tracker.store import outbox_admin
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio


def hasty_hook(hook: Hook) -> Channel:
    return WebhookChannel(
        "hook", SecretStr(hook.address), allow_private=True, redactor=Redactor(),
        limits=Limits(read_s=0.3),
    )  # fmt: skip


async def test_a_webhook_that_never_answers_gets_three_copies(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    event = events.add()
    hook.gate.clear()
    sender = deliverer(engine, hasty_hook(hook))
    for hour in range(6):
        await sender.run_once(NOW + hour * HOUR)
    hook.gate.set()
    assert hook.ids == [event] * 3
    assert statuses(database_url) == {event: "dead"}
    (error,) = last_errors(database_url)
    assert error.startswith(
        "after 3 tries, 3 of them without an answer, so that it may have arrived: 127.0.0.1:"
    )
    # Who asks for more gets more.
    outbox_admin.retry_dead(engine, NOW + 6 * HOUR)
    hook.gate.clear()
    assert await sender.run_once(NOW + 6 * HOUR) == Delivered(retried=1)
    hook.gate.set()
    assert await sender.run_once(NOW + 7 * HOUR) == Delivered(sent=1)


async def test_a_mail_server_that_never_answers_gets_three_copies(
    engine: Engine, events: Events, database_url: str
) -> None:
    event = events.add(channels=("mail",))
    with MailServer(slow_s=5) as server:
        mail = MailChannel(
            "mail", Server("localhost", server.port, "none"), sender="a@example.org",
            recipients=("b@example.org",), redactor=Redactor(), answer_s=0.2,
        )  # fmt: skip
        sender = deliverer(engine, mail)
        for hour in range(6):
            await sender.run_once(NOW + hour * HOUR)
        assert len(server.mails) == 3
    assert statuses(database_url, "mail") == {event: "dead"}


async def test_failures_with_an_answer_do_not_count_as_copies(
    engine: Engine, events: Events, hook: Hook, database_url: str
) -> None:
    event = events.add()
    hook.say(500, 500, 500, 500)
    sender = deliverer(engine, hasty_hook(hook))
    for hour in range(5):
        await sender.run_once(NOW + hour * HOUR)
    assert statuses(database_url) == {event: "sent"}


async def test_a_message_that_takes_longer_than_its_lease_is_nobody_elses(
    engine: Engine, events: Events, hook: Hook, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deliver, "LEASE", timedelta(seconds=0.9))
    event = events.add()
    hook.gate.clear()
    first = asyncio.create_task(deliverer(engine, webhook(hook)).run_once())
    for _ in range(25):
        await asyncio.sleep(0.1)
        assert await deliverer(engine, webhook(hook)).run_once() == Delivered()
    hook.gate.set()
    assert await first == Delivered(sent=1)
    assert hook.ids == [event]
    assert statuses(database_url) == {event: "sent"}
