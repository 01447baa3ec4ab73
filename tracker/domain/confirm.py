"""Which of many prices stands for the market: a rank, and what a single ask must show first.

The gates of ``quality`` hold back what is impossible; what is left may still be one bogus ask of
many. A list price is its seller's word and needs no confirmation. On a marketplace one ask proves
nothing: the second cheapest host does, or a price that two polls have seen, or a second ask close
to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from decimal import ROUND_CEILING, Decimal
from typing import Generic, NamedTuple, TypeVar

from tracker.domain.quality import SAME_WITHIN

T = TypeVar("T")

AUTO = "auto"
RANKS = (AUTO, "min", "2nd", "3rd", "p10", "median")

_NTH = {"min": 1, "2nd": 2, "3rd": 3}
_QUANTILE = {"p10": Decimal("0.1"), "median": Decimal("0.5")}


class Quote(NamedTuple, Generic[T]):
    """An amount asked (> 0) and who asks it.

    ``host`` tells machines of a marketplace apart; ``confirmed``: see ``seen_twice``.
    """

    usd: Decimal
    item: T
    seller: str
    host: str
    marketplace: bool
    confirmed: bool


class Figure(NamedTuple, Generic[T]):
    """The quote that stands for all of them. ``doubtful`` is a lower one that nobody confirms."""

    quote: Quote[T] | None
    doubtful: Quote[T] | None = None


def seen_twice(valid_from: datetime, seen_at: datetime, every: timedelta) -> bool:
    """Whether two polls have seen a price: not two within half an interval, which count as one."""
    known_for = seen_at - valid_from
    return known_for > timedelta(0) and known_for >= every / 2


def host_of(native_id: str) -> str:
    """The machine that an offer's id names: what stands before the last ``/``, if there is one.

    A machine that is offered whole and in parts has one host behind it (``1234/8``, ``1234/1``).
    """
    return native_id.rpartition("/")[0] or native_id


def figure(quotes: Iterable[Quote[T]], rank: str) -> Figure[T]:
    """What *rank* picks from *quotes*; no quote when there are too few for it.

    auto: the cheapest list price, or the second cheapest host of a marketplace if that is less; a
    marketplace's only host counts once it is confirmed or supported. min: the cheapest, which on
    a marketplace must be so too. 2nd, 3rd: the cheapest ask of the host in that place, each list
    price being a host of its own. p10, median: the nearest rank among all hosts.
    """
    hosts = _cheapest_of_each(quotes)
    if rank == AUTO:
        return _auto(hosts)
    if rank == "min":
        return _first_sure(hosts, hosts)
    if rank in _NTH:
        place = _NTH[rank]
    else:
        place = max(1, int((_QUANTILE[rank] * len(hosts)).to_integral_value(ROUND_CEILING)))
    return Figure(hosts[place - 1] if place <= len(hosts) else None)


def is_sure(quote: Quote[T], among: Iterable[Quote[T]]) -> bool:
    """Whether *quote* is a list price, confirmed, or supported by an ask of another host *among*
    them that is within SAME_WITHIN of it."""
    return (
        not quote.marketplace
        or quote.confirmed
        or any(
            (other.seller, other.host) != (quote.seller, quote.host)
            and abs(other.usd - quote.usd) <= quote.usd * SAME_WITHIN
            for other in among
        )
    )


def needed(rank: str) -> int:
    """How many hosts there must be for *rank* to have a figure."""
    return _NTH.get(rank, 1)


def _auto(hosts: Sequence[Quote[T]]) -> Figure[T]:
    candidates = [q for q in hosts if not q.marketplace]
    crowds: dict[str, list[Quote[T]]] = {}
    for quote in hosts:
        if quote.marketplace:
            crowds.setdefault(quote.seller, []).append(quote)
    candidates += [crowd[1] if len(crowd) > 1 else crowd[0] for crowd in crowds.values()]
    candidates.sort(key=lambda q: q.usd)
    alone = {id(crowd[0]) for crowd in crowds.values() if len(crowd) == 1}
    return _first_sure(candidates, hosts, alone)


def _first_sure(
    candidates: Sequence[Quote[T]], hosts: Sequence[Quote[T]], unsure: set[int] | None = None
) -> Figure[T]:
    """The cheapest candidate that can be believed. *unsure*: those that must be confirmed, None
    for all of a marketplace."""
    doubtful = None
    for quote in candidates:
        must = quote.marketplace and (unsure is None or id(quote) in unsure)
        if not must or is_sure(quote, hosts):
            return Figure(quote, doubtful)
        doubtful = doubtful or quote
    return Figure(None, doubtful)


def _cheapest_of_each(quotes: Iterable[Quote[T]]) -> list[Quote[T]]:
    """One quote a host, cheapest first; a list price stands for itself. Ties keep their order."""
    taken: set[tuple[str, str]] = set()
    hosts = []
    for quote in sorted(quotes, key=lambda q: q.usd):
        who = (quote.seller, quote.host)
        if quote.marketplace:
            if who in taken:
                continue
            taken.add(who)
        hosts.append(quote)
    return hosts
