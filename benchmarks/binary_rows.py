"""Rows of a table made of arrays, in PostgreSQL's binary COPY format: millions in seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray

from benchmarks.history_world import Ints
from tracker.store.series.binary import PG_EPOCH_MICROS

_AT_ONCE = 200_000  # rows
_CENTS_DIGITS = 100 * 10_000  # what one digit (of base 10,000) before the point can hold


class Column(NamedTuple):
    """One column: for each row a field of ``kind`` (of NumPy), or NULL where there is none.

    ``fields`` has one value a row, or one for all. ``widths`` tells rows with longer texts apart.
    """

    kind: Any
    fields: NDArray[Any] | None
    widths: Ints | None = None


NULL = Column(None, None)


def whole(values: Any, size: int = 8) -> Column:
    """An integer of *size* bytes; a boolean is one of 1."""
    return Column(np.dtype(f">i{size}"), np.asarray(values))


def moment(micros: Any) -> Column:
    """A timestamptz of microseconds since 1970."""
    return whole(np.asarray(micros) - PG_EPOCH_MICROS)


def text(codes: Any, words: Sequence[str]) -> Column:
    """A text (or bytes): the word at the place that the code names."""
    sent = np.array([word.encode() for word in words])
    widths = np.char.str_len(sent)
    codes = np.asarray(codes)
    return Column("S", sent[codes], widths[codes])


def raw(fields: NDArray[Any]) -> Column:
    """Bytes, as many in each row as ``fields`` is wide."""
    return Column(fields.dtype, fields)


def numeric(integers: Any) -> Column:
    """A numeric without a fraction, in 1 to 9,999."""
    return raw(_numeric(np.asarray(integers)[..., None], 0))


def cents(values: Ints) -> Column:
    """A numeric with two places, of hundredths."""
    if len(values) and values.max() >= _CENTS_DIGITS:
        raise ValueError("a price of 10,000 and more does not fit")
    return raw(_numeric(np.stack((values // 100, values % 100 * 100), axis=-1), 2))


def _numeric(digits: Ints, scale: int) -> NDArray[Any]:
    """Digits of base 10,000, one of them before the point."""
    count = digits.shape[-1]
    head = np.broadcast_to(np.array([count, 0, 0, scale]), (*digits.shape[:-1], 4))
    sent = np.concatenate((head, digits), axis=-1).astype(">i2")
    return np.ascontiguousarray(sent).view(f"V{2 * (4 + count)}")[..., 0]


def copy(
    cursor: psycopg.Cursor[Any], table: str, columns: Mapping[str, Column], count: int
) -> None:
    """COPY *count* rows into *table*, in their order."""
    with cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)") as out:
        out.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        for first in range(0, count, _AT_ONCE):
            part = slice(first, min(first + _AT_ONCE, count))
            out.write(_rows([_cut(c, part) for c in columns.values()], part.stop - part.start))
        out.write(b"\xff\xff")


def _cut(column: Column, part: slice) -> Column:
    fields = column.fields
    if fields is None or fields.ndim == 0:
        return column
    return column._replace(
        fields=fields[part], widths=None if column.widths is None else column.widths[part]
    )


def _rows(columns: Sequence[Column], count: int) -> bytes:
    """The rows as bytes. Those with texts of the same lengths are made together."""
    apart = [np.broadcast_to(c.widths, count) for c in columns if c.widths is not None]
    if not apart:
        return _alike(columns, np.arange(count)).tobytes()
    widths, group = np.unique(np.stack(apart), axis=1, return_inverse=True)
    made = np.empty(count, dtype=object)
    for number in range(widths.shape[1]):
        here = np.flatnonzero(group.reshape(-1) == number)
        rows = _alike(columns, here)
        made[here] = rows.view(f"V{rows.dtype.itemsize}").tolist()
    return b"".join(made.tolist())


def _alike(columns: Sequence[Column], here: Ints) -> NDArray[Any]:
    """The rows *here*, whose texts are of the same lengths."""
    fields, taken = [("count", ">i2")], list[NDArray[Any] | None]()
    for number, column in enumerate(columns):
        values = column.fields
        if values is not None and values.ndim:
            values = values[here]
        kind = column.kind
        if column.widths is not None:
            kind = f"S{int(column.widths[here[0]] if column.widths.ndim else column.widths)}"
        fields.append((f"size{number}", ">i4"))
        if values is not None:
            fields.append((f"value{number}", kind))
        taken.append(values)
    rows = np.empty(len(here), dtype=fields)
    rows["count"] = len(columns)
    for number, values in enumerate(taken):
        if values is None:
            rows[f"size{number}"] = -1
        else:
            rows[f"size{number}"] = rows.dtype[f"value{number}"].itemsize
            rows[f"value{number}"] = values
    return rows
