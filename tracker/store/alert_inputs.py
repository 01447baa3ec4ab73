"""What alert rules look at beside live prices: held offers at their accepted price, and who was
polled when. Plain psycopg like reads.py; functions neither write nor commit.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from typing import NamedTuple

from tracker.store.stored import (
    LIVE_SQL,
    Connection,
    StoredOffer,
    fetch,
    live_times,
    past_sql,
    sellers_by_id,
    to_offers,
)


class HeldOffer(NamedTuple):
    """An offer that a gate holds back now. ``offer`` has the price that had been accepted before;
    ``since`` is when the gate first held it."""

    offer: StoredOffer
    gate: str
    reason: str
    since: datetime


_HELD_SQL = (
    "SELECT DISTINCT ON (o.id) o.id, q.gate, q.reason, q.first_seen_at, q.accepted_micro_usd"
    " FROM quarantine q JOIN offer o ON o.key = q.offer_key AND o.source_id = q.source_id"
    " WHERE q.released_at IS NULL AND q.accepted_micro_usd > 0 AND o.gpu_key = ANY (%(gpu_keys)s)"
    " ORDER BY o.id, q.first_seen_at"
)
_LAST_SQL = past_sql(
    "(SELECT DISTINCT ON (offer_id) * FROM price_span WHERE offer_id = ANY (%(ids)s)"
    " ORDER BY offer_id, valid_to DESC)",
    "n.valid_to",
)


def held_offers(connection: Connection, gpu_keys: Collection[str]) -> list[HeldOffer]:
    """What the gates hold back of these GPUs, of what they had let pass before."""
    held = {row[0]: row[1:] for row in fetch(connection, _HELD_SQL, {"gpu_keys": list(gpu_keys)})}
    if not held:
        return []
    sellers = sellers_by_id(connection)
    values = {"ids": list(held)}
    rows = fetch(connection, LIVE_SQL + " AND offer_id = ANY (%(ids)s)", values)
    found = {o.offer_id: o for o in to_offers(rows, sellers, live_times(sellers))}
    past = fetch(connection, _LAST_SQL, values)
    for offer in to_offers(past, sellers, lambda _, end, __: (end, end)):
        found.setdefault(offer.offer_id, offer)
    return [
        HeldOffer(found[id_]._replace(price_micro_usd=accepted), gate, reason, since)
        for id_, (gate, reason, since, accepted) in held.items()
        if id_ in found
    ]


class Coverage(NamedTuple):
    """When a provider was first polled with success, and last before a certain moment."""

    first_ok_at: datetime | None
    last_ok_at: datetime | None
    ttl: timedelta

    def known_at(self, moment: datetime) -> bool:
        """Whether its prices were known at *moment*."""
        return self.last_ok_at is not None and moment < self.last_ok_at + self.ttl


def coverage(connection: Connection, moment: datetime) -> dict[str, Coverage]:
    """Every provider that is polled: what it had answered by *moment*."""
    accepted = (
        "SELECT polled_at FROM poll l WHERE l.provider_id = p.id"
        " AND l.status IN ('complete', 'partial')"
    )
    rows = fetch(
        connection,
        f"SELECT p.slug, ({accepted} ORDER BY polled_at LIMIT 1),"
        f" ({accepted} AND polled_at <= %(moment)s ORDER BY polled_at DESC LIMIT 1),"
        " p.ttl_seconds FROM provider p WHERE p.ttl_seconds IS NOT NULL",
        {"moment": moment},
    )
    return {slug: Coverage(first, last, timedelta(seconds=ttl)) for slug, first, last, ttl in rows}


def sold_before(
    connection: Connection, gpu_keys: Collection[str], moment: datetime, within: timedelta
) -> set[tuple[str, str]]:
    """Who had which of these GPUs on offer in the time *within* before *moment*: (source, key)."""
    rows = fetch(
        connection,
        "SELECT DISTINCT p.slug, s.gpu_key FROM price_span s JOIN provider p ON p.id = s.source_id"
        " WHERE s.gpu_key = ANY (%(gpu_keys)s) AND s.valid_to > %(start)s"
        " AND s.valid_from <= %(moment)s",
        {"gpu_keys": list(gpu_keys), "start": moment - within, "moment": moment},
    )
    return {(slug, key) for slug, key in rows}


def source_urls(connection: Connection, offer_ids: Collection[int]) -> dict[int, str]:
    """Where the prices of these offers can be looked up, for those whose provider says so."""
    if not offer_ids:
        return {}
    rows = fetch(
        connection,
        "SELECT id, source_url FROM offer WHERE id = ANY (%(ids)s) AND source_url IS NOT NULL",
        {"ids": list(offer_ids)},
    )
    return dict(rows)
