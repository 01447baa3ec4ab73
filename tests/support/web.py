"""A server for tests that writes exactly the bytes it is told to, and a clock that never waits."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tracker.http import CachedResponse

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class FakeClock:
    """Time that passes only by sleeping; ``slept`` lists the pauses."""

    def __init__(self) -> None:
        self.slept: list[float] = []
        self.passed = 0.0

    def now(self) -> datetime:
        return NOW + timedelta(seconds=self.passed)

    def monotonic(self) -> float:
        return 1000.0 + self.passed

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.passed += seconds
        await asyncio.sleep(0)


class FixedJitter(random.Random):
    """Always the upper end of what may be drawn."""

    def uniform(self, a: float, b: float) -> float:
        return b


class MemoryCache:
    """A ResponseCache in a dict."""

    def __init__(self) -> None:
        self.kept: dict[str, CachedResponse] = {}

    def get(self, key: str) -> CachedResponse | None:
        return self.kept.get(key)

    def put(self, key: str, response: CachedResponse) -> None:
        self.kept[key] = response


@dataclass
class Received:
    """One request as the server saw it. Header names in small letters."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""


Handler = Callable[[Received, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class Server:
    """A running server: its address, and what it was asked."""

    url: str
    seen: list[Received] = field(default_factory=list)


@asynccontextmanager
async def serve(handler: Handler) -> AsyncIterator[Server]:
    """Serve on a free port of the loopback interface; each connection answers one request."""
    running = Server("")
    open_now: set[asyncio.Task[None]] = set()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        open_now.add(task)
        try:
            request = await _read(reader)
            running.seen.append(request)
            await handler(request, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # the client has gone
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
            open_now.discard(task)

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    running.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield running
    finally:
        server.close()
        left = tuple(open_now)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Received:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    pairs = (line.partition(": ") for line in head[1:] if line)
    headers = {name.lower(): value for name, _, value in pairs}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    return Received(method, path, headers, body)


def answer(body: bytes, *headers: str, status: str = "200 OK", length: int | None = None) -> bytes:
    """A whole HTTP/1.1 answer; *length* lets it lie about its length."""
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Length: {len(body) if length is None else length}",
        "Connection: close",
        *headers,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def fixed(*answers: bytes) -> Handler:
    """A handler that gives these answers in turn, the last one for ever."""
    left = list(answers)

    async def handle(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return handle
