"""Whoever waits for an answer, and may go away: what nobody waits for is not worked out further."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import psycopg

_current: ContextVar[Asker | None] = ContextVar("asker", default=None)


class AskerGone(BaseException):
    """Nobody waits for the answer any more: no error of what is asked, which nobody is told."""


class Asker:
    """One who waits. ``leave`` may be called from another thread than the one that works."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._left = False
        self._connections: list[psycopg.Connection[Any]] = []
        self.served = False  # whether the work has begun

    @contextmanager
    def waits(self) -> Iterator[None]:
        """What this thread works out in the block is for this one. Raises AskerGone."""
        self.served = True
        token = _current.set(self)
        try:
            self.check()
            yield
        except Exception as error:
            if self._left:  # a connection that was dropped is no trouble of the database
                raise AskerGone from error
            raise
        finally:
            _current.reset(token)

    def check(self) -> None:
        """Raise AskerGone when this one has left."""
        if self._left:
            raise AskerGone

    def leave(self) -> None:
        """Wait no longer: what is read for this one is dropped, and no next step begins."""
        from tracker.store.deadline import hang_up

        with self._lock:
            self._left = True
            for connection in self._connections:
                hang_up(connection)

    @contextmanager
    def reading(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """*connection* is read for this one. Raises AskerGone."""
        with self._lock:
            self.check()
            self._connections.append(connection)
        try:
            yield
        finally:
            with self._lock:
                self._connections.remove(connection)


def still_asked() -> None:
    """To be called where a step of an answer begins. Raises AskerGone when nobody waits."""
    asker = _current.get()
    if asker is not None:
        asker.check()


@contextmanager
def read_for_asker(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Use *connection* for whoever waits for what this thread works out, if somebody does."""
    asker = _current.get()
    if asker is None:
        yield
        return
    with asker.reading(connection):
        yield
