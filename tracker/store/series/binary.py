"""Rows of integers and times from PostgreSQL straight into NumPy.

The server strings the values of each column together as they are sent in binary, eight bytes each
and big-endian, and the answer is one row: an array a column. COPY would send a message a row, and
for a driver in Python every message costs more than all the rest.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from tracker.store.series.keys import Ints
from tracker.store.stored import Connection

# PostgreSQL counts the microseconds of a timestamptz from 2000-01-01.
PG_EPOCH_MICROS = 946_684_800 * 1_000_000


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
    names = [f"c{place}" for place in range(columns)]
    sent = ", ".join(
        f"string_agg({'timestamptz_send' if place in times else 'int8send'}({name}), '')"
        for place, name in enumerate(names)
    )
    with connection.cursor(binary=True) as cursor:
        cursor.execute(f"SELECT {sent} FROM ({statement}) AS rows ({', '.join(names)})", values)
        [row] = cursor.fetchall()
    arrays = [np.frombuffer(column or b"", dtype=">i8").astype(np.int64) for column in row]
    if len({len(array) for array in arrays}) > 1:
        raise ValueError("a column of price history holds NULL")
    return arrays
