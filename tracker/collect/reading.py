"""Parsing within a limit: an answer that keeps its parser busy fails its poll, and nobody else's.

A thread cannot be stopped. So each parse has one of its own, which neither the event loop's pool
nor the end of the process waits for; and while one hangs its provider's next answer is not parsed,
so that there is never more than one of each. What holds the interpreter's lock for all its time (a
regular expression that backtracks) is beyond this: parsers have none.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from collections.abc import Sequence
from typing import Any

from tracker import registry
from tracker.provider import FetchError, Parsed, Payload, Provider


class Reading:
    """The parses under way, one at most of each provider."""

    def __init__(self) -> None:
        self._busy: set[str] = set()

    async def parse(
        self, provider: Provider[Any], payloads: Sequence[Payload], limit_s: float
    ) -> Parsed:
        """As ``registry.parse``. Raises FetchError where that takes longer than *limit_s*, or the
        provider's parse before this one still hangs."""
        if provider.name in self._busy:
            raise FetchError("its answer before this one is still being read")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        # Not by the future: it would hold the error, whose traceback holds this frame, and so it.
        given: list[Parsed] = []
        failed: list[BaseException] = []

        def finish() -> None:
            if not done.done():  # else nobody waits any more
                done.set_result(None)

        def work() -> None:
            try:
                given.append(registry.parse(provider, payloads))
            except BaseException as error:
                failed.append(error)
            self._busy.discard(provider.name)
            with contextlib.suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(finish)

        self._busy.add(provider.name)
        named = contextvars.copy_context()
        threading.Thread(
            target=named.run, args=(work,), name=f"gpucost-parse-{provider.name}", daemon=True
        ).start()
        try:
            await asyncio.wait_for(done, limit_s)
        except TimeoutError:
            raise FetchError(f"its answer was not read within {limit_s:g} s") from None
        if failed:
            raise failed.pop()
        return given.pop()
