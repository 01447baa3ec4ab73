"""The live offers in memory, source by source: a poll makes those of its own source anew."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from functools import cached_property
from itertools import chain
from typing import NamedTuple

from tracker.domain.cost import hour_at_least_usd
from tracker.report.costing import place_of
from tracker.report.filters import gives_way
from tracker.report.priced import hour_usd, whole_month_usd
from tracker.report.racks import Placed, kind_of_bill
from tracker.report.runs import KindKey
from tracker.store.reads import TERM_MARKETS, Kind, Shelf, StoredOffer


class Entry(NamedTuple):
    """An offer with what every question works out of it: its kind as filters see it, its kind as
    bills do, and how it is placed in a rack, where it has no discount."""

    offer: StoredOffer
    kind: Kind
    key: KindKey
    placed: Placed


class OfSource:
    """The live offers of one source, as they once were: they never change.

    ``gives_way`` names its sellers whose prices here are not those that they tell themselves,
    ``shelves`` says until when (a moment) it tells prices on a market of its own, by
    ``reads.live_shelves``.
    """

    def __init__(self, offers: Iterable[StoredOffer]) -> None:
        kinds: dict[Kind, Kind] = {}
        keys: dict[KindKey, KindKey] = {}
        of_gpu: dict[str, list[Entry]] = defaultdict(list)
        self.shelves: dict[Shelf, datetime] = {}
        gives: set[str] = set()
        for o in sorted(offers, key=lambda o: o.offer_id):
            kind = Kind(o.is_slice, o.market, o.tier, o.provider, o.source, o.default_tiers)
            key = kind_of_bill(o)
            hour = hour_at_least_usd(hour_usd(o, None), whole_month_usd(o, None))
            of_gpu[o.gpu_key].append(
                Entry(
                    o,
                    kinds.setdefault(kind, kind),
                    keys.setdefault(key, key),
                    (hour, place_of(o), o),
                )
            )
            if gives_way(o):
                gives.add(o.provider)
            if _tells_itself(o):
                shelf = (o.provider, o.market)
                self.shelves[shelf] = max(self.shelves.get(shelf, o.stale_at), o.stale_at)
        self._of_gpu = dict(of_gpu)
        self.gives_way = frozenset(gives)

    @cached_property
    def _counts(self) -> dict[str, dict[Kind, tuple[int, int]]]:
        """By GPU and kind: how many there are, and the first one's id."""
        found: dict[str, dict[Kind, tuple[int, int]]] = {}
        for gpu_key, entries in self._of_gpu.items():
            counts = Counter(e.kind for e in entries)
            first = {e.kind: e.offer.offer_id for e in reversed(entries)}
            found[gpu_key] = {kind: (count, first[kind]) for kind, count in counts.items()}
        return found

    def __len__(self) -> int:
        return sum(map(len, self._of_gpu.values()))

    def kinds(self, gpu_keys: Collection[str] | None) -> dict[Kind, tuple[int, int]]:
        """The kinds of the offers of *gpu_keys* (None: of all GPUs): how many, the first id."""
        found: dict[Kind, tuple[int, int]] = {}
        for gpu_key in self._wanted(gpu_keys):
            for kind, (count, first) in self._counts[gpu_key].items():
                known, before = found.get(kind, (0, first))
                found[kind] = known + count, min(before, first)
        return found

    def entries(self, gpu_keys: Collection[str] | None, kinds: Collection[Kind]) -> list[Entry]:
        """Those of *gpu_keys* and of *kinds*."""
        wanted = {id(kind) for kind in self.kinds(gpu_keys) if kind in kinds}
        told = chain.from_iterable(self._of_gpu[key] for key in self._wanted(gpu_keys))
        return [entry for entry in told if id(entry.kind) in wanted]

    def _wanted(self, gpu_keys: Collection[str] | None) -> Iterable[str]:
        if gpu_keys is None:
            return self._of_gpu
        return [key for key in gpu_keys if key in self._of_gpu]


def _tells_itself(o: StoredOffer) -> bool:
    """Whether its seller told it itself, so that it makes a bill; see ``reads.live_shelves``."""
    return (
        o.source == o.provider
        and not o.fallback
        and not o.commitment_unknown
        and (o.commitment_hours is not None or o.market not in TERM_MARKETS)
    )


class Stock:
    """All live offers at one moment, by source."""

    def __init__(self, sources: Mapping[str, OfSource]) -> None:
        self.sources = sources
        self.total = sum(map(len, sources.values()))

    def shelves(self, sellers: Collection[str], now: datetime) -> frozenset[Shelf]:
        """As ``reads.live_shelves`` reads them."""
        if not sellers:
            return frozenset()
        return frozenset(
            shelf
            for source in self.sources.values()
            for shelf, until in source.shelves.items()
            if now < until and shelf[0] in sellers
        )
