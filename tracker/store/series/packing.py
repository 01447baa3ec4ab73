"""Steps of a price floor as bytes: what ``floor_pack.body`` holds.

A pack is of one GPU and one month (UTC). It holds every step of every key of that GPU that overlaps
the month, *cut to the month*: the beginning of a long step is repeated as the month's first
instant, its end as the first instant of the next month. Steps still open (``floor_now``) belong to
it as well, as they are known to the month's end. A month in which a GPU had no price has an empty
pack, so that a reader need not look elsewhere.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

import numpy as np

from tracker.store.series.keys import Ints

_VERSION = 1
_RAW, _ZLIB = 0, 1
_HEADER = 8  # version, codec, two bytes of nothing, the number of steps as 32 bits


class PackedSteps(NamedTuple):
    """Steps of several keys. Times are microseconds since 1970 UTC, prices micro-USD an hour."""

    key_ids: Ints
    starts: Ints
    ends: Ints
    micro_usd: Ints
    offer_ids: Ints

    def __len__(self) -> int:  # of a NamedTuple it would be the number of columns
        return len(self.starts)


def pack(steps: PackedSteps, *, compress: bool = False) -> bytes:
    """The *steps* as bytes, ordered by key and time.

    Not compressed by default: a reader then needs no more than a copy of memory.
    """
    order = np.lexsort((steps.starts, steps.key_ids))
    columns = np.stack([np.asarray(column, dtype="<i8")[order] for column in steps])
    body = columns.tobytes()
    codec = _RAW
    if compress:
        body, codec = zlib.compress(body, 1), _ZLIB
    return bytes((_VERSION, codec, 0, 0)) + len(order).to_bytes(4, "little") + body


def unpack(body: bytes | memoryview) -> PackedSteps:
    """What ``pack`` was given, in its order. Raises ValueError for anything else."""
    view = memoryview(body)
    if len(view) < _HEADER or view[0] != _VERSION or view[1] not in (_RAW, _ZLIB):
        raise ValueError("not a pack of price steps that this version knows")
    count = int.from_bytes(view[4:_HEADER], "little")
    try:
        data = zlib.decompress(view[_HEADER:]) if view[1] == _ZLIB else view[_HEADER:]
    except zlib.error as error:
        raise ValueError("a damaged pack of price steps") from error
    if len(data) != count * 8 * len(PackedSteps._fields):
        raise ValueError("a damaged pack of price steps")
    columns = np.frombuffer(data, dtype="<i8").reshape(len(PackedSteps._fields), count)
    return PackedSteps(*columns.astype(np.int64, copy=False))
