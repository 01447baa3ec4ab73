"""Reading everything beside prices: providers, polls, findings, discounts, sizes.

Plain psycopg like reads.py; functions neither write nor commit.
"""

# Statements are put together from constants only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

import psycopg

from tracker.domain.terms import Discount, Market

Connection = psycopg.Connection[Any]


class StoredProvider(NamedTuple):
    """How things stand with a provider. ``offers`` counts what its polls hold open."""

    slug: str
    kind: str
    every_seconds: int | None
    ttl_seconds: int | None
    last_ok_at: datetime | None
    last_attempt_at: datetime | None
    last_status: str | None
    last_error: str | None
    consecutive_failures: int
    content_since: datetime | None
    marketplace: bool
    default_tiers: list[str]
    facts: dict[str, Any]
    offers: int
    quarantined: int
    unmapped: int


def providers(connection: Connection) -> list[StoredProvider]:
    """All providers ever polled or sold by, by name."""
    columns = ", ".join(f"p.{name}" for name in StoredProvider._fields[:-3])
    cursor = connection.execute(
        "WITH open AS (SELECT source_id, count(*) AS offers FROM offer_now GROUP BY 1)"
        f" SELECT {columns},"
        " coalesce((SELECT o.offers FROM open o WHERE o.source_id = p.id), 0),"
        " (SELECT count(*) FROM quarantine q WHERE q.source_id = p.id AND released_at IS NULL),"
        " (SELECT count(*) FROM unmapped_gpu u WHERE u.source_id = p.id)"
        " FROM provider p ORDER BY p.slug"
    )
    return [StoredProvider(*row) for row in cursor]


class StoredPoll(NamedTuple):
    """One poll. ``rejects`` maps a reason to {count, sample}."""

    id: int
    provider: str
    started_at: datetime
    polled_at: datetime
    duration_ms: int
    status: str
    offers: int
    opened: int
    changed: int
    closed: int
    updated: int
    unchanged: int
    quarantined: int
    rejected: int
    requests: int
    bytes: int
    rejects: dict[str, Any] | None
    incomplete_reason: str | None
    error: str | None


_POLL_SQL = (
    "SELECT "
    + ", ".join("p.slug" if f == "provider" else f"l.{f}" for f in StoredPoll._fields)
    + " FROM poll l JOIN provider p ON p.id = l.provider_id WHERE "
)


def polls(connection: Connection, provider: str | None = None, limit: int = 20) -> list[StoredPoll]:
    """The latest polls, newest first: of one provider, or of all."""
    if provider is None:
        cursor = connection.execute(_POLL_SQL + "true ORDER BY l.id DESC LIMIT %s", (limit,))
    else:
        cursor = connection.execute(
            _POLL_SQL + "l.provider_id = (SELECT id FROM provider WHERE slug = %s)"
            " ORDER BY l.polled_at DESC, l.id DESC LIMIT %s",
            (provider, limit),
        )
    return [StoredPoll(*row) for row in cursor]


def poll_that_saw(connection: Connection, source: str, seen_at: datetime) -> StoredPoll | None:
    """The accepted poll of *source* at *seen_at* (StoredOffer.seen_at), if it is still known.

    Its answers are archive.payloads_of_poll(poll.id).
    """
    row = connection.execute(
        _POLL_SQL + "l.provider_id = (SELECT id FROM provider WHERE slug = %s)"
        " AND l.polled_at = %s AND l.status IN ('complete', 'partial')",
        (source, seen_at),
    ).fetchone()
    return StoredPoll(*row) if row else None


class OwnPast(NamedTuple):
    """How many offers a provider's latest accepted poll brought, and how many it usually brings.

    ``usual`` is the median of up to PAST_POLLS complete polls before it; None for fewer than
    FEWEST_POLLS, which show no habit.
    """

    latest: int
    usual: int | None


PAST_POLLS, FEWEST_POLLS = 100, 3


def own_past(connection: Connection) -> dict[str, OwnPast]:
    """Of every provider with an accepted poll, by name."""
    cursor = connection.execute(
        "SELECT p.slug, last.offers, past.usual, past.polls FROM provider p"
        " CROSS JOIN LATERAL (SELECT l.id, l.polled_at, l.offers FROM poll l"
        "   WHERE l.provider_id = p.id AND l.status IN ('complete', 'partial')"
        "   ORDER BY l.polled_at DESC LIMIT 1) last"
        " CROSS JOIN LATERAL (SELECT count(*) AS polls,"
        "   percentile_disc(0.5) WITHIN GROUP (ORDER BY x.offers) AS usual"
        "   FROM (SELECT l.offers FROM poll l WHERE l.provider_id = p.id"
        "     AND l.status = 'complete' AND l.polled_at < last.polled_at"
        "     ORDER BY l.polled_at DESC LIMIT %s) x) past",
        (PAST_POLLS,),
    )
    return {
        slug: OwnPast(latest, usual if polls >= FEWEST_POLLS else None)
        for slug, latest, usual, polls in cursor
    }


class StoredQuarantine(NamedTuple):
    """An offer that a gate holds back (or has released), its price and why."""

    source: str
    offer_key: bytes
    gate: str
    seller: str
    native_id: str
    gpu_key: str
    gpu_raw: str
    gpu_count: Decimal
    market: str
    tier: str
    region: str | None
    source_url: str | None
    price_micro_usd: int
    accepted_micro_usd: int | None
    reason: str
    releasable: bool
    confirmations: int
    first_seen_at: datetime
    last_seen_at: datetime
    released_at: datetime | None


def quarantined(
    connection: Connection, *, include_released: bool = False
) -> list[StoredQuarantine]:
    """What the gates hold back, by source and GPU, cheapest first."""
    columns = ", ".join(f"q.{name}" for name in StoredQuarantine._fields[1:])
    cursor = connection.execute(
        f"SELECT p.slug, {columns} FROM quarantine q JOIN provider p ON p.id = q.source_id"
        + ("" if include_released else " WHERE q.released_at IS NULL")
        + " ORDER BY p.slug, q.gpu_key, q.price_micro_usd, q.offer_key, q.gate"
    )
    return [StoredQuarantine(*row) for row in cursor]


class StoredUnmapped(NamedTuple):
    """A GPU name that the catalogue does not know, as its source's latest polls listed it."""

    source: str
    name: str
    vram_text: str
    sample: str
    rows_last_poll: int
    first_seen_at: datetime
    last_seen_at: datetime


def unmapped(connection: Connection) -> list[StoredUnmapped]:
    """The unknown GPU names, most rows first."""
    columns = ", ".join(f"u.{name}" for name in StoredUnmapped._fields[1:])
    cursor = connection.execute(
        f"SELECT p.slug, {columns} FROM unmapped_gpu u JOIN provider p ON p.id = u.source_id"
        " ORDER BY u.rows_last_poll DESC, p.slug, u.name"
    )
    return [StoredUnmapped(*row) for row in cursor]


def to_discount(row: Sequence[Any]) -> Discount:
    """The discount of a row: provider, percent, valid_as_of, expires_at, gpu, market, note."""
    provider, percent, valid_as_of, expires_at, gpu, market, note = row
    chosen = Market(market) if market else None
    return Discount(provider, percent, valid_as_of, expires_at, gpu, chosen, note)


def discounts(connection: Connection, at: datetime) -> list[Discount]:
    """The discounts in force at *at* or later, by provider; none holds before its ``since``."""
    cursor = connection.execute(
        "SELECT provider, percent, valid_as_of, least(expires_at, ended_at), gpu, market, note,"
        " since FROM discount WHERE least(expires_at, ended_at) > %s"
        " ORDER BY provider, gpu NULLS FIRST, market NULLS FIRST, id",
        (at,),
    )
    return [replace(to_discount(row), since=since) for *row, since in cursor]


class TableSize(NamedTuple):
    """A table with its partitions and indexes. ``rows`` is the server's estimate."""

    rows: int
    bytes: int


class DatabaseSize(NamedTuple):
    """What the database holds. ``since`` is the first poll that brought prices."""

    bytes: int
    tables: dict[str, TableSize]
    live_offers: int
    since: datetime | None


def database_size(connection: Connection) -> DatabaseSize:
    """Sizes and counts for people who wonder what the disk is full of."""
    rows = connection.execute(
        "SELECT coalesce(parent.relname, c.relname), sum(s.n_live_tup),"
        " sum(pg_total_relation_size(c.oid)) FROM pg_class c"
        " JOIN pg_stat_user_tables s ON s.relid = c.oid"
        " LEFT JOIN pg_inherits i ON i.inhrelid = c.oid"
        " LEFT JOIN pg_class parent ON parent.oid = i.inhparent"
        " WHERE c.relkind IN ('r', 'p') AND c.relnamespace = current_schema()::regnamespace"
        " GROUP BY 1 ORDER BY 1"
    ).fetchall()
    [total, live, since] = connection.execute(
        "SELECT pg_database_size(current_database()), (SELECT count(*) FROM offer_now),"
        " (SELECT polled_at FROM poll WHERE status IN ('complete', 'partial') ORDER BY id LIMIT 1)"
    ).fetchone() or (0, 0, None)
    tables = {name: TableSize(int(count or 0), int(size or 0)) for name, count, size in rows}
    return DatabaseSize(total, tables, live, since)


def tiers(connection: Connection) -> set[str]:
    """Every tier that an offer on record is of, and those that providers are ranked by."""
    rows = connection.execute(
        "SELECT DISTINCT tier FROM offer UNION SELECT unnest(default_tiers) FROM provider"
    )
    return {row[0] for row in rows}


def first_poll_at(connection: Connection) -> datetime | None:
    """When history begins: the first poll that was accepted."""
    row = connection.execute(
        "SELECT min(polled_at) FROM poll WHERE status IN ('complete', 'partial')"
    ).fetchone()
    return row[0] if row else None
