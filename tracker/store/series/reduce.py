"""Reducing many steps to one answer: the minimum for each bucket, or at every moment, exactly.

Both use the same way of spreading intervals over buckets. An interval that covers the buckets
[l, r] is the union of two blocks of 2^k buckets, k = floor(log2(r - l + 1)), that begin at l and at
r - 2^k + 1. Its value is noted at those two places of level k only; each level is then pushed down
to the one below, where a block is two halves. That takes O(n + B log B) for n intervals and B
buckets, however many buckets the intervals cover (the structure is the sparse table known from
range minimum queries, turned around).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker.store.series.keys import Ints

_NOTHING = np.iinfo(np.int64).max


class LowestSteps(NamedTuple):
    """The minimum as a step function: where nothing is known there is a gap between two steps.

    ``groups`` numbers the function that a step belongs to, ``chosen`` the interval that gave its
    value when the step began: of several as low the first one.
    """

    starts: Ints
    ends: Ints
    values: Ints
    chosen: Ints
    groups: Ints


def bucket_minima(
    starts: Ints, ends: Ints, values: Ints, edges: Ints
) -> tuple[Ints, NDArray[np.bool_]]:
    """The lowest value of each bucket, over all instants of it at which some value was known.

    Bucket i is [edges[i], edges[i + 1]); *edges* must rise strictly. The intervals are half-open,
    in any order, and may overlap. Returns the values, and for each bucket whether any was known:
    where it is not the value is meaningless. Raises ValueError for edges that do not rise.
    """
    if len(edges) < 2 or np.any(np.diff(edges) <= 0):
        raise ValueError("the edges of buckets must rise, and there must be two or more")
    first, last = _bucket_of(starts, edges), _bucket_of(ends - 1, edges)
    count = len(edges) - 1
    inside = (first < count) & (last >= 0) & (ends > starts)
    first, last = np.maximum(first[inside], 0), np.minimum(last[inside], count - 1)
    lowest = _spread_minima(first, last, values[inside], count)
    return lowest, lowest != _NOTHING


def _bucket_of(moments: Ints, edges: Ints) -> Ints:
    """The bucket of each moment: below 0 before the first, too high after the last."""
    steps = np.diff(edges)
    if np.all(steps == steps[0]):
        evenly: Ints = np.floor_divide(moments - edges[0], steps[0])
        return evenly
    return np.searchsorted(edges, moments, side="right") - 1


def lowest_steps(starts: Ints, ends: Ints, values: Ints, groups: Ints | None = None) -> LowestSteps:
    """The exact minimum at every moment, of each group (None: all are one).

    The intervals are half-open, in any order, and may overlap; empty ones tell nothing. Steps come
    in the order of groups and time, and two of one group that touch differ in value.
    """
    none = np.zeros(0, dtype=np.int64)
    known = np.flatnonzero(ends > starts)
    if not len(known):
        return LowestSteps(none, none, none, none, none)
    starts, ends, values = starts[known], ends[known], values[known]
    group = np.zeros(len(known), dtype=np.int64) if groups is None else groups[known]
    # Buckets between all moments at which anything begins or ends, those of one group in a row.
    times, moment = np.unique(np.concatenate((starts, ends)), return_inverse=True)
    present, number = np.unique(group, return_inverse=True)
    places, place = np.unique(
        np.concatenate((number, number)) * len(times) + moment.reshape(-1), return_inverse=True
    )
    first, last = place[: len(known)], place[len(known) :] - 1
    # The rank of an interval by value stands for value and interval at once.
    by_value = np.argsort(values, kind="stable")
    rank = np.empty(len(known), dtype=np.int64)
    rank[by_value] = np.arange(len(known))
    lowest = _spread_minima(first, last, rank, len(places))
    at = np.flatnonzero(lowest != _NOTHING)
    chosen = by_value[lowest[at]]
    value, start, end = (
        values[chosen],
        times[places[at] % len(times)],
        times[places[at + 1] % len(times)],
    )
    of = places[at] // len(times)
    opens = np.ones(len(at), dtype=bool)
    opens[1:] = (value[1:] != value[:-1]) | (start[1:] != end[:-1]) | (of[1:] != of[:-1])
    begin = np.flatnonzero(opens)
    finish = np.append(begin[1:], len(at)) - 1
    return LowestSteps(
        start[begin], end[finish], value[begin], known[chosen[begin]], present[of[begin]]
    )


def _spread_minima(first: Ints, last: Ints, values: Ints, count: int) -> Ints:
    """The minimum of each of *count* buckets over the intervals that cover [first, last]."""
    if not len(first):
        return np.full(count, _NOTHING, dtype=np.int64)
    # floor(log2), exact to 2^53; eight bits are sorted without comparing
    level = (np.frexp((last - first + 1).astype(np.float64))[1] - 1).astype(np.int8)
    order = np.argsort(level, kind="stable")[::-1]
    bounds = np.searchsorted(-level[order], -np.arange(level.max(), -2, -1), side="left")
    above = np.full(count, _NOTHING, dtype=np.int64)
    for step, k in enumerate(range(int(level.max()), -1, -1)):
        here = order[bounds[step] : bounds[step + 1]]
        np.minimum.at(above, first[here], values[here])
        np.minimum.at(above, last[here] - (1 << k) + 1, values[here])
        if k:
            half = 1 << (k - 1)
            below = above.copy()
            np.minimum(below[half:], above[:-half], out=below[half:])
            above = below
    return above
