"""Who leads, when several daemons share one database: one polls, evaluates and sends.

An advisory lock on a connection of its own decides, and PostgreSQL frees it when that connection
ends, however. Somebody may lose the lock without noticing (a paused machine, a broken network), so
that every change of hands also raises ``leader.epoch``, and every write of a leader is refused
unless the epoch is still its own.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

import psycopg

from tracker.store.dsn import libpq_url
from tracker.store.engine import connect, translated
from tracker.store.errors import StoreError

Cursor = psycopg.Cursor[Any]

# Any two numbers that other users of the database are unlikely to lock.
LOCK_CLASS = 1_734_697_331
LOCK_OBJECT = 1

NAME = "daemon"

# A machine that vanished is given up after about half a minute, at both ends of the connection.
_CLIENT_KEEPALIVES = (
    "keepalives=1&keepalives_idle=10&keepalives_interval=5&keepalives_count=4"
    "&tcp_user_timeout=30000"
)
_SERVER_KEEPALIVES = (
    "SET tcp_keepalives_idle = 10; SET tcp_keepalives_interval = 5;"
    " SET tcp_keepalives_count = 4; SET tcp_user_timeout = 30000"
)
_TIMEOUT_S = 10
_BEAT_S = 30.0  # how often the row says that its holder is alive; only people read it

_HELD_SQL = """
SELECT EXISTS (
    SELECT FROM pg_locks
    WHERE locktype = 'advisory' AND granted AND pid = pg_backend_pid()
      AND database = (SELECT oid FROM pg_database WHERE datname = current_database())
      AND classid = %s AND objid = %s AND objsubid = 2
) AND EXISTS (SELECT FROM leader WHERE name = %s AND epoch = %s)
"""
# Two statements: the first waits for the writes that the leader before has under way.
_TAKE_ROW_SQL = "SELECT epoch FROM leader WHERE name = %s FOR UPDATE"
_BUMP_SQL = """
INSERT INTO leader AS l (name, epoch, holder, acquired_at, beat_at)
VALUES (%s, 1, %s, clock_timestamp(), clock_timestamp())
ON CONFLICT (name) DO UPDATE SET epoch = l.epoch + 1, holder = excluded.holder,
    acquired_at = excluded.acquired_at, beat_at = excluded.beat_at
RETURNING epoch
"""


class NotLeading(StoreError):
    """This process does not lead (any more): somebody else may be writing."""


class PooledConnection(StoreError):
    """The database is reached through a pooler that gives a session to several clients."""


class Leadership:
    """One contender. ``holder`` is shown to people: host and process id.

    ``acquire``, ``verify`` and ``release`` are for one thread at a time; ``guard`` for any.
    """

    def __init__(self, url: str, holder: str, *, name: str = NAME) -> None:
        """*url* reaches the database itself, without a pooler that works by transaction."""
        self._url = url
        self._holder = holder
        self._name = name
        self._connection: psycopg.Connection[Any] | None = None
        self._epoch: int | None = None
        self._beat_at = 0.0
        self._lock = threading.Lock()

    @property
    def epoch(self) -> int | None:
        """The number of our term of office, None when we do not lead."""
        return self._epoch

    def acquire(self) -> bool:
        """Try to lead; False when another does.

        Raises StoreError; PooledConnection where the lock could not be relied on.
        """
        with self._lock:
            if self._epoch is not None:
                return True
            try:
                with translated():
                    return self._acquire()
            except BaseException:
                self._drop()
                raise

    def verify(self) -> None:
        """Make sure that we still lead, asked on the connection that holds the lock.

        Raises NotLeading, or StoreError when that cannot be told: either way we do not lead.
        """
        with self._lock:
            if self._connection is None or self._epoch is None:
                raise NotLeading("this daemon does not lead")
            try:
                with translated():
                    self._verify(self._connection)
            except BaseException:
                self._drop()
                raise

    def release(self) -> None:
        """Stop leading, so that another can at once. Never raises."""
        with self._lock:
            if self._epoch is not None and self._connection is not None:
                # A server notices only a moment later that a session has ended.
                with suppress(Exception):
                    self._connection.execute(
                        "SELECT pg_advisory_unlock(%s, %s)", (LOCK_CLASS, LOCK_OBJECT)
                    )
            self._drop()

    def guard(self, cursor: Cursor) -> None:
        """Let the transaction of *cursor* go on only if we lead, and keep it so until it ends.

        To be called first in it. A new leader waits for the transactions that have passed.
        Raises NotLeading.
        """
        epoch = self._epoch
        if epoch is not None:
            # KEY SHARE: it holds off whoever takes over, but not the leader's own heartbeat.
            cursor.execute("SELECT epoch FROM leader WHERE name = %s FOR KEY SHARE", (self._name,))
            if cursor.fetchone() == (epoch,):
                return
        raise NotLeading("another daemon leads: nothing was written")

    def current(self) -> str | None:
        """Who leads or has led last, for people. Raises StoreError."""
        with translated():
            connection = self._connected()
            row = connection.execute("SELECT holder FROM leader WHERE name = %s", (self._name,))
            return next((str(holder) for (holder,) in row), None)

    # -- how -------------------------------------------------------------------------------------

    def _acquire(self) -> bool:
        connection = self._connected()
        [(locked,)] = connection.execute(
            "SELECT pg_try_advisory_lock(%s, %s)", (LOCK_CLASS, LOCK_OBJECT)
        ).fetchall()
        if not locked:
            return False
        with connection.transaction():
            connection.execute(_TAKE_ROW_SQL, (self._name,))
            [(epoch,)] = connection.execute(_BUMP_SQL, (self._name, self._holder)).fetchall()
        self._epoch, self._beat_at = int(epoch), time.monotonic()
        return True

    def _verify(self, connection: psycopg.Connection[Any]) -> None:
        [(held,)] = connection.execute(
            _HELD_SQL, (LOCK_CLASS, LOCK_OBJECT, self._name, self._epoch)
        ).fetchall()
        if not held:
            raise NotLeading("another daemon has taken over")
        if time.monotonic() - self._beat_at >= _BEAT_S:
            connection.execute(
                "UPDATE leader SET beat_at = clock_timestamp() WHERE name = %s AND epoch = %s",
                (self._name, self._epoch),
            )
            self._beat_at = time.monotonic()

    def _connected(self) -> psycopg.Connection[Any]:
        if self._connection is not None and not self._connection.closed:
            return self._connection
        connection = connect(
            _with_keepalives(self._url), application_name="gpucost leader", autocommit=True,
            statement_timeout_s=_TIMEOUT_S, lock_timeout_s=_TIMEOUT_S,
        )  # fmt: skip
        try:
            connection.execute(_SERVER_KEEPALIVES)
            self._refuse_shared(connection)
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _refuse_shared(self, connection: psycopg.Connection[Any]) -> None:
        """Raise PooledConnection if this connection's session is not its own.

        A pooler announces another process id than the server's. One that works by session is
        fine; one that works by transaction gives the session that is idle now to the next client.
        """
        if _backend(connection) == connection.info.backend_pid:
            return
        other = connect(self._url, application_name="gpucost probe", autocommit=True)
        try:
            shared = _backend(other) == _backend(connection)
        finally:
            other.close()
        if shared:
            raise PooledConnection(
                "the database is reached through a pooler that shares sessions, where no lock can "
                "be relied on: set daemon.lock_database_url to the database itself"
            )

    def _drop(self) -> None:
        self._epoch = None
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(Exception):
                connection.close()


def _backend(connection: psycopg.Connection[Any]) -> int:
    [(pid,)] = connection.execute("SELECT pg_backend_pid()").fetchall()
    return int(pid)


def _with_keepalives(url: str) -> str:
    """*url* with keepalives, except where it has settings of its own (libpq takes the last)."""
    base, _, own = libpq_url(url).partition("?")
    return f"{base}?{_CLIENT_KEEPALIVES}{'&' if own else ''}{own}"
