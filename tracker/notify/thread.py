"""Blocking libraries: one thread a channel, that may hang without holding anything else up."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable

from tracker.notify.channel import Transient


class Hand:
    """Runs one blocking call at a time in a thread of its own.

    Not in the event loop's pool: a library that waits for ever would use it up, one try after the
    other. Here the next try is refused as long as the last one hangs.
    """

    def __init__(self) -> None:
        self._busy = False

    async def run(self, call: Callable[[], None]) -> None:
        """Wait for *call*. Raises what it raises; Transient while an earlier call still runs."""
        if self._busy:
            raise Transient("the attempt before this one still hangs")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()

        # Not by the future: it would hold the error, whose traceback holds this frame, and so it.
        failed: list[Exception] = []

        def finish() -> None:
            if not done.done():  # else nobody waits any more
                done.set_result(None)

        def work() -> None:
            try:
                call()
            except Exception as error:
                failed.append(error)
            self._busy = False
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish)

        self._busy = True
        threading.Thread(target=work, name="gpucost-notify", daemon=True).start()
        await done
        if failed:
            raise failed.pop()
