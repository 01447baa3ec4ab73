"""A poll into history: which spans open, close or go on.

A span is one offer's native price from one moment to another. A poll confirms a price until the
next poll that speaks about the offer, but never for longer than the source's time to live (ttl):
what lies behind that is a gap, in which no price is known. All intervals are half-open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from itertools import compress
from operator import ne
from typing import NamedTuple

from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Offer


class Moving(NamedTuple):
    """All that may change from poll to poll of one offer. Only ``native`` makes a new span.

    ``micro_usd`` is per machine-hour. ``fx_rate`` (USD per unit of the currency) and ``fx_date``
    are None for prices in USD; ``flags`` is None rather than empty. The other fields are those of
    ``Extras``.
    """

    native: Decimal
    micro_usd: int
    fx_rate: Decimal | None
    fx_date: date | None
    flags: tuple[str, ...] | None
    availability: str
    stock_count: int | None
    stock_label: str | None
    disk_gb: Decimal | None
    network_down_mbps: Decimal | None
    network_up_mbps: Decimal | None
    reliability: Decimal | None
    interruption_percent_max: int | None
    max_duration_hours: Decimal | None
    valid_as_of: date | None
    expires_at: datetime | None
    fallback: bool


_tuple = tuple.__new__  # four times faster than Moving(...), which counts at 20,000 offers a poll


def moving(offer: Offer) -> Moving:
    """What is compared with the previous poll to see whether *offer* changed."""
    price, x = offer.listed.price, offer.listed.extras
    foreign = price.currency != "USD"
    return _tuple(
        Moving,
        (
            price.amount, to_micro_usd(offer.price.usd), offer.fx_rate if foreign else None,
            offer.fx_date if foreign else None, offer.flags or None, x.availability, x.stock_count,
            x.stock_label, x.disk_gb, x.network_down_mbps, x.network_up_mbps, x.reliability,
            x.interruption_percent_max, x.max_duration_hours, x.valid_as_of, x.expires_at,
            x.fallback,
        ),
    )  # fmt: skip


@dataclass(slots=True)
class Live:
    """What is open of one source, by offer key.

    ``seen_until`` holds only the offers that the latest (partial) polls did not see: the time of
    the last poll that did. All others were seen by the last accepted poll. ``marks``, where they
    are known, stand for the states in their order: see ``marks_of``.
    """

    states: dict[bytes, Moving] = field(default_factory=dict)
    seen_until: dict[bytes, datetime] = field(default_factory=dict)
    marks: list[int] | None = field(default=None, compare=False)


def marks_of(states: Mapping[bytes, Moving]) -> list[int]:
    """A number for each state, the same for equal ones, to compare thousands of them at once.

    64-bit hashes, so that two different states of one offer pass for the same once in 10^19 polls.
    """
    return list(map(hash, states.values()))


@dataclass(slots=True)
class Changes:
    """What one accepted poll does to history. A key is in at most one of the lists.

    ``opened``: not open so far. ``repriced``: closes at this poll and opens again at another
    price. ``resumed``: closes at the end of what was known (given), opens again at this poll.
    ``closed``: closes at the moment given. ``updated``: something else than the native price
    moved. ``confirmed``: nothing moved, seen again after partial polls that missed it.
    ``unconfirmed``: missed by this partial poll for the first time. ``unchanged``: a count.
    ``same_order``: the poll lists exactly the open offers, in the order known.
    """

    opened: list[bytes] = field(default_factory=list)
    repriced: list[bytes] = field(default_factory=list)
    resumed: list[tuple[bytes, datetime]] = field(default_factory=list)
    closed: list[tuple[bytes, datetime]] = field(default_factory=list)
    updated: list[bytes] = field(default_factory=list)
    confirmed: list[bytes] = field(default_factory=list)
    unconfirmed: list[bytes] = field(default_factory=list)
    unchanged: int = 0
    same_order: bool = field(default=False, compare=False)


def known_until(seen_at: datetime, ttl: timedelta) -> datetime:
    """The end of what a poll at *seen_at* tells: the gap rule."""
    return seen_at + ttl


def diff(
    live: Live,
    seen: Mapping[bytes, Moving],
    *,
    polled_at: datetime,
    last_ok_at: datetime | None,
    ttl: timedelta,
    complete: bool,
    marks: list[int] | None = None,
) -> Changes:
    """Compare an accepted poll with what is open. *marks* are those of *seen*, where known.

    *last_ok_at* is the last accepted poll (None: there was none, and nothing is open) and must lie
    before *polled_at*; *ttl* is the one that held when the open prices were seen. A complete poll
    closes what it does not see, a partial one leaves it unconfirmed.
    """
    changes = Changes()
    known = live.states.get
    changes.same_order = len(live.states) == len(seen) and list(live.states) == list(seen)
    touched = _touched(live, seen, marks, same_order=changes.same_order)
    lapsed = _lapsed(live, polled_at, last_ok_at, ttl)
    for key, end in lapsed.items():
        (changes.resumed if key in seen else changes.closed).append((key, end))
    for key in touched:
        before = known(key)
        if before is None:
            changes.opened.append(key)
        elif key in lapsed:
            continue
        elif before.native != seen[key].native:
            changes.repriced.append(key)
        else:
            changes.updated.append(key)
    if len(seen) - len(changes.opened) < len(live.states):
        missing = [k for k in live.states if k not in seen and k not in lapsed]
        if complete:
            changes.closed += [(key, polled_at) for key in missing]
        else:
            changes.unconfirmed = [key for key in missing if key not in live.seen_until]
    if live.seen_until:
        rewritten = set(touched).union(lapsed)
        changes.confirmed = [k for k in live.seen_until if k in seen and k not in rewritten]
    moved = (changes.opened, changes.repriced, changes.updated)
    changes.unchanged = len(seen) - len(changes.resumed) - sum(len(keys) for keys in moved)
    return changes


def _touched(
    live: Live, seen: Mapping[bytes, Moving], marks: list[int] | None, *, same_order: bool
) -> list[bytes]:
    """The keys that are new or whose state is not the one of before."""
    before = live.states
    if same_order:
        # Most sources list their offers in the same order every time: half the time of look-ups,
        # and nearly none where the marks are known.
        if live.marks is not None and marks is not None:
            return list(compress(seen, map(ne, live.marks, marks)))
        return list(compress(seen, map(ne, before.values(), seen.values())))
    known = before.get
    return [key for key, state in seen.items() if known(key) != state]


def _lapsed(
    live: Live, polled_at: datetime, last_ok_at: datetime | None, ttl: timedelta
) -> dict[bytes, datetime]:
    """The open offers whose price stopped being known before *polled_at*, and when."""
    if last_ok_at is None:
        return {}
    common = known_until(last_ok_at, ttl)
    ends = {key: known_until(at, ttl) for key, at in live.seen_until.items()}
    if common < polled_at:
        return {key: ends.get(key, common) for key in live.states}
    return {key: end for key, end in ends.items() if end < polled_at}


def after(
    live: Live,
    changes: Changes,
    seen: dict[bytes, Moving],
    *,
    last_ok_at: datetime | None,
    complete: bool,
    marks: list[int] | None = None,
) -> Live:
    """What is open after the poll whose *changes* diff found. *live* is not modified."""
    if complete:
        moved = [*changes.repriced, *changes.updated, *(key for key, _ in changes.resumed)]
        if changes.opened or changes.closed or 2 * len(moved) > len(seen):
            return Live(seen, marks=marks)  # what it saw is all there is
        # The same, but freeing thousands of old states is what would take most of the time.
        states = live.states | {key: seen[key] for key in moved} if moved else live.states
        return Live(states, marks=marks if changes.same_order else None)
    gone = {key for key, _ in changes.closed}
    states = {key: state for key, state in live.states.items() if key not in gone}
    states.update(seen)
    unseen = {k: at for k, at in live.seen_until.items() if k in states and k not in seen}
    if changes.unconfirmed:
        if last_ok_at is None:
            raise ValueError("offers are open, but no poll has been accepted")
        unseen.update(dict.fromkeys(changes.unconfirmed, last_ok_at))
    return Live(states, unseen)
