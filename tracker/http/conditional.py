"""Using a ResponseCache: what is kept, and that a cache that fails never fails a poll."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from tracker.http.cache import CachedResponse, ResponseCache
from tracker.telemetry import Redactor

log = logging.getLogger(__name__)


def storable(
    headers: Mapping[str, str], body: bytes, kept: Mapping[str, str]
) -> CachedResponse | None:
    """What to keep of an answer; None when it has no validator or may not be kept.

    *headers* are all of its headers, names in small letters; *kept* those that are archived.
    """
    etag, modified = headers.get("etag"), headers.get("last-modified")
    if not (etag or modified) or "no-store" in headers.get("cache-control", "").lower():
        return None
    return CachedResponse(etag, modified, body, dict(kept))


async def look_up(
    cache: ResponseCache | None, key: str | None, redactor: Redactor
) -> CachedResponse | None:
    """The kept answer, or None; a cache that fails is logged and does without."""
    if cache is None or key is None:
        return None
    try:
        return await asyncio.to_thread(cache.get, key)
    except Exception as error:
        log.warning("response cache cannot be read: %s", redactor.error(error))
        return None


async def remember(
    cache: ResponseCache | None, key: str | None, entry: CachedResponse | None, redactor: Redactor
) -> None:
    """Keep *entry*; a cache that fails is logged and does without."""
    if cache is None or key is None or entry is None:
        return
    try:
        await asyncio.to_thread(cache.put, key, entry)
    except Exception as error:
        log.warning("response cache cannot be written: %s", redactor.error(error))
