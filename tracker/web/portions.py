"""Large answers go out in portions: who does not read has one of them on the way, not all."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

PORTION = 64 * 1024  # bytes


class Portions:
    """ASGI middleware that hands the body of an answer on in portions.

    The server waits between them until the client has read; a whole body would be copied for every
    client at once, however little of it is read.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and what comes back in portions."""

        async def in_portions(message: Message) -> None:
            body = message.get("body", b"")
            if message["type"] != "http.response.body" or len(body) <= PORTION:
                await send(message)
                return
            for start in range(0, len(body), PORTION):
                more = message.get("more_body", False) or start + PORTION < len(body)
                portion = body[start : start + PORTION]
                await send({**message, "body": portion, "more_body": more})

        await self._app(scope, receive, in_portions)
