"""Answers kept in the database for conditional requests (``tracker.http.ResponseCache``)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import psycopg
from sqlalchemy import Engine

from tracker.http import CachedResponse
from tracker.store import archive
from tracker.store.engine import translated


class StoredResponses:
    """A ResponseCache in PostgreSQL; a connection of the pool for each call."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, key: str) -> CachedResponse | None:
        """The answer kept under *key*. Raises StoreError."""
        with self._connection() as connection:
            found = archive.cached_answer(connection, key)
        if found is None:
            return None
        return CachedResponse(found.etag, found.last_modified, found.body, found.headers)

    def put(self, key: str, response: CachedResponse) -> None:
        """Keep *response* in place of an earlier one. Raises StoreError."""
        with self._connection() as connection:
            archive.remember_answer(
                connection, key, body=response.body, stored_at=datetime.now(UTC),
                etag=response.etag, last_modified=response.last_modified,
                headers=response.headers,
            )  # fmt: skip

    def forget_older_than(self, cutoff: datetime) -> int:
        """Delete the answers fetched before *cutoff*, archived or kept here; how many.

        Raises StoreError.
        """
        with self._connection() as connection:
            deleted = archive.delete_payloads_before(connection, cutoff)
        return deleted.payloads + deleted.answers

    @contextmanager
    def _connection(self) -> Iterator[psycopg.Connection[Any]]:
        with translated():
            pooled = self._engine.raw_connection()
            try:
                connection: psycopg.Connection[Any] = pooled.driver_connection  # type: ignore[assignment]
                yield connection
                connection.commit()
            finally:
                pooled.close()  # rolls back what was not committed
