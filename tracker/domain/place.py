"""Where an offer stands: in a region (``us-east-1``), or a zone of it (``us-east-1/use1-az4``)."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase

SEPARATOR = "/"


def region_of(place: str | None) -> str | None:
    """The region without the zone in it."""
    return place if place is None else place.partition(SEPARATOR)[0]


def is_in(place: str, patterns: Iterable[str]) -> bool:
    """Whether *place*, or the region that it is a zone of, matches one of the patterns.

    With * and ?, whatever the case: ``us-east-1`` and ``us-*`` mean all zones of their regions.
    """
    names = {name.lower() for name in (place, region_of(place)) if name}
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns for name in names)
