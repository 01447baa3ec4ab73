"""Answers kept in the database for conditional requests (``tracker.http.ResponseCache``)."""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Engine

from tracker.http import CachedResponse
from tracker.store import archive
from tracker.store.engine import transaction


class StoredResponses:
    """A ResponseCache in PostgreSQL; a connection of the pool for each call."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def get(self, key: str) -> CachedResponse | None:
        """The answer kept under *key*. Raises StoreError."""
        with transaction(self._engine) as cursor:
            found = archive.cached_answer(cursor.connection, key)
        if found is None:
            return None
        return CachedResponse(found.etag, found.last_modified, found.body, found.headers)

    def put(self, key: str, response: CachedResponse) -> None:
        """Keep *response* in place of an earlier one. Raises StoreError."""
        with transaction(self._engine) as cursor:
            archive.remember_answer(
                cursor.connection, key, body=response.body, stored_at=datetime.now(UTC),
                etag=response.etag, last_modified=response.last_modified,
                headers=response.headers,
            )  # fmt: skip

    def forget_older_than(self, cutoff: datetime) -> int:
        """Delete the answers fetched before *cutoff*, archived or kept here; how many.

        Raises StoreError.
        """
        with transaction(self._engine) as cursor:
            deleted = archive.delete_payloads_before(cursor.connection, cutoff)
        return deleted.payloads + deleted.answers
