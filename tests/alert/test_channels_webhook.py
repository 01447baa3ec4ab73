"""Webhooks against a real server: signature, status codes, bounds, and no way into a network."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import socket
import ssl
from collections.abc import Sequence
from datetime import timedelta
from email.utils import format_datetime
from typing import Any

import pytest
from pydantic import SecretStr

from tests.alert.outbox_world import NOW
from tests.support.hook import CERTIFICATE, TOKEN, Hook
from tests.support.replay import Answer
from tests.support.web import answer, fixed, serve
from tracker.http import outgoing
from tracker.http.limits import Limits
from tracker.notify import Notice, Permanent, SendError, Transient, secrets
from tracker.notify.webhook import WebhookChannel
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio

SECRET = "signing-secret-8d1f"
NOTICE = Notice("event-1", "gpucost: it fired", "It fired.\n\nEvent: event-1", None,
                {"events": [{"event_id": "event-1", "kind": "fired"}]})  # fmt: skip


def channel(url: str, *, allow_private: bool = True, **how: Any) -> WebhookChannel:
    redactor = Redactor([SECRET, *secrets.of_url(url)])
    return WebhookChannel(
        "ops", SecretStr(url), secret=SecretStr(SECRET), allow_private=allow_private,
        redactor=redactor, clock=lambda: NOW, **how,
    )  # fmt: skip


async def failure(url: str, **how: Any) -> SendError:
    with pytest.raises(SendError) as caught:
        await channel(url, **how).send(NOTICE)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    for secret in (SECRET, TOKEN, url):
        assert secret not in message
    return caught.value


async def test_a_receiver_can_check_what_it_gets(hook: Hook) -> None:
    await channel(hook.address).send(NOTICE)
    (request,) = hook.requests
    assert request.headers["x-gpucost-event"] == "event-1"
    assert request.headers["idempotency-key"] == "event-1"
    assert request.headers["content-type"] == "application/json"
    assert request.headers["user-agent"].startswith("gpucost/")
    assert request.headers["host"] == f"127.0.0.1:{hook.port}"
    assert request.headers["x-gpucost-timestamp"] == str(int(NOW.timestamp()))
    # Computed as the documentation tells a receiver to.
    signed = request.headers["x-gpucost-timestamp"].encode() + b"." + request.body
    expected = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
    assert request.headers["x-gpucost-signature"] == f"sha256={expected}"
    assert request.json() == {
        "schema_version": 1, "event_id": "event-1", "subject": "gpucost: it fired",
        "text": "It fired.\n\nEvent: event-1", "events": [{"event_id": "event-1", "kind": "fired"}],
    }  # fmt: skip


async def test_without_a_secret_nothing_is_signed(hook: Hook) -> None:
    plain = WebhookChannel("ops", SecretStr(hook.address), allow_private=True, redactor=Redactor())
    await plain.send(NOTICE)
    assert "x-gpucost-signature" not in hook.requests[0].headers


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
async def test_every_2xx_is_delivered(hook: Hook, status: int) -> None:
    hook.say(status)
    await channel(hook.address).send(NOTICE)


@pytest.mark.parametrize("status", [408, 425, 429, 500, 502, 503, 504, 599])
async def test_what_may_pass_is_transient(hook: Hook, status: int) -> None:
    hook.say(status)
    error = await failure(hook.address)
    assert isinstance(error, Transient)
    assert str(error).startswith(f"HTTP {status}")


@pytest.mark.parametrize("status", [301, 302, 307, 308, 400, 401, 403, 404, 405, 410, 413, 422])
async def test_what_will_not_pass_is_permanent(hook: Hook, status: int) -> None:
    hook.say(status, location="/elsewhere")
    assert isinstance(await failure(hook.address), Permanent)
    assert len(hook.requests) == 1  # no redirect was followed


@pytest.mark.parametrize(
    ("asked", "seconds"),
    [("120", 120.0), (format_datetime(NOW + timedelta(seconds=90), usegmt=True), 90.0),
     ("soon", None), ("-5", 0.0)],
)  # fmt: skip
async def test_retry_after_is_read(asked: str, seconds: float | None) -> None:
    reply = answer(b"", f"Retry-After: {asked}", status="429 Too Many Requests")
    async with serve(fixed(reply)) as server:
        error = await failure(server.url)
    assert isinstance(error, Transient)
    assert error.retry_after_s == seconds


async def test_an_answer_is_repeated_short_and_without_secrets(hook: Hook) -> None:
    body = f"bad\r\n\x1b[31m token {TOKEN} {SECRET} {'x' * 1000}".encode()
    hook.say(400, body=body)
    error = await failure(hook.address)
    assert str(error).startswith("HTTP 400: bad [31m token *** ***")
    assert len(str(error)) <= 256 + len("HTTP 400: ")


async def test_a_short_token_that_a_server_repeats_is_hidden() -> None:
    async def say(_request: object, writer: asyncio.StreamWriter) -> None:
        body = b"no hook with token tok12345abc in services"
        head = f"HTTP/1.1 404 Not Found\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)

    async with serve(say) as server:
        error = await failure(f"{server.url.rstrip('/')}/services/tok12345abc")
    assert str(error) == "HTTP 404: no hook with token *** in services"


async def test_half_a_secret_at_the_cut_is_not_shown(hook: Hook) -> None:
    for shift in range(len(SECRET)):
        hook.say(400, body=("y" * shift + SECRET * 200).encode())
        shown = str(await failure(hook.address))
        assert SECRET[:4] not in shown


async def test_markup_is_not_repeated(hook: Hook) -> None:
    hook.say(404, body=b"<html>gone</html>")
    assert str(await failure(hook.address)) == "HTTP 404"


async def test_a_server_that_drips_is_cut_off() -> None:
    async def drip(_request: object, writer: asyncio.StreamWriter) -> None:
        while True:
            writer.write(b"H")
            await writer.drain()
            await asyncio.sleep(0.01)

    async with serve(drip) as server:
        error = await failure(server.url, limits=Limits(total_s=0.3, read_s=5))
    assert isinstance(error, Transient)
    assert "within 0.3 s" in str(error)


@pytest.mark.parametrize("limits", [Limits(total_s=0.3, read_s=5), Limits(read_s=0.3)])
async def test_no_answer_leaves_it_open_whether_it_was_taken(hook: Hook, limits: Limits) -> None:
    hook.gate.clear()
    error = await failure(hook.address, limits=limits)
    hook.gate.set()
    assert isinstance(error, Transient)
    assert error.unknown
    assert len(hook.requests) == 1


async def test_an_answer_may_take_two_minutes() -> None:
    """What fits no test: that the limits in force leave the time."""
    assert outgoing.LIMITS.read_s >= 120
    assert outgoing.LIMITS.total_s > outgoing.LIMITS.read_s


async def test_a_proxy_with_nobody_behind_it_has_taken_nothing() -> None:
    async def close(_request: object, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with serve(close) as server:
        error = await failure(server.url)
    assert isinstance(error, Transient)
    assert not error.unknown


async def test_an_endless_body_is_not_read_to_its_end() -> None:
    async def flood(_request: object, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n")
        while True:
            writer.write(b"1000\r\n" + b"z" * 4096 + b"\r\n")
            await writer.drain()

    async with serve(flood) as server:
        error = await failure(server.url)
    assert isinstance(error, Permanent)
    assert str(error).startswith("HTTP 400: zzz")


async def test_nobody_there_is_transient() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/{TOKEN}"
        error = await failure(url)
    assert isinstance(error, Transient)
    assert "cannot connect" in str(error)


async def test_a_name_that_does_not_exist_is_transient() -> None:
    async def nothing(_name: str, _port: int) -> Sequence[str]:
        raise socket.gaierror(-2, "Name or service not known")

    error = await failure("https://hook.example.test/x", resolve=nothing)
    assert isinstance(error, Transient)
    assert "hook.example.test: its name cannot be looked up" in str(error)


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "localhost", "[::1]", "10.1.2.3", "192.168.0.1", "172.16.9.9", "169.254.169.254",
     "[fe80::1]", "[fd00::1]", "[::ffff:127.0.0.1]", "0", "2130706433", "0x7f.1",
     "100.64.0.1", "[64:ff9b::7f00:1]"],
)  # fmt: skip
async def test_private_targets_are_refused(host: str) -> None:
    error = await failure(f"http://{host}:9/hook", allow_private=False)
    if host in ("[64:ff9b::7f00:1]", "2130706433", "0x7f.1"):
        # Some systems do not resolve these spellings; then there is nothing to refuse.
        assert "private network" in str(error) or "looked up" in str(error)
    else:
        assert isinstance(error, Permanent)
        assert "allow_private_targets" in str(error)


async def test_a_name_with_a_private_address_is_refused_and_not_asked(hook: Hook) -> None:
    async def inside(_name: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    url = f"http://hook.example.test:{hook.port}/hooks/{TOKEN}"
    error = await failure(url, allow_private=False, resolve=inside)
    assert isinstance(error, Permanent)
    assert hook.requests == []


async def test_the_address_that_was_checked_is_the_one_connected_to(hook: Hook) -> None:
    """A name server that changes its answer after the check gains nothing."""
    answers = [["127.0.0.1"], ["10.0.0.1"]]

    async def rebinding(_name: str, _port: int) -> Sequence[str]:
        return answers.pop(0)

    url = f"http://hook.example.test:{hook.port}/hooks/{TOKEN}"
    await channel(url, resolve=rebinding).send(NOTICE)
    assert answers == [["10.0.0.1"]]  # asked once
    assert hook.requests[0].headers["host"] == f"hook.example.test:{hook.port}"


async def test_only_the_public_ones_of_several_addresses_are_tried(hook: Hook) -> None:
    seen: list[str] = []

    async def both(_name: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1", "203.0.114.1"]

    async def spy(_url: str, addresses: Sequence[str], *_: object) -> outgoing.Reply:
        seen.extend(addresses)
        return outgoing.Reply(200, b"", False, None)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(outgoing, "_post", spy)
        await channel("http://hook.example.test/x", allow_private=False, resolve=both).send(NOTICE)
    assert seen == ["203.0.114.1"]


async def test_the_second_address_is_tried_when_the_first_takes_no_connection(hook: Hook) -> None:
    async def two(_name: str, _port: int) -> Sequence[str]:
        return ["127.0.0.2", "127.0.0.1"]

    url = f"http://hook.example.test:{hook.port}/hooks/{TOKEN}"
    await channel(url, resolve=two).send(NOTICE)
    assert len(hook.requests) == 1


async def test_tls_is_checked_for_the_name_and_not_for_the_number() -> None:
    async def here(_name: str, _port: int) -> Sequence[str]:
        return ["127.0.0.1"]

    trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
    with Hook(tls=True) as hook:
        path = f":{hook.port}/hooks/{TOKEN}"
        await channel(f"https://hook.example.test{path}", resolve=here, tls=trusted).send(NOTICE)
        other = await failure(f"https://other.example.test{path}", resolve=here, tls=trusted)
        unknown = await failure(f"https://hook.example.test{path}", resolve=here)
    assert len(hook.requests) == 1
    for error in (other, unknown):
        assert isinstance(error, Transient)
        assert "certificate" in str(error)


async def test_no_proxy_of_the_environment_sees_a_webhook(
    hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    await channel(hook.address).send(NOTICE)
    assert len(hook.requests) == 1


async def test_no_log_line_has_a_secret(hook: Hook, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("httpx", "httpcore"):
        logging.getLogger(name).setLevel(logging.WARNING)  # as setup_logging does
    hook.answers.append(Answer(TOKEN.encode(), 500))
    await failure(hook.address)
    await channel(hook.address).send(NOTICE)
    assert SECRET not in caplog.text
    assert TOKEN not in caplog.text
