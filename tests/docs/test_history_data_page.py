"""docs/history-data.md: every column, format and key that there is has its place on the page."""

from __future__ import annotations

from tests.docs.pages import ROOT, quoted
from tracker.collect.importing import mapping
from tracker.collect.importing.opening import FORMATS as IMPORTED
from tracker.report.exported import FORMATS as EXPORTED
from tracker.store.exporting import COLUMNS

PAGE = ROOT / "docs" / "history-data.md"


def test_every_column_of_an_export_is_explained() -> None:
    exported = {column.name for columns in COLUMNS.values() for column in columns}
    assert exported - set(quoted(PAGE)) == set()


def test_every_format_and_key_is_named() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert {*IMPORTED, *EXPORTED} - set(quoted(PAGE)) <= {"ndjson"}
    assert all(name in text for name in (*mapping.COLUMNS, *mapping.UNITS))
    assert all(f"[{name}]" in text for name in mapping.TABLES)
