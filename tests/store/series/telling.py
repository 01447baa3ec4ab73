"""Worlds of two sources, and what is known of them by brute force from their raw polls alone.

A seller is polled, and an import tells of the same seller. What holds at which moment is worked out
offer by offer with ``tests/store/oracle.py``: poll i holds from its moment to the next poll that
speaks of the offer, but no longer than the time to live, and no longer than a price's expiry.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

from tests.store import oracle
from tests.store.oracle import RawPoll
from tests.store.worlds import Fault, Fuse
from tests.support.offers import A100, START, at, make_offer, make_poll
from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Extras, Market, Offer, Terms
from tracker.domain.series import Series, Step, joined
from tracker.store.polls import Recorder
from tracker.store.series.spans import OfferFilter

OWN_TTL, TOLD_TTL = timedelta(minutes=3), timedelta(minutes=5)
EXPIRES = at(4)

Kind = tuple[str, str, int | None]  # GPU, market, minimum of seconds: a key of the seller
Known = tuple[datetime, datetime, int]  # from, until, micro-USD

_H100, _A100 = "H100-SXM-80GB", A100.key
# What filters of single offers look at; what is not here an offer does not say.
_REGIONS = {"a": "eu-1", "b": "us-1", "c": "EU-2/zone-3", "d": "eü-1"}
_COUNTRIES = {"a": "DE", "b": "US", "y": "DE"}
_RAM = {"a": 64, "b": 32, "c": 128, "y": 64}
_VCPUS = {"a": 8, "e": 16, "x": 16}
_LINKS = {"a": "NVLink 4", "b": "PCIe", "y": "nvlink"}
_KINDS: dict[str, Kind] = {
    **dict.fromkeys("abfx", (_H100, "on_demand", None)),
    "c": (_H100, "on_demand", 3600),
    "d": (_A100, "on_demand", None),
    "e": (_H100, "spot", None),
    "y": (_H100, "spot", None),
    "m": (_H100, "monthly", None),  # for a term that is not stated: makes no bill
    "z": (_H100, "monthly", None),
}
OWN, TOLD = "aabbcdefm", "xxyz"  # names of the seller's offers, and of those told of it
PRICES = ("1", "1.5", "2")


@dataclass(frozen=True)
class Turn:
    """One poll of a world. ``gap``: half minutes since the one before (0 and less: late)."""

    gap: int
    told: bool  # by the import, not by the seller
    status: str
    prices: tuple[tuple[str, str], ...]  # a name may come twice
    daemon: int  # 2 and 3: the same, just started
    fault: int | None  # fails at this statement
    repeated: bool  # recorded again by the other daemon


_DAY = 2 * 60 * 24
TURNS = st.builds(
    Turn,
    gap=st.sampled_from([-3, -1, 0, 1, 1, 2, 2, 2, 4, 6, 7, 13, _DAY, 17 * _DAY]),
    told=st.sampled_from([False, False, True]),
    status=st.sampled_from(["complete"] * 4 + ["partial"] * 2 + ["failed", "shrunk"]),
    prices=st.lists(
        st.tuples(st.integers(0, 8), st.sampled_from(PRICES)), max_size=6
    ).map(tuple),
    daemon=st.integers(0, 3),
    fault=st.none() | st.none() | st.integers(0, 16),
    repeated=st.booleans(),
).map(
    lambda turn: Turn(**{
        **vars(turn),
        "prices": tuple(
            ((TOLD if turn.told else OWN)[at % len(TOLD if turn.told else OWN)], price)
            for at, price in turn.prices
        ),
    })
)  # fmt: skip
WORLDS = st.lists(TURNS, max_size=10)

Daemons = list[tuple[Recorder, Fuse]]
_worlds = itertools.count()


@dataclass
class World:
    """What was recorded. The lists hold the polls that were not lost to a fault."""

    seller: str
    own: list[RawPoll] = field(default_factory=list)
    told: list[RawPoll] = field(default_factory=list)
    half_minutes: int = 0  # played so far
    latest: datetime = START

    def known(self) -> dict[str, list[Known]]:
        """When which price of which offer was known."""
        found: dict[str, list[Known]] = {}
        for polls, ttl in ((self.own, OWN_TTL), (self.told, TOLD_TTL)):
            for name, intervals in oracle.history(polls, ttl).items():
                limit = EXPIRES if name == "f" else datetime.max.replace(tzinfo=at(0).tzinfo)
                found[name] = [
                    (start, min(end, limit), to_micro_usd(price))
                    for start, end, price in intervals
                    if start < limit
                ]
        return found

    def lowest(
        self, start: datetime, end: datetime, chosen: Callable[[str], bool] = lambda _: True
    ) -> dict[tuple[bool, Kind], Series]:
        """For each (told, kind) the lowest price at every moment of the window."""
        by_key: dict[tuple[bool, Kind], list[Known]] = {}
        for name, intervals in self.known().items():
            if chosen(name):
                by_key.setdefault((name in TOLD, _KINDS[name]), []).extend(intervals)
        lows = {key: low_of(intervals, start, end) for key, intervals in by_key.items()}
        return {key: low for key, low in lows.items() if low}

    def covered(self, moment: datetime, market: str) -> bool:
        """Whether the seller itself tells a price that makes a bill on *market* at *moment*."""
        return any(
            start <= moment < end
            for name, intervals in self.known().items()
            if name in OWN and name != "m" and _KINDS[name][1] == market
            for start, end, _ in intervals
        )


# Filters as asked for, and the names of the offers that they keep.
ASKED: tuple[tuple[dict[str, Any], str], ...] = (
    ({"regions": ["EU-*"]}, "ac"),
    ({"regions": ["eu-2", "us-?"]}, "bc"),  # a region with its zones
    ({"regions": ["[eu]?-1"]}, "abd"),
    ({"regions": ["e\u00dc-1"]}, "d"),
    ({"regions": ["eu_1", "eu%", "eu-1\\"]}, ""),
    ({"countries": ["de"]}, "ay"),
    ({"countries": ["de", "us"], "regions": ["*-1"]}, "ab"),
    ({"offer_filter": OfferFilter(min_ram_gib=Decimal(64))}, "acy"),
    ({"offer_filter": OfferFilter(min_vcpus=Decimal("8.5"))}, "ex"),
    ({"offer_filter": OfferFilter(interconnect="NVLINK")}, "ay"),
    ({"offer_filter": OfferFilter(dedicated=True)}, "xyz"),
    ({"offer_filter": OfferFilter(kinds=("machine",))}, "xyz"),
    ({"offer_filter": OfferFilter(kinds=("gpu", "slice"))}, "abcdefm"),
    ({"offer_filter": OfferFilter(Decimal(32), None, "nv", kinds=("gpu",)),
      "countries": ["DE"]}, "a"),
)  # fmt: skip


def low_of(intervals: Sequence[Known], start: datetime, end: datetime) -> Series:
    """The lowest price at every moment of the window, by asking every interval."""
    moments = {start, end} | {moment for one, other, _ in intervals for moment in (one, other)}
    inside = sorted(moment for moment in moments if start <= moment <= end)
    steps = []
    for one, other in itertools.pairwise(inside):
        known = [price for a, b, price in intervals if a <= one < b]
        if known:
            steps.append(Step(one, other, Decimal(min(known))))
    return joined(steps)


def play(daemons: Daemons, turns: Sequence[Turn], world: World | None = None) -> World:
    """Record a world with two daemons, or go on with one."""
    world = world or World(f"world{next(_worlds)}")
    for turn in turns:
        moment = max(world.half_minutes + turn.gap, 0)
        world.half_minutes = max(world.half_minutes, moment)
        first = turn.daemon % 2
        if turn.daemon > 1:
            daemons[first] = (Recorder(daemons[first][0]._engine), daemons[first][1])
        for daemon in (first, 1 - first)[: 1 + turn.repeated]:
            recorder, fuse = daemons[daemon]
            fuse.left = turn.fault if daemon == first else None
            try:
                _record(recorder, world, turn, moment / 2)
            except Fault:
                continue
            finally:
                fuse.left = None
    polls = oracle.accepted(world.own) + oracle.accepted(world.told)
    world.latest = max((poll.at for poll in polls), default=at(0))
    return world


def _record(recorder: Recorder, world: World, turn: Turn, minutes: float) -> None:
    source = f"import-{world.seller}" if turn.told else world.seller
    offers = [_offer(name, price, source, world.seller) for name, price in turn.prices]
    recorder.record(make_poll(
        minutes, offers, source=source, status=turn.status,
        kind="import" if turn.told else "stream",
        ttl_seconds=int((TOLD_TTL if turn.told else OWN_TTL).total_seconds()),
    ))  # fmt: skip
    dearest: Mapping[str, Decimal] = dict(
        sorted((name, Decimal(price)) for name, price in turn.prices)
    )
    (world.told if turn.told else world.own).append(RawPoll(at(minutes), turn.status, dearest))


def _offer(name: str, price: str, source: str, seller: str) -> Offer:
    gpu, market, minimum = _KINDS[name]
    said = {
        "region": _REGIONS.get(name), "country": _COUNTRIES.get(name),
        "interconnect": _LINKS.get(name), "dedicated": name in TOLD if name != "f" else None,
        "ram_gib": Decimal(_RAM[name]) if name in _RAM else None,
        "vcpus": Decimal(_VCPUS[name]) if name in _VCPUS else None,
    }  # fmt: skip
    made = {"gpu": A100} if gpu == _A100 else {}
    return make_offer(
        name, price, source=source, seller=seller, market=Market(market),
        terms=Terms(minimum_seconds=minimum), extras=Extras(
            expires_at=EXPIRES if name == "f" else None
        ), **made, **said,
    )  # fmt: skip
