"""Since when prices are on record, source by source, and since when those of single offers are."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

import psycopg

from tracker.store.stored import fetch


class Beginning(NamedTuple):
    """The first price of ``source``, who was polled or imported, was known at ``at``.

    Before ``whole_from`` retention has taken single offers' prices away, and only the lowest of
    those alike are kept; None where all are.
    """

    source: str
    at: datetime
    whole_from: datetime | None


# The steps of a key follow one another: the one that ends first has begun first.
_SQL = """
SELECT p.slug, CASE WHEN p.floor_built THEN f.at ELSE (
    SELECT min(l.polled_at) FROM poll l
    WHERE l.provider_id = p.id AND l.status IN ('complete', 'partial')
        AND (%(sellers)s::text[] IS NULL OR p.slug = ANY (%(sellers)s))
) END AS at, p.spans_from
FROM provider p LEFT JOIN (
    SELECT k.source_id, min(least(c.valid_from, n.valid_from)) AS at
    FROM floor_key k JOIN provider s ON s.id = k.seller_id
    LEFT JOIN LATERAL (
        SELECT valid_from FROM price_floor WHERE key_id = k.id ORDER BY valid_to LIMIT 1
    ) c ON true
    LEFT JOIN LATERAL (
        SELECT valid_from FROM floor_now WHERE key_id = k.id ORDER BY valid_from LIMIT 1
    ) n ON true
    WHERE (%(gpu_keys)s::text[] IS NULL OR k.gpu_key = ANY (%(gpu_keys)s))
        AND (%(sellers)s::text[] IS NULL OR s.slug = ANY (%(sellers)s))
    GROUP BY k.source_id
) f ON f.source_id = p.id
WHERE p.kind <> 'seller' ORDER BY 2, 1
"""


def beginnings(
    connection: psycopg.Connection[Any],
    gpu_keys: Collection[str] | None = None,
    sellers: Collection[str] | None = None,
) -> tuple[Beginning, ...]:
    """Who has ever told a price of *gpu_keys* and *sellers* (None: of any), the first one first.

    Of a source whose floors are not built yet, the first poll stands for its first price.
    """
    values = {
        "gpu_keys": None if gpu_keys is None else list(gpu_keys),
        "sellers": None if sellers is None else list(sellers),
    }
    return tuple(
        Beginning(slug, at, whole_from if whole_from is not None and whole_from > at else None)
        for slug, at, whole_from in fetch(connection, _SQL, values)
        if at is not None
    )


def not_whole_at(connection: psycopg.Connection[Any], moment: datetime) -> frozenset[str]:
    """The sources of which retention has taken single offers' prices of *moment* away."""
    rows = fetch(
        connection, "SELECT slug FROM provider WHERE spans_from > %(moment)s", {"moment": moment}
    )
    return frozenset(slug for (slug,) in rows)
