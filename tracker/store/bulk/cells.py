"""Columns of a table as the texts of its cells: each different one once, and a number for each row.

Whatever is said about a text (how it is read, what its bytes are) is worked out once for it.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker.domain.offer import canonical
from tracker.store.bulk import NotByColumns
from tracker.store.bulk.fields import Field, texts_as_fields

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Flags = NDArray[np.bool_]
Parse = Callable[[str], Any]

WRONG = (ValueError, ArithmeticError, KeyError, TypeError)  # of a cell that cannot be read
_CACHED = 20_000  # texts of one column
_BITS = 62


class Cells(NamedTuple):
    """One column: its different ``texts``, and for each row the place of its own among them."""

    texts: Sequence[str]
    codes: Places


class Whole(NamedTuple):
    """One column of integers. ``wrong`` marks the rows that say none; None: all do."""

    values: Ints
    wrong: Flags | None = None


def coded(column: Iterable[str]) -> Cells:
    """The cells of a column."""
    places: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    codes = np.fromiter(map(places.__getitem__, column), dtype=np.int32)
    return Cells(list(places), codes)


def indexed(texts: Sequence[str], indices: Any) -> Cells:
    """Cells whose places are known: *indices* is anything that NumPy takes for integers."""
    return Cells(texts, np.asarray(indices).astype(np.int32, copy=False))


def constant(text: str, rows: int) -> Cells:
    """So many cells of one text."""
    return Cells([text], np.broadcast_to(np.zeros(1, dtype=np.int32), rows))


def whole(cells: Cells, parse: Parse) -> Whole:
    """The integers that *parse* reads from *cells*."""
    values, wrong = np.zeros(len(cells.texts), dtype=np.int64), np.zeros(len(cells.texts), bool)
    for place, text in enumerate(cells.texts):
        try:
            number = parse(text)
        except WRONG:
            wrong[place] = True
        else:
            if abs(number) >= 2**63:
                raise NotByColumns("an integer of more than eight bytes")
            values[place] = number
    return Whole(values[cells.codes], wrong[cells.codes] if wrong.any() else None)


class Entry(NamedTuple):
    """A text that has been read: the value, its part of an offer's identity, its bytes in COPY.

    ``identity`` None: it cannot be read.
    """

    value: Any
    identity: str | None
    field: bytes


_WRONG = Entry(None, None, b"")


@dataclass(slots=True)
class Reader:
    """Reads the cells of one column."""

    parse: Parse
    as_field: Field
    _known: dict[str, Entry] = field(default_factory=dict)

    def entries(self, texts: Sequence[str]) -> list[Entry]:
        """What each of the *texts* is. Raises NotByColumns where the database would refuse one."""
        if len(self._known) > _CACHED:
            self._known.clear()
        known = self._known
        return [known.get(text) or self._read(text) for text in texts]

    def _read(self, text: str) -> Entry:
        try:
            value = self.parse(text)
        except WRONG:
            entry = _WRONG
        else:
            try:
                entry = Entry(value, canonical(value), self.as_field(value))
            except Exception as error:
                raise NotByColumns(str(error)) from error
        self._known[text] = entry
        return entry


class Column(NamedTuple):
    """A column that has been read: what each of its texts is, and the rows' places."""

    entries: Sequence[Entry]
    codes: Places

    def wrong(self) -> Flags | None:
        """The rows whose cell cannot be read; None: all can."""
        unread = np.fromiter((e.identity is None for e in self.entries), bool, len(self.entries))
        return unread[self.codes] if unread.any() else None

    def at(self, rows: Ints, of: Callable[[Entry], Any]) -> list[Any]:
        """*of* what the cells of these *rows* are."""
        found = list(map(of, self.entries))
        return list(map(found.__getitem__, self.codes[rows].tolist()))


class Names(Column):
    """A column whose texts are nearly all different, are what they say, and must not be empty."""

    def wrong(self) -> Flags | None:
        """The rows whose cell is empty; None: none is."""
        empty = np.fromiter(map(len, self.entries), np.int64, len(self.entries)) == 0
        return empty[self.codes] if empty.any() else None

    def at(self, rows: Ints, of: Callable[[Entry], Any]) -> list[Any]:
        """Their identities or fields."""
        every: Sequence[Any] = self.entries  # texts, not entries
        texts = list(map(every.__getitem__, self.codes[rows].tolist()))
        if of is identity:
            return texts  # the very same
        try:
            return texts_as_fields(texts)
        except ValueError as error:
            raise NotByColumns(str(error)) from error


def identity(entry: Entry) -> str | None:
    """A cell's part of an offer's identity."""
    return entry.identity


def as_field(entry: Entry) -> bytes:
    """A cell's bytes in COPY."""
    return entry.field


def read(
    readers: Mapping[str, Reader], cells: Mapping[str, Cells], names: Sequence[str]
) -> dict[str, Column]:
    """All columns that *readers* are there for. *names*: see there."""
    return {
        name: Names(cells[name].texts, cells[name].codes) if name in names  # type: ignore[arg-type]
        else Column(reader.entries(cells[name].texts), cells[name].codes)
        for name, reader in readers.items()
    }  # fmt: skip


def alike(columns: Iterable[Column], rows: Ints) -> tuple[Ints, Ints]:
    """The *rows* that have the same cells in all *columns*, as groups: the first row of each, and
    for each of the rows the number of its group."""
    key, bits = np.zeros(len(rows), dtype=np.int64), 0
    for column in columns:
        more = (len(column.entries) - 1).bit_length()
        if not more:
            continue
        if bits + more > _BITS:
            _, key = np.unique(key, return_inverse=True)
            bits = (len(rows) - 1).bit_length()
        key = (key << more) | column.codes[rows]
        bits += more
    if not bits:
        return rows[:1], key
    _, first, group = np.unique(key, return_index=True, return_inverse=True)
    return rows[first], group.reshape(-1)
