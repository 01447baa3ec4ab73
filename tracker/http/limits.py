"""What bounds a request, what is counted of it, and the clock it goes by."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Protocol

MAX_LINE_BYTES = 4 * 2**20  # of a streamed file; a longer "line" means it is no text file
ERROR_HEAD_BYTES = 2048  # of an error answer, to tell what it says


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one request; times in seconds.

    ``total_s`` (``stream_total_s`` for a streamed file) bounds one attempt from the first byte sent
    to the last one read, so that a server that drips for ever is cut off. ``attempts`` counts the
    first one. A server that asks to wait longer than ``max_retry_after_s`` fails the request.
    """

    connect_s: float = 5.0
    read_s: float = 20.0
    write_s: float = 20.0
    pool_s: float = 20.0
    total_s: float = 60.0
    stream_total_s: float = 900.0
    attempts: int = 3
    backoff_s: float = 1.0  # upper end of the first pause; doubles with each attempt
    max_backoff_s: float = 20.0
    max_retry_after_s: float = 90.0
    max_redirects: int = 3


@dataclass(slots=True)
class Stats:
    """Counted over a client's life, for the poll's row.

    ``bytes`` are those received as body, before decompression. ``requests`` counts every request
    sent: first attempts, retries and redirects.
    """

    requests: int = 0
    bytes: int = 0
    retries: int = 0
    not_modified: int = 0


class Clock(Protocol):
    """Time and waiting, so that tests need neither."""

    def now(self) -> datetime:
        """Aware UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The real one."""

    def now(self) -> datetime:
        """Aware UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Seconds from an arbitrary start."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait without blocking the event loop."""
        import asyncio  # here, since who only needs the types of this package has no loop

        await asyncio.sleep(seconds)
