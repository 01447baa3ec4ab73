"""httpx's client as all of our requests use it, and how an answer is let go."""

from __future__ import annotations

import functools
import logging
import ssl

import httpx

from tracker import __version__
from tracker.http.limits import Limits

_NOTHING = httpx.ByteStream(b"")


def user_agent(contact: str | None = None) -> str:
    """``gpucost/<version> (+<contact>)``: some providers block requests that do not say whose."""
    return f"gpucost/{__version__} (+{contact})" if contact else f"gpucost/{__version__}"


@functools.cache
def tls() -> ssl.SSLContext:
    """Certificates as httpx checks them. Loading them costs tens of milliseconds: once a process,
    not once a provider."""
    return httpx.create_ssl_context()


def make_http(
    agent: str, limits: Limits, transport: httpx.AsyncBaseTransport | None
) -> httpx.AsyncClient:
    """A client within the time limits of *limits*, that names itself *agent* and follows nothing.

    *transport* is for tests.
    """
    # httpx logs whole URLs, keys included, at level info.
    for name in ("httpx", "httpcore"):
        if logging.getLogger(name).getEffectiveLevel() < logging.WARNING:
            logging.getLogger(name).setLevel(logging.WARNING)
    return httpx.AsyncClient(
        headers={"user-agent": agent, "accept-encoding": "gzip"},
        timeout=httpx.Timeout(
            connect=limits.connect_s,
            read=limits.read_s,
            write=limits.write_s,
            pool=limits.pool_s,
        ),
        follow_redirects=False,
        verify=tls(),
        transport=transport,
    )


async def let_go(response: httpx.Response) -> None:
    """Close *response*, whose body is read as far as it is wanted."""
    try:
        await response.aclose()
    finally:
        # The stream and the response hold each other, and what was sent and received.
        response.stream = _NOTHING
