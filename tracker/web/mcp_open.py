"""Questions that are open when the input ends: they are answered before the server leaves.

The protocol's library drops what is being answered as soon as its input is at its end, so that
``gpucost mcp < questions`` had no answers. Both streams are wrapped: what is asked and what is
answered is counted by id, and the end of the input is told once nothing is open, or after a while.
"""

from __future__ import annotations

import contextvars
from types import TracebackType
from typing import Any, Self

import anyio
import mcp_types as types

PATIENCE_S = 30.0  # for what is open when the input ends


class Open:
    """The ids of the questions that wait for their answers."""

    def __init__(self, patience_s: float = PATIENCE_S) -> None:
        self._ids: set[Any] = set()
        self._patience_s = patience_s
        self._none = anyio.Event()

    def asked(self, message: Any) -> None:
        """Note a message that came: a question opens, one that is cancelled gets no answer."""
        if isinstance(message, types.JSONRPCRequest):
            self._ids.add(message.id)
        elif (
            isinstance(message, types.JSONRPCNotification)
            and message.method == "notifications/cancelled"
        ):
            self._closed((message.params or {}).get("requestId"))

    def answered(self, message: Any) -> None:
        """Note a message that went."""
        if isinstance(message, types.JSONRPCResponse | types.JSONRPCError):
            self._closed(message.id)

    async def all_answered(self) -> None:
        """Wait until nothing is open; no longer than for ``patience_s``."""
        with anyio.move_on_after(self._patience_s):
            while self._ids:
                self._none = anyio.Event()
                await self._none.wait()

    def _closed(self, id_: Any) -> None:
        if isinstance(id_, str | int):
            self._ids.discard(id_)
        if not self._ids:
            self._none.set()


class Incoming:
    """The library's stream of messages, whose end waits for ``open_``."""

    def __init__(self, inner: Any, open_: Open) -> None:
        self._inner = inner
        self._open = open_

    @property
    def last_context(self) -> contextvars.Context | None:
        """The sender's, as the library asks for it."""
        found: contextvars.Context | None = getattr(self._inner, "last_context", None)
        return found

    async def receive(self) -> Any:
        """The next message. Raises anyio.EndOfStream once all is answered."""
        try:
            item = await self._inner.receive()
        except anyio.EndOfStream:
            await self._open.all_answered()
            raise
        self._open.asked(getattr(item, "message", None))
        return item

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.aclose()


class Outgoing:
    """The library's stream of answers, which close what they answer."""

    def __init__(self, inner: Any, open_: Open) -> None:
        self._inner = inner
        self._open = open_

    async def send(self, item: Any) -> None:
        """Send a message, and note it."""
        await self._inner.send(item)
        self._open.answered(getattr(item, "message", None))

    async def aclose(self) -> None:
        """Close the stream."""
        await self._inner.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        await self.aclose()
