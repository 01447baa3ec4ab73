"""Columns of a table as the texts of its cells: each different one once, and a number for each row.

Whatever is said about a text (how it is read, what its bytes are) is worked out once for it.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, overload

import numpy as np
from numpy.typing import NDArray

from tracker.domain.offer import canonical
from tracker.store.bulk import NotByColumns, marks
from tracker.store.bulk.fields import Field, texts_as_fields

Ints = NDArray[np.int64]
Places = NDArray[np.int32]
Flags = NDArray[np.bool_]
Parse = Callable[[str], Any]

WRONG = (ValueError, ArithmeticError, KeyError, TypeError)  # of a cell that cannot be read
_CACHED = 20_000  # texts of one column
SEPARATOR = "\x1f"  # between the parts of an identity, in Offer.key
_SPARSE = 8  # a table of all possible numbers may have so many times the rows that there are


class Packed(Sequence[str]):
    """Texts in one piece of UTF-8: text i is the bytes from ``bounds[i]`` to ``bounds[i + 1]``."""

    def __init__(self, data: bytes, bounds: Ints) -> None:
        self.data, self.bounds = data, bounds

    @classmethod
    def of(cls, texts: Sequence[str]) -> Packed:
        """The same *texts*. Raises NotByColumns where UTF-8 has none for one of them."""
        if isinstance(texts, Packed):
            return texts
        try:
            sent = list(map(str.encode, texts))
        except UnicodeEncodeError as error:
            raise NotByColumns(str(error)) from error
        sizes = np.fromiter(map(len, sent), np.int64, len(sent))
        return cls(b"".join(sent), np.concatenate(([0], np.cumsum(sizes))))

    def __len__(self) -> int:
        return len(self.bounds) - 1

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        if isinstance(place, slice):
            return self.at(np.arange(len(self))[place])
        return self.at(np.arange(len(self))[[place]])[0]

    def at(self, places: NDArray[np.integer[Any]]) -> list[str]:
        """The texts at these *places*."""
        data = self.data
        begin, end = self.bounds[places].tolist(), self.bounds[places + 1].tolist()
        return [data[b:e].decode() for b, e in zip(begin, end, strict=True)]

    def with_byte(self, byte: int) -> Ints:
        """The places of the texts that have this *byte*."""
        if byte not in self.data:
            return np.zeros(0, dtype=np.int64)
        found = np.flatnonzero(np.frombuffer(self.data, dtype=np.uint8) == byte)
        return np.unique(np.searchsorted(self.bounds, found, side="right") - 1)


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

    ``identity`` None: it cannot be read. ``mark`` are 128 bits that stand for it, ``same`` is the
    same for the same value (and seldom for another).
    """

    value: Any
    identity: str | None
    field: bytes
    mark: tuple[int, int] = (0, 0)
    same: int = 0


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
                told = canonical(value)
                entry = Entry(value, told, self.as_field(value), _mark(told), hash(value))
            except Exception as error:
                raise NotByColumns(str(error)) from error
        self._known[text] = entry
        return entry


def _mark(text: str) -> tuple[int, int]:
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    return int.from_bytes(digest[:8], "big"), int.from_bytes(digest[8:], "big")


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

    def marks(self) -> marks.Marks:
        """128 bits for each of its texts: the same for the same part of an identity."""
        return np.array([e.mark for e in self.entries], dtype=np.uint64).reshape(-1, 2)

    def separating(self) -> Ints:
        """The places of its texts that have the character between the parts of an identity."""
        found = [n for n, e in enumerate(self.entries) if e.identity and SEPARATOR in e.identity]
        return np.array(found, dtype=np.int64)


class Names(Column):
    """A column whose texts are nearly all different, are what they say, and must not be empty."""

    @property
    def _texts(self) -> Packed:
        return self.entries  # type: ignore[return-value]

    def wrong(self) -> Flags | None:
        """The rows whose cell is empty; None: none is."""
        empty = np.diff(self._texts.bounds) == 0
        return empty[self.codes] if empty.any() else None

    def at(self, rows: Ints, of: Callable[[Entry], Any]) -> list[Any]:
        """Their identities or fields."""
        try:
            texts = self._texts.at(self.codes[rows])
            return texts if of is identity else texts_as_fields(texts)
        except ValueError as error:
            raise NotByColumns(str(error)) from error

    def marks(self) -> marks.Marks:
        """See Column."""
        return marks.of_texts(self._texts.data, self._texts.bounds)

    def separating(self) -> Ints:
        """See Column."""
        return self._texts.with_byte(ord(SEPARATOR))


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
        name: Names(Packed.of(cells[name].texts), cells[name].codes) if name in names  # type: ignore[arg-type]
        else Column(reader.entries(cells[name].texts), cells[name].codes)
        for name, reader in readers.items()
    }  # fmt: skip


def alike(columns: Iterable[Column], rows: Ints) -> tuple[Ints, Ints]:
    """The *rows* that have the same cells in all *columns*, as groups: the first row of each, and
    for each of the rows the number of its group."""
    first, group = np.zeros(min(len(rows), 1), dtype=np.int64), np.zeros(len(rows), dtype=np.int64)
    for column in sorted(columns, key=lambda column: -len(column.entries)):
        if len(column.entries) < 2:
            continue
        codes = column.codes[rows]
        if np.array_equal(codes[first][group], codes):
            continue  # it says nothing that the columns before it do not
        key = group * len(column.entries) + codes
        first, group = numbered(key, len(first) * len(column.entries))
    return rows[first], group


def numbered(keys: Ints, below: int) -> tuple[Ints, Ints]:
    """The place at which each different key comes first, in the order of keys, and for each of the
    *keys* its number there. All are from 0 to *below*, which is not one of them."""
    if below > _SPARSE * max(len(keys), _CACHED):
        _, first, number = np.unique(keys, return_index=True, return_inverse=True)
        return first, number.reshape(-1)
    there = np.zeros(below, dtype=bool)
    there[keys] = True
    numbers = np.cumsum(there) - 1
    number = numbers[keys]
    first = np.empty(int(numbers[-1]) + 1 if below else 0, dtype=np.int64)
    first[number[::-1]] = np.arange(len(keys) - 1, -1, -1)  # what is written last stays
    return first, number


def in_order(numbers: Ints) -> Ints:
    """The places of *numbers* (from 0 to 2^40) in their order, the same ones in that of places."""
    if len(numbers) >= 2**22:
        return np.argsort(numbers, kind="stable")
    order: Ints = np.sort((numbers << 22) | np.arange(len(numbers))) & (2**22 - 1)
    return order
