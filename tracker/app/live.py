"""An App for whoever answers many questions: live offers are read once for each state.

The offers of all GPUs are kept in memory (about 2 kB each) from the first question after a poll
until the next poll. What a question leaves out is counted as the database would count it.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app.root import App, NothingRecorded

if TYPE_CHECKING:
    import psycopg

    from tracker.report.asked import Asked
    from tracker.report.filters import Filters
    from tracker.store.marks import Mark
    from tracker.store.reads import StoredOffer
    from tracker.telemetry import Redactor

TIMEOUT_S = 10.0  # of a statement: whoever asks does not wait for longer


class _Live(NamedTuple):
    """All live offers of one state of the database, by GPU."""

    mark: object
    by_gpu: Mapping[str, list[StoredOffer]]
    total: int


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
        self._reading_live = threading.Lock()

    @contextmanager
    def reading(self) -> Iterator[psycopg.Connection[Any]]:
        """See App; a statement takes TIMEOUT_S at most."""
        from tracker.store import migrate
        from tracker.store.engine import read_connection

        with read_connection(self._url(), statement_timeout_s=TIMEOUT_S) as connection:
            revision = migrate.read_revision(connection)
            if revision is None and self.boot.database_url is None:
                raise NothingRecorded
            migrate.check_revision(revision)
            yield connection

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
        from tracker.report.filters import select_kinds
        from tracker.store import reads
        from tracker.store.reads import Kind

        live = self._live_offers(connection)
        if gpu_keys is None:
            offers = [offer for found in live.by_gpu.values() for offer in found]
        else:
            offers = [offer for key in sorted(gpu_keys) for offer in live.by_gpu.get(key, ())]

        def kind_of(o: StoredOffer) -> Kind:
            return Kind(o.is_slice, o.market, o.tier, o.provider, o.source, o.default_tiers)

        counts: Counter[Kind] = Counter()
        for offer in sorted(offers, key=lambda o: o.offer_id):  # as reads.live_kinds tells them
            counts[kind_of(offer)] += 1
        kinds, left_out = select_kinds(counts, filters)
        wanted = frozenset(kinds)
        offers = [offer for offer in offers if kind_of(offer) in wanted]
        typed = {offer.provider for offer in offers if offer.fallback}
        shelves = reads.live_shelves(connection, sellers=typed, now=now)
        return Asked(offers, live.total, left_out, shelves)

    def _live_offers(self, connection: psycopg.Connection[Any]) -> _Live:
        from tracker.store import marks, reads

        mark = marks.read(connection).offers
        with self._reading_live:  # one reads, and the others have it from that one
            if self._live is None or self._live.mark != mark:
                by_gpu: dict[str, list[StoredOffer]] = defaultdict(list)
                offers = reads.live_offers(connection)
                for offer in offers:
                    by_gpu[offer.gpu_key].append(offer)
                self._live = _Live(mark, dict(by_gpu), reads.count_live_offers(connection))
            return self._live
