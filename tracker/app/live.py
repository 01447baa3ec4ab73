"""An App for whoever answers many questions: live offers are read once for each state.

The offers of all GPUs are kept in memory (about 2 kB each) from the first question after a poll
until the next poll. What a question leaves out is counted as the database would count it. What a
set of filters leaves is kept too (``tracker.report.prepared``), so that another job needs little
more than its own bills.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker.app.root import App, NothingRecorded
from tracker.report.filters import select_kinds
from tracker.report.prepared import Prepared
from tracker.report.runs import KnownWays
from tracker.store.reads import Kind

if TYPE_CHECKING:
    import psycopg

    from tracker.report.asked import Asked
    from tracker.report.filters import Filters
    from tracker.store.marks import Mark
    from tracker.store.reads import StoredOffer
    from tracker.telemetry import Redactor

MOST_PREPARED = 400_000  # offers in all selections that are kept, about 100 bytes each
MOST_IDLE, IDLE_S = 2, 30.0  # connections that are kept for a moment
TIMEOUT_S = 10.0  # of a statement: whoever asks does not wait for longer


class _Live:
    """All live offers of one state of the database, by GPU, and what was worked out of them."""

    def __init__(
        self, mark: object, offers: Iterable[StoredOffer], total: int, known: KnownWays
    ) -> None:
        self.mark, self.total, self._known = mark, total, known
        self._of_gpu: dict[str, list[tuple[StoredOffer, Kind]]] = defaultdict(list)
        kinds: dict[Kind, Kind] = {}
        for o in offers:
            kind = Kind(o.is_slice, o.market, o.tier, o.provider, o.source, o.default_tiers)
            self._of_gpu[o.gpu_key].append((o, kinds.setdefault(kind, kind)))
        self._hours_usd: dict[int, Decimal] = {}
        self._prepared: OrderedDict[tuple[object, ...], Prepared] = OrderedDict()
        self._keeping = threading.Lock()

    def prepared(self, filters: Filters, gpu_keys: Collection[str] | None) -> Prepared:
        """What *filters* may leave of the offers of *gpu_keys* (None: of all GPUs)."""
        key = (filters, None if gpu_keys is None else frozenset(gpu_keys))
        with self._keeping:
            found = self._prepared.get(key)
            if found is not None:
                self._prepared.move_to_end(key)
                return found
        found = self._prepare(filters, gpu_keys)
        with self._keeping:
            self._prepared[key] = found
            while sum(map(len, self._prepared.values())) > MOST_PREPARED:
                self._prepared.popitem(last=False)
        return found

    def _prepare(self, filters: Filters, gpu_keys: Collection[str] | None) -> Prepared:
        keys = self._of_gpu if gpu_keys is None else sorted(gpu_keys)
        told = [one for key in keys for one in self._of_gpu.get(key, ())]
        first: dict[Kind, int] = {}
        counts: Counter[Kind] = Counter()
        for o, kind in told:
            counts[kind] += 1
            first[kind] = min(first.get(kind, o.offer_id), o.offer_id)
        # In the order in which reads.live_kinds tells them.
        ordered = {kind: counts[kind] for kind in sorted(first, key=lambda k: first[k])}
        kinds, left_out = select_kinds(ordered, filters)
        wanted = {id(kind) for kind in kinds}
        return Prepared(
            [o for o, kind in told if id(kind) in wanted], left_out, self._hours_usd, self._known
        )


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
    """Whether the server still answers: it may have been started anew meanwhile."""
    import psycopg

    try:
        connection.execute("SELECT")
        connection.rollback()  # the snapshot is to be that of the question
    except psycopg.Error:
        return False
    return True


class LiveApp(App):
    """An App on a database that somebody else keeps running; its methods may be called from
    several threads. *url* is asked whenever a connection is opened; it may raise StoreError."""

    def __init__(
        self,
        url: Callable[[], str],
        config: str | Path | None = None,
        env: Mapping[str, str] | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        super().__init__(config, env, redactor)
        self._url = url
        self._live: _Live | None = None
        self._idle = _Idle()
        self._known = KnownWays()
        self._reading_live = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection[Any]]:
        """See App; a statement takes TIMEOUT_S at most."""
        from tracker.store import migrate

        with self._connection() as connection:
            revision = migrate.read_revision(connection)
            if revision is None and self.boot.database_url is None:
                raise NothingRecorded
            migrate.check_revision(revision)
            yield connection

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection at a new snapshot: one that was used a moment ago, or a new one."""
        from tracker.store.engine import connect, translated

        url = self._url()
        with translated():
            connection = self._idle.take(url)
            if connection is None:
                connection = connect(url, statement_timeout_s=TIMEOUT_S, read_only=True)
            try:
                yield connection
            except BaseException:
                connection.close()
                raise
            self._idle.put(url, connection)

    @contextmanager
    def database(self, *, upgrade: bool = False) -> Iterator[str]:
        """See App; this one is never upgraded here."""
        yield self._url()

    def mark(self) -> Mark:
        """The state of the database. Raises StoreError and NothingRecorded."""
        from tracker.store import marks

        with self.reading() as connection:
            return marks.read(connection)

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
        from tracker.store import reads

        live = self._live_offers(connection)
        prepared = live.prepared(filters, gpu_keys)
        shelves = reads.live_shelves(connection, sellers=prepared.giving_way, now=now)
        return Asked(prepared.offers, live.total, prepared.left_out, shelves, prepared)

    def _live_offers(self, connection: psycopg.Connection[Any]) -> _Live:
        from tracker.store import marks, reads

        mark = marks.read(connection).offers
        with self._reading_live:  # one reads, and the others have it from that one
            if self._live is None or self._live.mark != mark:
                offers = reads.live_offers(connection)
                self._live = _Live(mark, offers, reads.count_live_offers(connection), self._known)
            return self._live
