"""Counting what only the collector of cycles would free."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

A_CONNECTION = 8  # objects of asyncio's own: a transport holds its method for what arrives


@contextmanager
def uncollected() -> Iterator[list[int]]:
    """How many objects only a collector would have found is put in the list in the end."""
    found: list[int] = []
    gc.collect()
    gc.disable()
    try:
        yield found
    finally:
        found.append(gc.collect())
        gc.enable()


async def left(work: Callable[[], Awaitable[int]], times: int, *, connected: bool = True) -> float:
    """Objects left by one call of *work*, the mean of so many, those of its connections apart: it
    gives how many there were at most."""
    await work()  # what is loaded and cached for the first time
    connections = 0
    with uncollected() as found:
        for _ in range(times):
            connections += await work()
        await asyncio.sleep(0.01)  # closed connections are let go by the loop
    return max(0.0, found[0] - connections * connected * A_CONNECTION) / times
