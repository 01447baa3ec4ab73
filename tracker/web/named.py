"""Under which name a server is asked: a page of another site asks under that site's own."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection
from functools import cache
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

LOCAL_NAMES = frozenset(("localhost", "ip6-localhost"))


def name_in(host: str) -> str:
    """The name or the address in a ``Host`` header, in small letters; nothing where none is."""
    try:
        return (urlsplit(f"//{host}").hostname or "").rstrip(".")
    except ValueError:
        return ""


def is_address(name: str) -> bool:
    """Whether it is an IP address, which nobody can have lead elsewhere."""
    try:
        ipaddress.ip_address(name.partition("%")[0])
    except ValueError:
        return False
    return True


@cache
def _own_name() -> str:
    return socket.gethostname().lower().rstrip(".")


class Named:
    """ASGI middleware that answers those who ask for an IP address, for *hosts* or for this
    machine by name. A page of another site can have its own name lead here (DNS rebinding), and
    would read what it gets; whoever names no host is no browser."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self._app = app
        self._hosts = {*LOCAL_NAMES, *hosts}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer why not."""
        if scope["type"] == "http" and not self._knows(Headers(scope=scope).get("host", "")):
            told = "this server is not called so: name it in allow_hosts under [daemon]\n"
            await PlainTextResponse(told, 421)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _knows(self, host: str) -> bool:
        name = name_in(host)
        return not host or name in self._hosts or is_address(name) or name == _own_name()
