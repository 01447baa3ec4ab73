"""What the writer of an import does: make months' tables, COPY into them, commit."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from datetime import UTC, datetime
from typing import Any, NamedTuple

import psycopg
from psycopg.types.json import Jsonb

from tracker.store import partitions
from tracker.store.bulk import offer_rows
from tracker.store.bulk.fields import END, HEADER
from tracker.store.imports import Run

Connection = psycopg.Connection[Any]

_COLUMNS = {"offer": offer_rows.COLUMNS, "odd": ("n",)}


class Copy(NamedTuple):
    """Lines for the staging table *name*. ``frozen``: the table is of this transaction."""

    name: str
    lines: Sequence[bytes] | Future[list[bytes]]
    columns: Sequence[str] = ()
    frozen: bool = False


class Position(NamedTuple):
    """Where an interrupted import goes on, and what it has counted until there."""

    position: dict[str, Any]
    counts: dict[str, Any]


def suffix_of(month: int) -> str:
    """How the table of a month ends; *month* is counted from January 1970."""
    return f"{1970 + month // 12:04}_{month % 12 + 1:02}"


def month_of(suffix: str) -> datetime:
    """The first instant of the month that *suffix* means."""
    year, month = suffix.split("_")
    return datetime(int(year), int(month), 1, tzinfo=UTC)


def copy_all(connection: Connection, run: Run, made: Sequence[str], copies: Sequence[Copy]) -> None:
    """Make the tables of the months *made*, and write."""
    with connection.cursor() as cursor:
        for suffix in made:
            make_month(cursor, run, suffix)
        for name, lines, columns, frozen in copies:
            listed = ", ".join(columns or _COLUMNS[name])
            options = "FORMAT BINARY, FREEZE" if frozen else "FORMAT BINARY"
            with cursor.copy(f"COPY {run.stage}_{name} ({listed}) FROM STDIN ({options})") as copy:
                copy.write(HEADER)
                for line in lines.result() if isinstance(lines, Future) else lines:
                    copy.write(line)
                copy.write(END)


def make_month(cursor: psycopg.Cursor[Any], run: Run, suffix: str) -> None:
    """A month's table, whose constraint saves the look at all rows when it is attached."""
    start = month_of(suffix)
    end = partitions.next_month(start)
    cursor.execute(
        f"CREATE TABLE {run.stage}_{suffix} (LIKE price_span INCLUDING CONSTRAINTS,"
        f" CONSTRAINT import_month CHECK (valid_to >= '{start.isoformat()}'"
        f" AND valid_to < '{end.isoformat()}'))"
    )


def commit(connection: Connection, run: Run, position: Position) -> None:
    """Note where the run is, and commit."""
    connection.execute(
        "UPDATE import_run SET position = %s, counts = %s WHERE id = %s",
        (Jsonb(position.position), Jsonb(position.counts), run.id),
    )
    connection.commit()
