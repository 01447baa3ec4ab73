"""`gpucost demo`: real prices without a network, and nothing of the user's own touched."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.harness import run
from tests.support.pg import bindir_of_tests, reachable_folder
from tracker.cli import demo as command
from tracker.store.engine import connect


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with reachable_folder() as found:
        monkeypatch.setenv("GPUCOST_DATA_DIR", str(found))
        if bindir_of_tests() is not None:
            monkeypatch.setenv("GPUCOST_POSTGRES_BINDIR", str(bindir_of_tests()))
        yield found


def test_it_shows_both_crossings_and_commands_that_work(
    folder: Path, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    done = run("demo")
    assert done.code == 0, done.err
    text = " ".join(done.out.split())
    assert "At first the A100-SXM-40GB job was the cheaper one." in text
    assert "From 2025-03-13 on the H100 job was: A100-SXM-40GB $17.32, H100 $10.21." in text
    assert (
        "From 2026-07-09 on the A100-SXM-40GB job was: A100-SXM-40GB $23.14, H100 $24.09." in text
    )
    assert len([line for line in done.lines if line.startswith("202")]) == 12
    with connect(database_url) as connection:  # the user's own
        assert connection.execute("SELECT count(*) FROM provider").fetchall() == [(0,)]
    assert (folder / "demo").is_dir()
    assert run("demo").out == done.out, "the second time it is the same, from the same database"
    assert "unset GPUCOST_DATABASE_URL" in done.out
    monkeypatch.delenv("GPUCOST_DATABASE_URL")
    monkeypatch.setenv("GPUCOST_DATA_DIR", str(folder / "demo"))
    shown = [line.strip() for line in done.lines if line.strip().startswith("gpucost ")]
    assert len(shown) >= 3
    for line in shown:
        tried = run(*shlex.split(line)[1:])
        assert tried.code == 0, (line, tried.err)
    _explained_as_history_has_it()


def _explained_as_history_has_it() -> None:
    [line] = [
        row for row in run("offers", "--gpu", "H100", "--market", "spot", "--as-of", "2026-07-10",
                           "-o", "json").json()["rows"] if row["region"] == "us-central1"
    ][:1]  # fmt: skip
    found = run("explain", line["offer"])
    assert found.code == 0, found.err
    assert f"imported ({line['source']}), known until 2026-" in found.out
    assert "confirmed" not in found.out
    assert f"(imported as {line['source']}: the table says it" in found.out


def test_the_shipped_prices_are_dated_and_name_their_source() -> None:
    from tracker import data

    header, *rows = data.text("demo/prices.csv").splitlines()
    assert header.split(",")[0] == "observed_at"
    assert header.split(",")[-1] == "commit"
    assert len(rows) > 600
    assert all(row.rpartition(",")[2] for row in rows)
    assert "Cyclenerd/google-cloud-pricing-cost-calculator" in data.text("demo/README.md")
    assert command.HOURS == "A100-SXM-40GB=12,H100=4"
