"""A mail server: a real SMTP server on loopback that keeps what it got."""

from __future__ import annotations

import asyncio
import ssl
import threading
import warnings
from dataclasses import dataclass, field
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from typing import Any, cast

from aiosmtpd.smtp import SMTP, AuthResult, LoginPassword

from tests.support.hook import server_context


@dataclass
class Mail:
    """One mail as it came: envelope and content."""

    sender: str
    recipients: list[str]
    content: EmailMessage
    login: str | None


@dataclass
class MailServer:
    """Serves on a free port while in its ``with`` block.

    ``users`` are names and passwords; with any, a login is needed. ``replies`` are answers to the
    next mails in place of taking them; ``refused`` addresses get what stands with them. Mails are
    taken at once, and that is said ``slow_s`` seconds later.
    """

    security: str = "none"
    users: dict[str, str] = field(default_factory=dict)
    replies: list[str] = field(default_factory=list)
    refused: dict[str, str] = field(default_factory=dict)
    slow_s: float = 0
    mails: list[Mail] = field(default_factory=list)
    port: int = 0

    def __enter__(self) -> MailServer:
        started = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, args=(started,))
        self._thread.start()
        assert started.wait(10)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def _run(self, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        self._stop = asyncio.Event()
        self._loop.run_until_complete(self._serve(started))
        self._loop.close()

    async def _serve(self, started: threading.Event) -> None:
        tls = server_context() if self.security != "none" else None
        server = await self._loop.create_server(
            lambda: self._protocol(tls if self.security == "starttls" else None),
            "127.0.0.1", 0, ssl=tls if self.security == "tls" else None,
        )  # fmt: skip
        self.port = server.sockets[0].getsockname()[1]
        started.set()
        await self._stop.wait()
        server.close()
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)

    def _protocol(self, starttls: ssl.SSLContext | None) -> SMTP:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of logins without STARTTLS, which is meant
            return self._smtp(starttls)

    def _smtp(self, starttls: ssl.SSLContext | None) -> SMTP:
        return SMTP(
            self, tls_context=starttls, require_starttls=starttls is not None,
            authenticator=self._login if self.users else None, auth_required=bool(self.users),
            auth_require_tls=starttls is not None, hostname="localhost", enable_SMTPUTF8=True,
        )  # fmt: skip

    def _login(self, _server: Any, _session: Any, _envelope: Any, _how: str, data: Any) -> Any:
        given = cast(LoginPassword, data)
        name, password = given.login.decode(), given.password.decode()
        return AuthResult(success=self.users.get(name) == password, auth_data=name, handled=False)

    async def handle_RCPT(  # noqa: N802 - aiosmtpd's name
        self, _server: Any, _session: Any, envelope: Any, address: str, _options: Any
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _server: Any, session: Any, envelope: Any) -> str:  # noqa: N802
        if self.replies:
            return self.replies.pop(0)
        content = message_from_bytes(envelope.content, policy=default)
        self.mails.append(
            Mail(envelope.mail_from, list(envelope.rcpt_tos), content,
                 session.auth_data)
        )  # fmt: skip
        await asyncio.sleep(self.slow_s)
        return "250 taken"
