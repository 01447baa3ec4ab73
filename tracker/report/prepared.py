"""What filters leave of the market, kept for the questions to come.

What a question leaves of the offers, and their order by price, is worked out once for each set of
filters and kept, for each source by itself: after a poll that of its source alone is made anew. It
is the same for every job.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime, timedelta
from itertools import chain
from typing import NamedTuple

from tracker.domain.cost import hour_at_least_usd
from tracker.report.ages import is_stale, known_at
from tracker.report.costing import Costing
from tracker.report.discounts import DiscountBook
from tracker.report.filters import (
    OTHER_GPUS,
    RESOLD,
    Filters,
    gives_way,
    machine_of,
    reason_by,
    select_kinds,
)
from tracker.report.priced import hour_usd, whole_month_usd
from tracker.report.racks import Placed, Rack, Racked, racked
from tracker.report.runs import KindKey, KnownWays
from tracker.report.stock import Entry, OfSource, Stock
from tracker.store.reads import Kind, Shelf, StoredOffer

_MOMENT = timedelta(microseconds=1)
_RESOLD = ""  # in the place of a source: what is left of the resold machines of all
# Reasons: how many offers each is of, and the first one's id.
_Reasons = Mapping[str, tuple[int, int]]


class _Read(NamedTuple):
    """What the kinds that filters want leave of a source."""

    of: OfSource
    entries: list[Entry]
    left_out: _Reasons
    giving_way: frozenset[str]


class _Asked(NamedTuple):
    """On what it depends, beside the offers and the moment, what filters leave."""

    filters: Filters
    shelves: frozenset[Shelf]
    discounts: DiscountBook


class _Chosen:
    """What filters leave of a source from *at* until before ``until``."""

    def __init__(
        self, read: _Read, costing: Costing, asked: _Asked, at: datetime
    ) -> None:  # fmt: skip
        self.read, self.asked, self.at = read, asked, at
        excluded: dict[str, tuple[int, int]] = {}
        reason_of = reason_by(
            asked.filters, costing.catalogue, at, asked.shelves, of_kinds=True
        )  # fmt: skip
        self.racks: dict[KindKey, list[Placed]] = {}
        self.resold: list[Entry] = []
        for entry in read.entries:
            o = entry.offer
            reason = reason_of(o)
            if reason is not None:
                count, first = excluded.get(reason, (0, o.offer_id))
                excluded[reason] = count + 1, min(first, o.offer_id)
            elif o.upstream:
                self.resold.append(entry)
            else:
                _put(self.racks, entry, asked.discounts)
        for placed in self.racks.values():
            placed.sort()
        self.excluded: _Reasons = excluded
        self.until = _changes_at(read.entries, asked.filters.max_age, at)
        self._direct: dict[tuple[object, ...], set[str | None]] | None = None

    def holds(self, read: _Read, asked: _Asked, now: datetime) -> bool:
        """Whether it is what the same filters leave at *now*."""
        return self.read is read and self.asked == asked and self.at <= now < self.until

    def runs(self, o: StoredOffer) -> bool:
        """Whether this source, which runs the machine of *o*, sells it itself; see
        ``filters.leave_out_resold``."""
        if self._direct is None:
            self._direct = {}
            for _, _, one in chain.from_iterable(self.racks.values()):
                itself = one.upstream is None and one.source == one.provider
                if itself and not is_stale(one, self.at):
                    machine = machine_of(one, one.provider)
                    self._direct.setdefault(machine, set()).add(one.form_factor)
        forms = self._direct.get(machine_of(o, o.upstream), set())
        if o.form_factor is None:
            return bool(forms)
        return None in forms or o.form_factor in forms


def _put(racks: dict[KindKey, list[Placed]], entry: Entry, discounts: DiscountBook) -> None:
    o, placed = entry.offer, entry.placed
    percent = discounts.percent_for(o) if discounts.by_provider else None
    if percent is not None:
        hour = hour_at_least_usd(hour_usd(o, percent), whole_month_usd(o, percent))
        placed = hour, placed[1], o
    racks.setdefault(entry.key, []).append(placed)


def _changes_at(entries: Iterable[Entry], max_age: timedelta | None, now: datetime) -> datetime:
    """When the next offer becomes stale, or too old: what is chosen stays the same until then."""
    never = datetime.max.replace(tzinfo=now.tzinfo)
    until = min((at for e in entries if (at := e.offer.stale_at) > now), default=never)
    if max_age is not None:
        seen = (known_at(e.offer) for e in entries)
        old = (at + max_age + _MOMENT for at in seen if at is not None and at + max_age >= now)
        until = min(until, min(old, default=never))
    return until


class View(NamedTuple):
    """What one set of filters may leave of one state of the market.

    *offers* are those of ``report.asked.Asked``, *left_out* the reasons of others of these GPUs.
    ``giving_way``: whose prices give way to those that they tell themselves.
    """

    prepared: Prepared
    read: Mapping[str, _Read]
    offers: list[StoredOffer]
    left_out: Counter[str]
    giving_way: frozenset[str]

    @property
    def known(self) -> KnownWays:
        """The estimates of the last jobs."""
        return self.prepared.known

    def bounds(
        self, costing: Costing, filters: Filters, now: datetime, total: int,
        shelves: frozenset[Shelf], discounts: DiscountBook,
    ) -> tuple[Racked, Counter[str]]:  # fmt: skip
        """What has a bill, and the reasons of the others; see ``cheapest_report``."""
        racks, excluded = self.prepared.chosen(
            self, costing, _Asked(filters, shelves, discounts), now
        )
        others = total - len(self.offers) - self.left_out.total()
        if others > 0:
            excluded[OTHER_GPUS] += others
        known = self.known.of(costing.job).runs
        return racked(costing, racks, discounts, excluded, known), excluded


class Prepared:
    """What one set of filters leaves of the market; may be asked by several threads.

    *gpu_keys* None: of all GPUs.
    """

    def __init__(
        self, filters: Filters, gpu_keys: Collection[str] | None, known: KnownWays
    ) -> None:  # fmt: skip
        self._filters, self.known = filters, known
        self._gpu_keys = None if gpu_keys is None else frozenset(gpu_keys)
        self._stock: Stock | None = None
        self._view: View | None = None
        self._chosen: dict[str, _Chosen] = {}
        # What each source has in a rack, and the racks made of it, by kind.
        self._parts: dict[KindKey, dict[str, list[Placed]]] = {}
        self._made: dict[KindKey, Rack] = {}
        self._racks: list[Rack] | None = None  # all of them; None: a source has changed
        self._resold: dict[KindKey, list[Placed]] = {}
        self._given_way = 0  # of the resold ones
        self._lock = threading.RLock()

    def __len__(self) -> int:
        return 0 if self._view is None else len(self._view.offers)

    def at(self, stock: Stock) -> View:
        """What the filters may leave of *stock*."""
        with self._lock:
            if self._view is None or self._stock is not stock:
                self._view = self._look(stock, {} if self._view is None else self._view.read)
                self._stock = stock
            return self._view

    def forget(self, stock: Stock) -> None:
        """Let go of what is not in *stock* any more: nobody may ask for so long that old offers
        would fill the memory."""
        with self._lock:
            if self._view is None or self._stock is stock:
                return
            before, sources = self._view.read, stock.sources
            kept = {name: one for name, one in before.items() if sources.get(name) is one.of}
            self._stock, self._view = None, self._view._replace(read=kept, offers=[])
            for name in [name for name in self._chosen if name not in kept]:
                self._drop(name)

    def _look(self, stock: Stock, before: Mapping[str, _Read]) -> View:
        read: dict[str, _Read] = {}
        for name, source in stock.sources.items():
            known = before.get(name)
            read[name] = known if known is not None and known.of is source else self._read(source)
        return View(
            self,
            read,
            [entry.offer for one in read.values() for entry in one.entries],
            _counted(one.left_out for one in read.values()),
            frozenset(chain.from_iterable(one.giving_way for one in read.values())),
        )

    def _read(self, source: OfSource) -> _Read:
        told = source.kinds(self._gpu_keys)
        wanted: list[Kind] = []
        left_out: dict[str, tuple[int, int]] = {}
        for kind, (count, first) in told.items():
            kept, reasons = select_kinds({kind: count}, self._filters)
            wanted += kept
            for reason in reasons:
                known, before = left_out.get(reason, (0, first))
                left_out[reason] = known + count, min(before, first)
        entries = source.entries(self._gpu_keys, frozenset(wanted))
        gives = (e.offer.provider for e in entries if source.gives_way and gives_way(e.offer))
        return _Read(source, entries, left_out, frozenset(gives))

    def chosen(
        self, view: View, costing: Costing, asked: _Asked, now: datetime
    ) -> tuple[list[Rack], Counter[str]]:
        """What is left of the offers of *view*, in racks, and the reasons of the others."""
        asked = asked._replace(filters=asked.filters._replace(gpus=()))  # they are of these GPUs
        with self._lock:
            for name in [name for name in self._chosen if name not in view.read]:
                self._drop(name)
            for name, read in view.read.items():
                known = self._chosen.get(name)
                if known is None or not known.holds(read, asked, now):
                    self._drop(name)
                    self._chosen[name] = one = _Chosen(read, costing, asked, now)
                    self._add(name, one.racks)
            excluded = view.left_out + _counted(one.excluded for one in self._chosen.values())
            racks = self._all(asked.discounts)
            if self._given_way:
                excluded[RESOLD] += self._given_way
            return racks, excluded

    def _drop(self, name: str) -> None:
        one = self._chosen.pop(name, None)
        if one is not None:
            self._take_out(name, one.racks)

    def _add(self, name: str, racks: Mapping[KindKey, list[Placed]]) -> None:
        self._racks = None
        for key, placed in racks.items():
            self._parts.setdefault(key, {})[name] = placed
            self._made.pop(key, None)

    def _take_out(self, name: str, racks: Iterable[KindKey]) -> None:
        self._racks = None
        for key in racks:
            parts = self._parts[key]
            del parts[name]
            if not parts:
                del self._parts[key]
            self._made.pop(key, None)

    def _all(self, discounts: DiscountBook) -> list[Rack]:
        if self._racks is None:
            self._leave_out_resold(discounts)
            for key, parts in self._parts.items():
                if key not in self._made:
                    self._made[key] = Rack(key, chain.from_iterable(parts.values()))
            self._racks = sorted(self._made.values(), key=lambda rack: rack.first)
        return self._racks

    def _leave_out_resold(self, discounts: DiscountBook) -> None:
        """As ``filters.leave_out_resold`` does."""
        self._take_out(_RESOLD, self._resold)
        self._resold, self._given_way = {}, 0
        for entry in chain.from_iterable(one.resold for one in self._chosen.values()):
            o = entry.offer
            upstream = self._chosen.get(o.upstream or "")
            if upstream is not None and upstream.runs(o):
                self._given_way += 1
            else:
                _put(self._resold, entry, discounts)
        self._add(_RESOLD, self._resold)


def _counted(reasons: Iterable[_Reasons]) -> Counter[str]:
    """All of them added up, in the order of their first offers."""
    counts: Counter[str] = Counter()
    first: dict[str, int] = {}
    for told in reasons:
        for reason, (count, offer_id) in told.items():
            counts[reason] += count
            first[reason] = min(first.get(reason, offer_id), offer_id)
    return Counter({reason: counts[reason] for reason in sorted(first, key=lambda r: first[r])})
