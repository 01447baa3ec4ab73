"""An App for whoever answers many questions: what they read is kept for each state (``market``)."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from tracker.app import kept
from tracker.app.asker import read_for_asker, still_asked
from tracker.app.market import Market
from tracker.app.root import App, NothingRecorded
from tracker.store.errors import DatabaseUnreachable, StoreError

if TYPE_CHECKING:
    import psycopg

    from tracker.app.market import AtHand
    from tracker.domain.job import Job
    from tracker.domain.terms import Discount
    from tracker.report.asked import Asked
    from tracker.report.filters import Filters
    from tracker.store.marks import Mark
    from tracker.telemetry import Redactor

MOST_IDLE, IDLE_S = 2, 30.0  # connections that are kept for a moment
TIMEOUT_S = 10.0  # of a statement: whoever asks does not wait for longer
# For a server that hangs: until the state is told, and until a question has all it wants to know.
STATE_S, QUESTION_S = 5.0, 60.0


class _Idle:
    """Connections that nobody uses: opening one takes as long as some answers."""

    def __init__(self) -> None:
        self._kept: list[tuple[str, float, psycopg.Connection[Any]]] = []
        self._lock = threading.Lock()
        weakref.finalize(self, _close_all, self._kept)

    def take(self, url: str) -> psycopg.Connection[Any] | None:
        """One that works, at a new snapshot; closes those that rested for too long."""
        while True:
            with self._lock:
                if not self._kept:
                    return None
                of, since, connection = self._kept.pop()
            if of == url and time.monotonic() - since < IDLE_S and _works(connection):
                return connection
            connection.close()

    def put(self, url: str, connection: psycopg.Connection[Any]) -> None:
        """Keep it for whoever comes next."""
        try:
            connection.rollback()
        except Exception:
            connection.close()
            return
        with self._lock:
            if len(self._kept) < MOST_IDLE and not connection.closed:
                self._kept.append((url, time.monotonic(), connection))
                return
        connection.close()


def _close_all(kept: list[tuple[str, float, psycopg.Connection[Any]]]) -> None:
    for _, _, connection in kept:
        connection.close()
    kept.clear()


def _works(connection: psycopg.Connection[Any]) -> bool:
    """Whether the server still answers (it may have been started anew meanwhile), and its schema is
    the one that this version knows. The question's snapshot begins here. Raises
    DatabaseUnreachable where it hangs."""
    import psycopg

    from tracker.store import migrate
    from tracker.store.deadline import within

    try:
        with within(connection, STATE_S):
            row = connection.execute(f"SELECT version_num FROM {migrate.VERSION_TABLE}").fetchone()  # noqa: S608
    except psycopg.Error:
        return False
    except StoreError:
        connection.close()
        raise
    return row is not None and row[0] == migrate.head()


class _Later:
    """Stands for a connection that is opened when it is first used: few questions need one."""

    def __init__(self, opened: Callable[[], psycopg.Connection[Any]]) -> None:
        self._open = opened
        self._connection: psycopg.Connection[Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if self._connection is None:
            self._connection = self._open()
        return getattr(self._connection, name)


class LiveApp(App):
    """An App on a database that somebody else keeps running; its methods may be called from
    several threads. *url* is asked whenever a connection is opened; it may raise StoreError."""

    def __init__(
        self,
        url: Callable[[], str],
        config: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
        renew: Callable[[], str] | None = None,
    ) -> None:
        """*renew* starts a server anew that has ended, and gives its URL; it may raise
        StoreError."""
        super().__init__(config, env, redactor)
        self._url, self._renew = url, renew
        self._idle = _Idle()
        self.market = Market()
        # What the snapshots that are open see, once it was asked for.
        self._seen: dict[object, AtHand | None] = {}
        self._content = threading.local()
        self._job_files: Mapping[kept.Stamp, Path | None] = {}

    @contextmanager
    def content_with(self, since: float) -> Iterator[None]:
        """See App."""
        self._content.since = since
        try:
            yield
        finally:
            del self._content.since

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection[Any]]:
        """See App; a statement takes TIMEOUT_S at most. The connection is at a new snapshot: one
        that was used a moment ago, or a new one. Who is content with what is at hand has one that
        is opened when it is used."""
        still_asked()
        found, since = self.market.at_hand, getattr(self._content, "since", None)
        if since is None or found is None or found.since < since:
            with self._opened() as connection, self._seeing(connection, None):
                yield connection
            return
        with ExitStack() as stack:
            later = _Later(lambda: stack.enter_context(self._opened()))
            with self._seeing(later, found):
                yield cast("psycopg.Connection[Any]", later)

    @contextmanager
    def _seeing(self, connection: object, found: AtHand | None) -> Iterator[None]:
        self._seen[connection] = found
        try:
            yield
        finally:
            del self._seen[connection]

    @contextmanager
    def _opened(self) -> Iterator[psycopg.Connection[Any]]:
        from tracker.store.deadline import within
        from tracker.store.engine import translated

        url = self._url()
        with translated():
            connection = self._idle.take(url)
            new = connection is None
            if connection is None:
                connection = self._connected(url)
            try:
                with within(connection, QUESTION_S), read_for_asker(connection):
                    if new:
                        self._check_revision(connection)
                    yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.put(url, connection)

    def _connected(self, url: str) -> psycopg.Connection[Any]:
        from tracker.store.engine import connect

        try:
            return connect(url, statement_timeout_s=TIMEOUT_S, read_only=True)
        except DatabaseUnreachable:
            if self._renew is None:
                raise
        return connect(self._renew(), statement_timeout_s=TIMEOUT_S, read_only=True)

    def _check_revision(self, connection: psycopg.Connection[Any]) -> None:
        from tracker.store import migrate

        revision = migrate.read_revision(connection)
        if revision is None and self.boot.database_url is None:
            raise NothingRecorded
        migrate.check_revision(revision)

    @contextmanager
    def database(self, *, upgrade: bool = False) -> Iterator[str]:
        """See App; this one is never upgraded here."""
        yield self._url()

    def mark(self) -> tuple[Mark, tuple[kept.Stamp, ...]]:
        """The state of the database and of the kept jobs. Raises StoreError and NothingRecorded.

        What is at hand of an earlier one is brought up to it.
        """
        jobs, self._job_files = kept.stamps(self, self._job_files)
        from tracker.store import marks
        from tracker.store.deadline import within

        with self._opened() as connection:
            with within(connection, STATE_S):
                found = marks.read(connection)
            if self.market.at_hand is not None:  # not behind those who ask
                self.market.at(connection, found)
            return found, jobs

    def ask(
        self,
        connection: psycopg.Connection[Any],
        filters: Filters,
        gpu_keys: Collection[str] | None,
        now: datetime,
        as_of: datetime | None = None,
    ) -> Asked:
        """See App."""
        if as_of is not None:
            return super().ask(connection, filters, gpu_keys, now, as_of)
        from tracker.report.asked import Asked

        stock = self._at_hand(connection).stock
        view = self.market.view(stock, filters, gpu_keys)
        shelves = stock.shelves(view.giving_way, now)
        return Asked(view.offers, stock.total, view.left_out, shelves, view)

    def measured(self, connection: psycopg.Connection[Any], job: Job) -> Job:
        """See App."""
        from tracker.domain.measurement import with_measurements
        from tracker.store import measurements

        kept = self._at_hand(connection).measured
        found = kept.get(job.name)
        if found is None:
            found = kept[job.name] = measurements.of_job(connection, job.name)
        return with_measurements(job, found) if found else job

    def discounts(self, connection: psycopg.Connection[Any], now: datetime) -> list[Discount]:
        """See App."""
        kept = self._at_hand(connection).discounts
        if not kept:
            kept.append((now, super().discounts(connection, now)))
        since, found = kept[0]
        return found if since <= now else super().discounts(connection, now)

    def check_names(self, connection: psycopg.Connection[Any], filters: Filters) -> None:
        """See App."""
        names = {("provider", name) for name in filters.providers}
        names |= {("tier", name) for name in filters.tiers}
        checked = self._at_hand(connection).checked
        if not names <= checked:
            super().check_names(connection, filters)
            checked |= names

    def _at_hand(self, connection: psycopg.Connection[Any]) -> AtHand:
        still_asked()
        found = self._seen.get(connection)
        if found is None:
            found = self.market.at(connection)
            if connection in self._seen:
                self._seen[connection] = found
        return found
