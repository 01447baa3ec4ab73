"""One table: our own export, or any with a mapping. CSV, newline-delimited JSON or Parquet."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from tracker.collect.importing import generic, own
from tracker.collect.importing.mapping import Mapping
from tracker.collect.importing.observation import Snapshot
from tracker.collect.importing.source import BadSource, Plan, Unit
from tracker.collect.importing.tables import BadTable, Table, open_table

if TYPE_CHECKING:
    from tracker.collect.importing.own_columns import Stretch

ROWS = 20_000  # of one unit: what a kill loses at most

Read = Callable[[Sequence[str], str, Snapshot], None]


class Columns(NamedTuple):
    """An export of our own. *kind* is ``csv``, ``ndjson`` or ``parquet``."""

    path: Path
    kind: str
    header: Sequence[str]

    def stretches(self, after: int) -> Iterator[Stretch]:
        """The rows behind number *after*. Raises ImportFailed and NotByColumns."""
        from tracker.collect.importing.own_columns import stretches

        try:
            yield from stretches(self.path, self.kind, after)
        except BadTable as error:
            raise BadSource(str(error)) from None

    def reader(self) -> own.Reader:
        """What reads single rows of it."""
        return own.Reader(self.header, quoted=self.kind == "csv")


class TableFile:
    """A table read in stretches of ROWS rows."""

    def __init__(
        self, plan: Plan, path: Path, kind: str, mapping: Mapping | None, now: datetime
    ) -> None:
        self._path = path
        self._kind = kind
        self._mapping = mapping
        self._now = now
        self.plan = plan
        try:  # before anything is written: whether it is such a table at all
            with self._open() as table:
                self._reader(table)
                self._header = table.header
        except BadTable as error:
            raise BadSource(str(error)) from None

    def units(self, after: str | None) -> Iterator[Unit]:
        """The stretches behind row number *after*. Raises ImportFailed."""
        done = int(after or 0)
        snapshot, number = Snapshot(), done
        try:
            with self._open() as table:
                read = self._reader(table)
                for number, row in table.rows:
                    if number <= done:
                        continue
                    read(row, f"row {number}", snapshot)
                    if snapshot.rows >= ROWS:
                        yield Unit(f"{number}", f"{number:,} rows", snapshot)
                        snapshot = Snapshot()
        except BadTable as error:
            raise BadSource(str(error)) from None
        if snapshot.rows:
            yield Unit(f"{number}", f"{number:,} rows", snapshot)

    @property
    def by_columns(self) -> Columns | None:
        """The same rows by columns, where the table is an export of our own."""
        if self._mapping is not None:
            return None
        return Columns(self._path, self._kind, self._header)

    def _open(self) -> AbstractContextManager[Table]:
        wanted = self._mapping.wanted if self._mapping else ()
        return open_table(self._path, self._kind, wanted)

    def _reader(self, table: Table) -> Read:
        if self._mapping is None:
            if not own.is_own(table.header):
                raise BadTable(f"{self._path}: {own.header_problem(table.header)}")
            return own.Reader(table.header, quoted=self._kind == "csv").read
        reader = generic.Reader(self._mapping, table.header, self._now)
        if reader.missing:
            raise BadTable(f"{self._path}: no column {reader.missing[0]}, which the mapping names")
        return reader.read


def content_digest(path: Path) -> bytes:
    """SHA-256 of a file, or of all Parquet files of a folder in order."""
    hashed = hashlib.sha256()
    for file in sorted(path.rglob("*.parquet")) if path.is_dir() else [path]:
        with file.open("rb") as opened:
            while piece := opened.read(2**20):
                hashed.update(piece)
    return hashed.digest()
