"""What the offers of one poll are compared with: each other's prices, once those are trusted.

A wrong price must not make right ones look wrong. So only prices inside their band, listed once,
have a vote in a median; and only those that the region gate passes too stand for a machine.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from tracker.domain.offer import Market, Offer
from tracker.domain.place import region_of

Key = tuple[object, ...]


@dataclass(slots=True)
class Votes:
    """Prices to take the median of, one for each voter: its lowest."""

    _by_voter: dict[Hashable, Decimal] = field(default_factory=dict)
    _sorted: list[Decimal] = field(default_factory=list)

    def add(self, voter: Hashable, usd: Decimal) -> None:
        """Let *voter* speak for *usd*."""
        self._by_voter[voter] = min(usd, self._by_voter.get(voter, usd))
        self._sorted.clear()

    def median_of_others(self, voter: Hashable, need: int) -> Decimal | None:
        """The median of all but *voter*; None with fewer than *need* others."""
        own = self._by_voter.get(voter)
        others = len(self._by_voter) - (own is not None)
        if others < max(need, 1):
            return None
        if not self._sorted:
            self._sorted = sorted(self._by_voter.values())
        return median_without(self._sorted, None if own is None else bisect_left(self._sorted, own))


def median_without(prices: Sequence[Decimal], leave_out: int | None) -> Decimal:
    """The median of sorted *prices* without the one at index *leave_out* (None: of all)."""
    skipped = len(prices) if leave_out is None else leave_out

    def at(index: int) -> Decimal:
        return prices[index if index < skipped else index + 1]

    n = len(prices) - (leave_out is not None)
    return at(n // 2) if n % 2 else (at(n // 2 - 1) + at(n // 2)) / 2


class References:
    """The reference prices of one poll. *in_band* tells whether a price is plausible by itself.

    *far_from_regions* is the region gate; it is asked once the medians of the regions are known.
    """

    def __init__(self, offers: Sequence[Offer], in_band: Callable[[Offer], bool]) -> None:
        self._listed = Counter(o.key for o in offers)
        self._trusted = [o for o in offers if self._listed[o.key] == 1 and in_band(o)]
        self._on_demand: dict[Key, Decimal] = {}
        self._sizes: dict[Key, dict[Decimal, Decimal]] = defaultdict(dict)
        self._regions: dict[Key, Votes] = defaultdict(Votes)
        self._market: dict[Key, Votes] = defaultdict(Votes)
        for o in self._trusted:
            self._regions[_type_key(o)].add(o.key, o.price.usd)
            self._market[_market_key(o)].add(o.listed.source_id, o.price_per_gpu.usd)

    def add_machines(self, far_from_regions: Callable[[Offer], bool]) -> None:
        """Take the prices of machines from the offers that are not *far_from_regions*."""
        for o in self._trusted:
            if far_from_regions(o):
                continue
            usd, count = o.price.usd, o.listed.gpu_count
            if o.listed.market is Market.ON_DEMAND:
                key = _machine_key(o)
                self._on_demand[key] = min(usd, self._on_demand.get(key, usd))
            if count >= 1:
                cheapest = self._sizes[_family_key(o)]
                cheapest[count] = min(usd, cheapest.get(count, usd))

    def times_listed(self, o: Offer) -> int:
        """At how many prices the poll lists *o*."""
        return self._listed[o.key]

    def on_demand(self, o: Offer) -> Decimal | None:
        """USD per machine-hour of the same machine on demand."""
        return self._on_demand.get(_machine_key(o))

    def sizes(self, o: Offer) -> dict[Decimal, Decimal]:
        """GPU count → USD per machine-hour, of the same GPU under the same terms."""
        return self._sizes.get(_family_key(o), {})

    def region_median(self, o: Offer, need: int) -> Decimal | None:
        """USD per machine-hour of the same machine in at least *need* other regions."""
        votes = self._regions.get(_type_key(o))
        return votes.median_of_others(o.key, need) if votes else None

    def market_median(self, o: Offer, need: int) -> Decimal | None:
        """USD per GPU-hour of at least *need* other machines of a marketplace."""
        votes = self._market.get(_market_key(o))
        return votes.median_of_others(o.listed.source_id, need) if votes else None


def _machine_key(o: Offer) -> Key:
    x = o.listed
    # A spot price of one zone has the on-demand price of its region to stay below.
    return (o.provider, x.source_id, o.gpu.key, x.gpu_count, region_of(x.region), x.tier)


def _family_key(o: Offer) -> Key:
    x = o.listed
    # The sizes of two clouds that one reseller lists have nothing to do with one another.
    return (
        o.provider, x.upstream, o.gpu.key, x.market, x.tier, x.region, x.terms.commitment_hours,
    )  # fmt: skip


def _type_key(o: Offer) -> Key:
    x = o.listed
    return (o.provider, x.source_id, x.gpu_count, x.market, x.tier)


def _market_key(o: Offer) -> Key:
    return (o.provider, o.gpu.key, o.listed.market, o.listed.tier)
