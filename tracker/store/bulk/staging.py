"""Staging by columns: rows go into the tables that are to be history's months.

``import_stage_<run>_<yyyy>_<mm>`` is a month's table as ``price_span`` has them, not attached yet
and without indexes. Its rows name offers by ids that are set aside for them; the offers themselves
are staged as ever. What has been read is committed with the run's position, month by month, so that
a month's rows go into a table of the same transaction: a server without replicas need not log them.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tracker.store.bulk import NotByColumns, cells, offers, unit
from tracker.store.bulk.cells import Column, Ints, Reader
from tracker.store.bulk.marks import Marks
from tracker.store.bulk.offer_rows import digests, offer_lines
from tracker.store.bulk.rows import COLUMNS, Spans, encode
from tracker.store.bulk.stage_jobs import Copy, Position, commit, copy_all, suffix_of
from tracker.store.bulk.tables import Ids, Met, ids_for, meet
from tracker.store.bulk.unit import Judged, Unit
from tracker.store.bulk.writer import Writer
from tracker.store.imports import Connection, Run

_NAMES = ("native_id",)
_TURN_S = 0.0001  # how long one thread keeps the other waiting
COMMIT_ROWS = 2_000_000  # what a kill loses at most, where a month has more


class Stager:
    """Stages the units of an import: ``take`` each, then say with ``at`` how far that is."""

    def __init__(
        self, writer: Writer, connection: Connection, run: Run, readers: Mapping[str, Reader],
        known: offers.Offers, since: datetime | None = None, until: datetime | None = None,
    ) -> None:  # fmt: skip
        self.offers = known
        self._writer, self._connection, self._run = writer, connection, run
        self._readers, self._window = readers, (since, until)
        self._met, self._ids = Met(), Ids()
        self._months: dict[str, int] = dict(run.position.get("months", {}))
        self._fresh: set[str] = set()  # months whose table is not committed yet
        self._touched: set[str] = set()  # months with rows that are not committed yet
        self._rows = 0
        self._position: Position | None = None
        self._new: list[bytes] = []

    def take(self, new: Unit) -> Judged:
        """Judge a unit and hand its spans to the writer. Raises NotByColumns."""
        columns = cells.read(self._readers, new.cells, _NAMES)
        found = unit.sort_out(new, columns, *self._window)
        first, group = cells.alike([columns[name] for name in offers.IDENTITY], found.inside)
        of = self._identify(new, columns, first)[group] if len(first) else group
        judged = unit.judge(new, columns, found, self.offers, of)
        self._write(new, columns, judged)
        return judged

    def at(self, position: dict[str, Any], counts: dict[str, Any]) -> None:
        """Where the import goes on, and what it has counted, once all that was taken is committed.

        Neither may be changed afterwards.
        """
        self._position = Position(position | {"months": dict(self._months)}, counts)

    def finish(self) -> dict[str, int]:
        """Have everything written; how many rows each month has."""
        self._commit()
        self._writer.close()
        return dict(self._months)

    def _identify(self, new: Unit, columns: Mapping[str, Column], first: Ints) -> Ints:
        """The places of the offers in the rows *first*, in their order; new ones are staged."""
        marks = offers.marks_of(columns, first)
        places = self.offers.find(marks)
        unknown = np.flatnonzero(places < 0)
        if len(unknown):
            # In the order of rows: an offer has the words of its first one.
            unknown = unknown[np.argsort(first[unknown], kind="stable")]
            once, again = _first_of(marks[unknown])
            taken = unknown[once]
            keys = offers.keys_of(columns, first[taken])
            found = self.offers.staged(keys)
            fresh = np.flatnonzero(found < 0)
            if len(fresh):
                found[fresh] = self._add(new, columns, keys[fresh], first[taken[fresh]])
            self.offers.mark(marks[taken], found)
            places[unknown] = found[again]
        return places

    def _add(
        self, new: Unit, columns: Mapping[str, Column], keys: NDArray[np.uint64], rows: Ints
    ) -> Ints:
        sources, sellers = (
            set(columns[name].at(rows, lambda e: e.value)) for name in ("source", "provider")
        )
        meet(self._connection, self._met, sources, sellers)
        looked_up = not self._met.with_offers.isdisjoint(sources)
        ids, had = ids_for(self._connection, self._ids, digests(keys), looked_up=looked_up)
        places = self.offers.add(ids, self._met.ids, columns, rows)
        self._new.append(
            offer_lines(columns, rows, keys, places + 1, ids, new.starts.values[rows], had)
        )
        return places

    def _write(self, new: Unit, columns: Mapping[str, Column], judged: Judged) -> None:
        spans = unit.spans_of(new, columns, judged, self.offers)
        months = spans.ends.astype("M8[us]").astype("M8[M]").astype(np.int64)
        parts = {suffix_of(m): np.flatnonzero(months == m) for m in np.unique(months).tolist()}
        if self._touched and (not self._touched >= parts.keys() or self._rows >= COMMIT_ROWS):
            self._commit()
        made = [suffix for suffix in parts if suffix not in self._months]
        self._fresh |= set(made)
        self._touched |= parts.keys()
        self._rows += len(judged.kept)
        copies = [Copy("offer", self._new)] if self._new else []
        self._new = []
        if len(judged.odd):
            copies.append(Copy("odd", [_numbers(judged.odd + 1)]))
        for suffix, rows in parts.items():
            self._months[suffix] = self._months.get(suffix, 0) + len(rows)
            lines = self._writer.pack(partial(_lines, spans, rows))
            copies.append(Copy(suffix, lines, COLUMNS, frozen=suffix in self._fresh))
        self._writer.submit(lambda c: copy_all(c, self._run, made, copies))

    def _commit(self) -> None:
        position = self._position
        if position is not None:
            self._writer.submit(lambda c: commit(c, self._run, position))
        self._fresh, self._touched, self._rows = set(), set(), 0


class Judge(Stager):
    """Judges units as a Stager does, and keeps nothing."""

    def __init__(
        self, readers: Mapping[str, Reader], since: datetime | None = None,
        until: datetime | None = None,
    ) -> None:  # fmt: skip
        self.offers = offers.Offers()
        self._readers, self._window = readers, (since, until)
        self._months = {}

    def _add(
        self, new: Unit, columns: Mapping[str, Column], keys: NDArray[np.uint64], rows: Ints
    ) -> Ints:
        told = (columns[name].at(rows, lambda e: e.value) for name in ("source", "provider"))
        slugs = {slug: 0 for column in told for slug in column}
        return self.offers.add(np.zeros(len(rows), dtype=np.int64), slugs, columns, rows)

    def _write(self, new: Unit, columns: Mapping[str, Column], judged: Judged) -> None:
        """Nothing."""


def _first_of(marks: Marks) -> tuple[Ints, Ints]:
    """The places at which each mark comes first, in order, and of each mark its number there."""
    _, once, again = np.unique(marks[:, 0], return_index=True, return_inverse=True)
    again = again.reshape(-1)
    if np.any(marks[once[again], 1] != marks[:, 1]):
        raise NotByColumns("two offers' marks begin alike")
    order = np.argsort(once)
    rank = np.empty(len(once), dtype=np.int64)
    rank[order] = np.arange(len(once))
    return once[order], rank[again]


def _lines(spans: Spans, rows: Ints) -> list[bytes]:
    return list(encode(spans, rows))


def _numbers(values: Ints) -> bytes:
    """Lines of one int4 each."""
    lines = np.empty(len(values), dtype=[("columns", ">i2"), ("size", ">i4"), ("of", ">i4")])
    lines["columns"], lines["size"], lines["of"] = 1, 4, values
    return lines.tobytes()


@contextmanager
def writing(url: str) -> Iterator[Writer]:
    """A writer that undoes what is not committed where the block fails.

    It sends in small pieces, and the one that reads would keep it waiting before each of them.
    """
    writer, interval = Writer(url), sys.getswitchinterval()
    sys.setswitchinterval(min(interval, _TURN_S))
    try:
        yield writer
    except BaseException:
        writer.abandon()
        raise
    finally:
        sys.setswitchinterval(interval)
