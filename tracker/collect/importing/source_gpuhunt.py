"""gpuhunt's catalogues from a folder of zips, or from the public bucket by their dates."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlencode

from tracker.collect.importing import gpuhunt, words
from tracker.collect.importing.gpuhunt import V3_SINCE, Catalogue
from tracker.collect.importing.source import BadSource, ImportFailed, Plan, Unit

# Providers that gpuhunt publishes in the v3 layout (list of 2026-08), asked where the bucket does
# not list what it holds.
V3_PROVIDERS = (
    "aws",
    "azure",
    "cloudrift",
    "gcp",
    "lambdalabs",
    "nebius",
    "oci",
    "runpod",
    "verda",
)
_LISTING = "{http://s3.amazonaws.com/doc/2006-03-01/}"
_MAX_PAGES = 100

Fetch = Callable[[str], bytes | None]  # the body; None: there is no such file


class FolderOfZips:
    """Zips whose paths hold their dates, below one folder; or one such zip."""

    def __init__(self, plan: Plan, root: Path, since: date | None, until: date | None) -> None:
        paths = [root] if root.is_file() else sorted(root.rglob("*.zip"))
        found = []
        for path in paths:
            name = path.relative_to(root.parent if root.is_file() else root).as_posix()
            catalogue = gpuhunt.catalogue_at(name)
            if catalogue and _within(catalogue.day, since, until):
                found.append(catalogue)
        if not found:
            raise BadSource(
                f"{root}: no zip with a date in its path (v2/20240508/catalog.zip) in these days"
            )
        self._root = root
        self._catalogues = gpuhunt.last_of_day(found)
        self.plan = replace(plan, total=len(self._catalogues))

    def units(self, after: str | None) -> Iterator[Unit]:
        """One unit a zip. Raises ImportFailed."""
        for c in self._catalogues:
            key = _key(c)
            if after is None or key > after:
                path = self._root if self._root.is_file() else self._root / c.path
                try:
                    body = path.read_bytes()
                except OSError as error:
                    raise ImportFailed(f"{path}: {error.strerror}") from None
                yield Unit(key, c.path, gpuhunt.parse_zip(body, c, self.plan.hold))


class Bucket:
    """The public bucket, or a copy of it behind another address."""

    def __init__(self, plan: Plan, url: str, fetch: Fetch, since: date, until: date) -> None:
        self._url = url.rstrip("/")
        self._fetch = fetch
        self._since, self._until = since, until
        self.plan = replace(plan, total=(until - since).days + 1)

    def units(self, after: str | None) -> Iterator[Unit]:
        """The catalogues of one day after the other. Raises ImportFailed."""
        runs: dict[date, list[Catalogue]] | None = None
        for day in words.days(self._since, self._until):
            if after is not None and f"{day:%Y%m%d}~" < after:
                continue
            candidates = [Catalogue(day, 0, 2, f"v2/{day:%Y%m%d}/catalog.zip"),
                          Catalogue(day, 0, 1, f"v1/{day:%Y%m%d}/catalog.zip")]  # fmt: skip
            found = False
            for unit in self._first(candidates):
                found = True
                yield unit
            if day >= V3_SINCE:
                if runs is None:
                    runs = self._v3_runs()
                for c in runs.get(day, []):
                    for unit in self._first([c]):
                        found = True
                        yield unit
            if not found:
                yield Unit(f"{day:%Y%m%d}~", f"{day:%Y%m%d}", None)

    def _first(self, candidates: Sequence[Catalogue]) -> Iterator[Unit]:
        for c in candidates:
            body = self._fetch(f"{self._url}/{c.path}")
            if body is not None:
                yield Unit(_key(c), c.path, gpuhunt.parse_zip(body, c, self.plan.hold))
                return

    def _v3_runs(self) -> dict[date, list[Catalogue]]:
        """Every v3 catalogue by day: as listed, or where the bucket lists nothing the current."""
        found: list[Catalogue] = []
        for provider in self._prefixes("v3/") or [f"v3/{name}/" for name in V3_PROVIDERS]:
            listed = [f"{run}catalog.zip" for run in self._prefixes(provider)]
            if not listed:
                version = self._fetch(f"{self._url}/{provider}version")
                listed = [f"{provider}{version.decode().strip()}/catalog.zip"] if version else []
            found += filter(None, map(gpuhunt.catalogue_at, listed))
        days: dict[date, list[Catalogue]] = {}
        for c in gpuhunt.last_of_day(found):
            days.setdefault(c.day, []).append(c)
        return days

    def _prefixes(self, prefix: str) -> list[str]:
        """The "folders" below *prefix* (S3's ListObjectsV2); none where listing is refused."""
        found: list[str] = []
        token: str | None = None
        for _ in range(_MAX_PAGES):
            query = {"list-type": "2", "delimiter": "/", "prefix": prefix}
            page = self._page(query | ({"continuation-token": token} if token else {}))
            found += page.prefixes
            token = page.next_token
            if token is None:
                break
        return found

    def _page(self, query: dict[str, str]) -> _Page:
        body = self._fetch(f"{self._url}/?{urlencode(query)}")
        if body is None or b"<!DOCTYPE" in body or b"<!ENTITY" in body:
            return _Page([], None)
        try:
            root = ElementTree.fromstring(body)  # noqa: S314 - entities are refused above
        except ElementTree.ParseError:
            return _Page([], None)
        prefixes = [
            node.text for node in root.iterfind(f"{_LISTING}CommonPrefixes/{_LISTING}Prefix")
            if node.text
        ]  # fmt: skip
        return _Page(prefixes, root.findtext(f"{_LISTING}NextContinuationToken"))


class _Page(NamedTuple):
    prefixes: list[str]
    next_token: str | None


def _key(c: Catalogue) -> str:
    """Sorts by day; what is below a day sorts before ``<day>~``."""
    return f"{c.day:%Y%m%d} {c.path}"


def _within(day: date, since: date | None, until: date | None) -> bool:
    return (since is None or day >= since) and (until is None or day <= until)


def window(since: datetime | None, until: datetime | None, now: datetime) -> tuple[date, date]:
    """The days to ask a bucket for: by default the thirty up to today."""
    last = min(until or now, now).astimezone(UTC).date()
    if until is not None and until <= now and until.time() == datetime.min.time():
        last -= timedelta(days=1)  # until is exclusive
    first = since.astimezone(UTC).date() if since else last - timedelta(days=29)
    if first > last:
        raise BadSource("--since lies after --until")
    return first, last
