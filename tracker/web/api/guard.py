"""Who may ask, how often, and how much at once: checked before anything is read.

A server on the loopback interface answers whoever is on this machine. Other machines are answered
only with the token, or where the operator opened the server to them on purpose. What changes
anything needs the token always.
"""

from __future__ import annotations

import hmac
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracker.web.api.problems import Refused, response
from tracker.web.named import LOCAL_NAMES, name_in

MAX_QUERY = 8 * 1024  # bytes of an address behind the "?"
MAX_PATH = 1024
MAX_BODY = 16 * 1024
_CLIENTS = 1024  # that are told apart; the one that asked longest ago is forgotten first
_READING = frozenset(("GET", "HEAD", "OPTIONS"))


@dataclass(frozen=True, slots=True)
class Access:
    """Who may ask. ``token``: what opens everything, None for a server that changes nothing.

    ``open_to_all``: other machines may read without it. ``hosts`` are names, beside those of this
    machine, under which the server is asked for.
    """

    token: str | None = None
    open_to_all: bool = False
    hosts: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """``per_second`` requests of each client, ``burst`` of them at once."""

    per_second: float = 100
    burst: int = 200


class Guard:
    """ASGI middleware that refuses what ``Access`` and ``Limits`` do not allow."""

    def __init__(
        self, app: ASGIApp, access: Access, limits: Limits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._app, self._access, self._clock = app, access, clock
        self._limits = limits or Limits()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            self._check(scope)
            await self._app(scope, _bounded(receive), send)
        except Refused as problem:
            await response(problem)(scope, receive, send)

    def _check(self, scope: Scope) -> None:
        client = scope["client"][0] if scope.get("client") else ""
        self._slow_down(client)
        headers = Headers(scope=scope)
        if len(scope["query_string"]) > MAX_QUERY or len(scope["path"]) > MAX_PATH:
            raise Refused(414, "too-long", f"an address takes at most {MAX_QUERY:,} bytes of query")
        if _length(headers.get("content-length")) > MAX_BODY:
            raise Refused(413, "too-large", f"a body takes at most {MAX_BODY:,} bytes")
        trusted = self._has_token(headers)
        local = _is_local(client)
        if not trusted and scope["method"] not in _READING:
            self._refuse_to_write(headers)
        if not (trusted or local or self._access.open_to_all):
            raise _token_needed("other machines need the token to ask here")
        # A page of another site must not ask through its visitor's browser.
        if not trusted and local and not self._access.open_to_all:
            self._check_host(headers.get("host", ""))

    def _has_token(self, headers: Headers) -> bool:
        """Whether the right token comes with it. Raises Refused for a wrong one."""
        kind, _, given = headers.get("authorization", "").partition(" ")
        if not kind:
            return False
        expected = self._access.token
        if kind.lower() == "bearer" and expected is not None and hmac.compare_digest(
            given.strip().encode(), expected.encode()
        ):  # fmt: skip
            return True
        raise _token_needed("the token is not the one that this server knows")

    def _refuse_to_write(self, headers: Headers) -> None:
        if self._access.token is None:
            raise Refused(
                403, "read-only", "this server changes nothing: it was started without a token"
            )
        raise _token_needed("changing anything needs the token: Authorization: Bearer ...")

    def _check_host(self, host: str) -> None:
        name = name_in(host)
        if name in LOCAL_NAMES or name in self._access.hosts or _is_local(name):
            return
        raise Refused(421, "other-host", f"this server is not called {host[:60]!r}")

    def _slow_down(self, client: str) -> None:
        now, limits = self._clock(), self._limits
        left, then = self._buckets.pop(client, (float(limits.burst), now))
        left = min(float(limits.burst), left + max(0.0, now - then) * limits.per_second)
        allowed = left >= 1
        self._buckets[client] = (left - 1 if allowed else left, now)
        while len(self._buckets) > _CLIENTS:
            self._buckets.popitem(last=False)
        if not allowed:
            wait = max(1, math.ceil((1 - left) / limits.per_second))
            raise Refused(
                429, "too-many", f"at most {limits.per_second:g} requests a second: wait {wait} s",
                headers={"retry-after": str(wait)},
            )  # fmt: skip


def _token_needed(why: str) -> Refused:
    return Refused(401, "token", why, headers={"www-authenticate": 'Bearer realm="gpucost"'})


def _is_local(address: str) -> bool:
    try:
        found = ipaddress.ip_address(address.strip("[]"))
    except ValueError:
        return False
    mapped = getattr(found, "ipv4_mapped", None)
    return (mapped or found).is_loopback


def _length(text: str | None) -> int:
    if text is None:
        return 0
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Refused(400, "bad-request", "Content-Length is no number")
    return int(text)


def _bounded(receive: Receive) -> Receive:
    """*receive*, that takes no more of a body than MAX_BODY, whatever its length was said to be."""
    taken = 0

    async def bounded() -> Message:
        nonlocal taken
        message = await receive()
        taken += len(message.get("body", b""))
        if taken > MAX_BODY:
            raise Refused(413, "too-large", f"a body takes at most {MAX_BODY:,} bytes")
        return message

    return bounded
