"""Mail against a real SMTP server: what arrives, TLS, logins, and how refusals are read."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from tests.alert.outbox_world import NOW
from tests.support.hook import CERTIFICATE
from tests.support.mail import MailServer
from tracker.notify import Notice, Permanent, SendError, Transient
from tracker.notify.mail import MailChannel, Security, Server
from tracker.telemetry import Redactor

pytestmark = pytest.mark.anyio

PASSWORD = "mail-password-5Qz"
NOTICE = Notice("event-1", "gpucost: it fired", "It fired: 10 %.\n\nEvent: event-1",
                "<p>It <b>fired</b></p>")  # fmt: skip


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


def channel(
    port: int,
    security: Security = "none",
    *,
    user: str | None = None,
    password: str = PASSWORD,
    ca: Path | None = CERTIFICATE,
    to: tuple[str, ...] = ("ops@example.org",),
    host: str = "localhost",
    **how: float,
) -> MailChannel:
    server = Server(
        host, port, security, user, SecretStr(password) if user else None, str(ca) if ca else None
    )
    return MailChannel(
        "mail", server, sender="gpucost@example.org", recipients=to,
        redactor=Redactor([PASSWORD]), clock=lambda: NOW, **how,
    )  # fmt: skip


async def failure(of: MailChannel, notice: Notice = NOTICE) -> SendError:
    with pytest.raises(SendError) as caught:
        await of.send(notice)
    message = str(caught.value)
    assert len(message.splitlines()) == 1
    assert PASSWORD not in message
    return caught.value


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
async def test_a_mail_arrives(security: Security) -> None:
    with MailServer(security=security, users={"bot": PASSWORD}) as server:
        to = ("ops@example.org", "dev@example.org")
        await channel(server.port, security, user="bot", to=to).send(NOTICE)
    (mail,) = server.mails
    assert (mail.sender, mail.recipients, mail.login) == (
        "gpucost@example.org", ["ops@example.org", "dev@example.org"], "bot",
    )  # fmt: skip
    content = mail.content
    assert content["Subject"] == "gpucost: it fired"
    assert content["Message-ID"] == "<event-1@example.org>"
    assert content["X-Gpucost-Event"] == "event-1"
    assert content["Auto-Submitted"] == "auto-generated"
    plain, html = content.iter_parts()
    assert plain.get_content().replace("\r\n", "\n") == NOTICE.text + "\n"
    assert html.get_content().strip() == NOTICE.html
    assert PASSWORD not in content.as_string()


async def test_the_same_event_has_the_same_message_id() -> None:
    with MailServer() as server:
        mail = channel(server.port)
        await mail.send(NOTICE)
        await mail.send(NOTICE)
    assert len({mail.content["Message-ID"] for mail in server.mails}) == 1


async def test_no_password_and_no_mail_without_tls() -> None:
    """The server offers no STARTTLS: what lies in between may have taken it out."""
    with MailServer() as server:
        error = await failure(channel(server.port, "starttls", user="bot"))
    assert isinstance(error, Permanent)
    assert "STARTTLS" in str(error)
    assert server.mails == []


@pytest.mark.parametrize("security", ["starttls", "tls"])
async def test_a_certificate_that_cannot_be_verified(security: Security) -> None:
    with MailServer(security=security) as server:
        error = await failure(channel(server.port, security, ca=None))
    assert isinstance(error, Transient)
    assert "certificate" in str(error)
    assert server.mails == []


async def test_tls_where_there_is_none() -> None:
    with MailServer() as server:
        error = await failure(channel(server.port, "tls", step_timeout_s=1.0))
    assert isinstance(error, Transient)


async def test_a_wrong_password_is_permanent() -> None:
    with MailServer(security="starttls", users={"bot": "another"}) as server:
        error = await failure(channel(server.port, "starttls", user="bot"))
    assert isinstance(error, Permanent)
    assert "user name or password refused" in str(error)


@pytest.mark.parametrize(
    ("reply", "kind"),
    [("451 try later", Transient), ("421 shutting down", Transient), ("552 too big", Permanent),
     (f"550 said {PASSWORD}", Permanent)],
)  # fmt: skip
async def test_a_refused_mail(reply: str, kind: type[SendError]) -> None:
    with MailServer(replies=[reply]) as server:
        error = await failure(channel(server.port))
    assert isinstance(error, kind)
    assert reply[:3] in str(error)


@pytest.mark.parametrize(
    ("reply", "kind"), [("550 nobody", Permanent), ("450 greylisted", Transient)]
)
async def test_no_recipient_accepted(reply: str, kind: type[SendError]) -> None:
    with MailServer(refused={"ops@example.org": reply}) as server:
        error = await failure(channel(server.port))
    assert isinstance(error, kind)
    assert reply in str(error)


@pytest.mark.parametrize(
    ("reply", "kind"), [("550 nobody", Permanent), ("450 greylisted", Transient)]
)
async def test_some_recipients_refused_is_a_failure_for_those_alone(
    reply: str, kind: type[SendError]
) -> None:
    to = ("first@example.org", "second@example.org")
    with MailServer(refused={"second@example.org": reply}) as server:
        error = await failure(channel(server.port, to=to))
        assert isinstance(error, kind)
        assert str(error) == f"localhost: taken for others, not for second@example.org ({reply})"
        assert error.told == {"first@example.org"}
        server.refused.clear()
        await channel(server.port, to=to).send(replace(NOTICE, told=error.told))
        assert [mail.recipients for mail in server.mails] == [[to[0]], [to[1]]]
        await channel(server.port, to=to[:1]).send(replace(NOTICE, told=error.told))
        assert len(server.mails) == 2  # nobody is left to tell


async def test_some_refused_for_now_and_some_for_good_is_tried_again() -> None:
    refused = {"b@example.org": "450 greylisted", "c@example.org": "550 nobody"}
    with MailServer(refused=refused) as server:
        to = ("a@example.org", "b@example.org", "c@example.org")
        error = await failure(channel(server.port, to=to))
    assert isinstance(error, Transient)
    assert "not for b@example.org, c@example.org" in str(error)


@pytest.mark.parametrize("security", ["none", "starttls", "tls"])
async def test_a_server_that_takes_its_time_gets_one_mail(security: Security) -> None:
    """Longer than any step may take, and than all may take until the mail is handed over."""
    with MailServer(security=security, slow_s=1.5) as server:
        await channel(server.port, security, step_timeout_s=0.5, total_s=1.0).send(NOTICE)
        assert len(server.mails) == 1


async def test_no_answer_to_a_mail_leaves_it_open_whether_it_was_taken() -> None:
    with MailServer(slow_s=5) as server:
        error = await failure(channel(server.port, answer_s=0.2))
        assert len(server.mails) == 1
    assert isinstance(error, Transient)
    assert error.unknown
    assert str(error) == "localhost: was given the mail and did not say that it takes it"


async def test_a_refused_mail_is_known_not_to_be_taken() -> None:
    with MailServer(replies=["451 try later"]) as server:
        error = await failure(channel(server.port))
    assert isinstance(error, Transient)
    assert not error.unknown


async def test_nobody_there_is_transient(unused_tcp_port_number: int) -> None:
    assert isinstance(await failure(channel(unused_tcp_port_number)), Transient)


@pytest.fixture
def unused_tcp_port_number() -> int:
    with MailServer() as server:
        return server.port


async def test_a_server_that_drips_is_let_go() -> None:
    """It never ends a line, and never stays silent for long enough to be cut off for that."""
    ended = threading.Event()

    def drip(listening: socket.socket) -> None:
        connection, _ = listening.accept()
        with connection, contextlib.suppress(OSError):
            while True:
                connection.sendall(b"2")
                ended.wait(0.01)
        ended.set()

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=drip, args=(listening,))
        thread.start()
        port = listening.getsockname()[1]
        error = await failure(channel(port, host="127.0.0.1", total_s=0.3))
        thread.join(10)
    assert isinstance(error, Transient)
    assert "within 0.3 s" in str(error)
    assert ended.is_set()  # the connection was closed from this side


@given(
    subject=st.text(max_size=300),
    event=st.text(max_size=50),
    text=st.text(max_size=200),
)
def test_no_text_can_add_a_header(subject: str, event: str, text: str) -> None:
    notice = Notice(event, f"{subject}\r\nBcc: thief@example.org", text)
    raw = channel(25).message(notice).as_bytes()
    head = raw.partition(b"\r\n\r\n")[0]
    names = [
        line.partition(b":")[0].lower()
        for line in head.split(b"\r\n")
        if not line.startswith((b" ", b"\t"))
    ]
    allowed = {
        b"message-id", b"date", b"from", b"to", b"subject", b"auto-submitted", b"x-gpucost-event",
        b"content-type", b"content-transfer-encoding", b"mime-version",
    }  # fmt: skip
    assert set(names) <= allowed
    assert len(names) == len(set(names))


async def test_mail_of_all_sorts_of_letters_arrives() -> None:
    text = "Größe ≥ 2 \u00b5s\n.\n.leading dot\nFrom here\n" + "x" * 2000
    with MailServer() as server:
        await channel(server.port).send(Notice("e-2", "gpucost: Größe", text))
    content = server.mails[0].content
    assert content["Subject"] == "gpucost: Größe"
    assert content.get_content().replace("\r\n", "\n").rstrip("\n") == text


async def test_no_log_line_has_the_password(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "tracker")
    with MailServer(security="starttls", users={"bot": "another"}) as server:
        await failure(channel(server.port, "starttls", user="bot"))
    assert PASSWORD not in caplog.text


async def test_a_password_that_cannot_be_sent_is_not_shown() -> None:
    with MailServer(security="starttls", users={"bot": "x"}) as server:
        mail = channel(server.port, "starttls", user="bot", password="pä\u2028ßword-secret")
        with pytest.raises(SendError) as caught:
            await mail.send(NOTICE)
    assert "ßword" not in str(caught.value)
