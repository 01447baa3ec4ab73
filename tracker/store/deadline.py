"""A time limit on this side of a connection, for a server that hangs and enforces none itself."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from tracker.store.errors import DatabaseUnreachable

if TYPE_CHECKING:
    import psycopg


@contextmanager
def within(connection: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
    """Drop *connection* when the block takes longer than *seconds*: whoever waits for the server
    goes on, with DatabaseUnreachable."""
    lock, over, dropped = threading.Lock(), False, False

    def drop() -> None:
        nonlocal dropped
        with lock:
            if not over:  # else its number may be another's by now
                dropped = True
                hang_up(connection)

    timer = threading.Timer(seconds, drop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except Exception as error:
        if dropped:
            raise DatabaseUnreachable(
                f"the database has not answered for {seconds:g} s: look whether it runs, or retry"
            ) from error
        raise
    finally:
        with lock:
            over = True
        timer.cancel()


def hang_up(connection: psycopg.Connection[Any]) -> None:
    """End what the operating system has of it: ``close`` would wait for whoever uses it."""
    import psycopg

    with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(connection.fileno())) as end:
        end.shutdown(socket.SHUT_RDWR)
