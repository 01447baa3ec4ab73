"""Mail over SMTP, with the standard library in a thread.

TLS is never given up: a server that does not offer STARTTLS gets neither password nor mail.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import smtplib
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import BaseHeader, HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import TYPE_CHECKING, Literal

from pydantic import SecretStr

from tracker.notify.channel import ECHO_CHARACTERS, Notice, Permanent, SendError, Transient
from tracker.notify.thread import Hand
from tracker.telemetry import Redactor, one_line

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

Security = Literal["starttls", "tls", "none"]
DEFAULT_PORTS: dict[Security, int] = {"starttls": 587, "tls": 465, "none": 25}


class _Headers(HeaderRegistry):
    """Makes the class of a header once for each name, where email makes dozens for each mail."""

    def __init__(self) -> None:
        super().__init__()
        self._made: dict[str, type[BaseHeader]] = {}

    def __getitem__(self, name: str) -> type[BaseHeader]:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = super().__getitem__(name)
        return made


# Long enough for a whole subject: folded, it would begin with a blank. SMTP allows 998.
_POLICY = SMTP.clone(max_line_length=300, header_factory=_Headers())
_SUBJECT_CHARACTERS = 200
_TIMEOUT_S = 15.0  # of each step
_TOTAL_S = 60.0  # until all of the mail is handed over
_ANSWER_S = 600.0  # for the answer to that (RFC 5321, 4.5.3.2.6): who gives up sooner sends copies


@dataclass(frozen=True, slots=True)
class Server:
    """A mail server and how to log in there. Without a user name nobody logs in."""

    host: str
    port: int
    security: Security
    username: str | None = None
    password: SecretStr | None = None
    ca_file: str | None = None


class _Patient(smtplib.SMTP):
    """Tells *on_handed_over* when all of a mail is sent, and from then on waits for *answer_s*."""

    on_handed_over: Callable[[], None]
    answer_s: float

    def send(self, s: ReadableBuffer | str) -> None:
        """Send bytes, or a command."""
        super().send(s)
        if self.sock is not None and isinstance(s, bytes) and s.endswith(b"\r\n.\r\n"):
            self.sock.settimeout(self.answer_s)
            self.on_handed_over()


class _PatientOverTls(_Patient, smtplib.SMTP_SSL):
    """The same where TLS comes first."""


class _Attempt:
    """What is known of one attempt, for the thread that makes it and for who waits for that.

    ``refused`` None: the server has not taken the mail for anybody (yet).
    """

    def __init__(self, recipients: Sequence[str]) -> None:
        self.recipients = recipients
        self.connection: smtplib.SMTP | None = None
        self.handed_over = False
        self.refused: Mapping[str, tuple[int, bytes]] | None = None

    def when_handed_over(self, limit: asyncio.Timeout, answer_s: float) -> None:
        """Move *limit* to *answer_s* from the moment at which all of the mail is sent."""
        self._limit, self._answer_s = limit, answer_s
        self._loop = asyncio.get_running_loop()

    @property
    def out_of_time(self) -> bool:
        """Whether the limit of the whole was reached, not that of a step."""
        return self._limit.expired()

    def hand_over(self) -> None:
        """All of it is sent. Called in the thread."""
        self.handed_over = True
        with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
            self._loop.call_soon_threadsafe(self._wait_on)

    def _wait_on(self) -> None:
        with contextlib.suppress(RuntimeError):  # it is over already
            self._limit.reschedule(self._loop.time() + self._answer_s)

    def let_go(self) -> None:
        """Close the connection, also under a thread that waits for a byte."""
        held = self.connection.sock if self.connection else None
        self.connection = None  # which holds this attempt
        with contextlib.suppress(OSError):
            if held is not None:
                held.shutdown(socket.SHUT_RDWR)


class MailChannel:
    """Sends one mail to all *recipients*.

    Who is refused for now gets it alone at the next attempt: the others have it.
    """

    kind = "smtp"
    max_characters = 50_000
    groups = True

    def __init__(
        self,
        name: str,
        server: Server,
        *,
        sender: str,
        recipients: Sequence[str],
        redactor: Redactor,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        step_timeout_s: float = _TIMEOUT_S,
        total_s: float = _TOTAL_S,
        answer_s: float = _ANSWER_S,
    ) -> None:
        self.name = name
        self._server = server
        self._sender = sender
        self._recipients = tuple(recipients)
        self._redactor = redactor
        self._clock = clock
        self._step_timeout_s = step_timeout_s
        self._total_s = total_s
        self._answer_s = answer_s
        self._hand = Hand()

    def message(self, notice: Notice) -> EmailMessage:
        """The mail. Its Message-ID comes from the event, so that a second copy is known as one."""
        mail = EmailMessage(policy=_POLICY)
        unique = re.sub(r"[^A-Za-z0-9-]", "-", notice.event_id)[:120] or "event"
        domain = self._sender.rpartition("@")[2]
        mail["Message-ID"] = f"<{unique}@{domain}>"
        mail["Date"] = format_datetime(self._clock())
        mail["From"] = self._sender
        mail["To"] = ", ".join(self._recipients)
        mail["Subject"] = one_line(notice.subject, _SUBJECT_CHARACTERS)
        mail["Auto-Submitted"] = "auto-generated"
        mail["X-Gpucost-Event"] = one_line(notice.event_id, 200)
        mail.set_content(notice.text)
        if notice.html is not None:
            mail.add_alternative(notice.html, subtype="html")
        return mail

    async def send(self, notice: Notice) -> None:
        """Send it. Raises Transient or Permanent."""
        try:
            mail = self.message(notice)
        except ValueError:
            raise Permanent("the mail cannot be written: check the addresses") from None
        recipients = [address for address in self._recipients if address not in notice.told]
        if not recipients:
            return  # those that had refused it are not configured any more
        attempt = _Attempt(recipients)
        try:
            async with asyncio.timeout(self._total_s) as limit:
                attempt.when_handed_over(limit, self._answer_s)
                await self._hand.run(lambda: self._send(mail, attempt))
        except (smtplib.SMTPException, OSError, UnicodeError, ValueError) as error:
            if attempt.refused is None:
                raise self._failed(error, attempt) from None
        finally:
            attempt.let_go()
        if attempt.refused:
            raise self._not_for(attempt.refused, frozenset(recipients) - attempt.refused.keys())

    def _failed(self, error: Exception, attempt: _Attempt) -> SendError:
        answered = isinstance(error, smtplib.SMTPResponseException) and error.smtp_code > 0
        if attempt.handed_over and not answered:
            said = "was given the mail and did not say that it takes it"
            return Transient(f"{self._server.host}: {said}", unknown=True)
        if type(error) is TimeoutError and attempt.out_of_time:
            return Transient(f"{self._server.host}: not done within {self._total_s:g} s")
        return self._failure(error)

    def _send(self, mail: EmailMessage, attempt: _Attempt) -> None:
        server = self._server
        connection: _Patient
        if server.security == "tls":
            context = ssl.create_default_context(cafile=server.ca_file)
            connection = _PatientOverTls(timeout=self._step_timeout_s, context=context)
        else:
            connection = _Patient(timeout=self._step_timeout_s)
        connection.on_handed_over, connection.answer_s = attempt.hand_over, self._answer_s
        attempt.connection = connection
        # What connect() takes it from when the constructor is given no host.
        connection._host = server.host  # type: ignore[attr-defined]
        try:
            code, said = connection.connect(server.host, server.port)
            if code != 220:
                raise smtplib.SMTPConnectError(code, said)
            if server.security == "starttls":
                context = ssl.create_default_context(cafile=server.ca_file)
                connection.starttls(context=context)
            if server.username is not None:
                password = server.password.get_secret_value() if server.password else ""
                connection.login(server.username, password)
            # Not send_message(), which writes ">From" where a line begins with "From".
            attempt.refused = connection.sendmail(self._sender, attempt.recipients, mail.as_bytes())
            with contextlib.suppress(smtplib.SMTPException, OSError):
                if connection.sock is not None:
                    connection.sock.settimeout(self._step_timeout_s)
                connection.quit()  # what it says now changes nothing: it has taken the mail
        finally:
            connection.close()

    def _not_for(self, refused: Mapping[str, tuple[int, bytes]], told: frozenset[str]) -> SendError:
        """The failure for some of the recipients, while *told* have the mail."""
        whom = one_line(", ".join(sorted(refused)), ECHO_CHARACTERS)
        says = self._echo(smtplib.SMTPRecipientsRefused(dict(refused)))
        kind = Permanent if min(code for code, _ in refused.values()) >= 500 else Transient
        return kind(f"{self._server.host}: taken for others, not for {whom}{says}", told=told)

    def _failure(self, error: Exception) -> SendError:
        """*error* in our words."""
        host, server_says = self._server.host, self._echo(error)
        match error:
            case smtplib.SMTPAuthenticationError(smtp_code=code) if code >= 500:
                return Permanent(f"{host}: user name or password refused{server_says}")
            case smtplib.SMTPNotSupportedError():
                return Permanent(
                    f"{host}: does not offer what the settings ask for (STARTTLS, or a login): "
                    "check security and port"
                )
            case smtplib.SMTPRecipientsRefused(recipients=refused):
                codes = [code for code, _ in refused.values()]
                kind = Permanent if codes and min(codes) >= 500 else Transient
                whom = one_line(", ".join(sorted(refused)), ECHO_CHARACTERS)
                return kind(f"{host}: not for {whom}{server_says}")
            case smtplib.SMTPConnectError():
                return Transient(f"{host}: does not take mail now{server_says}")
            case smtplib.SMTPResponseException(smtp_code=code):
                return (Permanent if code >= 500 else Transient)(f"{host}: refused{server_says}")
            case ssl.SSLCertVerificationError():
                return Transient(f"{host}: its TLS certificate cannot be verified")
            case ssl.SSLError():
                return Transient(f"{host}: no TLS there: check security and port")
            case TimeoutError():
                return Transient(f"{host}: no answer for {self._step_timeout_s:g} s")
            case socket.gaierror():
                return Transient(f"{host}: its name cannot be looked up")
            case smtplib.SMTPException() | OSError():
                return Transient(f"{host}: {self._redactor.error(error, 100)}")
            case _:
                return Permanent(f"{host}: user name or password has characters it cannot have")

    def _echo(self, error: Exception) -> str:
        said = getattr(error, "smtp_error", b"")
        code = getattr(error, "smtp_code", None)
        if isinstance(error, smtplib.SMTPRecipientsRefused) and error.recipients:
            code, said = next(iter(error.recipients.values()))
        text = said.decode("utf-8", errors="replace") if isinstance(said, bytes) else str(said)
        shown = one_line(self._redactor(one_line(self._redactor(text))), ECHO_CHARACTERS)
        return f" ({code} {shown})".replace(" )", ")") if code is not None else ""
