"""Mail over SMTP, with the standard library in a thread.

TLS is never given up: a server that does not offer STARTTLS gets neither password nor mail.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import smtplib
import socket
import ssl
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from email.headerregistry import BaseHeader, HeaderRegistry
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime
from typing import Literal

from pydantic import SecretStr

from tracker.notify.channel import ECHO_CHARACTERS, Notice, Permanent, SendError, Transient
from tracker.notify.thread import Hand
from tracker.telemetry import Redactor, one_line

log = logging.getLogger(__name__)

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
_TOTAL_S = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """A mail server and how to log in there. Without a user name nobody logs in."""

    host: str
    port: int
    security: Security
    username: str | None = None
    password: SecretStr | None = None
    ca_file: str | None = None


class MailChannel:
    """Sends one mail to all *recipients*."""

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
    ) -> None:
        self.name = name
        self._server = server
        self._sender = sender
        self._recipients = tuple(recipients)
        self._redactor = redactor
        self._clock = clock
        self._step_timeout_s = step_timeout_s
        self._total_s = total_s
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
        used: list[smtplib.SMTP] = []
        try:
            async with asyncio.timeout(self._total_s):
                await self._hand.run(lambda: self._send(mail, used))
        except TimeoutError:
            raise Transient(f"{self._server.host}: not done within {self._total_s:g} s") from None
        except (smtplib.SMTPException, OSError, UnicodeError, ValueError) as error:
            raise self._failure(error) from None
        finally:
            for connection in used:  # also lets go of a thread that waits for a byte
                held: socket.socket | None = connection.sock
                with contextlib.suppress(OSError):
                    if held is not None:
                        held.shutdown(socket.SHUT_RDWR)

    def _send(self, mail: EmailMessage, used: list[smtplib.SMTP]) -> None:
        server = self._server
        connection: smtplib.SMTP
        if server.security == "tls":
            context = ssl.create_default_context(cafile=server.ca_file)
            connection = smtplib.SMTP_SSL(timeout=self._step_timeout_s, context=context)
        else:
            connection = smtplib.SMTP(timeout=self._step_timeout_s)
        used.append(connection)
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
            refused = connection.sendmail(self._sender, self._recipients, mail.as_bytes())
            if refused:
                log.warning(
                    "%s: the server takes mail for the others, but not for %s",
                    self.name, ", ".join(sorted(refused)),
                )  # fmt: skip
            with contextlib.suppress(smtplib.SMTPException, OSError):
                connection.quit()  # what it says now changes nothing: it has taken the mail
        finally:
            connection.close()

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
                return kind(f"{host}: no recipient accepted{server_says}")
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
