"""How long a client may take: whoever asks slowly, reads slowly or asks nothing makes room.

uvicorn waits for the first request of a connection, and for a client to read its answer, for ever:
a handful of silent connections would then be all that is served.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

ASK_S = 10.0  # for a whole request, body included
READ_S = 60.0  # without reading anything of an answer
DRAIN_S = 300.0  # for what is on its way of an answer, a portion or two
STALLED_S = 5.0  # without having read that: makes room before whoever waits for nothing
MOST_CONNECTIONS = 256
_LOOK_S = 1.0
_CLOSE = (b"connection", b"close")
_TWO_LENGTHS = frozenset((b"content-length", b"transfer-encoding"))


class Patient(H11Protocol):
    """A connection that is closed when its client takes too long, or when it waits for nothing
    while others come."""

    _since = 0.0  # of the loop's clock: what it waits for now it has waited for since then
    _waits_for = ""
    _began: float | None = None  # the request that is asked, or answered
    _unread = 0  # bytes of answers
    _drained = 0.0  # when the client had last read what was on its way
    _look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """See H11Protocol; where there are too many, the one that has waited longest goes."""
        super().connection_made(transport)
        self._since = self._drained = self.loop.time()
        self._waits_for = "request"
        if len(self.connections) > MOST_CONNECTIONS:
            self._make_room()
        self._look_later()

    def connection_lost(self, exc: Exception | None) -> None:
        """See H11Protocol."""
        if self._look is not None:
            self._look.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """See H11Protocol; the time of a request is counted from its first byte."""
        if self._began is None:
            self._began = self.loop.time()
        super().data_received(data)

    def handle_events(self) -> None:
        """See H11Protocol; a request with two lengths is the last one of its connection."""
        super().handle_events()
        cycle: Any = self.cycle
        if cycle is not None and not cycle.response_started:
            headers = cycle.scope["headers"]
            if {name for name, _ in headers} >= _TWO_LENGTHS and _CLOSE not in headers:
                headers.append(_CLOSE)  # as if the client had asked for it (RFC 9112, 6.1)

    def resume_writing(self) -> None:
        """See H11Protocol."""
        self._drained = self.loop.time()
        super().resume_writing()

    def on_response_complete(self) -> None:
        """See H11Protocol; the wait for the next request begins."""
        self._since, self._began = self.loop.time(), None
        super().on_response_complete()

    def drop(self) -> None:
        """End the connection at once: what is on its way to somebody who does not read is lost."""
        at_once = struct.pack("ii", 1, 0)
        sock = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError, AttributeError):
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
        self.transport.abort()

    def _make_room(self) -> None:
        others = (
            one for one in self.connections
            if isinstance(one, Patient) and one is not self and one._waiting()
            and not one.transport.is_closing()
        )  # fmt: skip
        longest = max(others, key=lambda one: one._silence(), default=self)
        longest.drop()

    def _silence(self) -> tuple[bool, float]:
        """Whether its client leaves an answer unread, and for how long it has done nothing."""
        reading = self._waiting() == "reading"
        silent = self.loop.time() - (self._drained if reading else self._since)
        return reading and silent > STALLED_S, silent

    def _waiting(self) -> str:
        """What of the client it waits for: a request, its body, that it reads; else nothing."""
        if self.transport.get_write_buffer_size():  # also of an answer that is done with
            return "reading"
        cycle: Any = self.cycle  # None before the first request
        if cycle is None or cycle.response_complete:
            return "request"
        return "body" if cycle.more_body else ""

    def _look_later(self) -> None:
        self._look = self.loop.call_later(_LOOK_S, self._look_at_it)

    def _look_at_it(self) -> None:
        now, waits_for = self.loop.time(), self._waiting()
        unread = self.transport.get_write_buffer_size()
        if (waits_for, unread) != (self._waits_for, self._unread):
            self._since, self._waits_for, self._unread = now, waits_for, unread
        if not unread:
            self._drained = now
        cycle: Any = self.cycle
        asked_before = 0 if cycle is None else self.timeout_keep_alive
        patience = {"request": ASK_S + asked_before, "body": ASK_S, "reading": READ_S}
        late = now - self._drained > DRAIN_S
        if self._began is not None and waits_for in ("request", "body"):
            late = late or now - self._began > ASK_S  # head and body together
        if late or (waits_for and now - self._since > patience[waits_for]):
            self.drop()
        else:
            self._look_later()
