"""Rows of integers and times from PostgreSQL straight into NumPy.

The server strings the values of each column together as they are sent in binary, eight bytes each
and big-endian, and the answer is one row: an array a column. Amounts come as words. COPY would send
a message a row, and for a driver in Python every message costs more than all the rest.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tracker.store.series.keys import Ints
from tracker.store.stored import Connection

# PostgreSQL counts the microseconds of a timestamptz from 2000-01-01.
PG_EPOCH_MICROS = 946_684_800 * 1_000_000


_SENT = {
    "int": "string_agg(int8send({}), '')",
    "time": "string_agg(timestamptz_send({}), '')",
    "word": "string_agg(coalesce({}::text, ''), ' ')",
}


def read_columns(
    connection: Connection,
    statement: str,
    values: dict[str, Any],
    columns: int,
    *,
    times: Collection[int],
) -> list[Ints]:
    """The *columns* of a SELECT. Those at the places *times* are timestamptz, all others bigint.

    Times come as PostgreSQL counts them: ``PG_EPOCH_MICROS`` less than since 1970. Raises
    ValueError where a column holds NULL.
    """
    kinds = ["time" if place in times else "int" for place in range(columns)]
    return read_words(connection, statement, values, kinds)[0]


def read_words(
    connection: Connection, statement: str, values: dict[str, Any], kinds: Sequence[str]
) -> tuple[list[Ints], list[list[str]]]:
    """``read_columns`` of a SELECT whose columns are each an "int", a "time" or a "word", and apart
    from them its words: texts without spaces, such as those of numerics. NULL is an empty one."""
    names = [f"c{place}" for place in range(len(kinds))]
    sent = ", ".join(_SENT[kind].format(name) for kind, name in zip(kinds, names, strict=True))
    with connection.cursor(binary=True) as cursor:
        cursor.execute(f"SELECT {sent} FROM ({statement}) AS rows ({', '.join(names)})", values)
        columns = deque(cursor.fetchall()[0])
    numbers, words = list[Ints](), list[list[str]]()
    for kind in kinds:
        column = columns.popleft()  # one at a time: together they may be hundreds of megabytes
        if kind == "word":
            words.append([] if column is None else column.split(" "))
        else:
            numbers.append(np.frombuffer(column or b"", dtype=">i8").astype(np.int64))
    if len({*map(len, numbers), *map(len, words)}) > 1:
        raise ValueError("a column of price history holds NULL")
    return numbers, words
