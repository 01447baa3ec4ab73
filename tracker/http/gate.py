"""How often, and how many at once, one host is asked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tracker.http.limits import Clock, SystemClock
from tracker.provider import FetchError


class _Host:
    def __init__(self, concurrency: int) -> None:
        self.slots = asyncio.Semaphore(concurrency)
        self.turn = asyncio.Lock()  # first come, first served
        self.next_at = 0.0


class HostGate:
    """A minimum gap between the starts of requests to a host, and a limit of those under way.

    May be shared by clients of one event loop, so that two providers on one host, or two polls in
    a row, keep the gap too. ``min_gap_s`` in seconds.
    """

    def __init__(
        self, min_gap_s: float = 0.0, *, concurrency: int = 4, clock: Clock | None = None
    ) -> None:
        self._min_gap_s = min_gap_s
        self._concurrency = concurrency
        self._clock = clock or SystemClock()
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def slot(
        self, host: str, max_wait_s: float, ends_at: float | None = None
    ) -> AsyncIterator[None]:
        """Wait for the host's turn and hold a slot for the length of the ``with`` block.

        Raises FetchError when the host itself has asked for a pause (see ``pause``) that lasts
        longer than *max_wait_s*, and when the turn would come after *ends_at* (of the clock's
        ``monotonic``). Waiting for other requests to end is not bounded here.
        """
        state = self._host(host)
        async with state.slots:
            async with state.turn:
                # A loop: a pause may be asked for while this one waits.
                while (wait_s := state.next_at - self._clock.monotonic()) > 0:
                    if wait_s > max(max_wait_s, self._min_gap_s):
                        raise FetchError(
                            f"{host}: asks to wait another {wait_s:.0f} s", retry_after_s=wait_s
                        )
                    if ends_at is not None and self._clock.monotonic() + wait_s > ends_at:
                        raise FetchError(f"{host}: not asked, the time for the poll is over")
                    await self._clock.sleep(wait_s)
                state.next_at = self._clock.monotonic() + self._min_gap_s
            yield

    def pause(self, host: str, seconds: float) -> None:
        """Let no request to *host* start for *seconds*: it has asked for that."""
        state = self._host(host)
        state.next_at = max(state.next_at, self._clock.monotonic() + seconds)

    def never_reached(self, host: str) -> None:
        """The last request did not reach *host*, so there is nothing to spare it from."""
        state = self._host(host)
        state.next_at = min(state.next_at, self._clock.monotonic())

    def _host(self, host: str) -> _Host:
        # monotonic() may start below the initial next_at of 0 only by being negative: it is not.
        return self._hosts.setdefault(host, _Host(self._concurrency))
