"""The live market in memory, for whoever answers many questions.

The offers of all GPUs are kept (about 2 kB each) from the first question on. After a poll those of
its source are read again, and no others. What a set of filters leaves is kept too
(``tracker.report.prepared``), so that another job needs little more than its own bills.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, defaultdict
from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NamedTuple

from tracker.app.weight import text_in
from tracker.report.prepared import Prepared, View
from tracker.report.runs import KnownWays
from tracker.report.stock import OfSource, Stock
from tracker.store import marks, reads, sources
from tracker.store.sources import Stamp

if TYPE_CHECKING:
    from datetime import datetime

    import psycopg

    from tracker.domain.measurement import Measurement
    from tracker.domain.terms import Discount
    from tracker.report.filters import Filters
    from tracker.store.marks import Mark
    from tracker.store.reads import StoredOffer

# Of all selections that are kept: how many, and what they hold in offers of about 100 bytes each.
MOST_SELECTIONS, MOST_PREPARED = 500, 400_000
_EMPTY = 40  # what one that has no offers takes, in offers


class AtHand(NamedTuple):
    """What is known of one state of the database; the last three are added to when asked for.

    ``since``: when it was last seen to be the state (``time.monotonic``, before it was read).
    ``measured`` by name of job; ``discounts``, none or once: those in force at a moment or later;
    ``checked``: names of providers and tiers that there are.
    """

    since: float
    mark: Mark
    stock: Stock
    measured: dict[str, list[Measurement]]
    discounts: list[tuple[datetime, list[Discount]]]
    checked: set[tuple[str, str]]


class Market:
    """Keeps what was read; may be asked by several threads."""

    def __init__(self) -> None:
        self._at_hand: AtHand | None = None
        self._stamps: dict[str, Stamp] = {}
        self._reading = threading.Lock()
        self._known = KnownWays()
        self._prepared: OrderedDict[tuple[object, ...], Prepared] = OrderedDict()
        self._weights: dict[tuple[object, ...], int] = {}  # of each of them, in offers
        self._weight = 0  # of all
        self._keeping = threading.Lock()

    @property
    def at_hand(self) -> AtHand | None:
        """What was read last, if anything was."""
        return self._at_hand

    def at(self, connection: psycopg.Connection[Any], mark: Mark | None = None) -> AtHand:
        """The state that *connection* sees, read as far as it has changed; *mark*, if it is known.
        Raises StoreError."""
        since = time.monotonic()
        mark = mark or marks.read(connection)
        with self._reading:  # one reads, and the others have it from that one
            found = self._at_hand
            if found is not None and found.mark == mark:
                found = self._at_hand = found._replace(since=max(since, found.since))
                return found
            before = None if found is None else found.stock
            if before is None or found is None or found.mark.offers != mark.offers:
                stock = self._read(connection, before)
            else:
                stock = before
            found = self._at_hand = AtHand(since, mark, stock, {}, [], set())
        if stock is not before:
            with self._keeping:
                prepared = list(self._prepared.values())
            for one in prepared:
                one.forget(stock)
        return found

    def _read(self, connection: psycopg.Connection[Any], before: Stock | None) -> Stock:
        known = {} if before is None else before.sources
        found = sources.states(connection)
        kept = {
            name: offers
            for name, offers in known.items()
            if name in found and self._stamps[name].holds(name, found)
        }
        missing = found.keys() - kept.keys()
        if before is not None and not missing and len(kept) == len(known):
            return before
        told: dict[str, list[StoredOffer]] = defaultdict(list)
        wanted = missing if kept else None
        for offer in reads.live_offers(connection, sources=wanted) if missing else ():
            told[offer.source].append(offer)
        for name in missing:
            self._stamps[name] = Stamp.of(name, told[name], found)
        return Stock(kept | {name: OfSource(told[name]) for name in missing})

    def view(self, stock: Stock, filters: Filters, gpu_keys: Collection[str] | None) -> View:
        """What *filters* may leave of the offers of *gpu_keys* (None: of all GPUs)."""
        key = (filters, None if gpu_keys is None else frozenset(gpu_keys))
        with self._keeping:
            prepared = self._prepared.get(key)
            if prepared is None:
                prepared = self._prepared[key] = Prepared(filters, gpu_keys, self._known)
            else:
                self._prepared.move_to_end(key)
        view = prepared.at(stock)
        with self._keeping:
            if self._prepared.get(key) is prepared:
                self._weigh(key, len(view.offers))
        return view

    def _weigh(self, key: tuple[object, ...], offers: int) -> None:
        """Note what the selection of *key* takes, and let go of those asked for longest ago."""
        weight = _EMPTY + offers + text_in(key) // 100
        self._weight += weight - self._weights.get(key, 0)
        self._weights[key] = weight
        while self._prepared and (
            len(self._prepared) > MOST_SELECTIONS or self._weight > MOST_PREPARED
        ):
            dropped, _ = self._prepared.popitem(last=False)
            self._weight -= self._weights.pop(dropped, 0)
