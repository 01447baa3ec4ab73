"""Conditional requests: what is kept of an answer so that the next one may be "not modified"."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

NOT_MODIFIED_HEADER = "x-gpucost-not-modified"  # "1" on a payload whose body came from the cache


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """An answer with its validators. ``headers`` are the archived ones, names in small letters.

    ``body`` is decompressed; of a streamed file it holds the kept lines only.
    """

    etag: str | None
    last_modified: str | None
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)

    def conditions(self) -> dict[str, str]:
        """The request headers that ask for the body only if it has changed."""
        asked = {"if-none-match": self.etag, "if-modified-since": self.last_modified}
        return {name: value for name, value in asked.items() if value}


class ResponseCache(Protocol):
    """Where answers with validators are kept. Called in a worker thread, from several at once.

    Keys are opaque text of at most 400 characters and hold no secret. An exception costs the
    request its condition, never the poll.
    """

    def get(self, key: str) -> CachedResponse | None: ...

    def put(self, key: str, response: CachedResponse) -> None: ...


def cache_key(url: str, clean_url: str, headers: Mapping[str, str], variant: str) -> str:
    """One key for each thing that may be answered differently.

    *variant* tells apart what is kept of one file ("" for all of it). The caller's headers count,
    since an account may see its own prices; they enter as a digest only.
    """
    parts = [url, variant, *(f"{k.lower()}: {headers[k]}" for k in sorted(headers, key=str.lower))]
    digest = hashlib.sha256("\n".join(parts).encode("utf-8", errors="replace")).hexdigest()
    return f"{clean_url[:330]} {digest}"
