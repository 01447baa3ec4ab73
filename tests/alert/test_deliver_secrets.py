"""Planted secrets, and every place that could show one: logs, database, errors, messages."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.alert.outbox_world import MINUTE, NOW, Events, engine_of
from tests.store.worlds import rows
from tests.support.hook import TOKEN, Hook
from tests.support.mail import MailServer
from tests.support.replay import Answer
from tracker.alert.deliver import Deliverer, Pace
from tracker.notify import load_channels
from tracker.telemetry import Redactor, setup_logging

pytest.importorskip("apprise")
pytestmark = pytest.mark.anyio

PASSWORD = "smtp-planted-Zk3"
HMAC = "hmac-planted-Wq8"
CHAT = "apprise-planted-Yv5"
PLANTED = (TOKEN, PASSWORD, HMAC, CHAT)

LAST_ERRORS = "SELECT channel, last_error FROM alert_outbox WHERE last_error IS NOT NULL"


def spellings() -> list[str]:
    encoded = [base64.b64encode(secret.encode()).decode() for secret in PLANTED]
    return [*PLANTED, *encoded]


@pytest.mark.parametrize("log_format", ["text", "json"])
async def test_no_sink_shows_a_secret(database_url: str, log_format: Any) -> None:
    stream, redactor = io.StringIO(), Redactor()
    root = logging.getLogger()
    before = root.level
    handler = setup_logging("debug", log_format, redactor=redactor, stream=stream)
    try:
        with Hook() as hook, engine_of(database_url) as engine:
            bodies, errors = await _deliver_badly_and_well(
                engine, hook, redactor, lambda: rows(database_url, LAST_ERRORS)
            )
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
    assert len(errors) >= 2  # something was there to be hidden
    assert "***" in repr(errors)
    assert "alert channel" in stream.getvalue()
    sinks = {"log": stream.getvalue(), "messages": bodies, "errors": repr(errors)}
    for secret in spellings():
        for name, shown in sinks.items():
            assert secret not in shown, f"{secret} in {name}"


async def _deliver_badly_and_well(
    engine: Any, hook: Hook, redactor: Redactor, errors: Callable[[], list[Any]]
) -> tuple[str, list[Any]]:
    """A round that fails with servers that repeat what they were sent, and one that works.

    Everything that reached a receiver, headers left out, and the errors that were stored.
    """
    echo = " ".join([*PLANTED, hook.address])
    with MailServer(users={"bot": "other"}, security="none") as server:
        tables: dict[str, Any] = {
            "hook": {"type": "webhook", "url": hook.address, "secret": HMAC},
            "mail": {"type": "smtp", "host": "localhost", "port": server.port, "security": "none",
                     "username": "bot", "password": PASSWORD, "from": "a@example.org",
                     "to": "b@example.org"},
            "chat": {"type": "apprise",
                     "url": f"json://bot:{CHAT}@127.0.0.1:{hook.port}{hook.path}"},
            "wrong": {"type": "webhook", "url": f"gopher://{TOKEN}/"},
        }  # fmt: skip
        channels, problems = load_channels(tables, {}, allow_private=True, redactor=redactor)
        assert [problem.channel for problem in problems] == ["wrong"]
        logging.getLogger("tracker.test").warning("%s", problems[0])
        deliverer = Deliverer(
            engine, channels, redactor=redactor, pace=Pace(group_wait=timedelta(0))
        )
        hook.answers += [Answer(echo.encode(), 400), Answer(echo.encode(), 500)]
        # A context that already holds a secret, as an exception's text might.
        Events(engine).add(
            channels=("hook", "mail", "chat", "log"), title="title " + echo,
            health={"state": "error", "reason": echo, "since": None},
        )  # fmt: skip
        await deliverer.run_once(NOW)
        stored = errors()
        server.users["bot"] = PASSWORD
        await deliverer.run_once(NOW + 30 * MINUTE)
        await deliverer.run_once(NOW + 60 * MINUTE)
        assert len(server.mails) == 1
        mail = server.mails[0].content
        sent = [request.body.decode() for request in hook.requests]
        parts = [part.get_content() for part in mail.iter_parts()]
    assert len(sent) == 4
    return json.dumps([*sent, mail["Subject"], *parts]), stored
