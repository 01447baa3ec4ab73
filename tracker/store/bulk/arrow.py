"""Columns of Parquet, as pyarrow gives them, as cells and integers. Without importing it: whoever
has such an array has pyarrow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tracker.store.bulk import NotByColumns
from tracker.store.bulk.cells import (
    Cells,
    Flags,
    Ints,
    Packed,
    Whole,
    coded,
    constant,
    indexed,
)

Text = Callable[[Any], str]

# Years 1 to 9999, which is as far as times go in Python.
_EARLIEST, _LATEST = -62_135_596_800_000_000, 253_402_300_799_999_999


def cells_of(array: Any, text: Text) -> Cells:
    """The cells of an array of any type; *text* is what a value is as the text of a cell."""
    kind = str(array.type)
    if kind.startswith("list"):
        if not array.null_count and not len(array.flatten()):
            return constant(text([]), len(array))
        return coded(map(text, array.to_pylist()))
    if not kind.startswith("dictionary"):
        if kind.startswith(("struct", "map", "large_list", "fixed_size_list", "float", "double")):
            return coded(map(text, array.to_pylist()))
        array = array.dictionary_encode()
    texts = array.dictionary.to_pylist()
    if array.dictionary.null_count or str(array.dictionary.type) != "string":
        texts = list(map(text, texts))
    indices = array.indices
    if len(texts) == 1 and not indices.null_count:
        return constant(texts[0], len(array))
    if not texts:
        return constant("", len(array))
    if indices.null_count:
        indices = indices.fill_null(len(texts))
        texts.append("")
    return indexed(texts, indices.to_numpy(zero_copy_only=False))


def names_of(array: Any, text: Text) -> Cells:
    """``cells_of``, where nearly all texts are different: few are looked at one by one."""
    kind = str(array.type)
    if not kind.startswith("dictionary<values=string,") or array.dictionary.null_count:
        return cells_of(array, text)
    held = array.dictionary
    _, offsets, data = held.buffers()
    if not len(held) or data is None:
        return cells_of(array, text)
    found = np.frombuffer(offsets, dtype=np.int32)[held.offset : held.offset + len(held) + 1]
    begin, end = int(found[0]), int(found[-1])
    bounds = found.astype(np.int64) - begin
    indices = array.indices
    if indices.null_count:
        indices = indices.fill_null(len(held))
        bounds = np.append(bounds, bounds[-1])
    sent = data.slice(begin, end - begin).to_pybytes()
    return indexed(Packed(sent, bounds), indices.to_numpy(zero_copy_only=False))


def times_of(array: Any) -> Whole | None:
    """Microseconds since 1970, of an array of such times with a zone; None: it is none."""
    if getattr(array.type, "unit", None) != "us" or getattr(array.type, "tz", None) is None:
        return None
    values: Ints = array.view("int64").fill_null(0).to_numpy(zero_copy_only=False)
    if len(values) and (values.min() < _EARLIEST or values.max() > _LATEST):
        raise NotByColumns("a time out of range")
    return Whole(values, _nulls(array))


def money_of(array: Any) -> Whole | None:
    """Millionths, of an array of decimals of at most 18 digits, six of them behind the point; None:
    it is none. What is not above zero is wrong."""
    if not str(array.type).startswith("decimal128") or array.type.scale != 6:
        return None
    if array.type.precision > 18:
        return None
    halves = np.frombuffer(array.buffers()[1], dtype="<i8")
    values = halves[2 * array.offset : 2 * (array.offset + len(array)) : 2].astype(np.int64)
    wrong = values <= 0
    nulls = _nulls(array)
    if nulls is not None:
        wrong |= nulls
    return Whole(values, wrong if wrong.any() else None)


def _nulls(array: Any) -> Flags | None:
    if not array.null_count:
        return None
    nulls: Flags = array.is_null().to_numpy(zero_copy_only=False)
    return nulls
