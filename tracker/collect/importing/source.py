"""What an import reads from, as a row of files (or parts of one) in a fixed order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import NamedTuple, Protocol

from tracker.collect.importing.observation import Snapshot


class ImportFailed(Exception):
    """A source that cannot be read, in one line. What has been read so far is kept for later."""


class BadSource(ImportFailed):
    """A source that is not what it was said to be: another attempt would not help."""


class Unit(NamedTuple):
    """One file or part of a file. ``key`` sorts after those of all units before it.

    ``snapshot`` None: the source has no such file.
    """

    key: str
    label: str
    snapshot: Snapshot | None


class Source(Protocol):
    """Something to import from."""

    plan: Plan

    def units(self, after: str | None) -> Iterator[Unit]:
        """The units behind *after* (None: all), in order. Raises ImportFailed."""
        ...


@dataclass(frozen=True, slots=True)
class Plan:
    """What is imported: enough to know an interrupted import again.

    ``digest`` is of all that decides the outcome. ``settled``: of the content too, so that the same
    digest means the same rows. ``listings``: units are whole listings of their sellers.
    ``total`` is the number of units, or of bytes with ``in_bytes``; None: not known.
    """

    format: str
    source: str
    slug: str
    hold: timedelta
    digest: bytes
    settled: bool = False
    listings: bool = False
    total: int | None = None
    position: dict[str, str] = field(default_factory=dict)
