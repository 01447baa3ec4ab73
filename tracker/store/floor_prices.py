"""The prices of one GPU that its floors are built of, as columns."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Collection
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

if TYPE_CHECKING:
    from tracker.store.series.keys import Ints

# Closed spans, what is open, and the floor's own steps of the time before the first spans.
_PRICES_SQL = """
SELECT 0::int8 AS key_id, s.offer_id, s.valid_from, s.valid_to, s.price_micro_usd, s.price_native,
    s.fx_rate, s.fallback, s.expires_at, 0::int8 AS open
FROM price_span s WHERE s.source_id = ANY (%(sources)s) AND s.gpu_key = %(gpu)s
UNION ALL
SELECT 0, n.offer_id, n.valid_from,
    coalesce(n.seen_until, p.last_ok_at) + coalesce(p.ttl_seconds, 0) * interval '1 second',
    n.price_micro_usd, n.price_native, n.fx_rate, n.fallback, n.expires_at, 1
FROM offer_now n JOIN provider p ON p.id = n.source_id
WHERE n.source_id = ANY (%(sources)s) AND n.gpu_key = %(gpu)s
UNION ALL
SELECT f.key_id, f.offer_id, f.valid_from, least(f.valid_to, k.expires_at, p.spans_from),
    f.price_micro_usd, f.price_native, f.fx_rate, false, NULL, 0
FROM (
    SELECT key_id, offer_id, valid_from, valid_to, price_micro_usd, price_native, fx_rate
    FROM price_floor UNION ALL
    SELECT n.key_id, n.offer_id, n.valid_from,
        coalesce(n.seen_until, p.last_ok_at) + coalesce(p.ttl_seconds, 0) * interval '1 second',
        n.price_micro_usd, n.price_native, n.fx_rate
    FROM floor_now n JOIN floor_key k ON k.id = n.key_id JOIN provider p ON p.id = k.source_id
) f JOIN floor_key k ON k.id = f.key_id JOIN provider p ON p.id = k.source_id
WHERE k.source_id = ANY (%(sources)s) AND k.gpu_key = %(gpu)s AND f.valid_from < p.spans_from
"""
_COLUMNS_SQL = f"""
SELECT p.key_id, p.offer_id, p.valid_from, p.valid_to, p.price_micro_usd, p.price_native, p.fx_rate,
    p.fallback::int::int8, coalesce(p.expires_at, 'infinity'), p.open
FROM ({_PRICES_SQL}) p
"""
_KINDS = ("int", "int", "time", "time", "int", "word", "word", "int", "time", "int")


class Prices(NamedTuple):
    """Prices of one GPU, in the order of offers. Times are as PostgreSQL counts them; ``natives``
    and ``rates`` are places in ``amounts`` and ``factors``, which are in their order and each
    there once: that keeps them exact. A factor is None where there is none."""

    key_ids: Ints  # of floor steps; 0 for offers
    offers: Ints
    starts: Ints
    ends: Ints
    micro_usd: Ints
    fallback: Ints
    expires: Ints
    is_open: Ints
    natives: Ints
    rates: Ints
    amounts: list[Decimal]
    factors: list[Decimal | None]


def read(connection: psycopg.Connection[Any], sources: Collection[int], gpu_key: str) -> Prices:
    """What the *sources* (their ids) said of a GPU. Within the caller's transaction."""
    import numpy as np

    from tracker.store.series.binary import read_words

    values = {"sources": list(sources), "gpu": gpu_key}
    columns, (amounts, factors) = read_words(connection, _COLUMNS_SQL, values, _KINDS)
    natives, rates = numbered(amounts), numbered(factors)
    del amounts, factors
    # Of several that are as low the first one counts.
    order = np.lexsort((columns[2], columns[1]))
    columns += [natives.places, rates.places]
    for place, column in enumerate(columns):
        columns[place] = column[order]
    return Prices._make((*columns, natives.all, rates.all))


class Numbers(NamedTuple):
    """Numbers, each once, and the places of words among them."""

    all: list[Decimal | None]
    places: Ints


def numbered(words: list[str]) -> Numbers:
    """Numbers in their order, one that is missing first, and the place of each of the *words*: the
    same for all that say the same."""
    import numpy as np

    # Of several spellings the first one in the order of texts is kept, whatever came first.
    different = {word: Decimal(word) if word else None for word in sorted(set(words))}
    numbers = sorted(dict.fromkeys(different.values()), key=lambda n: (n is not None, n))
    place_of = {number: place for place, number in enumerate(numbers)}
    places = {word: place_of[number] for word, number in different.items()}
    return Numbers(numbers, np.fromiter(map(places.__getitem__, words), np.int64, len(words)))
