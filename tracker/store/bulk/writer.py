"""Writing to the database beside reading: one thread, one connection, one transaction at a time.
What is written is put together by another thread, so that the server need not wait for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import psycopg

from tracker.store.engine import connect

Connection = psycopg.Connection[Any]
Job = Callable[[Connection], None]

T = TypeVar("T")

_WAITING = 1  # jobs: each holds its rows


class Writer:
    """Does jobs in order, on a connection of its own whose transactions they end themselves."""

    def __init__(self, url: str) -> None:
        self._connection = connect(url, statement_timeout_s=0, lock_timeout_s=60)
        self._jobs: queue.Queue[Job | None] = queue.Queue(_WAITING)
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="import-writer", daemon=True)
        self._thread.start()
        self._packer = ThreadPoolExecutor(1, "import-packer")

    def pack(self, make: Callable[[], T]) -> Future[T]:
        """Have *make* done beside all else, for a job that is submitted next."""
        return self._packer.submit(make)

    def submit(self, job: Job) -> None:
        """Have *job* done; wait while others do. Raises what an earlier job has raised."""
        if self._error is not None:
            raise self._error
        self._jobs.put(job)

    def close(self) -> None:
        """Wait for all jobs, and close the connection. Raises what one of them has raised."""
        self._end()
        if self._error is not None:
            raise self._error

    def abandon(self) -> None:
        """Do no more jobs, and undo what has not been committed."""
        self._error = self._error or InterruptedError()
        self._end()

    def _end(self) -> None:
        self._jobs.put(None)
        self._thread.join()
        self._packer.shutdown(cancel_futures=True)
        self._connection.close()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            if self._error is not None:
                continue  # so that nobody waits for ever to hand in another
            try:
                job(self._connection)
            except BaseException as error:
                self._error = error
