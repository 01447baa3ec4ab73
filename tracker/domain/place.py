"""Where an offer stands: in a region (``us-east-1``), or a zone of it (``us-east-1/use1-az4``)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fnmatch import translate
from functools import lru_cache

SEPARATOR = "/"
_KEPT = 16  # sets of patterns; ``fnmatch`` itself would keep 32,768 patterns, each for ever
_WILD = re.compile(r"[*?\[]")


def region_of(place: str | None) -> str | None:
    """The region without the zone in it."""
    return place if place is None else place.partition(SEPARATOR)[0]


def within(patterns: Iterable[str]) -> Callable[[str], bool]:
    """What tells of a place whether it, or the region that it is a zone of, matches one of the
    *patterns*: with * and ? (and [ab] as ``fnmatch`` has it), whatever the case.

    ``us-east-1`` and ``us-*`` mean all zones of their regions. Made once for many places.
    """
    asked = [pattern.lower() for pattern in patterns]
    exact = {pattern for pattern in asked if not _WILD.search(pattern)}
    wild = [re.compile(translate(pattern)).match for pattern in asked if _WILD.search(pattern)]

    def holds(place: str) -> bool:
        names = {name.lower() for name in (place, region_of(place)) if name}
        return not exact.isdisjoint(names) or any(
            match(name) for match in wild for name in names
        )  # fmt: skip

    return holds


_within = lru_cache(_KEPT)(within)


def is_in(place: str, patterns: Iterable[str]) -> bool:
    """Whether *place* is ``within`` one of the patterns."""
    return _within(tuple(patterns))(place)
