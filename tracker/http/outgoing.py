"""Posting to an address that a user typed: bounded, without redirects, to public hosts only.

The name is looked up here, and the connection goes to the very address that was checked: a name
that resolves to another one a moment later (DNS rebinding) gains nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import cast
from urllib.parse import urlsplit

import httpx

from tracker.http.body import read_head
from tracker.http.connection import let_go, user_agent
from tracker.http.connection import tls as our_tls
from tracker.http.errors import translate
from tracker.http.guard import host_of, is_public, lowered
from tracker.http.limits import ERROR_HEAD_BYTES, Limits
from tracker.http.retry import Retryable, retry_after_s
from tracker.provider import FetchError

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]

# Long for the answer: a receiver that takes its time has the message, and another is a copy.
LIMITS = Limits(connect_s=5, read_s=120, write_s=15, total_s=150, attempts=1)
_AT_ONCE_S = 5.0  # a proxy with nobody behind it closes sooner than a receiver at work
NOT_ALLOWED = "it is in a private network: set alerts.allow_private_targets to send there"
_DEFAULT_PORTS = {"http": 80, "https": 443}


class PrivateTarget(FetchError):
    """The address is not in a public network, and such targets are not allowed."""


class Unanswered(Retryable):
    """All of the message was handed over, and no answer came: the receiver may have taken it."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What the server said: ``head`` is the beginning of the body of what is no 2xx, and
    ``truncated`` whether there may be more of it."""

    status: int
    head: bytes
    truncated: bool
    retry_after_s: float | None


def check_target(url: str) -> str | None:
    """What is wrong with *url* as a target, without showing it; None when it can be used."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL):
        return "not a URL: write https://host/path"
    if parts.scheme not in _DEFAULT_PORTS:
        return "must begin with https:// (or http://)"
    if not host or port == 0 or any(c.isspace() or not c.isprintable() for c in url):
        return "not a complete URL: write https://host/path"
    return None


async def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    now: datetime,
    allow_private: bool = False,
    limits: Limits = LIMITS,
    contact: str | None = None,
    resolve: Resolve | None = None,
    tls: ssl.SSLContext | None = None,
) -> Reply:
    """POST *body* once, within ``limits.total_s``, following nothing.

    An answer of any status is a Reply. Raises FetchError (Retryable when another attempt may
    help, Unanswered, PrivateTarget) with the host in front and without the URL. *now* is what a
    date in Retry-After is compared with.
    """
    host = host_of(url)
    problem = check_target(url)
    if problem is not None:
        raise FetchError(problem)
    handing = _Handing()
    try:
        async with asyncio.timeout(limits.total_s):
            addresses = await _addresses(url, resolve or _look_up, allow_private=allow_private)
            return await _post(
                url, addresses, body, {"user-agent": user_agent(contact), **headers},
                now, limits, tls, handing,
            )  # fmt: skip
    except TimeoutError:
        kind = Retryable if handing.waited_s is None else Unanswered
        raise kind(f"{host}: no complete answer within {limits.total_s:g} s") from None
    except FetchError as error:
        raise type(error)(f"{host}: {error}") from None


class _Handing:
    """Notes when all of a request was handed over."""

    def __init__(self) -> None:
        self._at: float | None = None

    async def trace(self, event: str, _info: object) -> None:
        """What httpx calls at every step."""
        if event == "http11.send_request_body.complete":
            self._at = asyncio.get_running_loop().time()

    @property
    def waited_s(self) -> float | None:
        """For how long the answer is waited for; None: it was not all handed over."""
        return None if self._at is None else asyncio.get_running_loop().time() - self._at


async def _addresses(url: str, resolve: Resolve, *, allow_private: bool) -> list[str]:
    """Where *url* may be reached."""
    parts = urlsplit(url)
    name, port = parts.hostname or "", parts.port or _DEFAULT_PORTS[parts.scheme]
    try:
        found = list(dict.fromkeys(await resolve(name, port)))
    except (OSError, UnicodeError):
        raise Retryable("its name cannot be looked up") from None
    allowed = [a for a in found if allow_private or is_public(ipaddress.ip_address(a))]
    if not found:
        raise Retryable("its name has no address")
    if not allowed:
        raise PrivateTarget(NOT_ALLOWED)
    return allowed


async def _look_up(name: str, port: int) -> list[str]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(name, port, type=socket.SOCK_STREAM)
    # An address of IPv6 may name the interface to go out by ("fe80::1%eth0").
    return [str(address[0]).partition("%")[0] for *_, address in found]


async def _post(
    url: str,
    addresses: Sequence[str],
    body: bytes,
    headers: Mapping[str, str],
    now: datetime,
    limits: Limits,
    tls: ssl.SSLContext | None,
    handing: _Handing,
) -> Reply:
    """Send to the first address that takes a connection."""
    original = httpx.URL(url)
    named = {**headers, "host": original.netloc.decode("ascii"), "accept-encoding": "identity"}
    timeout = httpx.Timeout(
        connect=limits.connect_s, read=limits.read_s, write=limits.write_s, pool=limits.connect_s
    )
    async with httpx.AsyncClient(
        verify=tls or our_tls(), timeout=timeout, follow_redirects=False, trust_env=False
    ) as client:
        for address in addresses:
            request = client.build_request(
                "POST",
                original.copy_with(host=address),
                headers=named,
                content=body,
                # The certificate must be for the name, although the connection is to a number.
                extensions={
                    "sni_hostname": original.raw_host.decode("ascii"),
                    "trace": handing.trace,
                },
            )
            try:
                response = await client.send(request, stream=True)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                if address == addresses[-1]:
                    raise translate(error, limits) from None
                continue
            except (httpx.HTTPError, UnicodeError) as error:
                failure = translate(error, limits)
                waited_s = handing.waited_s
                if waited_s is not None and (
                    isinstance(error, httpx.ReadTimeout) or waited_s > _AT_ONCE_S
                ):
                    raise Unanswered(str(failure)) from None
                raise failure from None
            try:
                return await _reply(response, now)
            finally:
                await let_go(response)
    raise Retryable("cannot connect")


async def _reply(response: httpx.Response, now: datetime) -> Reply:
    status, headers = response.status_code, lowered(response.headers)
    if 200 <= status <= 299:
        return Reply(status, b"", False, None)  # taken; whatever else it says
    stream = cast(httpx.AsyncByteStream, response.stream)
    head = b""
    with contextlib.suppress(httpx.HTTPError):  # the status has said enough
        head = await read_head(stream, headers, ERROR_HEAD_BYTES)
    return Reply(status, head, len(head) >= ERROR_HEAD_BYTES, retry_after_s(headers, now))
