"""Tracks put together from pieces that came from several places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any

import numpy as np

from tracker.store.series.keys import FloorKey, Ints, Track
from tracker.store.series.reduce import lowest_steps


def tracks_of(
    keys: Sequence[FloorKey], groups: Ints, starts: Ints, ends: Ints, prices: Ints, offers: Ints
) -> list[Track]:
    """The tracks of the *keys* from pieces in any order; ``groups`` are places in *keys*.

    Pieces that touch at one price become one step; where some overlap the lowest counts.
    """
    order = _ordered(groups, starts)
    groups, starts, ends, prices, offers = (
        column[order] for column in (groups, starts, ends, prices, offers)
    )
    same = groups[1:] == groups[:-1]
    if np.any(same & (starts[1:] < ends[:-1])):
        found = lowest_steps(starts, ends, prices, groups)
        return split(
            keys, found.groups, found.starts, found.ends, found.values, offers[found.chosen]
        )
    goes_on = same & (starts[1:] == ends[:-1]) & (prices[1:] == prices[:-1])
    if goes_on.any():
        begin = np.flatnonzero(np.concatenate(([True], ~goes_on)))
        finish = np.append(begin[1:], len(groups)) - 1
        ends = ends[finish]
        groups, starts, prices, offers = (c[begin] for c in (groups, starts, prices, offers))
    return split(keys, groups, starts, ends, prices, offers)


def _ordered(groups: Ints, starts: Ints) -> Ints:
    """By group and time. Pieces come in the order of time but for a few: try that first, as sixteen
    bits are sorted without comparing."""
    if not len(groups) or groups.max() >= 2**15:
        return np.lexsort((starts, groups))
    order = np.argsort(groups.astype(np.int16), kind="stable")
    in_order = (groups[order[1:]] != groups[order[:-1]]) | (starts[order[1:]] >= starts[order[:-1]])
    return order if in_order.all() else np.lexsort((starts, groups))


def split(
    keys: Sequence[FloorKey], groups: Ints, starts: Ints, ends: Ints, prices: Ints, offers: Ints
) -> list[Track]:
    """One track for each group; the steps come in the order of groups and time already."""
    begin = np.flatnonzero(np.diff(groups, prepend=-1))
    cuts = [*begin.tolist(), len(groups)]
    return [
        Track(keys[group], starts[a:b], ends[a:b], prices[a:b], offers[a:b])
        for group, a, b in zip(groups[begin].tolist(), cuts[:-1], cuts[1:], strict=True)
    ]


def in_order(tracks: Iterable[Track]) -> list[Track]:
    """Sorted by what their keys say, whatever the numbers of rows are."""
    return sorted(tracks, key=_sort_key)


def _sort_key(track: Track) -> tuple[Any, ...]:
    key = track.key
    return (*_first(key), key.upstream or "", key.part or "", _terms_text(key.terms))


_first = attrgetter(
    "gpu_key", "market", "tier", "gpu_count", "seller", "source", "gpu_family", "is_slice",
    "price_unit", "currency", "price_kind", "fallback",
)  # fmt: skip
_terms_text = lru_cache(maxsize=1000)(str)  # few terms are those of all keys
