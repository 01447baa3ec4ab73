"""The database for as long as the daemon runs."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from tracker.app import App
from tracker.store import migrate
from tracker.store.engine import make_engine
from tracker.store.errors import (
    DatabaseBusy,
    DatabaseUnreachable,
    EmbeddedError,
    InvalidUrl,
    ServerTooOld,
    StoreError,
)
from tracker.store.leader import Leadership


@dataclass(frozen=True, slots=True)
class Link:
    """A database: its URL, a pool of connections, and the contest for its lead."""

    url: str
    engine: Any
    leadership: Leadership


class Database:
    """Opens the database, and opens it again after its connections were lost.

    Everything here blocks: for a thread.
    """

    def __init__(self, app: App, holder: str) -> None:
        """*holder* is what others see as the name of who leads."""
        self._app = app
        self._holder = holder
        self._leased = False
        self._closed = False
        self._lock = threading.Lock()
        self._link: Link | None = None

    @property
    def link(self) -> Link | None:
        """What was opened last."""
        return self._link

    def open(self) -> Link:
        """A database that answers and has our tables; its URL may be another than before.

        An embedded server that has ended is started again, and its tables are brought up to date.
        A database of one's own is only upgraded by ``gpucost db upgrade``. Raises StoreError.
        """
        with self._lock:
            if self._closed:
                raise DatabaseUnreachable("the daemon is stopping")
            url = self._open()
            if self._link is not None and self._link.url == url:
                return self._link
            self._disconnect()
            self._link = self._connect(url)
            return self._link

    def _connect(self, url: str) -> Link:
        direct = self._app.settings.daemon.lock_database_url
        lock_url = url if direct is None or self._leased else direct.get_secret_value()
        engine = make_engine(url, application_name="gpucost daemon")
        return Link(url, engine, Leadership(lock_url, self._holder))

    def close(self) -> None:
        """Give the lead and the database back; an embedded server ends with its last user.

        Waits for an ``open`` that is under way, whose server would be left behind otherwise.
        Raises StoreError.
        """
        with self._lock:
            self._closed = True
            self._disconnect()
            if self._leased and self._app.embedded is not None:
                self._leased = False
                self._app.embedded.release()

    def _open(self) -> str:
        embedded = self._app.embedded
        if embedded is None:
            url = str(self._app.boot.database_url)
            migrate.check(url)
            return url
        url = embedded.acquire()  # which also starts a server that was ended under us
        if self._leased:
            embedded.release()
        self._leased = True
        if migrate.current(url) != migrate.head():
            migrate.upgrade(url)
        return url

    def _disconnect(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            link.leadership.release()
            link.engine.dispose()


def may_pass(error: StoreError) -> bool:
    """Whether waiting may help although nothing has worked yet: the server may not be up."""
    never = isinstance(error, InvalidUrl | ServerTooOld | EmbeddedError)
    return isinstance(error, DatabaseUnreachable | DatabaseBusy) and not never
