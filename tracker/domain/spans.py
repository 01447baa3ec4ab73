"""A poll into history: which spans open, close or go on.

A span is one offer's native price, and what limits it (when it expires, whether it only stands in
for others), from one moment to another. A poll confirms a price until the next poll that speaks
about the offer, but never for longer than the source's time to live (ttl): what lies behind that is
a gap, in which no price is known. All intervals are half-open.

Of what is open only a mark is known, 8 bytes that stand for all that may change of an offer. Marks
are kept with the offers, so that a process that has just started need not read anything else.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from decimal import Decimal
from hashlib import blake2b
from typing import NamedTuple

from tracker.domain.money import to_micro_usd
from tracker.domain.offer import Offer


class Moving(NamedTuple):
    """All that may change from poll to poll of one offer.

    Only ``native`` and the ``Limit`` (``expires_at`` and ``fallback``) make a new span.

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


class Limit(NamedTuple):
    """When a price stops counting, and whether it stands in for prices of the seller's own."""

    expires_at: datetime | None
    fallback: bool


_tuple = tuple.__new__  # four times faster than Moving(...), which counts at 20,000 new prices


def moving(offer: Offer) -> Moving:
    """What is written of *offer* when it opened or changed."""
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


# Part of every mark. Another value makes all of them differ once, and every open offer is written
# anew: to be changed with what a mark is made of, or with how a price in USD comes about.
_MARK_VERSION = "1"
_TRAILING_ZEROS = re.compile(r"\.(\d*[1-9])?0+\x1f")


def mark_of(offer: Offer, micro_usd: int) -> bytes:
    """8 bytes that are the same for two states of an offer only if all of ``Moving`` is.

    In every process: 64 bits of a hash, so that of two different states one in 10^19 passes for
    the same. Decimals count by their value, whatever zeros they end with; 1E+2 for 100, or the
    same moment in another time zone, makes another mark. *micro_usd* is the offer's price.
    """
    # One formatted text, because the largest marketplaces bring 20,000 offers with every poll.
    # A decimal ends with \x1f, all else (which holds no such thing, or is quoted) with others.
    price, x = offer.listed.price, offer.listed.extras
    text = (
        f"{_MARK_VERSION}\x1e{micro_usd}\x1e{price.amount!s}\x1f{x.disk_gb!s}\x1f"
        f"{x.network_down_mbps!s}\x1f{x.network_up_mbps!s}\x1f{x.reliability!s}\x1f"
        f"{x.max_duration_hours!s}\x1f{x.availability!s}\x1e{x.stock_count}\x1e"
        f"{x.stock_label!a}\x1e{x.interruption_percent_max}\x1e{x.valid_as_of!s}\x1e"
        f"{x.expires_at!s}\x1e{x.fallback!s}"
    )
    if price.currency != "USD":
        text += f"\x1d{offer.fx_date!s}\x1e{offer.fx_rate!s}\x1f"
    if offer.flags:
        text += f"\x1c{offer.flags!a}"
    if "0\x1f" in text:
        text = _TRAILING_ZEROS.sub(_without_zeros, text)
    return blake2b(text.encode(), digest_size=8).digest()


def _without_zeros(decimals: re.Match[str]) -> str:
    return f".{decimals[1]}\x1f" if decimals[1] else "\x1f"


@dataclass(frozen=True, slots=True)
class Seen:
    """What a poll saw, by offer key. ``offers`` may hold more than are to be recorded.

    ``limits`` holds only the offers whose price is limited: nearly none are.
    """

    marks: dict[bytes, bytes] = field(default_factory=dict)
    micro_usd: dict[bytes, int] = field(default_factory=dict)
    limits: dict[bytes, Limit] = field(default_factory=dict)
    sellers: set[str] = field(default_factory=set)
    offers: Mapping[bytes, Offer] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.marks)

    def native(self, key: bytes) -> Decimal:
        """The provider's own amount."""
        return self.offers[key].listed.price.amount


def see(offers: Mapping[bytes, Offer], highest_micro_usd: int) -> Seen:
    """The *offers* as a poll saw them, without those whose price in micro-USD is out of range.

    The range is above 0, after rounding, and up to *highest_micro_usd*.
    """
    seen = Seen(offers=offers)
    marks, prices, sellers, limits = seen.marks, seen.micro_usd, seen.sellers, seen.limits
    for key, offer in offers.items():
        micro_usd = to_micro_usd(offer.price.usd)
        if 0 < micro_usd <= highest_micro_usd:
            marks[key] = mark_of(offer, micro_usd)
            prices[key] = micro_usd
            sellers.add(offer.provider)
            x = offer.listed.extras
            if x.fallback or x.expires_at is not None:
                limits[key] = Limit(x.expires_at, x.fallback)
    return seen


@dataclass(slots=True)
class Live:
    """What is open of one source, by offer key.

    ``seen_until`` holds only the offers that the latest (partial) polls did not see: the time of
    the last poll that did. All others were seen by the last accepted poll. ``natives`` are the
    native prices that happen to be known (see ``unknown_natives``), ``limits`` those of the same
    offers where they have one.
    """

    marks: dict[bytes, bytes] = field(default_factory=dict)
    micro_usd: dict[bytes, int] = field(default_factory=dict)
    seen_until: dict[bytes, datetime] = field(default_factory=dict)
    natives: dict[bytes, Decimal] = field(default_factory=dict, compare=False)
    limits: dict[bytes, Limit] = field(default_factory=dict, compare=False)


@dataclass(slots=True)
class Changes:
    """What one accepted poll does to history. A key is in at most one of the lists.

    ``opened``: not open so far. ``repriced``: closes at this poll and opens again at another
    price or limit. ``resumed``: closes at the end of what was known (given), opens again at this
    poll. ``closed``: closes at the moment given. ``updated``: something else than price and limit
    moved. ``confirmed``: nothing moved, seen again after partial polls that missed it.
    ``unconfirmed``: missed by this partial poll for the first time. ``unchanged``: a count.
    """

    opened: list[bytes] = field(default_factory=list)
    repriced: list[bytes] = field(default_factory=list)
    resumed: list[tuple[bytes, datetime]] = field(default_factory=list)
    closed: list[tuple[bytes, datetime]] = field(default_factory=list)
    updated: list[bytes] = field(default_factory=list)
    confirmed: list[bytes] = field(default_factory=list)
    unconfirmed: list[bytes] = field(default_factory=list)
    unchanged: int = 0

    @property
    def written(self) -> list[bytes]:
        """All that are open with the state that this poll saw."""
        return [*self.opened, *self.repriced, *(key for key, _ in self.resumed), *self.updated]


def known_until(seen_at: datetime, ttl: timedelta) -> datetime:
    """The end of what a poll at *seen_at* tells: the gap rule."""
    return seen_at + ttl


def touched(live: Live, seen: Seen) -> list[bytes]:
    """The keys that are new or whose mark is not the one of before."""
    if live.marks == seen.marks:  # half the time of the look-ups below
        return []
    known = live.marks.get
    return [key for key, mark in seen.marks.items() if known(key) != mark]


def unknown_natives(live: Live, keys: Iterable[bytes]) -> list[bytes]:
    """Those of the *keys* that are open at a native price which is not known."""
    return [key for key in keys if key in live.marks and key not in live.natives]


def diff(
    live: Live,
    seen: Seen,
    moved: Iterable[bytes],
    *,
    polled_at: datetime,
    last_ok_at: datetime | None,
    ttl: timedelta,
    complete: bool,
    next_ttl: timedelta | None = None,
) -> Changes:
    """Compare an accepted poll with what is open.

    *moved* are the keys that ``touched`` found; price and limit of those that are open must be
    known. *last_ok_at* is the last accepted poll (None: there was none, and nothing is open) and
    must lie before *polled_at*; *ttl* is the one that held when the open prices were seen,
    *next_ttl* (default: the same) holds from now on. A complete poll closes what it does not see, a
    partial one leaves it unconfirmed, unless by the next ttl it is not known any more.
    """
    changes = Changes()
    lapsed = _lapsed(live, polled_at, last_ok_at, ttl)
    for key, end in lapsed.items():
        (changes.resumed if key in seen.marks else changes.closed).append((key, end))
    limit = live.limits.get
    for key in moved:
        if key not in live.marks:
            changes.opened.append(key)
        elif key in lapsed:
            continue
        elif live.natives[key] != seen.native(key) or limit(key) != seen.limits.get(key):
            changes.repriced.append(key)
        else:
            changes.updated.append(key)
    if len(seen) - len(changes.opened) < len(live.marks):
        missing = [k for k in live.marks if k not in seen.marks and k not in lapsed]
        if complete:
            changes.closed += [(key, polled_at) for key in missing]
        else:
            over = _over(live, missing, polled_at, last_ok_at, ttl, next_ttl)
            changes.closed += [(key, polled_at) for key in over]
            changes.unconfirmed = [
                key for key in missing if key not in live.seen_until and key not in over
            ]
    changes.unchanged = len(seen) - len(changes.written)
    if live.seen_until:
        rewritten = set(changes.written)
        changes.confirmed = [k for k in live.seen_until if k in seen.marks and k not in rewritten]
    return changes


def _over(
    live: Live, missing: list[bytes], polled_at: datetime, last_ok_at: datetime | None,
    ttl: timedelta, next_ttl: timedelta | None,
) -> set[bytes]:  # fmt: skip
    """Those of the *missing* that a shorter time to live ends with this poll."""
    if next_ttl is None or next_ttl >= ttl or last_ok_at is None:
        return set()
    seen = live.seen_until
    return {k for k in missing if known_until(seen.get(k, last_ok_at), next_ttl) <= polled_at}


def _lapsed(
    live: Live, polled_at: datetime, last_ok_at: datetime | None, ttl: timedelta
) -> dict[bytes, datetime]:
    """The open offers whose price stopped being known before *polled_at*, and when."""
    if last_ok_at is None:
        return {}
    common = known_until(last_ok_at, ttl)
    ends = {key: known_until(at, ttl) for key, at in live.seen_until.items()}
    if common < polled_at:
        return {key: ends.get(key, common) for key in live.marks}
    return {key: end for key, end in ends.items() if end < polled_at}


def after(live: Live, changes: Changes, seen: Seen, *, last_ok_at: datetime | None) -> Live:
    """What is open after the poll whose *changes* diff found. *live* is not modified."""
    gone = [key for key, _ in changes.closed]
    written = changes.written
    marks, prices, natives, limits = live.marks, live.micro_usd, live.natives, live.limits
    if gone or written:
        # Copied and brought up to date: freeing thousands of old values takes longer.
        marks = marks | {key: seen.marks[key] for key in written}
        prices = prices | {key: seen.micro_usd[key] for key in written}
        natives = natives | {key: seen.native(key) for key in written}
        if limits or seen.limits:
            limits = {k: v for k, v in limits.items() if k not in seen.marks} | seen.limits
        for known in (marks, prices, natives, limits):
            for key in gone:
                known.pop(key, None)
    unseen = {k: at for k, at in live.seen_until.items() if k in marks and k not in seen.marks}
    if changes.unconfirmed:
        if last_ok_at is None:
            raise ValueError("offers are open, but no poll has been accepted")
        unseen.update(dict.fromkeys(changes.unconfirmed, last_ok_at))
    return Live(marks, prices, unseen, natives, limits)
