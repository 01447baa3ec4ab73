"""`gpucost export`, and that what it writes can be imported again without a loss."""

from __future__ import annotations

import csv
import io
import json
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tests.cli.harness import A100, ago, polled, record, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.collect.importing import own
from tracker.domain.gpu import Gpu
from tracker.domain.offer import Extras, Market, Terms
from tracker.store.exporting import COLUMNS, HISTORY

CASES: tuple[dict[str, Any], ...] = (
    {},
    {"gpu": A100, "market": Market.SPOT, "region": "us-*'1", "country": "US",
     "gpu_count": Decimal(8)},
    {"seller": "typed", "extras": Extras(valid_as_of=ago(0).date(), fallback=True)},
    {"currency": "EUR", "fx_rate": "1.0837",
     "terms": Terms(60, 3600, 730, False, Decimal("0.1") / 3)},
    {"gpu_count": Decimal("0.125"), "slice": True,
     "notes": ("=1+1", 'a "note", with commas\nand lines')},
    {"terms": Terms(commitment_unknown=True), "dedicated": True, "datacenter": False},
    {"vcpus": Decimal("3.5"), "ram_gib": Decimal("0.9765625"), "interconnect": "=SUM(A1)"},
    {"tier": "community", "upstream": "'quoted", "source_url": "https://example.org/?a=1,2"},
)  # fmt: skip


def offers(minutes: int) -> list[Any]:
    return [
        make_offer(f"@{n} 1x,\"H100\"", str(Decimal("1.50") + n + Decimal(minutes % 7) / 8), **case)
        for n, case in enumerate(CASES)
    ]  # fmt: skip


@pytest.fixture
def filled(database_url: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """A history of three months, with gaps, whose last prices are still open."""
    monthly = [
        polled("acme", offers(minutes)[: 8 if minutes % 2 else 5], minutes)
        for minutes in (60 * 24 * 70, 60 * 24 * 70 - 60, 60 * 24 * 40, 60 * 24 * 40 - 61, 91, 5)
    ]
    record(database_url, *monthly)
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    return database_url


def table(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_history_has_every_span_and_what_is_open(filled: str, tmp_path: Path) -> None:
    done = run("export", "history", "h.csv", "-o", "csv")
    assert done.code == 0, done.err
    rows = table(tmp_path / "h.csv")
    assert done.out == f"{len(rows)} rows written\n"
    assert list(rows[0]) == [c.name for c in HISTORY]
    assert {r["open"] for r in rows} == {"true", "false"}
    assert all(r["valid_from"] < r["valid_to"] for r in rows)
    assert rows == sorted(rows, key=lambda r: r["valid_to"])
    assert not list(tmp_path.glob(".*partial"))


@pytest.mark.parametrize(
    ("what", "kind"),
    [("history", "csv"), ("history", "ndjson"), ("history", "parquet"), ("offers", "parquet")],
)
def test_export_and_import_lose_nothing(
    filled: str, tmp_path: Path, database_server: TestServer, monkeypatch: pytest.MonkeyPatch,
    what: str, kind: str,
) -> None:  # fmt: skip
    if kind == "parquet":
        pytest.importorskip("pyarrow")
    assert run("export", what, "first", "-o", kind).code == 0
    assert run("export", what, "before.csv", "-o", "csv").code == 0
    with database_server.database(migrated=True) as other:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", other)
        done = run("import", kind, "first", "-o", "json")
        assert done.code == 0, done.err
        assert done.json()["refused"] == []
        assert run("export", "history", "after.csv", "-o", "csv").code == 0
        again = run("import", "csv", "after.csv", "--name", "again", "-o", "json").json()
        assert again["replaced"] == again["spans"] == 0, "the same history once more"
    names = [c.name for c in HISTORY if c.name not in ("source", "open")]

    def essence(path: str) -> list[list[str]]:
        # Kept to the microsecond; what was open ends where it was known to hold when exported.
        skipped = {"valid_to"} if what == "offers" else set[str]()
        return sorted(
            [r[n] for n in names if n not in skipped] for r in table(tmp_path / path)
            if r["open"] != "true" or what == "offers"
        )  # fmt: skip

    before, after = essence("before.csv"), essence("after.csv")
    assert [row for row in before if row not in after] == []
    assert {r["source"] for r in table(tmp_path / "after.csv")} == {"import-acme"}
    assert len(table(tmp_path / "after.csv")) == len(table(tmp_path / "before.csv"))


def test_one_id_on_two_gpus_stays_two_offers(
    database_url: str, tmp_path: Path, database_server: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What the provider calls them does not tell them apart.
    gpus = {"2": Gpu("H100-SXM-80GB", "H100", "SXM", 80), "3": Gpu("H100-80GB", "H100", None, 80)}
    record(database_url, polled("acme", [make_offer("id", p, gpu=g) for p, g in gpus.items()]))
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    assert run("export", "history", "first.csv", "-o", "csv").code == 0
    with database_server.database(migrated=True) as other:
        monkeypatch.setenv("GPUCOST_DATABASE_URL", other)
        assert run("import", "csv", "first.csv").code == 0
        assert run("export", "history", "after.csv", "-o", "csv").code == 0
    for name in ("first.csv", "after.csv"):
        found = {r["price_native"]: r["gpu_key"] for r in table(tmp_path / name)}
        assert found == {price: gpu.key for price, gpu in gpus.items()}


def test_the_same_filters_as_the_commands(filled: str, tmp_path: Path) -> None:
    def names(*options: str) -> set[str]:
        done = run("export", "history", "-", "-o", "csv", *options)
        return {r["native_id"][1:3] for r in csv.DictReader(io.StringIO(done.out))}

    everything = {f"@{n}" for n in range(8)}
    assert names() == everything
    assert names("--gpu", "A100") == {"@1"}
    assert names("--market", "spot") == {"@1"}
    assert names("--market", "any", "--tier", "any") == everything
    assert names("--region", "US-*") == {"@1"}
    assert names("--country", "us") == {"@1"}
    assert names("--provider", "typed") == {"@2"}
    assert names("--tier", "community") == {"@7"}
    assert names("--gpus", "2") == {"@1"}
    assert names("--min-vcpus", "3") == {"@6"}
    assert names("--dedicated") == {"@5"}
    assert names("--interconnect", "sum") == {"@6"}
    assert names("--min-vram", "80") == everything
    assert names("--min-vram", "81") == set()
    day = (ago(0) - timedelta(days=20)).date().isoformat()
    assert names("--since", day, "--market", "spot") == {"@1"}
    assert names("--until", "2020-01-01") == set()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("history", "x", "-o", "csv", "--available"), "--available: an export holds all"),
        (("history", "x", "-o", "csv", "--as-of", "2026-01-01"), "use --since and --until"),
        (("polls", "x", "-o", "csv", "--gpu", "H100"), "--gpu: polls have no such column"),
        (("floor", "x", "-o", "csv", "--region", "a"), "--region: floor have no such column"),
        (("history", "x", "-o", "csv", "--gpu", "H1000"), "H1000"),
        (("history", "no/such/folder", "-o", "csv"), "No such file"),
        (("history", "-", "-o", "parquet"), "name a file or folder"),
    ],
)
def test_what_cannot_be_asked(filled: str, arguments: tuple[str, ...], complaint: str) -> None:
    done = run("export", *arguments)
    assert done.code == 2
    assert complaint in done.complaint


def test_a_file_is_not_written_over_unasked(filled: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("precious")
    assert run("export", "polls", "x", "-o", "csv").code == 2
    assert (tmp_path / "x").read_text() == "precious"
    assert run("export", "polls", "x", "-o", "csv", "--force").code == 0
    assert len(table(tmp_path / "x")) == 6


def test_money_is_text_in_json_and_nothing_is_null(filled: str) -> None:
    done = run("export", "floor", "-", "-o", "ndjson")
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert {tuple(r) for r in rows} == {("schema_version", *(c.name for c in COLUMNS["floor"]))}
    assert all(isinstance(r["price_usd_per_machine_hour"], str) for r in rows)
    assert {r["disk_included_gb"] for r in rows} >= {None}


def test_an_export_of_something_else_is_not_imported(filled: str, tmp_path: Path) -> None:
    run("export", "polls", "polls.csv", "-o", "csv")
    done = run("import", "csv", "polls.csv")
    assert done.code == 2
    assert "an export of polls" in done.complaint


def test_duckdb_reads_the_same_totals(filled: str, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    for kind in ("history", "floor", "polls"):
        assert run("export", kind, kind, "-o", "parquet").code == 0
        run("export", kind, f"{kind}.csv", "-o", "csv")
    months = {path.name for path in (tmp_path / "history").iterdir()}
    assert months == {f"month={r['valid_to'][:7]}" for r in table(tmp_path / "history.csv")}
    with duckdb.connect() as database:
        for kind in ("history", "floor"):
            rows = table(tmp_path / f"{kind}.csv")
            total = sum(Decimal(r["price_usd_per_machine_hour"]) for r in rows)
            found = database.execute(
                "SELECT count(*), sum(price_usd_per_machine_hour), count(DISTINCT month)"
                " FROM read_parquet(?, hive_partitioning = true)",
                [f"{tmp_path}/{kind}/**/*.parquet"],
            ).fetchone()
            assert found == (len(rows), total, len({r["valid_to"][:7] for r in rows}))
        [seconds] = database.execute(
            "SELECT sum(epoch(valid_to - valid_from)) FROM read_parquet(?)"
            " WHERE gpu_family = 'A100'",
            [f"{tmp_path}/history/**/*.parquet"],
        ).fetchall()[0]
    spans = [
        datetime.fromisoformat(r["valid_to"]) - datetime.fromisoformat(r["valid_from"])
        for r in table(tmp_path / "history.csv")
        if r["gpu_family"] == "A100"
    ]
    # What is open goes on between two exports.
    assert seconds == pytest.approx(sum(spans, timedelta()).total_seconds(), rel=0.01)


def test_a_spreadsheet_gets_no_formula_and_the_import_the_text(filled: str, tmp_path: Path) -> None:
    run("export", "history", "h.csv", "-o", "csv")
    cells = [cell for r in table(tmp_path / "h.csv") for cell in r.values()]
    assert not [c for c in cells if c and c[0] in "=+@"]
    for text in ("=1+1", "'quoted", "-5", "plain", "", "'", "''", "+x"):
        assert own.unguarded(own.guarded(text)) == text


@pytest.mark.parametrize(
    ("column", "text"),
    [
        ("price_native", "0"), ("price_native", "NaN"), ("valid_to", "2020-01-01T00:00:00Z"),
        ("valid_from", "2026-01-01T00:00:00"), ("market", "black"), ("is_slice", "maybe"),
        ("gpu_count", "-1"), ("notes", "{"), ("source", ""), ("price_usd_per_machine_hour", "x"),
    ],
)  # fmt: skip
def test_a_row_that_was_tampered_with_is_refused(
    filled: str, tmp_path: Path, column: str, text: str
) -> None:
    run("export", "history", "h.csv", "-o", "csv")
    rows = table(tmp_path / "h.csv")
    rows[0][column] = text
    with (tmp_path / "bad.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    done = run("import", "csv", "bad.csv", "--dry-run", "-o", "json").json()
    assert done["kept"] == len(rows) - 1
    assert [r["rows"] for r in done["refused"]] == [1]
