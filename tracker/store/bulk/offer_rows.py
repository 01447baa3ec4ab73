"""New offers as rows of the table that stages them."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain, groupby, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracker.store.bulk.cells import Column, Flags, Ints, as_field
from tracker.store.imports import OFFER_COLUMNS
from tracker.store.series.binary import PG_EPOCH_MICROS

# The cells that make an offer. The staging table calls the one who sells by another name.
VALUES = tuple("provider" if name == "seller" else name for name in OFFER_COLUMNS[2:])
COLUMNS = ("n", "key", "id", "first_at", "had", *OFFER_COLUMNS[2:])


def digests(keys: NDArray[np.uint64]) -> list[bytes]:
    """Keys as the sixteen bytes that they are."""
    found: list[bytes] = keys.astype(">u8").view("V16").reshape(-1).tolist()
    return found


def offer_lines(
    columns: Mapping[str, Column], rows: Ints, keys: NDArray[np.uint64], numbers: Ints, ids: Ints,
    starts: Ints, had: Flags,
) -> bytes:  # fmt: skip
    """The offers of these *rows* in COPY's binary format, in the order of ``COLUMNS``.

    *had*: the id is one that the offer had already; *starts* are their first prices' (microseconds
    since 1970).
    """
    head = np.empty(len(rows), dtype=[
        ("columns", ">i2"), ("size_n", ">i4"), ("n", ">i4"), ("size_key", ">i4"), ("key", ">u8", 2),
        ("size_id", ">i4"), ("id", ">i8"), ("size_at", ">i4"), ("at", ">i8"),
        ("size_had", ">i4"), ("had", "u1"),
    ])  # fmt: skip
    head["columns"] = len(COLUMNS)
    for name, size in (("n", 4), ("key", 16), ("id", 8), ("at", 8), ("had", 1)):
        head[f"size_{name}"] = size
    head["n"], head["key"], head["id"], head["had"] = numbers, keys, ids, had
    head["at"] = starts - PG_EPOCH_MICROS
    parts: list[Any] = [head.view(f"V{head.dtype.itemsize}").tolist()]
    for one, names in groupby(VALUES, lambda name: len(columns[name].entries) == 1):
        told = [columns[name] for name in names]
        if one:  # the same for all rows
            parts.append(repeat(b"".join(c.at(rows[:1], as_field)[0] for c in told), len(rows)))
        else:
            parts += [column.at(rows, as_field) for column in told]
    return b"".join(chain.from_iterable(zip(*parts, strict=True)))
