"""Tables as rows of text cells, whatever file they are in: CSV, newline-delimited JSON, Parquet.

Nothing is held but the row at hand. Numbers keep their digits: they are never read as floats
(Parquet's own floats excepted, which have no others).
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import chain
from pathlib import Path
from typing import IO, Any, NamedTuple

_GZIP = b"\x1f\x8b"
_MAX_CELL = 1_000_000  # characters
_BATCH = 10_000  # rows of Parquet at once


class BadTable(ValueError):
    """A file that cannot be read as a table. The message is one line and names the file."""


class Table(NamedTuple):
    """``rows`` yields (number of the row from 1, its cells in the order of ``header``)."""

    header: Sequence[str]
    rows: Iterator[tuple[int, Sequence[str]]]


@contextmanager
def open_table(path: Path, kind: str, wanted: Sequence[str] = ()) -> Iterator[Table]:
    """The table in *path*; *kind* is ``csv``, ``ndjson`` or ``parquet``.

    *wanted* are the columns that newline-delimited JSON and Parquet are read for (none: all of the
    first row's). A folder of Parquet files is one table. Raises BadTable.
    """
    if kind == "parquet":
        yield _parquet(path, wanted)
        return
    try:
        with path.open("rb") as raw:
            zipped = raw.peek(2).startswith(_GZIP)
            binary: Any = gzip.open(raw) if zipped else raw  # noqa: SIM115 (closed with raw)
            with io.TextIOWrapper(binary, "utf-8-sig", errors="replace", newline="") as text:
                if kind == "csv":
                    # A compressed file that is cut short is damaged.
                    yield _csv(text, path, whole=zipped or _ends_a_line(path))
                else:
                    yield _ndjson(text, path, wanted)
    except (OSError, EOFError, zlib.error) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "damaged gzip"
        raise BadTable(f"{path}: {reason}") from None


CUT_SHORT = "the last line has no end: it may have been cut short"


class CutShort(list[str]):
    """The last row of a file that ends in the middle of a line, perhaps of a cell."""


def _ends_a_line(path: Path) -> bool:
    """Whether the last line of a file has an end, as far as that can be looked up."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as raw:
        raw.seek(-1, io.SEEK_END)
        return raw.read(1) in b"\r\n"


def _csv(text: IO[str], path: Path, *, whole: bool) -> Table:
    csv.field_size_limit(_MAX_CELL)
    reader = csv.reader(text)
    try:
        header = next(reader)
    except StopIteration:
        raise BadTable(f"{path}: empty") from None
    except csv.Error as error:
        raise BadTable(f"{path}: not a CSV table: {error}") from None

    def rows() -> Iterator[tuple[int, Sequence[str]]]:
        number, last = 0, None
        try:
            for row in reader:
                if row:
                    if last is not None:
                        yield number, last
                    number, last = number + 1, row
            if last is not None:
                yield number, last if whole else CutShort(last)
        except csv.Error as error:
            raise BadTable(f"{path} line {reader.line_num}: not a CSV table: {error}") from None

    return Table([name.strip() for name in header], rows())


def _ndjson(text: IO[str], path: Path, wanted: Sequence[str]) -> Table:
    lines = (line for line in text if line.strip())
    first = next(lines, None)
    if first is None:
        raise BadTable(f"{path}: empty")
    header = list(wanted) or list(_object(first, path, 1))

    def rows() -> Iterator[tuple[int, Sequence[str]]]:
        for number, line in enumerate(chain([first], lines), 1):
            yield number, _cells(_object(line, path, number), header)

    return Table(header, rows())


def _object(line: str, path: Path, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line, parse_float=str, parse_int=str)
    except ValueError:
        raise BadTable(f"{path} row {number}: not a line of JSON") from None
    if not isinstance(found, dict):
        raise BadTable(f"{path} row {number}: not a JSON object")
    return found


def _cells(row: dict[str, Any], header: Sequence[str]) -> list[str]:
    return [text(row.get(name)) for name in header]


def open_parquet(path: Path, *, dictionaries: bool = False) -> Iterator[Any]:
    """The Parquet files in *path*, one after the other, in the order of their names, with pyarrow.
    *dictionaries*: texts come as such. Raises BadTable."""
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise BadTable(
            "Parquet needs pyarrow; install it with: pip install '.[parquet]' in gpucost's checkout"
        ) from None
    files = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
    if not files:
        raise BadTable(f"{path}: no Parquet file in it")
    for file in files:
        texts: list[str] = []
        try:
            if dictionaries:
                with parquet.ParquetFile(file) as opened:
                    kinds = opened.schema_arrow
                texts = [kind.name for kind in kinds if pyarrow.types.is_string(kind.type)]
            opened = parquet.ParquetFile(file, read_dictionary=texts)
        except (OSError, pyarrow.ArrowException) as error:
            raise BadTable(f"{path}: not Parquet: {str(error).splitlines()[0][:120]}") from None
        with opened:
            yield opened


def _parquet(path: Path, wanted: Sequence[str]) -> Table:
    header = list(wanted)
    for file in open_parquet(path):  # all of them are looked at before anything is read
        header = header or file.schema_arrow.names

    def rows() -> Iterator[tuple[int, Sequence[str]]]:
        number = 0
        for file in open_parquet(path):
            present = [name for name in header if name in file.schema_arrow.names]
            for batch in file.iter_batches(_BATCH, columns=present):
                for row in batch.to_pylist():
                    number += 1
                    yield number, _cells(row, header)

    return Table(header, rows())


def text(value: Any) -> str:
    """A cell as CSV has it: nothing for None, UTC times, decimals in full, JSON for lists."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        moment = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        return moment.isoformat().replace("+00:00", "Z")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f") if value == value else ""
    if isinstance(value, list | tuple | dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
