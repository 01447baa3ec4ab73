"""Answers that are kept for a moment, so that many who ask the same make one answer.

An answer holds while the database says nothing new, and a few seconds at most: ages count on.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from hashlib import sha256
from typing import NamedTuple

from tracker.app.weight import text_in

HOLDS_S = 30.0
MOST_BYTES = 32 * 2**20  # of questions and answers together
MOST_ANSWERS = 4096
_OBJECTS = 1024  # what an answer takes beside its texts


class Kept(NamedTuple):
    """A body with its tag, until when it holds, and the state of the database it is of."""

    body: bytes
    etag: str
    headers: dict[str, str]
    until: float
    mark: Hashable
    weight: int  # bytes, those of its question among them


class _Making:
    """An answer that is made, and how many wait for it."""

    def __init__(self, task: asyncio.Task[Kept]) -> None:
        self.task, self.waiting = task, 0


class Keeper:
    """Keeps answers by question. For one event loop."""

    def __init__(
        self, *, holds_s: float = HOLDS_S, most_bytes: int = MOST_BYTES,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:  # fmt: skip
        self._holds_s, self._most, self._clock = holds_s, most_bytes, clock
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._bytes = 0
        self._swept = clock()
        self._making: dict[Hashable, _Making] = {}

    def find(self, key: Hashable, mark: Hashable) -> Kept | None:
        """The answer to *key* at *mark* that is kept, if one is."""
        found = self._kept.get(key)
        if found is None or found.mark != mark or self._clock() >= found.until:
            return None
        self._kept.move_to_end(key)
        return found

    async def answer(
        self, key: Hashable, mark: Hashable,
        make: Callable[[], Awaitable[tuple[bytes, dict[str, str]]]],
    ) -> Kept:  # fmt: skip
        """The answer to *key* while the database is at *mark*; *make* makes one that is missing.

        Whoever asks while it is made waits for the same one, its error too. It is cancelled when
        nobody waits any more.
        """
        found = self.find(key, mark)
        if found is not None:
            return found
        making = self._making.get((key, mark))
        if making is None:
            making = _Making(asyncio.ensure_future(self._make(key, mark, make)))
            self._making[key, mark] = making
        making.waiting += 1
        try:
            return await asyncio.shield(making.task)
        finally:
            making.waiting -= 1
            if not making.waiting:
                if self._making.get((key, mark)) is making:
                    del self._making[key, mark]
                making.task.cancel()  # nothing, where it is done

    async def _make(
        self, key: Hashable, mark: Hashable,
        make: Callable[[], Awaitable[tuple[bytes, dict[str, str]]]],
    ) -> Kept:  # fmt: skip
        body, headers = await make()
        weight = len(body) + text_in((key, *headers.items())) + _OBJECTS
        until = self._clock() + self._holds_s
        tag = f'"{sha256(body).hexdigest()[:32]}"'
        kept = Kept(body, tag, headers, until, mark, weight)
        self._keep(key, kept)
        return kept

    def _keep(self, key: Hashable, kept: Kept) -> None:
        self._sweep()
        if key in self._kept:
            self._drop(key)
        if len(kept.body) > self._most // 4:
            return
        self._kept[key] = kept
        self._bytes += kept.weight
        while self._kept and (self._bytes > self._most or len(self._kept) > MOST_ANSWERS):
            self._drop(next(iter(self._kept)))

    def _drop(self, key: Hashable) -> None:
        self._bytes -= self._kept.pop(key).weight

    def _sweep(self) -> None:
        """Now and then, let go of what does not hold any more."""
        now = self._clock()
        if now - self._swept < self._holds_s:
            return
        self._swept = now
        for key in [key for key, kept in self._kept.items() if kept.until <= now]:
            self._drop(key)
