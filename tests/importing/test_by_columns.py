"""Our own exports by columns come to what they come to row by row, whatever is in them."""

from __future__ import annotations

import csv
import itertools
import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from benchmarks import importing_files
from tests.importing.worlds import NOW, dry, imported
from tests.support.pg import TestServer
from tracker.collect.importing import own_columns
from tracker.collect.importing.own import guarded
from tracker.collect.importing.run import Outcome
from tracker.collect.importing.source_table import TableFile
from tracker.collect.importing.tables import text
from tracker.report import exported
from tracker.store import exporting, floor_rebuild, import_merge
from tracker.store.bulk import months, staging
from tracker.store.engine import connect
from tracker.store.exporting import HISTORY

pyarrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

ROOT = Path(__file__).resolve().parents[2]
START = datetime(2026, 1, 30, 12, tzinfo=UTC)  # near the end of a month, on purpose
SCHEMA = pyarrow.schema([(c.name, exported.arrow_type(pyarrow, c)) for c in HISTORY])
PLAIN: dict[str, Any] = {
    "source": "acme", "provider": "acme", "native_id": "a", "gpu_key": "H100-SXM-80GB",
    "gpu_family": "H100", "form_factor": "SXM", "vram_gb": 80, "is_slice": False,
    "gpu_count": Decimal(1), "market": "on_demand", "tier": "standard", "price_kind": "fixed",
    "currency": "USD", "price_unit": "machine_hour", "commitment_unknown": False,
    "price_native": "2.5", "price_usd_per_machine_hour": Decimal("2.5"), "fallback": False,
    "open": False, "gpu_raw": "H100", "notes": [],
}  # fmt: skip
OFFERS: tuple[dict[str, Any], ...] = (
    {},
    {"native_id": "b", "provider": "other", "region": "us-*'1", "country": "US"},
    {"native_id": "=c", "gpu_count": Decimal("0.125"), "is_slice": True, "notes": ["a", '"b,\n']},
    {"native_id": "d", "market": "spot", "tier": "verified", "vcpus": Decimal("3.5"),
     "ram_gib": Decimal("0.9765625"), "dedicated": True, "datacenter": False},
    {"native_id": "e", "source": "import-else", "provider": "third", "upstream": "x",
     "billing_increment_seconds": 60, "minimum_seconds": 3600, "commitment_hours": 730,
     "disk_included_gb": "0.1", "egress_usd_per_gb": "0.0333333333333333333333333333",
     "source_url": "https://example.org/?a=1"},
    {"native_id": "f", "provider": "fourth", "gpu_key": "A100-PCIE-40GB", "gpu_family": "A100",
     "gpu_count": Decimal(8), "price_unit": "gpu_hour", "form_factor": None, "vram_gb": None},
    {"native_id": "a", "provider": "fifth", "gpu_count": Decimal("1.50"), "source_url": "u"},
    {"native_id": "ü\x1f", "gpu_family": "", "currency": "EUR", "provider": "sixth"},
)  # fmt: skip
# What makes a row a wrong one; None for what Parquet has no such value of.
WRONG: tuple[dict[str, Any], ...] = (
    {"price_native": "0"}, {"price_native": "NaN"}, {"price_native": "-1"}, {"market": "black"},
    {"source": ""}, {"gpu_key": None}, {"native_id": ""}, {"is_slice": None},
    {"gpu_count": Decimal(-1)}, {"price_usd_per_machine_hour": Decimal(0)},
    {"price_usd_per_machine_hour": None}, {"valid_to": None}, {"fallback": None},
    {"fx_rate": "much"}, {"price_unit": "hour"}, {"vcpus": None, "disk_included_gb": "x"},
)  # fmt: skip
_names = itertools.count()

prices = st.tuples(
    st.sampled_from(range(len(OFFERS))),
    st.integers(0, 40),  # begins after so many hours
    st.integers(-1, 30),  # and holds for so many
    st.sampled_from(["0.5", "2.5", "2.50", "3", "1234567.123456789", "0.00000001"]),
    st.sampled_from([None, None, None, ("1.08", date(2026, 1, 30)), ("1.0800", None)]),
    st.sampled_from([{}, {}, {}, {}, {"fallback": True}, {"valid_as_of": date(2026, 1, 1)},
                     {"expires_at": START}, {"gpu_raw": "another word"}, *WRONG]),
)  # fmt: skip


def row_of(price: Any) -> dict[str, Any]:
    """One row, as the values that an export of Parquet has."""
    offer, start, hours, native, rate, more = price
    at = START + timedelta(hours=start)
    row = dict.fromkeys((c.name for c in HISTORY), None) | PLAIN | OFFERS[offer]
    row |= {"valid_from": at, "valid_to": at + timedelta(hours=hours), "price_native": native,
            "price_usd_per_machine_hour": round(Decimal(native), 6)}  # fmt: skip
    if rate:
        row |= {"fx_rate": rate[0], "fx_date": rate[1]}
    return row | more


def write(kind: str, place: Path, rows: list[dict[str, Any]]) -> Path:
    """*rows* as a file (or of Parquet a folder of two)."""
    if kind == "parquet":
        for n, part in enumerate((rows[::2], rows[1::2])):
            (place / f"{n}").mkdir(parents=True)
            table = pyarrow.Table.from_pylist(part, schema=SCHEMA)
            parquet.write_table(table, place / f"{n}" / "x.parquet", row_group_size=3)
        return place
    texts = [[text(row[c.name]) for c in HISTORY] for row in rows]
    with place.open("w", newline="") as file:
        if kind == "csv":
            writer = csv.writer(file)
            writer.writerow([c.name for c in HISTORY])
            writer.writerows([list(map(guarded, row)) for row in texts])
        else:
            for row in texts:
                named = zip((c.name for c in HISTORY), row, strict=True)
                file.write(json.dumps(dict(named)) + "\n")
    return place


@contextmanager
def row_by_row() -> Iterator[None]:
    with mock.patch.object(TableFile, "by_columns", None):
        yield


def contents(url: str) -> dict[str, Any]:
    """All that an import leaves, but for numbers that come from sequences."""
    with connect(url, autocommit=True) as connection:
        found: dict[str, Any] = {}
        for name, statement in {
            "offers": "SELECT o.*, a.slug, b.slug FROM offer o JOIN provider a ON a.id = source_id"
            " JOIN provider b ON b.id = seller_id ORDER BY key",
            "spans": "SELECT o.key, s.* FROM price_span s JOIN offer o ON o.id = s.offer_id"
            " ORDER BY o.key, s.valid_from",
            "floors": "SELECT k.key, f.valid_from, f.valid_to, f.price_micro_usd, f.price_native,"
            " f.fx_rate FROM price_floor f JOIN floor_key k ON k.id = f.key_id"
            " ORDER BY k.key, f.valid_from",
            "providers": "SELECT slug, kind, ttl_seconds, floor_built FROM provider ORDER BY slug",
            "runs": "SELECT state, counts FROM import_run ORDER BY id",
            "left": "SELECT relname FROM pg_class WHERE relname LIKE 'import_stage%'",
        }.items():
            cursor = connection.execute(statement)
            assert cursor.description
            names = [column.name for column in cursor.description]
            skipped = {"id", "offer_id", "source_id", "seller_id"}
            found[name] = [
                tuple(v for n, v in zip(names, row, strict=True) if n not in skipped)
                for row in cursor
            ]
        return found


def shape(url: str) -> list[Any]:
    """The tables, indexes and constraints of months."""
    with connect(url, autocommit=True) as connection:
        return connection.execute(
            "SELECT c.relname, pg_get_expr(c.relpartbound, c.oid),"
            " array(SELECT i.indexrelid::regclass::text || pg_get_indexdef(i.indexrelid)"
            "       FROM pg_index i WHERE i.indrelid = c.oid ORDER BY 1),"
            " array(SELECT k.conname || pg_get_constraintdef(k.oid) FROM pg_constraint k"
            "       WHERE k.conrelid = c.oid ORDER BY 1),"
            " array(SELECT a.attname || a.attnotnull FROM pg_attribute a"
            "       WHERE a.attrelid = c.oid AND attnum > 0 ORDER BY attnum)"
            " FROM pg_class c JOIN pg_inherits i ON i.inhrelid = c.oid WHERE c.relkind = 'r'"
            " ORDER BY 1"
        ).fetchall()


def told(outcome: Outcome) -> dict[str, Any]:
    return outcome.report.to_json() | {"spans": outcome.spans, "replaced": outcome.replaced}


@settings(
    max_examples=40, deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)  # fmt: skip
@given(
    files=st.lists(st.lists(prices, min_size=1, max_size=14), min_size=1, max_size=3),
    kind=st.sampled_from(["parquet", "csv", "ndjson"]),
    unit=st.sampled_from([2, 5, 200_000]),
    since=st.sampled_from([None, START + timedelta(hours=10)]),
)
@example(files=[[(0, 0, 5, "2.5", None, {}), (0, 5, 5, "2.50", None, {})]], kind="csv", unit=5,
         since=None)  # fmt: skip
@example(files=[[(0, 0, 5, "2.5", None, {"expires_at": START}), (0, 0, 5, "2.5", None, {})],
                [(0, 0, 5, "2.5", None, {}), (0, 0, 5, "2.5", None, {"expires_at": START})]],
         kind="ndjson", unit=200_000, since=None)  # fmt: skip
def test_columns_and_rows_come_to_the_same(
    database_server: TestServer, tmp_path: Path, files: list[list[Any]], kind: str, unit: int,
    since: datetime | None,
) -> None:  # fmt: skip
    """One import after the other into one database, as a person would do it."""
    with database_server.database(migrated=True) as one, database_server.database(
        migrated=True
    ) as other, mock.patch.object(own_columns, "ROWS", unit):  # fmt: skip
        for rows in files:
            place = write(kind, tmp_path / f"{next(_names)}", [row_of(price) for price in rows])
            before = dry(kind, place, since=since).report
            done = told(imported(one, kind, place, since=since))
            with row_by_row():
                assert before == dry(kind, place, since=since).report
                assert done == told(imported(other, kind, place, since=since))
        assert contents(one) == contents(other)
        assert shape(one) == shape(other)


def a_history(rows: int) -> list[dict[str, Any]]:
    """Spans as an export has them: in the order of their ends, nothing odd about them."""
    made = [
        row_of((n % len(OFFERS), 30 * (n // len(OFFERS)), 20, f"{1 + n % 7}.5", None, {}))
        for n in range(rows)
    ]
    return sorted(made, key=lambda row: row["valid_to"])


@pytest.mark.parametrize("at", range(1, 9))
def test_interrupted_anywhere_it_goes_on(
    database_server: TestServer, tmp_path: Path, at: int
) -> None:
    """The n-th commit of the writer does not come: what it would have kept is read again."""
    place = write("parquet", tmp_path / "x", a_history(600))
    with database_server.database(migrated=True) as one, database_server.database(
        migrated=True
    ) as other, mock.patch.object(own_columns, "ROWS", 50):  # fmt: skip
        with mock.patch.object(staging, "COMMIT_ROWS", 100):
            commits = itertools.count(1)

            def commit(*arguments: Any) -> None:
                if next(commits) == at:
                    raise InterruptedError
                real(*arguments)

            real = staging.commit
            with mock.patch.object(staging, "commit", commit), pytest.raises(InterruptedError):
                imported(one, "parquet", place)
            assert contents(one)["spans"] == []
            done = imported(one, "parquet", place)
        assert done.resumed
        with row_by_row():
            assert told(done) == told(imported(other, "parquet", place))
        assert contents(one) == contents(other)


def test_what_only_the_general_way_can_do_is_done_by_it(
    database_server: TestServer, tmp_path: Path
) -> None:
    rows = a_history(40)
    rows[30]["gpu_count"] = Decimal("123.4567")
    place = write("parquet", tmp_path / "x", rows)
    with database_server.database(migrated=True) as one, database_server.database(
        migrated=True
    ) as other, mock.patch.object(own_columns, "ROWS", 7):  # fmt: skip
        done = imported(one, "parquet", place)
        with row_by_row():
            assert told(done) == told(imported(other, "parquet", place))
        assert contents(one) == contents(other)
        assert contents(one)["spans"]


def doubtful_history() -> list[dict[str, Any]]:
    """Forty days of ten offers: one has a single price far below all others, another is always
    cheap now and then, and the spans of a third overlap."""
    rows = []
    for n, day in itertools.product(range(10), range(40)):
        usd = "0.3" if n in (3, 6) and day == 7 else "2.5" if n != 4 or day % 5 else "0.2"
        hours = 36 if n == 6 else 24
        row = row_of((0, 24 * day, hours, usd if day % 2 else usd + "01", None, {}))
        rows.append(row | {"native_id": f"o{n}", "provider": f"seller{n % 5}"})
    return sorted(rows, key=lambda row: row["valid_to"])


@pytest.mark.parametrize("killed", [None, "index", "merge"])
def test_prices_far_below_all_others_are_refused_alike(
    database_server: TestServer, tmp_path: Path, killed: str | None
) -> None:
    place = write("parquet", tmp_path / "x", doubtful_history())
    with database_server.database(migrated=True) as one, database_server.database(
        migrated=True
    ) as other:  # fmt: skip
        if killed:
            module = months if killed == "index" else import_merge
            with mock.patch.object(module, killed, side_effect=InterruptedError), pytest.raises(
                InterruptedError
            ):  # fmt: skip
                imported(one, "parquet", place)
        before = dry("parquet", place).report
        done = imported(one, "parquet", place)
        assert done.resumed == bool(killed)
        with row_by_row():
            assert before == dry("parquet", place).report
            assert told(done) == told(imported(other, "parquet", place))
        assert sum(done.report.refused.values()) == 2
        assert contents(one) == contents(other)


@pytest.mark.parametrize("at_once", [False, True])
def test_an_offer_that_another_import_makes_meanwhile(
    database_server: TestServer, tmp_path: Path, at_once: bool
) -> None:
    """The ids that were set aside are void then. *at_once*: it is done when our offers wait."""
    mine, others = a_history(60), a_history(9)
    others = [row | {"gpu_raw": "theirs"} for row in others]
    place, other_place = write("csv", tmp_path / "x", mine), write("csv", tmp_path / "y", others)
    with database_server.database(migrated=True) as one, database_server.database(
        migrated=True
    ) as other, ThreadPoolExecutor(1) as pool:  # fmt: skip
        begin, build = import_merge.begin, floor_rebuild.rebuild_all
        made = threading.Event()

        def bring() -> None:
            with row_by_row():
                imported(one, "csv", other_place, name="other")

        def meanwhile(connection: Any, run: Any, *more: Any) -> bool:
            if run.id > 1:  # the other one's
                return begin(connection, run, *more)
            done = pool.submit(bring)
            made.wait(30) if at_once else done.result()
            whole = begin(connection, run, *more)
            done.result()
            return whole

        def hold(cursor: Any, sources: Any) -> Any:  # it has its offers; we wait for them
            built = build(cursor, sources)
            if at_once and not made.is_set():
                made.set()
                until_somebody_waits(one)
            return built

        with mock.patch.object(import_merge, "begin", meanwhile), mock.patch.object(
            floor_rebuild, "rebuild_all", hold
        ):  # fmt: skip
            done = told(imported(one, "csv", place))
        assert made.is_set() == at_once
        with row_by_row():
            imported(other, "csv", other_place, name="other")
            assert done == told(imported(other, "csv", place))
        for name in ("offers", "spans", "floors", "left"):
            assert contents(one)[name] == contents(other)[name]


def until_somebody_waits(url: str) -> None:
    waiting = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted)"
    with connect(url, autocommit=True) as connection:
        deadline = time.monotonic() + 30
        while connection.execute(waiting).fetchone() != (True,):
            assert time.monotonic() < deadline, "nobody waits"
            time.sleep(0.01)


def test_a_table_by_columns_takes_what_is_in_no_order(
    database_server: TestServer, tmp_path: Path
) -> None:
    """Everything is odd then, and comes to the same all the same."""
    place = write("parquet", tmp_path / "x", a_history(80)[::-1])
    with database_server.database(migrated=True) as one, database_server.database(
        migrated=True
    ) as other:  # fmt: skip
        done = told(imported(one, "parquet", place))
        with row_by_row():
            assert done == told(imported(other, "parquet", place))
        assert contents(one) == contents(other)
        assert shape(one) == shape(other)


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_the_benchmark_tells_what_an_import_takes(kind: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.importing", "--spans", "20000", "--format", kind],
        cwd=ROOT, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert re.match(rf"[\d,]+ spans from {kind}; \d+ MB of memory at most", done.stdout)
    steps = ["bare COPY", "indexes alone", "reading and writing", "indexes and offers", "merging",
             "the rest", "floors", "everything", "but for floors and indexes"]  # fmt: skip
    assert [re.split(r"\s{2,}", line)[0] for line in done.stdout.splitlines()[2:]] == steps


def test_the_files_of_the_benchmark_are_those_of_an_export(
    database_server: TestServer, tmp_path: Path
) -> None:
    """What was imported of them is exported as the same rows, but for the name of the source."""
    files = tmp_path / "files"
    importing_files.write(files, importing_files.histories(3_000))
    with database_server.database(migrated=True) as url:
        imported(url, "parquet", files)
        with connect(url) as connection:
            parts = exporting.parts(connection, "history", exporting.Wanted(), NOW)
            exported.write("parquet", HISTORY, parts, str(tmp_path / "again"))
    before, after = (
        pyarrow.concat_tables([parquet.read_table(f) for f in sorted(place.rglob("*.parquet"))])
        for place in (files, tmp_path / "again")
    )
    assert before.schema == after.schema
    same = [c for c in before.column_names if c not in ("source", "open")]
    assert sorted(map(str, before.select(same).to_pylist())) == sorted(
        map(str, after.select(same).to_pylist())
    )
