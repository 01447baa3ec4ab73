"""Work for a client that may go: out of the queue then, and no further than its next step."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request

from tracker.app.asker import Asker, AskerGone

T = TypeVar("T")


async def in_thread(do: Callable[[], T], limiter: anyio.CapacityLimiter) -> T:
    """What *do* gives, worked out in a thread once *limiter* has room.

    Cancelled, it is not begun, or ends at its next step; until then it takes its room.
    """
    asker = Asker()

    def work() -> T:
        with asker.waits():
            return do()

    running = asyncio.ensure_future(anyio.to_thread.run_sync(work, limiter=limiter))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        asker.leave()
        if not asker.served:
            running.cancel()
        running.add_done_callback(looked_at)
        raise


def looked_at(done: asyncio.Future[Any]) -> None:
    """What came of *done* interests nobody any more."""
    if not done.cancelled():
        done.exception()


async def while_there(request: Request, work: Coroutine[Any, Any, T]) -> T:
    """The result of *work*, which is cancelled when the client closes its connection: AskerGone."""
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_gone(request))
    try:
        await asyncio.wait({task, gone}, return_when=asyncio.FIRST_COMPLETED)
        if not task.done() and gone.done() and gone.exception() is None:
            raise AskerGone
        return await task
    finally:
        gone.cancel()
        gone.add_done_callback(looked_at)
        task.cancel()  # nothing, where it is done
        task.add_done_callback(looked_at)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
