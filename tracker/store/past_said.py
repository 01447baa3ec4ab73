"""What prices of history say of themselves: when a person read them, and when they were confirmed.

The floor keeps what was the lowest and not whose word it was, so that this is read of the spans of
the few offers that an answer shows.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import date, datetime
from typing import NamedTuple

from tracker.store.stored import Connection, fetch


class Said(NamedTuple):
    """A price from *start* on. ``valid_as_of``: the day a person read it, None for one that was
    polled; ``seen_at``: when it was confirmed last, known of an open price only."""

    price_micro_usd: int
    start: datetime
    valid_as_of: date | None
    fallback: bool
    seen_at: datetime | None


_CLOSED_SQL = (
    "SELECT offer_id, price_micro_usd, valid_from, valid_as_of, fallback, NULL FROM price_span"
    " WHERE offer_id = ANY (%(typed)s) AND valid_to > %(start)s AND valid_from < %(end)s"
    " AND valid_as_of IS NOT NULL"
)
_OPEN_SQL = (
    "SELECT n.offer_id, n.price_micro_usd, n.valid_from, n.valid_as_of, n.fallback,"
    " coalesce(n.seen_until, p.last_ok_at) FROM offer_now n JOIN provider p ON p.id = n.source_id"
    " WHERE n.offer_id = ANY (%(open)s) AND n.valid_from < %(end)s"
)


def said(
    connection: Connection, typed: Collection[int], last: Collection[int],
    start: datetime, end: datetime,
) -> dict[int, list[Said]]:  # fmt: skip
    """By offer, in order of time: of those that may be *typed* all prices within [start, end), of
    the *last* ones what is open."""
    found: dict[int, list[Said]] = {}
    values = {
        "typed": list(typed), "open": list({*typed, *last}), "start": start, "end": end,
    }  # fmt: skip
    if not values["open"]:
        return found
    statement = f"{_CLOSED_SQL} UNION ALL {_OPEN_SQL}" if typed else _OPEN_SQL
    for id_, *rest in fetch(connection, f"{statement} ORDER BY 1, 3", values):
        found.setdefault(id_, []).append(Said(*rest))
    return found
