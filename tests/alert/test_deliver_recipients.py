"""Mails that some recipients get and others do not: each gets it once."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import Engine

from tests.alert.delivering import deliverer, last_errors
from tests.alert.outbox_world import HOUR, MINUTE, NOW, Events, statuses
from tests.support.mail import MailServer
from tracker.alert.deliver import Delivered
from tracker.notify.mail import MailChannel, Server
from tracker.store import outbox_admin
from tracker.store.engine import transaction
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio

FIRST, SECOND = "first@example.org", "second@example.org"


def mail(server: MailServer) -> MailChannel:
    return MailChannel(
        "mail", Server("localhost", server.port, "none"), sender="gpucost@example.org",
        recipients=(FIRST, SECOND), redactor=Redactor(),
    )  # fmt: skip


async def test_who_was_refused_for_now_gets_it_later_and_the_others_once(
    engine: Engine, events: Events, database_url: str
) -> None:
    event = events.add(channels=("mail",))
    with MailServer(refused={SECOND: "450 greylisted"}) as server:
        sender = deliverer(engine, mail(server))
        for minutes in (0, 1):
            assert await sender.run_once(NOW + minutes * MINUTE) == Delivered(retried=1)
            assert statuses(database_url, "mail") == {event: "pending"}
            said = f"taken for others, not for {SECOND} (450 greylisted)"
            refused = f"not for {SECOND} (450 greylisted)"
            assert last_errors(database_url) == [f"localhost: {refused if minutes else said}"]
        server.refused.clear()
        # Another process, with nothing but what the outbox says.
        assert await deliverer(engine, mail(server)).run_once(NOW + HOUR) == Delivered(sent=1)
    assert [mail.recipients for mail in server.mails] == [[FIRST], [SECOND]]
    assert len({mail.content["Message-ID"] for mail in server.mails}) == 1
    assert statuses(database_url, "mail") == {event: "sent"}


async def test_who_is_refused_for_good_is_told_in_the_outbox(
    engine: Engine, events: Events, database_url: str
) -> None:
    event = events.add(channels=("mail",))
    with MailServer(refused={SECOND: "550 nobody"}) as server:
        sender = deliverer(engine, mail(server))
        assert await sender.run_once(NOW) == Delivered(retried=1)
        assert await sender.run_once(NOW + MINUTE) == Delivered(dead=1)
        (error,) = last_errors(database_url)
        assert error == f"after 2 tries: localhost: not for {SECOND} (550 nobody)"
        # Its end is an end for who was told, and a retry is for who was not.
        over = events.add("resolved", channels=("mail",))
        assert await sender.run_once(NOW + 2 * MINUTE) == Delivered(retried=1)
        assert "Fired and cleared" not in server.mails[1].content.as_string()
        assert statuses(database_url, "mail") == {event: "dead", over: "pending"}
        server.refused.clear()
        assert await sender.run_once(NOW + 3 * MINUTE) == Delivered(sent=1)
        assert [mail.recipients for mail in server.mails] == [[FIRST], [FIRST], [SECOND]]


async def test_a_retry_by_hand_is_for_who_was_not_reached(
    engine: Engine, events: Events, database_url: str
) -> None:
    old = events.add("data_problem", channels=("mail",))
    with MailServer(refused={SECOND: "550 nobody"}) as server:
        sender = deliverer(engine, mail(server))
        for minutes in (0, 1):
            await sender.run_once(NOW + minutes * MINUTE)
        server.refused.clear()
        outbox_admin.retry_dead(engine, NOW + HOUR)
        new = events.add("data_problem", rule="another", channels=("mail",), at=NOW + HOUR)
        assert await sender.run_once(NOW + HOUR) == Delivered(sent=2)
        assert [mail.recipients for mail in server.mails] == [[FIRST], [SECOND], [FIRST, SECOND]]
    assert statuses(database_url, "mail") == {old: "sent", new: "sent"}


async def test_a_test_says_who_did_not_get_it(
    engine: Engine, events: Events, database_url: str
) -> None:
    event = events.add("test", channels=("mail",))
    with MailServer(refused={SECOND: "450 greylisted"}) as server:
        sent = await deliverer(engine, mail(server)).run_once(NOW, event_id=event)
    assert sent == Delivered(dead=1)
    (error,) = last_errors(database_url)
    assert SECOND in error


async def test_who_has_it_stands_in_no_message(engine: Engine, events: Events) -> None:
    events.add(channels=("mail",))
    with MailServer(refused={SECOND: "450 greylisted"}) as server:
        await deliverer(engine, mail(server)).run_once(NOW)
    with transaction(engine) as cursor:
        (row,) = outbox_admin.listed(cursor.connection)
    assert "delivery" not in row.message
    assert row.due_at == NOW + timedelta(seconds=15)
