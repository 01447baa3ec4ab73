"""The cheapest job of each group (GPU or provider) at every moment, as steps with gaps."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

import numpy as np

from tracker.domain.series import Step, joined
from tracker.report.history.lines import Cost, Line, cost_at
from tracker.store.reads import StoredOffer
from tracker.store.series.keys import Ints, Track, from_micros, to_micros
from tracker.store.series.reduce import lowest_steps

# Bills that differ by no more than this share tie: list prices made of rounded parts do (two clouds
# ask 98.32 for eight of one GPU and 32.77 of another: 49.16 and 49.155 USD for 4 and 12 hours).
TIE = Decimal("0.001")

Names = Callable[[StoredOffer], Sequence[str]]  # the groups that an offer belongs to


class CostStep(NamedTuple):
    """From *start* until before *end* the cheapest way is ``cost``, on ``offer``.

    Of the offers that had that price ``offer`` is one.
    """

    start: datetime
    end: datetime
    cost: Cost
    offer: StoredOffer

    @property
    def usd(self) -> Decimal:
        """The bill, or what it comes to at least."""
        return self.cost.usd


class Piece(NamedTuple):
    """A track between two moments within which its lines do not change."""

    track: Track
    offer: StoredOffer
    start: datetime
    end: datetime
    lines: tuple[Line, ...]


Natives = Mapping[tuple[int, int], tuple[Decimal, Decimal | None]]
OffersById = Callable[[Collection[int]], Mapping[int, StoredOffer]]


class _Costed(NamedTuple):
    starts: Ints
    ends: Ints
    offer_ids: Ints
    places: Ints  # in the list of costs


_Priced = tuple[Cost, StoredOffer]  # an offer alike, at the price that the cost is of


class _Lowest(NamedTuple):
    start: int
    end: int
    offer_id: int
    priced: _Priced


def cheapest_steps(
    pieces: Sequence[Piece],
    names: Names,
    offers_by_id: OffersById,
    natives: Natives,
    budget_usd: Decimal | None,
) -> tuple[dict[str, list[CostStep]], list[CostStep]]:
    """For each of the *names*, and over all: who was the cheapest when.

    A bill with an unknown part is only the cheapest where no complete one is known. Of equal bills
    that of less risky a market counts, then that of the first provider. Offers are read for the
    steps that are left: few of those that ever had a price.
    """
    costs: list[_Priced] = []
    costed = [_cost(piece, natives, budget_usd, costs) for piece in pieces]
    if not costs:
        return {}, []
    rank = np.empty(len(costs), dtype=np.int64)
    rank[sorted(range(len(costs)), key=lambda place: _order(*costs[place]))] = np.arange(len(costs))
    groups: dict[str, list[_Costed]] = {}
    for piece, one in zip(pieces, costed, strict=True):
        for name in names(piece.offer):
            groups.setdefault(name, []).append(one)
    found = {name: list(_lowest(some, rank, costs)) for name, some in sorted(groups.items())}
    overall = list(_lowest(costed, rank, costs))
    ids = {one.offer_id for some in (*found.values(), overall) for one in some}
    offers = offers_by_id(ids)

    def steps(some: Sequence[_Lowest]) -> list[CostStep]:
        return [_step(one, offers) for one in some]

    return {name: steps(some) for name, some in found.items()}, steps(overall)


def _cost(
    piece: Piece, natives: Natives, budget_usd: Decimal | None, costs: list[_Priced]
) -> _Costed:
    """The steps of *piece*, each with the place of its cost, which is appended to *costs*."""
    track = piece.track
    starts = np.maximum(track.starts, to_micros(piece.start))
    ends = np.minimum(track.ends, to_micros(piece.end))
    here = np.flatnonzero(starts < ends)
    prices, ids = track.micro_usd[here], track.offer_ids[here]
    distinct, first, of = np.unique(prices, return_index=True, return_inverse=True)
    if natives and by_month(track):  # the price of a month may differ where that of an hour is one
        _, first, of = np.unique(
            np.column_stack((prices, ids)), axis=0, return_index=True, return_inverse=True
        )
        distinct = prices[first]
    places = np.full(len(distinct), -1, dtype=np.int64)
    for at, (micro, id_) in enumerate(zip(distinct.tolist(), ids[first].tolist(), strict=True)):
        native, rate = natives.get((id_, micro), (Decimal(0), None))
        offer = piece.offer._replace(price_micro_usd=micro, price_native=native, fx_rate=rate)
        cost = cost_at(offer, piece.lines, budget_usd)
        if cost is not None:
            places[at] = len(costs)
            costs.append((cost, offer))
    place = places[of.reshape(-1)]
    kept = place >= 0
    return _Costed(starts[here][kept], ends[here][kept], ids[kept], place[kept])


def by_month(track: Track) -> bool:
    """Whether the price of a month, and not that of an hour, is what the track's sellers state."""
    return track.key.price_unit in ("machine_month", "gpu_month")


_RISK = {"on_demand": 0, "reserved": 1, "monthly": 1, "capacity_block": 1, "spot": 2}


def _order(cost: Cost, offer: StoredOffer) -> tuple[object, ...]:
    return (
        cost.partial, cost.usd, cost.line.lower_bound, _RISK.get(offer.market, 2), offer.provider,
        offer.gpu_key, offer.key,
    )  # fmt: skip


def _lowest(some: Sequence[_Costed], rank: Ints, costs: Sequence[_Priced]) -> Iterator[_Lowest]:
    starts, ends, ids, places = (np.concatenate(column) for column in zip(*some, strict=True))
    found = lowest_steps(starts, ends, rank[places])
    chosen = found.chosen
    columns = (found.starts, found.ends, ids[chosen], places[chosen])
    for start, end, id_, place in zip(*(column.tolist() for column in columns), strict=True):
        yield _Lowest(start, end, id_, costs[place])


def _step(one: _Lowest, offers: Mapping[int, StoredOffer]) -> CostStep:
    cost, priced = one.priced
    offer = offers[one.offer_id]._replace(
        price_micro_usd=priced.price_micro_usd, price_native=priced.price_native,
        fx_rate=priced.fx_rate,
    )  # fmt: skip
    return CostStep(from_micros(one.start), from_micros(one.end), cost, offer)


def series_of(steps: Sequence[CostStep]) -> list[Step]:
    """The bills of *steps* as a series. What is only an "at least" is not known: a gap."""
    return joined(
        Step(step.start, step.end, step.cost.usd) for step in steps if not step.cost.partial
    )


def step_at(steps: Sequence[CostStep], moment: datetime) -> CostStep | None:
    """The step that holds at *moment*; None in a gap."""
    return next((step for step in steps if step.start <= moment < step.end), None)
