"""What comes out: five formats that say the same, and nothing that hostile text could do."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

from tests.cli.harness import H100, filled, polled, run
from tests.support.offers import make_offer
from tests.support.pg import TestServer
from tracker.cli import render
from tracker.domain.findings import Quarantined, UnmappedGpu
from tracker.domain.offer import Availability, Extras, Terms
from tracker.domain.quality import Gate

HOSTILE = '=HYPERLINK("http://evil.example")'
MARKUP = "[bold red]x[/bold red] <script>alert(1)</script>"
ESCAPES = "a\x1b[2Jb\x9b31mc\x07\u202ed\u200be\ttab\rr\nn"
SEEN = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")


def _market() -> list[Any]:
    return [
        make_offer(
            "plain", "2.5", gpu_count=Decimal(2), region="us-1", vcpus=Decimal("7.5"),
            ram_gib=Decimal(64), terms=Terms(billing_increment_seconds=60),
            extras=Extras(availability=Availability.YES, stock_label="High",
                          reliability=Decimal("0.995")),
        ),
        make_offer("bare", "3.123456789", gpu=H100),
        make_offer(
            ESCAPES, "4", region=HOSTILE, tier=MARKUP, interconnect="@SUM(1)", country="  =1+1",
            extras=Extras(stock_label="-2+3", availability=Availability.YES),
        ),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def market(database_server: TestServer) -> Iterator[str]:
    offers = _market()
    held = Quarantined(offers[2], Gate.BAND, f"too cheap {ESCAPES}", False, 2)
    unknown = UnmappedGpu(MARKUP, "1 GB", ESCAPES, 3)
    with filled(
        database_server, polled("acme", offers, quarantined=[held], unmapped=[unknown])
    ) as url:
        yield url


@pytest.fixture(autouse=True)
def _at_market(market: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GPUCOST_DATABASE_URL", market)


CHEAPEST = ("cheapest", "bert-large", "--gpu", "H100")
COMMANDS = [
    CHEAPEST,
    (*CHEAPEST, "--explain"),
    ("offers",),
    ("offers", "--quarantined"),
    ("providers",),
    ("providers", "--unmapped"),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("output", ["table", "wide", "json", "csv", "ndjson"])
def test_hostile_text_is_shown_and_does_nothing(command: tuple[str, ...], output: str) -> None:
    answer = run(*command, "-o", output)
    assert answer.code == 0
    for stream in (answer.out, answer.err):
        assert not SEEN.search(stream)
    if output == "csv":
        for row in csv.reader(io.StringIO(answer.out)):
            for cell in row:
                assert not cell.lstrip(" ").startswith(("=", "+", "-", "@")), cell
    if output == "json":
        assert answer.json()["schema_version"] == 1


def test_markup_is_printed_as_it_is() -> None:
    assert MARKUP in run("offers").out
    assert MARKUP in run("providers", "--unmapped").out


def test_json_keeps_every_character() -> None:
    rows = run("offers", "-o", "json").json()["rows"]
    assert rows[2]["native_id"] == ESCAPES
    assert rows[2]["region"] == HOSTILE


def _rows(output: str, *command: str) -> list[dict[str, Any]]:
    answer = run(*command, "-o", output)
    rows: list[dict[str, Any]]
    if output == "json":
        rows = answer.json()["rows"]
    elif output == "ndjson":
        rows = [json.loads(line) for line in answer.lines]
    else:
        rows = list(csv.DictReader(io.StringIO(answer.out)))
    for row in rows:
        assert int(row.pop("age_seconds")) >= 300  # two answers are of two moments
    return rows


@pytest.mark.parametrize("command", [CHEAPEST, ("offers",)], ids=" ".join)
def test_every_format_says_the_same(command: tuple[str, ...]) -> None:
    documents, lines, table = (_rows(o, *command) for o in ("json", "ndjson", "csv"))
    assert [row | {"schema_version": 1} for row in documents] == lines
    for row, cells in zip(documents, table, strict=True):
        assert cells.keys() <= row.keys()
        for name, cell in cells.items():
            value = row[name]
            if value is None:
                assert cell == "", name
            elif isinstance(value, bool):
                assert cell == str(value).lower()
            elif isinstance(value, str):
                assert cell.lstrip("'") == render.visible(value)
            elif isinstance(value, int | float):
                assert float(cell) == value


def test_money_is_text_unknown_is_null_and_counts_are_numbers() -> None:
    rows = {row["native_id"]: row for row in _rows("json", "offers")}
    plain, bare = rows["plain"], rows["bare"]
    assert plain["price_usd_per_machine_hour"] == "2.5"
    assert plain["price_usd_per_gpu_hour"] == "1.25"
    assert bare["price_usd_per_machine_hour"] == "3.123457"
    assert bare["price_native"] == "3.123456789"
    assert (plain["gpus"], plain["vcpus"], plain["ram_gib"]) == (2, 7.5, 64)
    assert plain["reliability"] == 0.995
    for name in ("region", "vcpus", "ram_gib", "stock_label", "disk_gb", "egress_usd_per_gb"):
        assert bare[name] is None
    assert bare["availability"] == "unknown"

    def no_zero(value: Any) -> None:
        if isinstance(value, dict):
            for name, item in value.items():
                assert not (name.endswith("_usd") and item in (0, "0")), name
                assert not (isinstance(item, float) and "usd" in name), name
                no_zero(item)
        elif isinstance(value, list):
            for item in value:
                no_zero(item)

    no_zero(run(*CHEAPEST, "-o", "json").json())
    no_zero(run("offers", "-o", "json").json())


def test_times_are_utc_and_filters_echoed() -> None:
    document = run(*CHEAPEST, "-o", "json", "--min-vram", "40").json()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", document["as_of"])
    assert all(re.fullmatch(r"\S+T\S+Z", row["seen_at"]) for row in document["rows"])
    assert document["filters"] == {"gpus": ["H100"], "min_vram_gb": 40}
    assert document["job"]["hours"]["H100"] == {
        "hours": 4, "gpus": 1, "basis": "published", "lower_bound": False,
        "note": "one H100 SXM 80 GB; epochs and data set are not stated",
        "source": "Chinese GPU buyer's guides, 2025-10: no author or link is known, "
        "nobody measured it here, it compares GPUs only",
    }  # fmt: skip


@pytest.mark.parametrize("command", [CHEAPEST, ("offers",)], ids=" ".join)
def test_the_same_question_has_the_same_order(command: tuple[str, ...]) -> None:
    first, second = (_rows("json", *command) for _ in range(2))
    assert [r["offer"] for r in first] == [r["offer"] for r in second]


def test_what_was_left_out_is_told_in_csv_too() -> None:
    answer = run("offers", "--gpus", "2", "-o", "csv")
    assert answer.err == "1 of 3 offers; left out: 2 with too few GPUs\n"
    assert len(answer.lines) == 2


# --- tables on terminals ----------------------------------------------------------------------


class Terminal(io.StringIO):
    """Stdout that claims to be a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("width", [80, 100, 120, 200])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_no_line_is_wider_than_the_terminal(
    command: tuple[str, ...], width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rich.cells import cell_len

    from tracker.cli import main

    monkeypatch.setenv("COLUMNS", str(width))
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    assert main._run(list(command)) == 0
    text = re.sub(r"\x1b\[\d*m", "", screen.getvalue())  # bold and dim, which are ours
    assert not SEEN.search(text)
    for line in text.splitlines():
        assert cell_len(line) <= width, line
    if command == CHEAPEST:
        header = next(line for line in text.splitlines() if line.startswith("#"))
        assert header.split()[-1] == "OFFER"
        for name in ("GPU", "PROVIDER", "TOTAL", *(("AGE", "BILLED h") if width > 80 else ())):
            assert name in header


@pytest.mark.parametrize("extra", [(), ("--egress", "1000"), ("--gpus", "64")], ids=str)
def test_eighty_columns_keep_the_id_and_the_whole_total(
    extra: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tracker.cli import main

    found = run(*CHEAPEST, *extra, "-o", "json").json()["rows"]
    monkeypatch.setenv("COLUMNS", "80")
    screen = Terminal()
    monkeypatch.setattr("sys.stdout", screen)
    assert main._run([*CHEAPEST, *extra]) == 0
    text = re.sub(r"\x1b\[\d*m", "", screen.getvalue())
    cells = {line.split()[-1]: line.split() for line in text.splitlines() if line[:1].isdigit()}
    assert len(found) == 3
    for row in found:
        assert render.usd(Decimal(row["at_least_usd"])) in cells[row["offer"]]


def test_the_id_ends_a_line_of_the_wide_table() -> None:
    lines = run(*CHEAPEST, "-o", "wide").lines
    header = next(line for line in lines if line.startswith("#"))
    assert header.split()[-2:] == ["ID", "OFFER"]


def test_the_rows_of_each_table_are_an_object() -> None:
    rows = run("db", "status", "-o", "json").json()["rows"]
    assert rows["provider"] == 1
    assert f"provider {rows['provider']}" in run("db", "status").out


def test_an_empty_list_is_an_empty_cell() -> None:
    [first, *_] = list(csv.DictReader(io.StringIO(run(*CHEAPEST, "-o", "csv").out)))
    assert first["partial"] == ""
    answer = run(*CHEAPEST, "--egress", "5", "-o", "csv")
    [first, *_] = list(csv.DictReader(io.StringIO(answer.out)))
    assert json.loads(first["partial"]) == ["egress price unknown"]


def test_columns_go_in_their_order_and_empty_ones_first() -> None:
    columns = [render.Column("A"), render.Column("B", 1), render.Column("C", 2),
               render.Column("D", 3)]  # fmt: skip
    rows = [["aaaa", render.DASH, "cccc", "dddd"]]
    assert render.fitting(columns, rows, 100) == [0, 1, 2, 3]
    assert render.fitting(columns, rows, 17) == [0, 2, 3]
    assert render.fitting(columns, rows, 12) == [0, 2]
    assert render.fitting(columns, rows, 1) == [0]
    assert render.fitting(columns, [], 4) == [0, 1]
    # A column that says the same in every row goes before one that tells rows apart.
    rows = [["a", "x", "1", "y"], ["a", "x", "2", "y"]]
    columns = [render.Column("A"), render.Column("B", 1), render.Column("C", 2)]
    assert render.fitting(columns, rows, 6) == [0, 2]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(-5, "0 s"), (119, "119 s"), (120, "2 min"), (7199, "119 min"), (7200, "2 h"),
     (172_799, "47 h"), (172_800, "2 d")],
)  # fmt: skip
def test_ages(seconds: int, text: str) -> None:
    assert render.duration(seconds) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [("1000", "1000"), ("1E+3", "1000"), ("0.50", "0.5"), ("1E-9", "0.000000001"), ("100", "100")],
)
def test_decimals_are_written_out(value: str, text: str) -> None:
    assert render.number(Decimal(value)) == text
