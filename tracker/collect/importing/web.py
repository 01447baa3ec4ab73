"""Files over HTTP for an import: one after the other, with the retries and limits of a poll."""

from __future__ import annotations

import asyncio
from types import TracebackType

from tracker.collect.importing.source import ImportFailed
from tracker.http import Client
from tracker.provider import FetchError

MAX_BYTES = 256 * 2**20
# What a bucket that does not list its contents answers for a file that is not there, too.
_ABSENT = frozenset({403, 404, 410})


class Web:
    """Fetches with *client*, from code that is not asynchronous. To be used with ``with``."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._runner = asyncio.Runner()

    def __enter__(self) -> Web:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._runner.run(self._client.aclose())
        finally:
            self._runner.close()

    def fetch(self, url: str) -> bytes | None:
        """The body at *url*; None: there is no such file. Raises ImportFailed."""
        try:
            payload = self._runner.run(self._client.get(url, expect="any", max_bytes=MAX_BYTES))
        except FetchError as error:
            if error.status in _ABSENT:
                return None
            raise ImportFailed(f"{error}; run the same command again to go on") from None
        return payload.body
