"""`gpucost import` on the command line: its report, exit codes, and what it says of mistakes."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from tests.cli.harness import run
from tests.importing.test_skypilot import catalogue
from tests.importing.test_traps import PLAIN, ROW
from tracker.store.engine import connect

HEADER = ",".join(ROW)
GOOD = ",".join(ROW.values())
FREE = ",".join((ROW | {"usd": "0.00"}).values())


@pytest.fixture
def folder(tmp_path: Path, database_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table of two rows, of which one is no price, and its mapping."""
    monkeypatch.setenv("GPUCOST_DATABASE_URL", database_url)
    (tmp_path / "table.csv").write_text(f"{HEADER}\n{GOOD}\n{FREE}\n")
    (tmp_path / "mapping.toml").write_text(PLAIN)
    return tmp_path


ASKED = ("import", "csv", "table.csv", "--mapping", "mapping.toml")


def rows(url: str, statement: str) -> list[tuple[object, ...]]:
    with connect(url, autocommit=True) as connection:
        return connection.execute(statement).fetchall()


def test_the_report_of_a_dry_run(folder: Path, database_url: str) -> None:
    done = run(*ASKED, "--dry-run")
    assert done.code == 0
    assert done.lines == [
        "2 rows read, 1 price kept, 1 refused",
        "1 day from 2026-06-01 to 2026-06-01",
        "providers: aws 1",
        "GPUs: H100-80GB 1",
        "refused:",
        "  1 price of zero: sold out, or not offered",
        f"      such as row 2: {FREE}",
        "dry run: nothing was written",
    ]
    assert done.err == "", "no bar where nobody watches"
    for table in ("import_run", "provider", "offer", "price_span"):
        assert rows(database_url, f"SELECT count(*) FROM {table}") == [(0,)]  # noqa: S608


def test_an_import_and_the_same_once_more(folder: Path, database_url: str) -> None:
    first = run(*ASKED, "-o", "json").json()
    assert (first["rows"], first["kept"], first["spans"], first["repeated"]) == (2, 1, 1, False)
    assert first["refused"] == [
        {"reason": "price of zero: sold out, or not offered", "rows": 1, "sample": f"row 2: {FREE}"}
    ]
    assert first["providers"] == {"aws": 1}
    again = run(*ASKED)
    assert again.lines[-1] == "imported before, with the same content: nothing to do"
    assert rows(database_url, "SELECT count(*) FROM price_span") == [(1,)]


def test_a_terminal_sees_how_far_it_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from tracker.cli import render

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with render.long_progress("importing csv") as progress:
        progress(1, 2, "20,000 rows")
    assert "importing csv: 20,000 rows" in screen.getvalue()


def test_providers_and_offers_go_on_with_an_import_beside_them(folder: Path) -> None:
    assert run(*ASKED).code == 0
    listed = {row["provider"]: row for row in run("providers", "-o", "json").json()["rows"]}
    assert listed["import-plain"]["kind"] == "import"
    assert not listed["import-plain"]["stale"], "nobody polls it: it cannot be late"
    found = run("offers", "--as-of", "2026-06-02", "-o", "json")
    assert [row["provider"] for row in found.json()["rows"]] == ["aws"]
    assert found.json()["rows"][0]["source"] == "import-plain"
    assert run("offers", "--as-of", "2026-06-10").code == 3, "after eight days it is not known"
    assert run("doctor").code in (0, 2)


def test_a_file_that_ends_in_the_middle_of_a_line(folder: Path) -> None:
    # The price is the last cell, and may have had more digits.
    order = [name for name in ROW if name != "usd"] + ["usd"]
    lines = [",".join(order)] + [",".join(ROW[name] for name in order)] * 2
    (folder / "table.csv").write_text("\n".join(lines)[:-1])
    done = run(*ASKED, "-o", "json").json()
    assert (done["rows"], done["kept"]) == (2, 1)
    assert done["refused"][0]["reason"] == "the last line has no end: it may have been cut short"
    assert run("import", "csv", "table.csv", "--mapping", "mapping.toml").code == 0


def test_a_file_of_which_nothing_can_be_kept(folder: Path) -> None:
    (folder / "table.csv").write_text(f"{HEADER}\n{FREE}\n")
    done = run(*ASKED)
    assert done.code == 3
    assert "no row of it could be kept" in done.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("csv", "nowhere.csv"), "nowhere.csv: no such file or folder"),
        (("csv", "."), "a folder; name the file"),
        (("csv", "table.csv"), "describe it with --mapping FILE"),
        (("gpuhunt", ".", "--mapping", "mapping.toml"), "--mapping is for tables"),
        (("csv", "table.csv", "--at", "2026-01-01"), "--at is for skypilot"),
        (("skypilot", "."), "say --at TIME"),
        (("csv", "table.csv", "--since", "2026-02-01", "--until", "2026-01-01"), "must lie before"),
        (("csv", "table.csv", "--name", "Not Fine"), "small letters"),
        (("excel", "table.xls"), "excel"),
        (("parquet", "table.csv", "--mapping", "mapping.toml"), "not Parquet"),
        (("ndjson", "table.csv", "--mapping", "mapping.toml"), "not a line of JSON"),
    ],
)  # fmt: skip
def test_what_cannot_be_imported_is_one_line(
    folder: Path, arguments: tuple[str, ...], complaint: str
) -> None:
    if arguments[0] == "parquet":
        pytest.importorskip("pyarrow")
    done = run("import", *arguments)
    assert done.code == 2
    assert complaint in done.complaint


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ('price_per = "machine"', 'price_per = "month"', "source.price_per: one of machine, gpu"),
        ('holds = "8d"', "", "source.holds: how long a price holds"),
        ('holds = "8d"', 'holds = "10y"', "source.holds"),
        ('currency = "USD"', "", "source.currency"),
        ('name = "plain"', 'name = "My data"', "source.name"),
        ('seller = "provider"', "", "columns.seller: missing"),
        ('seller = "provider"', 'seler = "provider"', "columns.seler: not known"),
        ('price = "usd"', 'price = "euros"', "no column euros, which the mapping names"),
        ("[columns]", '[constants]\ngpu = "H100"\n[columns]', "columns.gpu says it already"),
        ("[columns]", '[strip]\nid = "("\n[columns]', "strip.id: no regular expression"),
        ("[columns]", '[[unit]]\nfrom = "2026"\n[columns]', "unit 1: from: a moment"),
        ("[columns]", "[rates]\nEUR = 1.08\n[columns]", "rates.EUR"),
        ("[columns]", '[markets]\nod = "black"\n[columns]', "markets.od: one of on_demand"),
        ('holds = "8d"', 'holds = "8d"\nzone = "Mars/Olympus"', "no time zone"),
        ("[source]", "[source", "not TOML"),
    ],
)
def test_a_mistake_in_a_mapping_names_the_key(
    folder: Path, old: str, new: str, complaint: str
) -> None:
    assert old in PLAIN
    (folder / "mapping.toml").write_text(PLAIN.replace(old, new, 1))
    done = run(*ASKED)
    assert done.code == 2
    assert complaint in done.complaint


@pytest.mark.parametrize(
    "body", [b"", b"\xff\xfe\x00", b"\x1f\x8b\x08\x00broken", b"a\nb\n", b'"' + b"x" * 2_000_000]
)
def test_a_file_of_rubbish_is_one_line(folder: Path, body: bytes) -> None:
    (folder / "table.csv").write_bytes(body)
    done = run(*ASKED)
    assert done.code == 2
    assert "table.csv" in done.complaint


@pytest.mark.parametrize("exceptions", ["", '\n[[hold]]\nseller = "aws"\nfor = "25h"\n'])
def test_hold_takes_the_place_of_what_a_mapping_says(
    folder: Path, database_url: str, exceptions: str
) -> None:
    mapping = folder / "mapping.toml"
    mapping.write_text(mapping.read_text() + exceptions)
    assert run(*ASKED, "--hold", "3d").code == 0
    held = "SELECT DISTINCT valid_to - valid_from FROM price_span"
    assert rows(database_url, held) == [(timedelta(days=3),)]


def test_hold_is_refused_for_an_export_whose_prices_say_their_ends(
    folder: Path, database_url: str
) -> None:
    assert run(*ASKED).code == 0
    export = str(folder / "history.csv")
    assert run("export", "history", export, "-o", "csv").code == 0
    before = rows(database_url, "SELECT count(*) FROM import_run")
    answer = run("import", "csv", export, "--hold", "3d")
    assert answer.code == 2
    assert answer.complaint == (
        "--hold: an export of gpucost says itself until when each price held"
    )
    assert rows(database_url, "SELECT count(*) FROM import_run") == before
    # Another table without a mapping is first of all not an export.
    other = folder / "other.csv"
    other.write_text("a,b\n1,2\n")
    assert "--hold" not in run("import", "csv", str(other), "--hold", "3d").complaint


def test_rows_of_two_prices_are_said_to_be_such(folder: Path) -> None:
    """One row read and two prices kept: a reader looked for the row that was missing."""
    one = catalogue("4.29")
    (folder / "lambda_v8_vms.csv").write_text(one)
    asked = ("import", "skypilot", "lambda_v8_vms.csv", "--at", "2026-06-01", "--dry-run")
    assert run(*asked).lines[0] == "1 row read, 1 price kept, 0 refused"
    (folder / "lambda_v8_vms.csv").write_text(one.rstrip("\n") + "2.15\n")  # the spot price
    assert run(*asked).lines[0] == (
        "1 row read, 2 prices kept, 0 refused (a row may hold two prices, on demand and spot,"
        " or a part of one)"
    )
