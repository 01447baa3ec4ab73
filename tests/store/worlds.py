"""What the tests of recording share: engines, faults between statements, and history as stored."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from sqlalchemy import Engine, event

from tests.store.oracle import Interval
from tracker.store.engine import connect, make_engine


class Fault(Exception):
    """Raised in place of a statement."""


class Fuse:
    """Lets so many statements of an engine's connections pass; None: all of them."""

    def __init__(self) -> None:
        self.left: int | None = None
        self.statements = 0

    def check(self) -> None:
        self.statements += 1
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise Fault


@contextmanager
def fused_engine(url: str) -> Iterator[tuple[Engine, Fuse]]:
    """An engine whose statements fail when its fuse says so."""
    fuse = Fuse()

    class FusedCursor(psycopg.Cursor[Any]):
        def execute(self, *args: Any, **kwargs: Any) -> Any:
            fuse.check()
            return super().execute(*args, **kwargs)

        def executemany(self, *args: Any, **kwargs: Any) -> Any:
            fuse.check()
            return super().executemany(*args, **kwargs)

    engine = make_engine(url)

    @event.listens_for(engine, "connect")
    def fit(connection: Any, _record: object) -> None:
        connection.cursor_factory = FusedCursor

    try:
        yield engine, fuse
    finally:
        engine.dispose()


@contextmanager
def recording_engine(url: str) -> Iterator[Engine]:
    """An engine that is closed in the end."""
    engine = make_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


_HISTORY = """
SELECT o.native_id, s.valid_from, s.valid_to, s.price_native
FROM price_span s JOIN offer o ON o.id = s.offer_id JOIN provider p ON p.id = s.source_id
WHERE p.slug = %(source)s
UNION ALL
SELECT n.native_id, n.valid_from,
       coalesce(n.seen_until, p.last_ok_at) + p.ttl_seconds * interval '1 second', n.price_native
FROM offer_now n JOIN provider p ON p.id = n.source_id WHERE p.slug = %(source)s
ORDER BY 1, 2
"""


def stored_history(url: str, source: str = "acme") -> dict[str, list[Interval]]:
    """All of a source's history by native id, open prices up to where they are known."""
    history: dict[str, list[Interval]] = {}
    for name, start, end, price in rows(url, _HISTORY, {"source": source}):
        history.setdefault(name, []).append((start, end, price))
    # Two offers may have one name, and one moment: their order is nobody's.
    return {name: sorted(found) for name, found in history.items()}


def rows(url: str, statement: str, values: Any = None) -> list[tuple[Any, ...]]:
    """The rows of a statement on a connection of its own, autocommitted."""
    with connect(url, autocommit=True) as connection:
        cursor = connection.execute(statement, values)
        return cursor.fetchall() if cursor.description else []
