"""The offers that an import has met so far: numbers, what their spans begin with, and what has to
be known of their latest span. About a hundred bytes an offer.

An offer is *odd* when its spans cannot go into history as they are: they overlap, touch at the same
price, are out of order. What is odd is left to ``import_merge``, which can deal with everything.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from itertools import groupby, repeat
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tracker.store.bulk import NotByColumns
from tracker.store.bulk import marks as marking
from tracker.store.bulk.cells import (
    SEPARATOR,
    Column,
    Flags,
    Ints,
    alike,
    as_field,
    identity,
)
from tracker.store.bulk.fields import int4

# In the order of Offer.key.
IDENTITY = (
    "source", "provider", "native_id", "gpu_key", "gpu_count", "market", "tier", "price_kind",
    "region", "country", "interconnect", "vcpus", "ram_gib", "dedicated", "datacenter", "upstream",
    "currency", "price_unit", "billing_increment_seconds", "minimum_seconds", "commitment_hours",
    "commitment_unknown", "disk_included_gb", "disk_usd_per_gb_hour", "egress_usd_per_gb",
)  # fmt: skip
# What a span says of its offer, in two pieces that many offers share.
_WHO = ("source", "provider")
HEAD, TAIL = (*_WHO, "gpu_key"), ("market", "tier", "gpu_count", "region")
_FIRST = 1024
_PARTS = 5_000  # a count of GPUs is so many tenths, hundredths, ... at most
NEVER = np.iinfo(np.int64).min
ANY_PRICE = np.iinfo(np.int64).max  # stands for a price that was not looked up


def keys_of(columns: Mapping[str, Column], rows: Ints) -> NDArray[np.uint64]:
    """``Offer.key`` of the offers in these *rows*, as two numbers each."""
    parts: list[Any] = []
    for one, names in groupby(IDENTITY, lambda name: len(columns[name].entries) == 1):
        told = [columns[name] for name in names]
        if one:  # the same for all rows
            same = SEPARATOR.join(c.at(rows[:1], identity)[0] for c in told)
            parts.append(repeat(same, len(rows)))
        else:
            parts += [column.at(rows, identity) for column in told]
    digest = hashlib.blake2b
    texts = map(SEPARATOR.join, zip(*parts, strict=True))
    try:
        joined = b"".join([digest(text.encode(), digest_size=16).digest() for text in texts])
    except UnicodeEncodeError as error:
        raise NotByColumns(str(error)) from error
    return np.frombuffer(joined, dtype=">u8").astype(np.uint64).reshape(-1, 2)


def marks_of(columns: Mapping[str, Column], rows: Ints) -> marking.Marks:
    """What stands for the offers in these *rows* as long as this process lives: two numbers each,
    which are the same where ``keys_of`` are."""
    found = np.zeros((len(rows), 2), dtype=np.uint64)
    apart = np.zeros(len(rows), dtype=bool)
    for place, name in enumerate(IDENTITY):
        column = columns[name]
        told = marking.in_column(place, column.marks())
        codes = column.codes[rows] if len(told) > 1 else 0
        found += told[codes]
        if len(separating := column.separating()):
            apart |= np.isin(codes, separating)
    if apart.any():
        # Two identities of other parts are the same text then, and so are their keys.
        found[apart] = keys_of(columns, rows[apart])
    return found


class Known(NamedTuple):
    """What is kept of each offer, by its place (its number less one).

    ``heads`` and ``tails`` are numbers of what its spans say of it.
    ``counts`` and ``parts``: its GPUs are counts / parts. ``until``: the end of its latest span in
    microseconds since 1970 (NEVER: none yet), ``price`` stands for that span's (or is ANY_PRICE).
    ``lowest`` is its lowest price in micro-USD per GPU-hour.
    """

    ids: Ints
    heads: Ints
    tails: Ints
    gpus: Ints
    families: Ints
    sellers: Ints
    listed: Flags
    counts: Ints
    parts: Ints
    until: Ints
    price: Ints
    lowest: Ints
    odd: Flags


_KINDS = {"heads": np.int32, "tails": np.int32, "gpus": np.int16, "families": np.int16,
          "sellers": np.int16, "listed": np.bool_, "counts": np.int32, "parts": np.int32,
          "odd": np.bool_}  # fmt: skip
_HIGHEST = np.iinfo(np.int64).max
_EMPTY = {"until": NEVER, "lowest": _HIGHEST}


class Words:
    """Texts or bytes with a number each."""

    def __init__(self, most: int) -> None:
        self.all: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._most = most

    def number(self, word: Any) -> int:
        """The number of *word*."""
        found = self._numbers.get(word)
        if found is None:
            found = self._numbers[word] = len(self.all)
            self.all.append(word)
            if found >= self._most:
                raise NotByColumns("too many different GPUs or sellers")
        return found


class Offers:
    """All offers of an import."""

    def __init__(self) -> None:
        self.count = 0
        self.heads, self.tails = Words(2**31), Words(2**31)
        self.gpus, self.families, self.sellers = Words(2**15), Words(2**15), Words(2**15)
        self._marked, self._staged = _Index(), _Index()
        self._rows: dict[str, NDArray[Any]] = {
            name: np.zeros(_FIRST, _KINDS.get(name, np.int64)) for name in Known._fields
        }

    @property
    def known(self) -> Known:
        """The columns, to be read and written."""
        return Known(**{name: rows[: self.count] for name, rows in self._rows.items()})

    def find(self, marks: marking.Marks) -> Ints:
        """The places of the offers with these *marks*; -1: not met yet, or not by this process."""
        return self._marked.find(marks)

    def staged(self, keys: NDArray[np.uint64]) -> Ints:
        """The places of the offers with these *keys* that were ``note``d; -1: others."""
        return self._staged.find(keys)

    def mark(self, marks: marking.Marks, places: Ints) -> None:
        """From now on find the offers at *places* by their *marks*, none of which is known."""
        self._marked.add(marks, places)

    def note(self, keys: NDArray[np.uint64], places: Ints) -> None:
        """Have the offers at *places* found by their *keys*: another process has staged them."""
        self._staged.add(keys, places)

    def add(
        self, ids: Ints, slugs: Mapping[str, int], columns: Mapping[str, Column], rows: Ints
    ) -> Ints:
        """Take up the new offers in these *rows*; their places. *slugs* are the ids of
        providers."""
        first, self.count = self.count, self.count + len(ids)
        self._grow()
        places = np.arange(first, self.count)
        mine = {name: held[first : self.count] for name, held in self._rows.items()}
        for name, held in mine.items():
            held[:] = _EMPTY.get(name, 0)

        def told(name: str, of: Callable[[Any], Any]) -> NDArray[Any]:
            column = columns[name]
            found = [0 if e.identity is None else of(e.value) for e in column.entries]
            return np.array(found)[column.codes[rows]]

        mine["ids"][:] = ids
        mine["gpus"][:] = told("gpu_key", self.gpus.number)
        mine["families"][:] = told("gpu_family", self.families.number)
        mine["sellers"][:] = told("provider", self.sellers.number)
        mine["listed"][:] = told("market", lambda market: market == "on_demand")
        mine["listed"][:] &= told("is_slice", lambda is_slice: not is_slice).astype(bool)
        mine["counts"][:] = told("gpu_count", lambda count: _ratio(count)[0])
        mine["parts"][:] = told("gpu_count", lambda count: _ratio(count)[1])
        who = {slug: int4(id_) for slug, id_ in slugs.items()}
        mine["heads"][:] = self._pieces(self.heads, who, columns, rows, HEAD)
        mine["tails"][:] = self._pieces(self.tails, who, columns, rows, TAIL)
        return places

    def _pieces(
        self, words: Words, ids: Mapping[str, bytes], columns: Mapping[str, Column], rows: Ints,
        names: Sequence[str],
    ) -> NDArray[Any]:  # fmt: skip
        """The fields of these columns in a row, as a number of *words* for each of the *rows*."""
        one, group = alike([columns[name] for name in names], rows)
        parts = [
            columns[name].at(one, (lambda e: ids.get(e.value)) if name in _WHO else as_field)
            for name in names
        ]
        numbers = list(map(words.number, map(b"".join, zip(*parts, strict=True))))
        return np.array(numbers, dtype=np.int32)[group]

    def _grow(self) -> None:
        size = len(self._rows["ids"])
        if self.count > size:
            more = max(size // 4, self.count - size)
            for name, rows in self._rows.items():
                self._rows[name] = np.concatenate((rows, np.zeros(more, rows.dtype)))


def _ratio(count: Decimal) -> tuple[int, int]:
    """*count* as a fraction. Division is exact with small ones alone."""
    above, below = count.as_integer_ratio()
    # Of the server's division, too, whose quotients are rounded to sixteen digits.
    if above > _PARTS or below > _PARTS:
        raise NotByColumns(f"{count} GPUs")
    return above, below


class _Index:
    """The places of keys: sorted runs, few, as each is at least twice as long as the next."""

    def __init__(self) -> None:
        self._runs: list[tuple[NDArray[np.uint64], NDArray[np.uint64], Ints]] = []

    def find(self, keys: NDArray[np.uint64]) -> Ints:
        places = np.full(len(keys), -1, dtype=np.int64)
        if not self._runs:
            return places
        order = np.argsort(keys[:, 0])  # by which all are found in one walk through memory
        half, other = keys[order, 0], keys[order, 1]
        for halves, others, of in self._runs:
            at = np.minimum(np.searchsorted(halves, half), len(halves) - 1)
            near = halves[at] == half
            if np.any(others[at[near]] != other[near]):
                raise NotByColumns("two offers' keys begin alike")
            places[order[near]] = of[at[near]]
        return places

    def add(self, keys: NDArray[np.uint64], places: Ints) -> None:
        if not len(keys):
            return
        self._runs.append(_sorted((keys[:, 0], keys[:, 1], places)))
        while len(self._runs) > 1 and 2 * len(self._runs[-1][0]) > len(self._runs[-2][0]):
            one, other = self._runs.pop(), self._runs.pop()
            self._runs.append(
                _sorted(tuple(np.concatenate(pair) for pair in zip(other, one, strict=True)))
            )


def _sorted(run: Any) -> Any:
    order = np.argsort(run[0], kind="stable")
    if len(order) > 1 and np.any(np.diff(run[0][order]) == 0):
        raise NotByColumns("two offers' keys begin alike")
    return tuple(column[order] for column in run)
