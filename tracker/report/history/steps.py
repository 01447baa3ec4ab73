"""The cheapest job of each group (GPU or provider) at every moment, as steps with gaps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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


class _Costed(NamedTuple):
    starts: Ints
    ends: Ints
    places: Ints  # in the list of costs


def cheapest_steps(
    pieces: Sequence[Piece],
    names: Names,
    offers: Mapping[int, StoredOffer],
    natives: Natives,
    budget_usd: Decimal | None,
) -> tuple[dict[str, list[CostStep]], list[CostStep]]:
    """For each of the *names*, and over all: who was the cheapest when.

    A bill with an unknown part is only the cheapest where no complete one is known. Of equal bills
    that of less risky a market counts, then that of the first provider.
    """
    costs: list[tuple[Cost, StoredOffer]] = []
    costed = [_cost(piece, offers, natives, budget_usd, costs) for piece in pieces]
    if not costs:
        return {}, []
    rank = np.empty(len(costs), dtype=np.int64)
    rank[sorted(range(len(costs)), key=lambda place: _order(*costs[place]))] = np.arange(len(costs))
    groups: dict[str, list[_Costed]] = {}
    for piece, one in zip(pieces, costed, strict=True):
        for name in names(piece.offer):
            groups.setdefault(name, []).append(one)
    found = {name: list(_lowest(some, rank, costs)) for name, some in sorted(groups.items())}
    return found, list(_lowest(costed, rank, costs))


def _cost(
    piece: Piece, offers: Mapping[int, StoredOffer], natives: Natives,
    budget_usd: Decimal | None, costs: list[tuple[Cost, StoredOffer]],
) -> _Costed:  # fmt: skip
    """The steps of *piece*, each with the place of its cost, which is appended to *costs*."""
    track = piece.track
    starts = np.maximum(track.starts, to_micros(piece.start))
    ends = np.minimum(track.ends, to_micros(piece.end))
    here = np.flatnonzero(starts < ends)
    prices = np.column_stack((track.micro_usd[here], track.offer_ids[here]))
    distinct, of = np.unique(prices, axis=0, return_inverse=True)
    places = np.full(len(distinct), -1, dtype=np.int64)
    for at, (micro, id_) in enumerate(distinct.tolist()):
        native, rate = natives.get((id_, micro), (Decimal(0), None))
        offer = offers.get(id_, piece.offer)
        offer = offer._replace(price_micro_usd=micro, price_native=native, fx_rate=rate)
        cost = cost_at(offer, piece.lines, budget_usd)
        if cost is not None:
            places[at] = len(costs)
            costs.append((cost, offer))
    place = places[of.reshape(-1)]
    kept = place >= 0
    return _Costed(starts[here][kept], ends[here][kept], place[kept])


_RISK = {"on_demand": 0, "reserved": 1, "monthly": 1, "capacity_block": 1, "spot": 2}


def _order(cost: Cost, offer: StoredOffer) -> tuple[object, ...]:
    return (
        cost.partial, cost.usd, cost.line.lower_bound, _RISK.get(offer.market, 2), offer.provider,
        offer.gpu_key, offer.key,
    )  # fmt: skip


def _lowest(
    some: Sequence[_Costed], rank: Ints, costs: Sequence[tuple[Cost, StoredOffer]]
) -> Iterator[CostStep]:
    starts, ends, places = (np.concatenate(column) for column in zip(*some, strict=True))
    found = lowest_steps(starts, ends, rank[places])
    for start, end, chosen in zip(
        found.starts.tolist(), found.ends.tolist(), found.chosen.tolist(), strict=True
    ):
        cost, offer = costs[int(places[chosen])]
        yield CostStep(from_micros(start), from_micros(end), cost, offer)


def series_of(steps: Sequence[CostStep]) -> list[Step]:
    """The bills of *steps* as a series. What is only an "at least" is not known: a gap."""
    return joined(
        Step(step.start, step.end, step.cost.usd) for step in steps if not step.cost.partial
    )


def step_at(steps: Sequence[CostStep], moment: datetime) -> CostStep | None:
    """The step that holds at *moment*; None in a gap."""
    return next((step for step in steps if step.start <= moment < step.end), None)
