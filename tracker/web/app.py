"""The application of one process: /livez, /readyz, /status, /metrics, and what is put beside."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tracker.web.metrics import Metrics
from tracker.web.named import Named
from tracker.web.portions import Portions

# What an answer has unless it says otherwise (cache-control, content-security-policy): none of it
# may be kept, framed or read by another site, and nothing is loaded from anywhere.
SECURITY_HEADERS = (
    (b"cache-control", b"no-store"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
)


_MAY_DIFFER = frozenset((b"cache-control", b"content-security-policy"))


class StatusSource(Protocol):
    """What the daemon knows of itself.

    ``alive`` is asked in the event loop and must answer at once. ``ready`` and ``status`` are
    asked in another thread and may read the database; ``ready`` gives what is missing, one line
    each and none when ready. ``status`` may hold datetimes and Decimals; no secrets.
    """

    def alive(self) -> bool: ...
    def ready(self) -> tuple[bool, list[str]]: ...
    def status(self) -> dict[str, Any]: ...


def make_web(
    status: StatusSource, metrics: Metrics, beside: Sequence[BaseRoute] = (),
    hosts: Collection[str] = (),
) -> Starlette:  # fmt: skip
    """The application that answers for one process; *beside* are its other routes, *hosts* the
    names under which it may be asked what it knows of itself (see ``Named``)."""

    async def livez(request: Request) -> Response:
        # Not in a thread: that the loop answers is what is asked.
        alive = status.alive()
        return PlainTextResponse("ok\n" if alive else "not alive\n", 200 if alive else 503)

    def readyz(request: Request) -> Response:
        ready, missing = status.ready()
        return PlainJson({"ready": ready, "missing": missing}, 200 if ready else 503)

    def tell(request: Request) -> Response:
        return PlainJson(status.status())

    def scrape(request: Request) -> Response:
        body, content_type = metrics.render(request.headers.get("accept", ""))
        return Response(body, headers={"content-type": content_type})

    pages = {"/readyz": readyz, "/status": tell, "/metrics": scrape}
    named = [Middleware(Named, hosts=hosts)]
    return Starlette(
        routes=[
            Route("/livez", livez, methods=["GET"]),  # tells nothing
            *(Route(path, page, methods=["GET"], middleware=named) for path, page in pages.items()),
            *beside,
        ],
        middleware=[Middleware(Portions), Middleware(SecurityHeaders)],
    )


class PlainJson(JSONResponse):
    """JSON with times in ISO format, durations in seconds and amounts as strings."""

    def render(self, content: Any) -> bytes:
        """See JSONResponse."""
        text = json.dumps(content, default=_plain, ensure_ascii=False, indent=1)
        return f"{text}\n".encode()


def _plain(value: object) -> object:
    if isinstance(value, date | datetime):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, set | frozenset):
        return sorted(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


class SecurityHeaders:
    """ASGI middleware that puts SECURITY_HEADERS on every answer.

    An answer may bring its own cache-control and content-security-policy."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and add the headers to what comes back."""

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.lower() for name, _ in message["headers"]} & _MAY_DIFFER
                added = [header for header in SECURITY_HEADERS if header[0] not in own]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        await self._app(scope, receive, with_headers)
