"""Rows of the store into files: CSV, newline-delimited JSON, or Parquet divided by month.

Rows are written as they come. A file appears under its name when it is complete, never before.
"""

from __future__ import annotations

import csv
import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from tracker.domain.bounds import in_full
from tracker.domain.money import from_micro_usd
from tracker.store.exporting import Column, Part

if TYPE_CHECKING:
    import pyarrow

FORMATS = ("csv", "ndjson", "parquet")
SCHEMA_VERSION = 1
BATCH = 10_000  # rows of one Parquet row group
# A text that begins so is run as a formula by spreadsheets; a quote in front keeps it a text, and
# one more keeps a text that begins with a quote what it is. The import takes one off.
_GUARDED = "=+-@\t\r'"


class CannotExport(Exception):
    """A file that cannot be written, in one line."""


def write(kind: str, columns: Sequence[Column], parts: Iterable[Part], target: str, *,
          force: bool = False, stdout: IO[str] | None = None) -> int:  # fmt: skip
    """Write *parts* to *target* as *kind*; the number of rows.

    ``-`` is *stdout*, for text. Parquet of divided parts is a folder ``month=YYYY-MM``. Raises
    CannotExport when *target* exists and not *force*, or cannot be written; BrokenPipeError when
    the reader of *stdout* went away.
    """
    try:
        if kind == "parquet":
            return _write_parquet(columns, parts, target, force=force)
        encode = _csv_rows if kind == "csv" else _ndjson_rows
        if target == "-":
            if stdout is None:
                raise ValueError("no stream to write to")
            return encode(stdout, columns, parts)
        with _replacing(Path(target), force=force) as path, path.open(
            "w", encoding="utf-8", newline=""
        ) as file:  # fmt: skip
            return encode(file, columns, parts)
    except BrokenPipeError:
        raise  # who reads it has seen enough
    except OSError as error:
        raise CannotExport(f"{target}: {error.strerror or error}") from None


@contextmanager
def _replacing(path: Path, *, force: bool) -> Iterator[Path]:
    """A path beside *path* that takes its place in the end, or is removed."""
    if path.exists() and not force:
        raise CannotExport(f"{path} exists already; --force replaces it")
    partial = path.with_name(f".{path.name}.partial")
    _remove(partial)
    try:
        yield partial
        if path.is_dir():
            _remove(path)
        partial.replace(path)
    finally:
        _remove(partial)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


# -- text ----------------------------------------------------------------------------------------


def _csv_rows(file: IO[str], columns: Sequence[Column], parts: Iterable[Part]) -> int:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow([column.name for column in columns])
    encoders = [_guarded if c.kind == "text" else _TEXT[c.kind] for c in columns]
    count = 0
    for part in parts:
        for row in part.rows:
            writer.writerow(
                [None if v is None else e(v) for e, v in zip(encoders, row, strict=True)]
            )
            count += 1
    return count


def _guarded(text: str) -> str:
    return f"'{text}" if text[:1] and text[0] in _GUARDED else text


def _ndjson_rows(file: IO[str], columns: Sequence[Column], parts: Iterable[Part]) -> int:
    names = [column.name for column in columns]
    encoders = [_JSON.get(c.kind) or _TEXT[c.kind] for c in columns]
    count = 0
    for part in parts:
        for row in part.rows:
            values = {"schema_version": SCHEMA_VERSION} | {
                name: None if value is None else encode(value)
                for name, encode, value in zip(names, encoders, row, strict=True)
            }
            file.write(json.dumps(values, ensure_ascii=False, allow_nan=False) + "\n")
            count += 1
    return count


def _time(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")


def _money(micro_usd: int) -> str:
    return in_full(from_micro_usd(micro_usd))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _flag(value: bool) -> str:
    return "true" if value else "false"


def _same(value: Any) -> Any:
    return value


_TEXT: dict[str, Callable[[Any], Any]] = {
    "text": _same, "exact": in_full, "money": _money, "number": in_full, "integer": str,
    "flag": _flag, "time": _time, "day": date.isoformat, "list": _json, "json": _json,
}  # fmt: skip
# Money and decimals stay texts in JSON: a reader's float would lose their digits.
_JSON: dict[str, Callable[[Any], Any]] = {
    "integer": int, "flag": bool, "list": list, "json": _same,
}  # fmt: skip


# -- Parquet -------------------------------------------------------------------------------------


def _write_parquet(
    columns: Sequence[Column], parts: Iterable[Part], target: str, *, force: bool
) -> int:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise CannotExport(
            "Parquet needs pyarrow; install it with: pip install '.[parquet]' in gpucost's checkout"
        ) from None
    if target == "-":
        raise CannotExport("Parquet cannot be written to a terminal or pipe; name a file or folder")
    schema = pyarrow.schema([(c.name, arrow_type(pyarrow, c)) for c in columns])
    count = 0
    with _replacing(Path(target), force=force) as path:
        for part in parts:
            if part.month is not None:
                path.mkdir(exist_ok=True)
            writer: parquet.ParquetWriter | None = None
            try:
                for batch in _batches(part.rows):
                    if writer is None:
                        writer = parquet.ParquetWriter(_file(path, part), schema)
                    writer.write_batch(_arrow(pyarrow, schema, columns, batch))
                    count += len(batch)
                if part.month is None and writer is None:
                    writer = parquet.ParquetWriter(_file(path, part), schema)
            finally:
                if writer is not None:
                    writer.close()
        if not path.exists():
            path.mkdir()
    return count


def _file(path: Path, part: Part) -> str:
    if part.month is None:
        return str(path)
    folder = path / f"month={part.month}"
    folder.mkdir()
    return str(folder / "prices.parquet")


def _batches(rows: Iterator[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    batch: list[tuple[Any, ...]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == BATCH:
            yield batch
            batch = []
    if batch:
        yield batch


def arrow_type(pyarrow: Any, column: Column) -> Any:
    """How Parquet holds a column of an export."""
    return {
        "text": pyarrow.string(), "exact": pyarrow.string(), "json": pyarrow.string(),
        "money": pyarrow.decimal128(18, 6), "number": pyarrow.decimal128(38, 18),
        "integer": pyarrow.int64(), "flag": pyarrow.bool_(), "day": pyarrow.date32(),
        "time": pyarrow.timestamp("us", tz="UTC"), "list": pyarrow.list_(pyarrow.string()),
    }[column.kind]  # fmt: skip


_EIGHTEEN = Decimal(1).scaleb(-18)
_ARROW: dict[str, Callable[[Any], Any]] = {
    "exact": in_full, "json": _json, "money": from_micro_usd,
    "number": lambda value: value.quantize(_EIGHTEEN),
}  # fmt: skip


def _arrow(
    pyarrow: Any, schema: pyarrow.Schema, columns: Sequence[Column], rows: list[tuple[Any, ...]]
) -> pyarrow.RecordBatch:
    arrays = []
    for column, field, values in zip(columns, schema, zip(*rows, strict=True), strict=True):
        encode = _ARROW.get(column.kind)
        if encode is not None:
            values = tuple([None if v is None else encode(v) for v in values])
        arrays.append(pyarrow.array(values, type=field.type))
    return pyarrow.RecordBatch.from_arrays(arrays, schema=schema)
