"""Rows of integers and times from PostgreSQL straight into NumPy.

COPY in binary sends each row as the number of its fields (2 bytes), and each field as its length (4
bytes) and its value, big-endian; a NULL has the length -1 and no value. When all columns are eight
bytes wide and none is NULL, every row is as long as the next, and the answer is an array already.
The format is that of PostgreSQL's documentation of COPY, "Binary Format"; it has not changed since
version 7.4.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tracker.store.series.keys import Ints
from tracker.store.stored import Connection

_SIGNATURE = b"PGCOPY\n\xff\r\n\0"
_HEADER = len(_SIGNATURE) + 8  # then flags and the length of an extension: both zero
_TRAILER = 2  # a row of -1 fields
# PostgreSQL counts the microseconds of a timestamptz from 2000-01-01.
PG_EPOCH_MICROS = 946_684_800 * 1_000_000


def read_columns(
    connection: Connection, statement: str, values: dict[str, Any], columns: int
) -> list[Ints]:
    """The *columns* of a SELECT, each of which must be a bigint or a timestamptz, none NULL.

    Times come as PostgreSQL counts them: ``PG_EPOCH_MICROS`` less than since 1970. Raises
    ValueError for rows of another form.
    """
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY ({statement}) TO STDOUT (FORMAT BINARY)", values) as copy,
    ):
        data = b"".join(copy)
    row = np.dtype([("fields", ">i2"), ("body", [("length", ">i4"), ("value", ">i8")], (columns,))])
    count, rest = divmod(len(data) - _HEADER - _TRAILER, row.itemsize)
    if not data.startswith(_SIGNATURE) or rest:
        raise ValueError("rows of price history came in an unknown form")
    rows = np.frombuffer(data, dtype=row, count=count, offset=_HEADER)
    if count and not (np.all(rows["fields"] == columns) and np.all(rows["body"]["length"] == 8)):
        raise ValueError("rows of price history came in an unknown form")
    return [rows["body"]["value"][:, i].astype(np.int64) for i in range(columns)]
