"""From what the user named to a source: which reader, under which name, and what makes it the same
import again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path

from tracker.collect.importing import gpuhunt, skypilot, source_gpuhunt, source_skypilot
from tracker.collect.importing.mapping import MappingError, read_mapping
from tracker.collect.importing.own import PREFIX
from tracker.collect.importing.source import BadSource, ImportFailed, Plan, Source
from tracker.collect.importing.source_table import TableFile, content_digest

FORMATS = ("gpuhunt", "skypilot", "csv", "ndjson", "parquet")
PUBLIC = "public"
# Part of every digest: to be raised when the same rows come to other observations.
VERSION = 1


@dataclass(frozen=True, slots=True)
class Request:
    """What is to be imported. ``hold`` None: the format's own, or what the mapping says."""

    format: str
    source: str
    now: datetime
    since: datetime | None = None
    until: datetime | None = None
    at: datetime | None = None
    hold: timedelta | None = None
    mapping: Path | None = None
    name: str | None = None


def open_source(request: Request, fetch: Callable[[str], bytes | None]) -> Source:
    """The source that *request* means; *fetch* gets files over HTTP. Raises ImportFailed."""
    try:
        if request.format == "gpuhunt":
            return _gpuhunt(request, fetch)
        if request.format == "skypilot":
            return _skypilot(request)
        return _table(request)
    except MappingError as error:
        raise BadSource(f"{request.mapping}: {error}") from None


def _plan(r: Request, slug: str, hold: timedelta, *parts: object, settled: bool = False,
          listings: bool = False) -> Plan:  # fmt: skip
    told = (VERSION, r.format, r.source, slug, hold, r.since, r.until, r.at, *parts)
    digest = hashlib.sha256("\x1f".join(map(str, told)).encode("utf-8", "replace")).digest()
    return Plan(r.format, r.source, slug, hold, digest, settled, listings)


def _slug(request: Request, default: str) -> str:
    return f"{PREFIX}{request.name or default}"


def _path(request: Request) -> Path:
    path = Path(request.source).expanduser()
    if not path.exists():
        raise BadSource(f"{request.source}: no such file or folder")
    return path


def _gpuhunt(r: Request, fetch: Callable[[str], bytes | None]) -> Source:
    hold, slug = r.hold or gpuhunt.HOLD, _slug(r, "gpuhunt")
    url = gpuhunt.PUBLIC if r.source == PUBLIC else r.source
    if url.startswith(("http://", "https://")):
        first, last = source_gpuhunt.window(r.since, r.until, r.now)
        plan = _plan(r, slug, hold, first, last, listings=True)
        return source_gpuhunt.Bucket(plan, url, fetch, first, last)
    plan = _plan(r, slug, hold, listings=True)
    since, until = (m.date() if m else None for m in (r.since, r.until))
    return source_gpuhunt.FolderOfZips(plan, _path(r), since, until)


def _skypilot(r: Request) -> Source:
    hold, slug, path = r.hold or skypilot.HOLD, _slug(r, "skypilot"), _path(r)
    if source_skypilot.is_repository(path):
        head = source_skypilot.head(path)
        plan = _plan(r, slug, hold, head, settled=True, listings=True)
        return source_skypilot.GitHistory(plan, path, r.since, r.until)
    return source_skypilot.CatalogueFiles(_plan(r, slug, hold, listings=True), path, r.at)


def _table(r: Request) -> Source:
    path = _path(r)
    if path.is_dir() and r.format != "parquet":
        raise BadSource(f"{r.source}: a folder; name the file")
    try:
        digest = content_digest(path).hex()
        text = r.mapping.read_text(encoding="utf-8") if r.mapping else ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
        name = getattr(error, "filename", None) or r.mapping
        raise ImportFailed(f"{name}: {reason}") from None
    mapping = read_mapping(text) if r.mapping else None
    if mapping and r.hold:
        mapping = replace(mapping, hold=r.hold, holds=())
    hold = mapping.hold if mapping else timedelta(days=1)
    slug = _slug(r, mapping.name if mapping else "export")
    plan = _plan(r, slug, hold, digest, text, settled=True)
    source = TableFile(plan, path, r.format, mapping, r.now)
    if r.hold and mapping is None:
        raise BadSource("--hold: an export of gpucost says itself until when each price held")
    return source
