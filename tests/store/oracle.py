"""History worked out by brute force from the raw polls alone, to compare the store with.

An observation of an offer (a poll that saw it) holds from its moment to the next poll that speaks
about the offer (sees it, or is complete), but no longer than the time to live.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

Interval = tuple[datetime, datetime, Decimal]


@dataclass(frozen=True)
class RawPoll:
    """What a poll said, in the order in which the polls were recorded."""

    at: datetime
    status: str
    prices: Mapping[str, Decimal]


def accepted(polls: Sequence[RawPoll]) -> list[RawPoll]:
    """The polls that count: with prices, and newer than all that counted before."""
    counted: list[RawPoll] = []
    for poll in polls:
        usable = poll.status in ("complete", "partial") and poll.prices
        if usable and all(poll.at > earlier.at for earlier in counted):
            counted.append(poll)
    return counted


def history(polls: Sequence[RawPoll], ttl: timedelta) -> dict[str, list[Interval]]:
    """When which native price was known, by offer; touching intervals of one price are one."""
    counted = accepted(polls)
    result: dict[str, list[Interval]] = {}
    for index, poll in enumerate(counted):
        for name, price in poll.prices.items():
            speaking = [
                later.at
                for later in counted[index + 1 :]
                if later.status == "complete" or name in later.prices
            ]
            end = min([poll.at + ttl, *speaking])
            intervals = result.setdefault(name, [])
            if intervals and intervals[-1][1:] == (poll.at, price):
                intervals[-1] = (intervals[-1][0], end, price)
            else:
                intervals.append((poll.at, end, price))
    return result


def prices_at(intervals: Mapping[str, list[Interval]], at: datetime) -> dict[str, Decimal]:
    """The prices known at a moment."""
    return {
        name: price
        for name, spans in intervals.items()
        for start, end, price in spans
        if start <= at < end
    }
