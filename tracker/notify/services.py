"""Everything that Apprise knows (Slack, Discord, Telegram, ntfy, Teams, PagerDuty, …), as an extra.

One URL a channel, so that each target has its own result and its own retries. Apprise's retries
are off: the outbox tries again. Of what went wrong Apprise only tells its log, which is read here.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import logging
import re
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pydantic import SecretStr

from tracker.http.guard import is_private, is_public
from tracker.notify.channel import (
    ECHO_CHARACTERS,
    Notice,
    Permanent,
    SendError,
    Transient,
    shortened,
)
from tracker.notify.thread import Hand
from tracker.telemetry import Redactor, one_line

if TYPE_CHECKING:
    from apprise import NotifyBase

MISSING = "Apprise is not installed: pip install '.[notify]' in gpucost's checkout"

_TOTAL_S = 180.0  # some services let their clients wait between two messages
# Apprise's own are 4 s, and who gives up sooner than the service answers sends copies.
_READ_S = 120.0
_NUMBER = re.compile(r"[0-9.]+|0x[0-9a-f.x]+|.*:.*", re.IGNORECASE)  # an address, or "127.1"
_STATUS = re.compile(r"\berror=(\d{3})\b")
_TRANSIENT = frozenset({408, 425, 429})
_NOT_KNOWN = "not a URL that Apprise knows: see https://github.com/caronc/apprise/wiki"
_PRIVATE = "it is in a private network: set alerts.allow_private_targets to send there"


class AppriseChannel:
    """Sends through one Apprise URL."""

    kind = "apprise"
    groups = True

    def __init__(
        self,
        name: str,
        url: SecretStr,
        *,
        allow_private: bool = False,
        redactor: Redactor,
        max_characters: int | None = None,
        total_s: float = _TOTAL_S,
    ) -> None:
        self.name = name
        self.max_characters = max_characters or 4000
        self._url = url
        self._allow_private = allow_private
        self._redactor = redactor
        self._own_limit = max_characters is not None
        self._total_s = total_s
        self._hand = Hand()
        self._plugin: NotifyBase | None = None

    def refusal(self) -> str | None:
        """Why nothing will be sent there, as far as that is known without a look-up."""
        try:
            with _overheard():
                plugin = self._loaded()
        except Permanent as error:
            return f"url: {error}"
        if self._allow_private:
            return None
        host = self._host(plugin)
        return f"url: {_PRIVATE}" if host and is_private(host) else None

    async def send(self, notice: Notice) -> None:
        """Send it. Raises Transient or Permanent."""
        try:
            async with asyncio.timeout(self._total_s):
                await self._hand.run(lambda: self._send(notice))
        except TimeoutError:
            raise Transient(f"not done within {self._total_s:g} s", unknown=True) from None
        except SendError:
            raise
        except Exception as error:  # a plugin's own trouble
            raise Transient(f"failed ({type(error).__name__})") from None

    def _send(self, notice: Notice) -> None:
        with _overheard() as said:
            plugin = self._loaded()
            self._check_target(plugin)
            limit = plugin.body_maxlen or self.max_characters
            began = time.monotonic()
            body = notice.text if self._own_limit else shortened(notice.text, limit)
            sent = plugin.notify(
                body=body, title=one_line(notice.subject, plugin.title_maxlen or None)
            )
        if not sent:
            waited_s = time.monotonic() - began
            raise self._failure(said, unknown=waited_s >= plugin.socket_read_timeout)

    def _loaded(self) -> NotifyBase:
        if self._plugin is None:
            with warnings.catch_warnings():
                # Its plugins use what is deprecated, and importing them is not the user's doing.
                warnings.simplefilter("ignore")
                self._plugin = self._load()
        return self._plugin

    def _load(self) -> NotifyBase:
        try:
            import apprise
        except ImportError:
            raise Permanent(MISSING) from None
        # It writes the paths of requests at debug level, and they are credentials.
        logging.getLogger("urllib3").setLevel(logging.WARNING)
        asset = apprise.AppriseAsset(
            app_id="gpucost", app_desc="gpucost", app_url="", async_mode=False,
            http_redirects=False, default_service_retry=0, secure_logging=True,
            storage_mode=apprise.PersistentStoreMode.MEMORY,
        )  # fmt: skip
        plugin = apprise.Apprise.instantiate(self._url.get_secret_value(), asset=asset)
        if plugin is None:
            raise Permanent(_NOT_KNOWN)
        if "rto" not in parse_qs(urlsplit(self._url.get_secret_value()).query):
            plugin.socket_read_timeout = _READ_S
        return plugin

    def _host(self, plugin: NotifyBase) -> str | None:
        """The host that the URL names; None when what stands there is a token or a topic.

        A look-up of that would tell it to the name server.
        """
        mail = getattr(plugin, "smtp_host", None)
        host = str(mail or urlsplit(self._url.get_secret_value()).hostname or "")
        templates: Any = plugin.templates
        forms = [str(form) for form in templates]
        names_host = ["{host}" in form for form in forms]
        if not host or (forms and not any(names_host)):
            return None
        looks_so = "." in host or host == "localhost" or _NUMBER.fullmatch(host) is not None
        return host if all(names_host) or looks_so else None

    def _check_target(self, plugin: NotifyBase) -> None:
        """Raises Permanent when the URL names a host in a private network, and none may be.

        What Apprise connects to a moment later is its own look-up.
        """
        host = None if self._allow_private else self._host(plugin)
        if host is None:
            return
        try:
            found = socket.getaddrinfo(host, 443, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError):
            raise Transient("its host's name cannot be looked up") from None
        addresses = {str(address[0]).partition("%")[0] for *_, address in found}
        if not all(is_public(ipaddress.ip_address(address)) for address in addresses):
            raise Permanent(_PRIVATE)

    def _failure(self, said: list[str], *, unknown: bool) -> SendError:
        """What Apprise says last; *unknown*: it took so long that there was no answer."""
        told = " ".join(said[-1:])
        shown = one_line(self._redactor(one_line(self._redactor(told))), ECHO_CHARACTERS)
        found = _STATUS.search(told)
        status = int(found[1]) if found else 0
        final = 400 <= status <= 499 and status not in _TRANSIENT
        shown = shown or "Apprise could not send it"
        return Permanent(shown) if final else Transient(shown, unknown=unknown and not status)


class _Ear(logging.Handler):
    """Keeps the warnings of one thread."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        if record.thread == self._thread:
            self.said.append(record.getMessage())


@contextlib.contextmanager
def _overheard() -> Iterator[list[str]]:
    """What Apprise says in this thread, which goes to no other log: it may name a URL."""
    logger: Any = logging.getLogger("apprise")
    ear = _Ear()
    logger.propagate = False
    logger.setLevel(logging.WARNING)  # below that it writes whole URLs
    logger.addHandler(ear)
    try:
        yield ear.said
    finally:
        logger.removeHandler(ear)
