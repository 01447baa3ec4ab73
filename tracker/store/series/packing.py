"""Steps of a price floor as bytes: what ``floor_pack.body`` holds.

A pack is of one GPU and one month (UTC). It holds every step of every key of that GPU that overlaps
the month, *cut to the month*: the beginning of a long step is repeated as the month's first
instant, its end as the first instant of the next month. Steps still open (``floor_now``) belong to
it as well, as they are known to the month's end. A month in which a GPU had no price has an empty
pack, so that a reader need not look elsewhere.

The form: a header, then columns of little-endian integers, one after the other. A key is there once
with the number of its steps; an end only where the key's next step does not begin there; prices and
offers take four bytes while all of them fit. That is 16 bytes a step, and no more work for a reader
than to look at memory: compressing would save space, but cost more than all the rest of an answer.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker.store.series.keys import Ints

_VERSION = 1
# Version, bytes of a price, bytes of an offer's id, keys, steps, ends that are spelled out.
_HEADER = struct.Struct("<BBBxIII")


class PackedSteps(NamedTuple):
    """Steps of several keys. Times are microseconds since 1970 UTC, prices micro-USD an hour."""

    key_ids: Ints
    starts: Ints
    ends: Ints
    micro_usd: Ints
    offer_ids: Ints

    def __len__(self) -> int:
        """The number of steps, not that of columns."""
        return len(self.starts)


def pack(steps: PackedSteps) -> bytes:
    """The *steps*, in any order, as bytes. Raises ValueError for negative prices or ids."""
    order = np.lexsort((steps.starts, steps.key_ids))
    key_ids, starts, ends, prices, offers = (np.asarray(c, np.int64)[order] for c in steps)
    keys, counts = np.unique(key_ids, return_counts=True)
    goes_on = np.zeros(len(starts), dtype=bool)
    goes_on[:-1] = (key_ids[1:] == key_ids[:-1]) & (starts[1:] == ends[:-1])
    spelled = np.flatnonzero(~goes_on)
    narrow_prices, narrow_offers = _narrowed(prices), _narrowed(offers)
    header = _HEADER.pack(
        _VERSION, narrow_prices.itemsize, narrow_offers.itemsize,
        len(keys), len(starts), len(spelled),
    )  # fmt: skip
    columns = (
        keys.astype("<i8"), counts.astype("<u4"), starts.astype("<i8"),
        spelled.astype("<u4"), ends[spelled].astype("<i8"), narrow_prices, narrow_offers,
    )  # fmt: skip
    return header + b"".join(column.tobytes() for column in columns)


def unpack(body: bytes | memoryview) -> PackedSteps:
    """What ``pack`` was given, by key and time. Raises ValueError for anything else."""
    view = memoryview(body)
    if len(view) < _HEADER.size or view[0] != _VERSION or {view[1], view[2]} - {4, 8}:
        raise ValueError("not a pack of price steps that this version knows")
    _, of_price, of_offer, n_keys, n_steps, n_spelled = _HEADER.unpack_from(view)
    layout = (
        ("<i8", n_keys), ("<u4", n_keys), ("<i8", n_steps), ("<u4", n_spelled), ("<i8", n_spelled),
        (f"<u{of_price}", n_steps), (f"<u{of_offer}", n_steps),
    )  # fmt: skip
    widths = [np.dtype(kind).itemsize * count for kind, count in layout]
    if _HEADER.size + sum(widths) != len(view):
        raise ValueError("a damaged pack of price steps")
    at, columns = _HEADER.size, list[NDArray[Any]]()
    for (kind, count), width in zip(layout, widths, strict=True):
        columns.append(np.frombuffer(view, dtype=kind, count=count, offset=at))
        at += width
    keys, counts, starts, spelled, spelled_ends, prices, offers = columns
    if counts.sum(dtype=np.int64) != n_steps or (n_spelled and spelled.max() >= n_steps):
        raise ValueError("a damaged pack of price steps")
    ends = np.empty(n_steps, dtype=np.int64)
    ends[:-1] = starts[1:]
    ends[spelled] = spelled_ends
    return PackedSteps(
        np.repeat(keys, counts), starts, ends, prices.astype(np.int64), offers.astype(np.int64)
    )


def _narrowed(values: Ints) -> NDArray[Any]:
    if len(values) and values.min() < 0:
        raise ValueError("prices and offers in a pack cannot be negative")
    return values.astype("<u4" if not len(values) or values.max() < 2**32 else "<u8")
