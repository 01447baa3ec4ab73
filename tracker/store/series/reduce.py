"""Reducing many steps to one answer: the minimum for each bucket, or at every moment, exactly.

Both use the same way of spreading intervals over buckets. An interval that covers the buckets
[l, r] is the union of two blocks of 2^k buckets, k = floor(log2(r - l + 1)), that begin at l and at
r - 2^k + 1. Its value is noted at those two places of level k only; each level is then pushed down
to the one below, where a block is two halves. That takes O(n + B log B) for n intervals and B
buckets, however many buckets the intervals cover (the structure is the sparse table known from
range minimum queries, turned around).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker.store.series.keys import Ints

_NOTHING = np.iinfo(np.int64).max
_BITS = 63  # of a number that is not negative


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
    if len(known) < len(starts):
        starts, ends, values = starts[known], ends[known], values[known]
        groups = None if groups is None else groups[known]
    # Buckets between all moments at which anything begins or ends, those of one group in a row.
    moments = np.concatenate((starts, ends))
    of_groups = np.zeros(1, dtype=np.int64) if groups is None else np.concatenate((groups, groups))
    edges, place = _edges(moments, of_groups)
    first, last = place[: len(known)], place[len(known) :] - 1
    rank, chosen_by = _ranked(values)
    lowest = _spread_minima(first, last, rank, len(edges.times))
    at = np.flatnonzero(lowest != _NOTHING)
    chosen = chosen_by(lowest[at])
    value, start, end = values[chosen], edges.times[at], edges.times[at + 1]
    of = edges.groups[at]
    opens = np.ones(len(at), dtype=bool)
    opens[1:] = (value[1:] != value[:-1]) | (start[1:] != end[:-1]) | (of[1:] != of[:-1])
    begin = np.flatnonzero(opens)
    finish = np.append(begin[1:], len(at)) - 1
    return LowestSteps(start[begin], end[finish], value[begin], known[chosen[begin]], of[begin])


class _Edges(NamedTuple):
    """Moments of groups, each once, by group and time."""

    times: Ints
    groups: Ints


def _edges(times: Ints, groups: Ints) -> tuple[_Edges, Ints]:
    """The distinct pairs of *times* and *groups* (one for all is enough) in order, and for each its
    place among them. One number stands for a pair if it fits: most of the work is sorting.
    """
    first, least = int(times.min()), int(groups.min())
    bits = (int(times.max()) - first).bit_length()
    if bits + (int(groups.max()) - least).bit_length() < _BITS:
        found, place = np.unique(((groups - least) << bits) | (times - first), return_inverse=True)
        apart = _Edges((found & ((1 << bits) - 1)) + first, (found >> bits) + least)
        return apart, place.reshape(-1)
    present, number = np.unique(groups, return_inverse=True)
    moments, moment = np.unique(times, return_inverse=True)
    found, place = np.unique(
        number.reshape(-1) * len(moments) + moment.reshape(-1), return_inverse=True
    )
    apart = _Edges(moments[found % len(moments)], present[found // len(moments)])
    return apart, place.reshape(-1)


def _ranked(values: Ints) -> tuple[Ints, Callable[[Ints], Ints]]:
    """For each of the *values* a number of its own that rises with it, and of equal values with the
    place; and what gives the place of such a number."""
    least, bits = int(values.min()), len(values).bit_length()
    if (int(values.max()) - least).bit_length() + bits < _BITS:
        ranked = ((values - least) << bits) | np.arange(len(values))
        return ranked, lambda rank: rank & ((1 << bits) - 1)
    by_value = np.argsort(values, kind="stable")
    rank = np.empty(len(values), dtype=np.int64)
    rank[by_value] = np.arange(len(values))
    return rank, lambda ranks: by_value[ranks]


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
