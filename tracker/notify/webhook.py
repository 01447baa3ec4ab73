"""A JSON document to an address, signed so that the receiver can tell whose it is.

Headers: ``X-Gpucost-Event`` and ``Idempotency-Key`` (the notice's id, the same in every attempt),
``X-Gpucost-Timestamp`` (seconds since 1970, of this attempt) and, with a secret,
``X-Gpucost-Signature: sha256=<hex>``: HMAC-SHA256 over timestamp, a full stop and the body. A
receiver checks it, refuses old timestamps, and drops an id it has seen.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pydantic import SecretStr

from tracker.notify.channel import ECHO_CHARACTERS, Notice, Permanent, Transient
from tracker.provider import FetchError
from tracker.telemetry import Redactor, one_line

if TYPE_CHECKING:
    import ssl

    from tracker.http.limits import Limits
    from tracker.http.outgoing import Reply, Resolve

# Beside every 5xx: time-out, too early, too many requests. All else is the sender's to change.
_TRANSIENT = frozenset({408, 425, 429})


def sign(secret: str, timestamp: str, body: bytes) -> str:
    """The value of X-Gpucost-Signature."""
    signed = timestamp.encode() + b"." + body
    return "sha256=" + hmac.new(secret.encode(), signed, hashlib.sha256).hexdigest()


class WebhookChannel:
    """Posts to one URL. Only a 2xx counts as delivered; redirects are not followed."""

    kind = "webhook"
    max_characters = 16_000
    groups = True

    def __init__(
        self,
        name: str,
        url: SecretStr,
        *,
        secret: SecretStr | None = None,
        allow_private: bool = False,
        redactor: Redactor,
        contact: str | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        limits: Limits | None = None,
        resolve: Resolve | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self._url = url
        self._secret = secret
        self._allow_private = allow_private
        self._redactor = redactor
        self._contact = contact
        self._clock = clock
        self._limits = limits
        self._resolve = resolve
        self._tls = tls

    def refusal(self) -> str | None:
        """Why nothing will be sent there, as far as that is known without a look-up."""
        from tracker.http.guard import is_private
        from tracker.http.outgoing import NOT_ALLOWED

        host = urlsplit(self._url.get_secret_value()).hostname or ""
        return f"url: {NOT_ALLOWED}" if is_private(host) and not self._allow_private else None

    async def send(self, notice: Notice) -> None:
        """Post it. Raises Transient or Permanent."""
        from tracker.http import outgoing  # httpx: only once something is sent

        now = self._clock()
        body = json.dumps(
            {"schema_version": 1, "event_id": notice.event_id, "subject": notice.subject,
             "text": notice.text, **notice.data},
            ensure_ascii=False,
        ).encode()  # fmt: skip
        timestamp = str(int(now.timestamp()))
        headers = {
            "content-type": "application/json",
            "x-gpucost-event": notice.event_id,
            "idempotency-key": notice.event_id,
            "x-gpucost-timestamp": timestamp,
        }
        if self._secret is not None:
            headers["x-gpucost-signature"] = sign(self._secret.get_secret_value(), timestamp, body)
        try:
            reply = await outgoing.post(
                self._url.get_secret_value(), body, headers, now=now,
                allow_private=self._allow_private, contact=self._contact,
                limits=self._limits or outgoing.LIMITS, resolve=self._resolve, tls=self._tls,
            )  # fmt: skip
        except outgoing.PrivateTarget as error:
            raise Permanent(self._redactor.error(error)) from None
        except FetchError as error:
            unknown = isinstance(error, outgoing.Unanswered)
            raise Transient(
                self._redactor.error(error), error.retry_after_s, unknown=unknown
            ) from None
        self._judge(reply)

    def _judge(self, reply: Reply) -> None:
        """Nothing for a 2xx; else raises."""
        status = reply.status
        if 200 <= status <= 299:
            return
        if 300 <= status <= 399:
            raise Permanent(f"HTTP {status}: redirects are not followed, set the new address")
        echo = self._echo(reply)
        reason = f"HTTP {status}" + (f": {echo}" if echo else "")
        if status in _TRANSIENT or status >= 500:
            raise Transient(reason, reply.retry_after_s)
        raise Permanent(reason)

    def _echo(self, reply: Reply) -> str:
        """What the server says, without what must not be repeated."""
        text = reply.head.decode("utf-8", errors="replace")
        if text.lstrip("\ufeff \t\r\n").startswith("<"):
            return ""  # markup says nothing in one line
        # Twice: taking out line breaks may have put a secret together.
        shown = self._redactor(one_line(self._redactor(text)))
        if reply.truncated and len(shown) <= ECHO_CHARACTERS:
            return ""  # so much was hidden that half a secret at the cut would be shown
        return one_line(shown, ECHO_CHARACTERS)
