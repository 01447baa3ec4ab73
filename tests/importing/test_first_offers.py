"""The first offers of a database are made without its indexes, if nobody is in the way; and they
come to the same as those that are made beside others."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.importing.test_by_columns import (
    a_history,
    contents,
    doubtful_history,
    shape,
    told,
    write,
)
from tests.importing.worlds import imported
from tests.support.pg import TestServer
from tracker.store import import_merge
from tracker.store.bulk import offer_table
from tracker.store.engine import connect

pytest.importorskip("pyarrow")

_TABLE = """
SELECT (
    SELECT array_agg((conname, contype, pg_get_constraintdef(oid))::text ORDER BY conname)
    FROM pg_constraint WHERE conrelid = 'offer'::regclass
), (SELECT array_agg(indexdef ORDER BY indexname) FROM pg_indexes WHERE tablename = 'offer'), (
    SELECT array_agg((attname, attnotnull, attidentity, atthasdef)::text ORDER BY attnum)
    FROM pg_attribute WHERE attrelid = 'offer'::regclass AND attnum > 0
)
"""


def table(url: str) -> Any:
    """What ``offer`` is: its constraints, indexes and columns."""
    with connect(url) as connection:
        return connection.execute(_TABLE).fetchall()


@contextmanager
def few_are_enough() -> Iterator[list[bool]]:
    """Whether the first offers were made in the quick way, for each import of the block."""
    quick, add_first = list[bool](), offer_table.add_first

    def noted(*arguments: Any) -> bool:
        quick.append(add_first(*arguments))
        return quick[-1]

    with mock.patch.object(offer_table, "_FEWEST", 1), mock.patch.object(
        offer_table, "add_first", noted
    ):  # fmt: skip
        yield quick


def same_as_ever(server: TestServer, url: str, place: Path) -> None:
    """Import *place* into an empty database in the slow way, and compare."""
    with server.database(migrated=True) as other:
        imported(other, "parquet", place)
        assert contents(url) == contents(other)
        assert shape(url) == shape(other)


@pytest.mark.parametrize("history", [lambda: a_history(80), doubtful_history])
def test_the_first_offers_and_those_after_them(
    database_server: TestServer, tmp_path: Path, history: Callable[[], list[dict[str, Any]]]
) -> None:
    rows = history()
    first, second = (
        write("parquet", tmp_path / "x", rows[:60]),
        write("parquet", tmp_path / "y", rows),
    )
    with database_server.database(migrated=True) as one, database_server.database(
        migrated=True
    ) as other:  # fmt: skip
        before = table(one)
        with few_are_enough() as quick:
            done = [told(imported(one, "parquet", place)) for place in (first, second)]
        assert quick == [True, False]
        assert table(one) == before
        assert done == [told(imported(other, "parquet", place)) for place in (first, second)]
        assert contents(one) == contents(other)
        assert shape(one) == shape(other)


def test_indexes_of_ones_own_are_made_again(database_server: TestServer, tmp_path: Path) -> None:
    place = write("parquet", tmp_path / "x", a_history(20))
    with database_server.database(migrated=True) as url:
        with connect(url, autocommit=True) as connection:
            connection.execute(
                'CREATE INDEX "My ""own"" one" ON offer (lower(gpu_raw)) WHERE id > 1'
            )
            connection.execute(
                'ALTER TABLE offer ADD CONSTRAINT "Once a ""key""" UNIQUE (key, id) DEFERRABLE'
            )
        before = table(url)
        with few_are_enough() as quick:
            imported(url, "parquet", place)
        assert quick == [True]
        assert table(url) == before


@pytest.mark.parametrize("statement", [
    "ALTER TABLE offer REPLICA IDENTITY USING INDEX offer_key_key",
    "CLUSTER offer USING offer_native_id_idx",
    "ALTER INDEX offer_pkey SET (fillfactor = 70)",
    "COMMENT ON INDEX offer_native_id_idx IS 'mine'",
    "COMMENT ON CONSTRAINT offer_key_key ON offer IS 'mine'",
    "CREATE INDEX lower ON offer (lower(gpu_raw)); ALTER INDEX lower ALTER 1 SET STATISTICS 7",
])  # fmt: skip
def test_indexes_that_somebody_has_changed_are_left_alone(
    database_server: TestServer, tmp_path: Path, statement: str
) -> None:
    place = write("parquet", tmp_path / "x", a_history(20))
    with database_server.database(migrated=True) as url:
        with connect(url, autocommit=True) as connection:
            connection.execute(statement.encode())
        with few_are_enough() as quick:
            imported(url, "parquet", place)
        assert quick == [False]


def test_a_reader_of_offers_is_not_kept_waiting(
    database_server: TestServer, tmp_path: Path
) -> None:
    place = write("parquet", tmp_path / "x", a_history(40))
    with database_server.database(migrated=True) as url:
        with connect(url) as reading, few_are_enough() as quick:
            reading.execute("SELECT FROM offer")
            imported(url, "parquet", place)
        assert quick == [False]
        same_as_ever(database_server, url, place)


def test_a_table_that_refers_to_offers_keeps_doing_so(
    database_server: TestServer, tmp_path: Path
) -> None:
    place = write("parquet", tmp_path / "x", a_history(20))
    with database_server.database(migrated=True) as url:
        with connect(url, autocommit=True) as connection:
            connection.execute("CREATE TABLE mine (offer_id bigint REFERENCES offer)")
        before = table(url)
        with few_are_enough() as quick:
            imported(url, "parquet", place)
        assert quick == [False]
        assert table(url) == before


def test_killed_when_the_first_offers_are_there(
    database_server: TestServer, tmp_path: Path
) -> None:
    place = write("parquet", tmp_path / "x", doubtful_history())
    with database_server.database(migrated=True) as url:
        with few_are_enough() as quick, mock.patch.object(
            import_merge, "merge", side_effect=InterruptedError
        ), pytest.raises(InterruptedError):  # fmt: skip
            imported(url, "parquet", place)
        assert quick == [True]
        with connect(url) as connection:
            assert connection.execute("SELECT count(*) > 0 FROM offer").fetchone() == (True,)
        with few_are_enough() as quick:
            assert imported(url, "parquet", place).resumed
        assert quick == [False]
        same_as_ever(database_server, url, place)
