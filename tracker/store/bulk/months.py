"""Months that were staged by columns become months of history: what cannot stay is taken out,
indexes are made, tables are attached."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

from tracker.store import partitions
from tracker.store.bulk.stage_jobs import month_of
from tracker.store.engine import connect
from tracker.store.imports import Connection, Cursor, Run
from tracker.store.schema import price_span

T = TypeVar("T")

_SPAN = tuple(price_span.c.keys())
CONNECTIONS = 2
# Of one index at a time; the settings of a small server are for many.
_INDEX_MEMORY = "128MB"
# A month holds some dozens of GPUs and hundreds of regions: a sample of 9,000 rows tells them apart
# as well as the usual one of 30,000, which takes half as long as the indexes do.
_STATISTICS_TARGET = 30


def month_tables(connection: Connection, run: Run) -> dict[str, str]:
    """The tables of months that *run* has staged, by what their names end with, in order."""
    with connection.cursor() as cursor:
        return _month_tables(cursor, run)


def _month_tables(cursor: Cursor, run: Run) -> dict[str, str]:
    cursor.execute(
        "SELECT relname FROM pg_class WHERE relkind = 'r' AND relname ~ %s"
        " AND pg_table_is_visible(oid) ORDER BY length(relname), relname",
        (f"^{run.stage}_[0-9]+_[0-9]+$",),
    )
    return {name.removeprefix(f"{run.stage}_"): name for (name,) in cursor}


def settle(
    cursor: Cursor, run: Run, odd: Sequence[int] = (), *, keys_are_ours: bool = False
) -> None:
    """Have ``import_merge`` do what cannot simply be added: the offers with the numbers *odd*, and
    those noted as such while reading (the first time); those whose stored history reaches into this
    import, and (not where *keys_are_ours*) those that another import has made meanwhile. Their
    spans are staged as single prices then."""
    known = _numbers(cursor, f"SELECT n FROM {run.stage}_odd")
    with cursor.copy(f"COPY {run.stage}_odd FROM STDIN") as copy:
        for number in set(odd) - known:
            copy.write_row((number,))
    # Two statements: with an OR each offer would be looked up in all of history.
    theirs = f"SELECT s.n FROM {run.stage}_offer s JOIN offer o ON o.key = s.key WHERE o.id <> s.id"
    found = _numbers(
        cursor,
        ("" if keys_are_ours else f"{theirs} UNION ")
        + f"SELECT s.n FROM {run.stage}_offer s WHERE s.had AND EXISTS (SELECT FROM"
        " price_span p WHERE p.offer_id = s.id AND p.valid_to >= s.first_at)"
        f" EXCEPT SELECT n FROM {run.stage}_odd",
    )
    with cursor.copy(f"COPY {run.stage}_odd FROM STDIN") as copy:
        for number in found:
            copy.write_row((number,))
    moved = found | set(odd)
    if run.position.get("settled") is not True:
        moved |= known
    if moved:
        _move(cursor, run, moved)


def _numbers(cursor: Cursor, statement: str) -> set[int]:
    cursor.execute(statement)
    return {number for (number,) in cursor}


def _move(cursor: Cursor, run: Run, numbers: Collection[int]) -> None:
    cursor.execute(
        "CREATE TEMP TABLE import_moved ON COMMIT DROP AS"
        f" SELECT n, id FROM {run.stage}_offer WHERE n = ANY (%s)",
        (list(numbers),),
    )
    cursor.execute("ANALYZE import_moved")
    for table in _month_tables(cursor, run).values():
        cursor.execute(
            f"""
WITH gone AS (
    DELETE FROM {table} p USING import_moved m WHERE p.offer_id = m.id
    RETURNING m.n, p.valid_from, p.valid_to, p.price_native, p.price_micro_usd, p.fx_rate,
        p.fx_date, p.valid_as_of, p.expires_at, p.fallback
)
INSERT INTO {run.stage}_price (n, at, until, exact, price_native, price_micro_usd, fx_rate, fx_date,
    valid_as_of, expires_at, fallback)
SELECT n, valid_from, valid_to, true, price_native, price_micro_usd, fx_rate, fx_date, valid_as_of,
    expires_at, fallback FROM gone
"""
        )
    cursor.execute("DROP TABLE import_moved")
    # These prices are few: what looks for some of them is to begin here, not with all offers.
    cursor.execute(f"ANALYZE {run.stage}_price, {run.stage}_offer (n, id)")


def index(url: str, connection: Connection, run: Run, beside: Callable[[], T]) -> T:
    """Make the indexes that ``price_span`` has on every staged month that has none yet, and do
    *beside* at the same time: on CONNECTIONS, of which that takes one as long as it lasts."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT indrelid::regclass::text FROM pg_index WHERE indrelid = ANY (%s::regclass[])"
            " GROUP BY 1 HAVING count(*) = 2",
            (list(_month_tables(cursor, run).values()),),
        )
        done = {name for (name,) in cursor}
        waiting = deque(t for t in _month_tables(cursor, run).values() if t not in done)
    with ThreadPoolExecutor(CONNECTIONS) as pool:
        others = [pool.submit(_index, url, waiting) for _ in range(CONNECTIONS - 1)]
        try:
            result = beside()
            _index(url, waiting)
        finally:
            waiting.clear()  # of which something is left after an error alone
        for other in others:
            other.result()
    return result


def _index(url: str, waiting: deque[str]) -> None:
    """Make indexes as long as tables are *waiting* for them."""
    with connect(url, statement_timeout_s=0, autocommit=True) as connection:
        build_alone(connection)
        connection.execute(f"SET default_statistics_target = {_STATISTICS_TARGET}")
        with suppress(IndexError):  # none is left
            while True:
                table = waiting.popleft()
                with connection.transaction():
                    connection.execute(f"ALTER TABLE {table} ADD PRIMARY KEY (offer_id, valid_to)")
                    connection.execute(f"CREATE INDEX {table}_gpu ON {table} (gpu_key, valid_to)")
                connection.execute(f"ANALYZE {table}")


def build_alone(connection: Connection, *, local: bool = False) -> None:
    """Have this connection (or its transaction alone, where *local*) build indexes by itself, with
    memory enough for one."""
    how = "SET LOCAL" if local else "SET"
    connection.execute(f"{how} maintenance_work_mem = '{_INDEX_MEMORY}'")
    connection.execute(f"{how} max_parallel_maintenance_workers = 0")


def attach(cursor: Cursor, run: Run) -> int:
    """Make the staged months a part of ``price_span``; the number of spans in them.

    A month that history has already takes the rows instead.
    """
    columns = ", ".join(_SPAN)
    tables = _month_tables(cursor, run)
    fresh = partitions.missing(cursor, [month_of(suffix) for suffix in tables])
    cursor.execute(f"SELECT EXISTS (SELECT FROM {run.stage}_odd)")
    # Where nothing was moved out of them, months have what was written into them.
    written = {} if cursor.fetchall() == [(True,)] else run.position["months"]
    spans = 0
    for suffix, table in tables.items():
        month = month_of(suffix)
        name = partitions.partition_name(month)
        if month not in fresh:
            cursor.execute(f"INSERT INTO {name} ({columns}) SELECT {columns} FROM {table}")
            spans += cursor.rowcount
            cursor.execute(f"DROP TABLE {table}")
            continue
        rows = written.get(suffix)
        if rows is None:
            cursor.execute(f"SELECT count(*) FROM {table}")
            [(rows,)] = cursor.fetchall()
        if not rows:
            cursor.execute(f"DROP TABLE {table}")
            continue
        spans += rows
        cursor.execute(f"ALTER TABLE {table} RENAME TO {name}")
        cursor.execute(f"ALTER INDEX {table}_pkey RENAME TO {name}_pkey")
        cursor.execute(f"ALTER INDEX {table}_gpu RENAME TO {name}_gpu_key_valid_to_idx")
        cursor.execute(
            f"ALTER TABLE price_span ATTACH PARTITION {name} FOR VALUES"
            f" FROM ('{month.isoformat()}') TO ('{partitions.next_month(month).isoformat()}')"
        )
        cursor.execute(f"ALTER TABLE {name} DROP CONSTRAINT import_month")
    return spans
