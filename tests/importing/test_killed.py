"""A million rows: killed in the middle they go on, and memory stays what it was."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from benchmarks import importing_files
from tests.support.pg import TestServer
from tracker.store.engine import connect

ROWS = 1_000_000
OFFERS = 4_000
MAX_MEMORY_KB = 500 * 1024
MAPPING = """
[source]
name = "big"
price_per = "machine"
currency = "USD"
holds = "8d"
[columns]
observed_at = "at"
seller = "who"
id = "type"
gpu = "gpu"
gpu_count = "n"
price = "usd"
market = "kind"
"""
# Runs the command and says how much memory it took at most.
MEASURED = (
    "import resource, subprocess, sys\n"
    "code = subprocess.call([sys.executable, '-c', 'from tracker.cli.main import main; main()',"
    " *sys.argv[1:]])\n"
    "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss, file=sys.stderr)\n"
    "sys.exit(code)\n"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of a million rows: 4,000 offers, every price of which changes now and then."""
    folder = tmp_path_factory.mktemp("big")
    (folder / "mapping.toml").write_text(MAPPING)
    start = datetime(2024, 1, 1, tzinfo=UTC)
    with (folder / "big.csv").open("w") as file:
        file.write("at,who,type,gpu,n,usd,kind\n")
        for round_ in range(ROWS // OFFERS):
            at = (start + timedelta(days=3 * round_)).isoformat()
            for n in range(OFFERS):
                usd = 2 + (n * 7 + round_ // 4 * (n % 5)) % 50 / 100
                file.write(f"{at},seller{n % 20},type{n},H100 SXM 80GB,1,{usd:.2f},on_demand\n")
    return folder


def command(
    url: str, folder: Path, *arguments: str, what: Sequence[str] = ()
) -> subprocess.Popen[str]:
    """`gpucost import` of the table, or of *what*."""
    table = ("csv", str(folder / "big.csv"), "--mapping", str(folder / "mapping.toml"))
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), "GPUCOST_DATABASE_URL": url,
                   "PYTHONPATH": str(Path(__file__).resolve().parents[2])}  # fmt: skip
    return subprocess.Popen(
        [sys.executable, *arguments, "import", *(what or table)],
        env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder,
    )  # fmt: skip


def contents(url: str) -> list[tuple[object, ...]]:
    with connect(url, autocommit=True, statement_timeout_s=600) as connection:
        return connection.execute(
            "SELECT count(*), sum(s.price_micro_usd), sum(date_part('epoch', s.valid_from)),"
            " sum(date_part('epoch', s.valid_to)),"
            " md5(string_agg(o.native_id || s.valid_from || s.valid_to || s.price_native, ','"
            " ORDER BY o.native_id, s.valid_from))"
            " FROM price_span s JOIN offer o ON o.id = s.offer_id"
        ).fetchall()


def staged(url: str) -> int:
    """How many rows the interrupted run has read."""
    with connect(url, autocommit=True) as connection:
        found = connection.execute(
            "SELECT coalesce(max((counts ->> 'rows')::int), 0) FROM import_run"
            " WHERE state = 'running'"
        ).fetchone()
    assert found is not None
    return int(found[0])


def wait_for(url: str, process: subprocess.Popen[str], rows: int) -> None:
    ends = time.monotonic() + 300
    while staged(url) < rows:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.mark.e2e
def test_killed_twice_a_million_rows_come_to_the_same(
    database_server: TestServer, folder: Path
) -> None:
    with database_server.database(migrated=True) as whole, database_server.database(
        migrated=True
    ) as broken:  # fmt: skip
        process = command(whole, folder, "-c", MEASURED)
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0, err
        assert int(err.split()[-1]) < MAX_MEMORY_KB
        assert "1,000,000 rows read, 1,000,000 prices kept, 0 refused" in out
        run = ("-c", "from tracker.cli.main import main; main()")
        for rows in (100_000, 600_000):
            process = command(broken, folder, *run)
            wait_for(broken, process, rows)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.communicate()
            assert contents(broken)[0][0] == 0, "nothing of it is history yet"
        process = command(broken, folder, *run)
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0, err
        assert "1,000,000 rows read, 1,000,000 prices kept" in out
        assert contents(broken) == contents(whole)
        assert contents(whole)[0][0] != 0


@pytest.mark.e2e
def test_an_export_killed_again_and_again_comes_to_the_same(
    database_server: TestServer, tmp_path: Path
) -> None:
    """By columns: month by month, in little memory. The last time everything had been read."""
    pytest.importorskip("pyarrow")
    rows = importing_files.write(tmp_path / "history", importing_files.histories(1_000_000))
    what = ("parquet", str(tmp_path / "history"))
    with database_server.database(migrated=True) as whole, database_server.database(
        migrated=True
    ) as broken:  # fmt: skip
        process = command(whole, tmp_path, "-c", MEASURED, what=what)
        out, err = process.communicate(timeout=900)
        assert process.returncode == 0, err
        assert int(err.split()[-1]) < MAX_MEMORY_KB
        assert f"{rows:,} rows read" in out
        run = ("-c", "from tracker.cli.main import main; main()")
        for staged_rows in (100_000, 500_000, rows):
            process = command(broken, tmp_path, *run, what=what)
            wait_for(broken, process, staged_rows)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.communicate()
            assert contents(broken)[0][0] == 0, "nothing of it is history yet"
        process = command(broken, tmp_path, *run, what=what)
        again, err = process.communicate(timeout=900)
        assert process.returncode == 0, err
        assert again == out
        assert contents(broken) == contents(whole)
