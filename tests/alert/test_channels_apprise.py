"""Apprise against a real receiver (json:// on loopback), and what of it could leak."""

from __future__ import annotations

import builtins
import logging
from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.hook import TOKEN, Hook
from tracker.notify import Notice, Permanent, SendError, Transient, secrets
from tracker.notify.services import AppriseChannel
from tracker.telemetry import Redactor

pytest.importorskip("apprise")
pytestmark = pytest.mark.anyio

PASSWORD = "apprise-password-77"
NOTICE = Notice("event-1", "gpucost: it fired", "It fired.\n\nEvent: event-1")


def url_of(hook: Hook, options: str = "") -> str:
    return f"json://bot:{PASSWORD}@127.0.0.1:{hook.port}{hook.path}{options}"


def channel(url: str, *, allow_private: bool = True, **how: Any) -> AppriseChannel:
    redactor = Redactor(secrets.of_url(url))
    return AppriseChannel(
        "chat", SecretStr(url), allow_private=allow_private, redactor=redactor, **how
    )


async def failure(of: AppriseChannel) -> SendError:
    with pytest.raises(SendError) as caught:
        await of.send(NOTICE)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert PASSWORD not in message
    assert TOKEN not in message
    return caught.value


async def test_a_notice_arrives(hook: Hook) -> None:
    await channel(url_of(hook)).send(NOTICE)
    (body,) = hook.bodies
    assert (body["title"], body["message"]) == (NOTICE.subject, NOTICE.text)


@pytest.mark.parametrize(
    ("status", "kind"),
    [(500, Transient), (503, Transient), (429, Transient), (400, Permanent), (401, Permanent),
     (404, Permanent), (410, Permanent)],
)  # fmt: skip
async def test_a_failure_is_read_and_tried_once(
    hook: Hook, status: int, kind: type[SendError]
) -> None:
    hook.say(status, body=f"no {TOKEN}".encode())
    # Its own retries would make the outbox wait, even if the URL asks for them.
    error = await failure(channel(url_of(hook, "?retry=3&wait=0.01")))
    assert isinstance(error, kind)
    assert str(status) in str(error)
    assert len(hook.requests) == 1


async def test_no_redirect_is_followed(hook: Hook) -> None:
    hook.say(307, location=f"http://127.0.0.1:{hook.port}/elsewhere")
    await failure(channel(url_of(hook)))
    assert len(hook.requests) == 1


async def test_private_targets_are_refused(hook: Hook) -> None:
    error = await failure(channel(url_of(hook), allow_private=False))
    assert isinstance(error, Permanent)
    assert "allow_private_targets" in str(error)
    assert hook.requests == []


@pytest.mark.parametrize(
    "url",
    ["ntfy://t0ken@127.0.0.1", "ntfy://127.0.0.1:8080/topic", "ntfy://t0ken@localhost/topic",
     "ntfy://10.0.0.8/topic", "ntfy://[::1]/topic", "ntfy://2130706433/topic", "ntfy://127.1/topic",
     "gotify://intranet/AbCdEfGhIjKlMn.", "mmost://localhost/0123456789abcdef",
     "mailto://u:p@example.org?smtp=127.0.0.1", "json://127.0.0.1/x", "ntfy://nas.local/topic"],
)  # fmt: skip
async def test_no_service_leads_into_a_private_network(url: str) -> None:
    error = await failure(channel(url, allow_private=False))
    assert "private network" in str(error) or "cannot be looked up" in str(error)
    assert "private network" in str(channel(url, allow_private=False).refusal())
    assert channel(url).refusal() is None


@pytest.mark.parametrize(
    "url",
    ["ntfy://my-secret-topic", "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/",
     "discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", "ntfy://ntfy.example.org/topic",
     "tgram://123456789:AAbbCCddEEff_tokenTGaaaaaaaaaaaaaaaaa/-100200300"],
)  # fmt: skip
def test_a_token_in_the_place_of_a_host_is_not_looked_up(url: str) -> None:
    one = channel(url, allow_private=False)
    assert one.refusal() is None
    with pytest.MonkeyPatch.context() as patch:
        asked: list[str] = []

        def look_up(name: str, *_: object, **__: object) -> list[Any]:
            asked.append(name)
            return []

        patch.setattr("socket.getaddrinfo", look_up)
        one._check_target(one._loaded())
    assert asked == (["ntfy.example.org"] if "example.org" in url else [])


def test_a_service_that_does_not_exist_is_found_before_anything_is_sent() -> None:
    assert "not a URL that Apprise knows" in str(channel("slak://T1/A1/Token").refusal())


async def test_a_url_that_apprise_does_not_know() -> None:
    error = await failure(channel(f"nosuchservice://{TOKEN}/{PASSWORD}"))
    assert isinstance(error, Permanent)
    assert "not a URL that Apprise knows" in str(error)


async def test_without_apprise_it_says_what_to_install(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, globals_: Mapping[str, Any] | None = None, *rest: Any) -> Any:
        if name == "apprise" and (globals_ or {}).get("__name__", "").startswith("tracker"):
            raise ImportError(name)
        return real(name, globals_, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    error = await failure(channel(url_of(hook)))
    assert isinstance(error, Permanent)
    assert "pip install '.[notify]' in gpucost's checkout" in str(error)


async def test_a_service_that_hangs_is_given_up_and_not_asked_twice_at_once(hook: Hook) -> None:
    hook.gate.clear()
    slow = channel(url_of(hook), total_s=0.3)
    assert "within 0.3 s" in str(await failure(slow))
    error = await failure(slow)
    assert isinstance(error, Transient)
    assert "still hangs" in str(error)
    hook.gate.set()


async def test_a_service_that_takes_its_time_gets_one_message(hook: Hook) -> None:
    """Five seconds: longer than Apprise waits unless it is told to."""
    hook.gate.clear()
    await channel(url_of(hook)).send(NOTICE)
    assert len(hook.requests) == 1


async def test_no_answer_leaves_it_open_whether_it_was_taken(hook: Hook) -> None:
    hook.gate.clear()
    error = await failure(channel(url_of(hook, "?rto=0.3")))
    hook.gate.set()
    assert isinstance(error, Transient)
    assert error.unknown
    hook.say(503, 503)  # one may go to the request before
    error = await failure(channel(url_of(hook)))
    assert isinstance(error, Transient)
    assert not error.unknown


async def test_a_long_text_keeps_its_event(hook: Hook) -> None:
    text = "It fired.\n" + "x" * 70_000 + "\nEvent: event-1"
    small = channel(url_of(hook))
    await small.send(Notice("event-1", "s", text))
    message = hook.bodies[0]["message"]
    assert len(message) <= 32_768
    assert message.endswith("…\nEvent: event-1")


async def test_nothing_of_apprise_reaches_the_log(
    hook: Hook, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    hook.say(500)
    failing = channel(url_of(hook))
    await failure(failing)
    await failing.send(NOTICE)
    assert TOKEN not in caplog.text
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(
    ("url", "hidden"),
    [
        ("tgram://123456789:AAbbCCddEEff_tokenTG/-100200300", ["AAbbCCddEEff_tokenTG"]),
        ("slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/#ops",
         ["T1JJ3T3L2", "A1BRTD4JD", "TIiajkdnlazkcOXrIdevi7FQ"]),
        ("discord://4174216298/JHMHI8qBe7bk2ZwO5U711o3dV_js", ["JHMHI8qBe7bk2ZwO5U711o3dV_js"]),
        ("mailto://user:pa%40ss-word@gmail.com", ["pa%40ss-word", "pa@ss-word"]),
        ("ntfy://my-secret-topic", ["my-secret-topic"]),
        ("jsons://u:p4ssw0rd@hooks.example.org/a/0123456789abcdef?key=k3yk3yk3y",
         ["p4ssw0rd", "0123456789abcdef", "k3yk3yk3y"]),
        ("https://hooks.slack.com/services/T000/B000/XXXXXXXXXXXXXXXXXXXXXXXX",
         ["services/T000/B000/XXXX", "XXXXXXXXXXXXXXXXXXXXXXXX"]),
        ("https://hooks.example.org/hook/tok12345abc", ["tok12345abc"]),
        ("https://hooks.example.org/hook/abc123?id=k3yk3y", ["abc123", "k3yk3y"]),
        ("https://hooks.example.org/hook/swordfish", ["swordfish"]),
    ],
)  # fmt: skip
def test_every_part_of_a_url_that_may_be_a_token_is_hidden(url: str, hidden: list[str]) -> None:
    redactor = Redactor(secrets.of_url(url))
    path = url.partition("://")[2].partition("/")[2]
    for secret in hidden:
        assert secret not in redactor(f"POST /{path} failed")
        assert secret not in redactor(f"cannot reach {url}")
        assert "/" in secret or secret not in redactor(f"refused: {secret}.")
    assert redactor("hooks.slack.com and hooks.example.org") == (
        "hooks.slack.com and hooks.example.org"
    )
