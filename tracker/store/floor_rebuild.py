"""The price floor built anew from the spans: after an import, a rewind, or for an older database.

What ``floor_rows.maintain`` writes poll by poll comes out here in one go, GPU by GPU: at every
moment the lowest native price of a floor's offers. The spans that retention took away are not there
any more: for the time before (``provider.spans_from``) the floor that stands is kept, and spans
from then that were imported later are added to it.

A foreign price is, in USD, what its span says it was: at the rate of the last poll that saw it.
"""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from tracker.domain.floor import FloorIdentity
from tracker.domain.mig import part_of
from tracker.store import floor_packs
from tracker.store.arrays import literal
from tracker.store.floor_rows import key_row, make_keys
from tracker.store.stored import sellers_by_id

if TYPE_CHECKING:
    from tracker.store.series.keys import Ints
    from tracker.store.series.reduce import LowestSteps

Cursor = psycopg.Cursor[Any]
Connection = psycopg.Connection[Any]


class Rebuilt(NamedTuple):
    """What stands after a rebuild: keys that ever had a price, closed steps, open steps."""

    keys: int
    steps: int
    open_steps: int


def rebuild(connection: Connection, source: str | None = None) -> dict[str, Rebuilt]:
    """Build the floors of *source* (a slug), or of all, anew; each in a transaction of its own.

    Polls of a source wait while its floors are built. Raises LookupError where *source* is unknown.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, slug FROM provider WHERE %(slug)s::text IS NULL OR slug = %(slug)s"
            " ORDER BY id",
            {"slug": source},
        )
        found = cursor.fetchall()
        connection.commit()
        if source is not None and not found:
            raise LookupError(source)
        rebuilt = {}
        for source_id, slug in found:
            rebuilt[slug] = rebuild_one(cursor, source_id)
            connection.commit()
    return rebuilt


def unbuilt(connection: Connection) -> list[str]:
    """The sources that have prices, but floors that do not say all that their spans do."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT slug FROM provider WHERE NOT floor_built AND last_ok_at IS NOT NULL ORDER BY id"
        )
        return [slug for (slug,) in cursor]


def rebuild_one(cursor: Cursor, source_id: int) -> Rebuilt:
    """``rebuild_all`` of one source."""
    return rebuild_all(cursor, [source_id])


def rebuild_all(cursor: Cursor, source_ids: Sequence[int]) -> Rebuilt:
    """Build the floors of some sources anew within the caller's transaction.

    Locks the providers' rows, and lets recorders know that what they remember is void. The spans of
    a GPU are read once, whoever's they are.
    """
    cursor.execute("SET LOCAL statement_timeout = 0")
    cursor.execute(
        "SELECT id, last_ok_at, coalesce(ttl_seconds, 0) * interval '1 second' FROM provider"
        " WHERE id = ANY (%s) ORDER BY id FOR NO KEY UPDATE",
        (list(source_ids),),
    )
    sources = {row[0]: _Source(*row) for row in cursor.fetchall()}
    totals, gpus = Rebuilt(0, 0, 0), list[str]()
    slugs = {id_: seller.slug for id_, seller in sellers_by_id(cursor.connection).items()}
    # The rows of all GPUs are more than need be in memory.
    with cursor.connection.cursor(name="floor_identities") as rows:
        rows.execute(_IDENTITIES_SQL, {"sources": list(sources)})
        for gpu_key, found in itertools.groupby(rows, key=lambda row: row[0]):
            gpus.append(gpu_key)
            counts = _rebuild_gpu(cursor, sources, gpu_key, _identities(slugs, found))
            totals = Rebuilt(*(a + b for a, b in zip(totals, counts, strict=True)))
    cursor.execute(_RATES_SQL, {"sources": list(sources)})
    cursor.execute(
        "UPDATE provider SET floor_built = true, seq = seq + 1 WHERE id = ANY (%s)",
        (list(sources),),
    )
    floor_packs.throw_away(cursor, gpu_keys=gpus)
    return totals


class _Source(NamedTuple):
    id: int
    last_ok_at: datetime | None
    ttl: timedelta


class _Known(NamedTuple):
    """What the offers of a GPU are, without limits (source, seller, family, slice, identity), and
    for each offer its place among them."""

    identities: list[tuple[int, int, str, bool, FloorIdentity]]
    of_offer: dict[int, int]


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
    SELECT key_id, offer_id, valid_from, 'infinity', price_micro_usd, price_native, fx_rate
    FROM floor_now
) f JOIN floor_key k ON k.id = f.key_id JOIN provider p ON p.id = k.source_id
WHERE k.source_id = ANY (%(sources)s) AND k.gpu_key = %(gpu)s AND f.valid_from < p.spans_from
"""
_DISTINCT_SQL = f"""
WITH prices AS MATERIALIZED (SELECT price_native, fx_rate FROM ({_PRICES_SQL}) p)
SELECT array(SELECT DISTINCT price_native FROM prices ORDER BY 1),
    array(SELECT DISTINCT fx_rate FROM prices)
"""
# Amounts and rates come as their places among the distinct ones, which keeps them exact: those of
# amounts in their order.
_COLUMNS_SQL = f"""
SELECT p.key_id, p.offer_id, p.valid_from, p.valid_to, p.price_micro_usd, a.place,
    coalesce(r.place, 0), p.fallback::int::int8, coalesce(p.expires_at, 'infinity'),
    p.open
FROM ({_PRICES_SQL}) p
JOIN unnest(%(natives)s::numeric[]) WITH ORDINALITY AS a (native, place) ON native = p.price_native
LEFT JOIN unnest(%(rates)s::numeric[]) WITH ORDINALITY AS r (rate, place) ON rate = p.fx_rate
"""
_IDENTITY = (
    "seller_id", "gpu_key", "gpu_count", "market", "tier", "price_unit", "currency", "price_kind",
    "billing_increment_seconds", "minimum_seconds", "commitment_hours", "commitment_unknown",
    "disk_included_gb", "disk_usd_per_gb_hour", "egress_usd_per_gb", "upstream",
    "CASE WHEN is_slice THEN native_id END",  # its part is read from it
)  # fmt: skip
_IDENTITIES_SQL = f"""
SELECT gpu_key, source_id, max(gpu_family), bool_or(is_slice), string_agg(id::text, ' '),
    {", ".join(_IDENTITY)}
FROM offer WHERE source_id = ANY (%(sources)s) GROUP BY source_id, {", ".join(_IDENTITY)}
ORDER BY gpu_key, source_id
"""
_OF_GPU = (
    "key_id IN (SELECT id FROM floor_key WHERE source_id = ANY (%(sources)s) AND gpu_key = %(gpu)s)"
)
# Multiplying an interval is exact up to 2^53 microseconds, two centuries from 2000.
_INSTANT = "timestamptz '2000-01-01 00:00+00' + r.{} * interval '1 microsecond'"
_CLOSED_SQL = f"""
INSERT INTO price_floor (key_id, offer_id, price_micro_usd, price_native, fx_rate, valid_from,
    valid_to)
SELECT key_id, offer_id, micro_usd, native, rate, {_INSTANT.format("starts")},
    {_INSTANT.format("ends")}
FROM unnest(%s::int[], %s::int8[], %s::int8[], %s::numeric[], %s::numeric[], %s::int8[], %s::int8[])
    AS r (key_id, offer_id, micro_usd, native, rate, starts, ends)
"""
_OPEN_SQL = f"""
INSERT INTO floor_now (key_id, offer_id, price_micro_usd, price_native, fx_rate, valid_from,
    seen_until)
SELECT key_id, offer_id, micro_usd, native, rate, {_INSTANT.format("starts")},
    {_INSTANT.format("seen")}
FROM unnest(%s::int[], %s::int8[], %s::int8[], %s::numeric[], %s::numeric[], %s::int8[], %s::int8[])
    AS r (key_id, offer_id, micro_usd, native, rate, starts, seen)
"""
# What is open in another currency has the newest rate of an offer at this price.
_RATES_SQL = """
UPDATE floor_now f SET price_micro_usd = n.price_micro_usd, fx_rate = n.fx_rate
FROM (
    SELECT DISTINCT ON (floor_id, price_native) floor_id, price_native, price_micro_usd, fx_rate
    FROM offer_now WHERE source_id = ANY (%(sources)s) AND fx_rate IS NOT NULL
    ORDER BY floor_id, price_native, seen_until DESC NULLS FIRST, offer_id
) n
WHERE f.key_id = n.floor_id AND f.price_native = n.price_native
"""
_PG_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_FOREVER = 2**63 - 1  # infinity, as PostgreSQL sends it


class _Prices(NamedTuple):
    """Prices of one GPU, in the order of offers. Times are as PostgreSQL counts them; ``native``
    and ``rate`` are places in lists, counted from 1 (rate 0: none)."""

    key_ids: Ints  # of floor steps; 0 for offers
    offers: Ints
    starts: Ints
    ends: Ints
    micro_usd: Ints
    natives: Ints
    rates: Ints
    fallback: Ints
    expires: Ints
    is_open: Ints


def _rebuild_gpu(
    cursor: Cursor, sources: Mapping[int, _Source], gpu_key: str, known: _Known
) -> Rebuilt:
    from tracker.store.series.reduce import lowest_steps

    values = {"sources": list(sources), "gpu": gpu_key}
    cursor.execute(_DISTINCT_SQL, values)
    natives, rates = cursor.fetchall()[0]
    rates = [rate for rate in rates if rate is not None]
    prices = _read(cursor, values | {"natives": natives, "rates": rates})
    floor_ids, floors = _floor_ids(cursor, known, prices)
    steps = lowest_steps(prices.starts, prices.ends, prices.natives, floor_ids)
    for table in ("price_floor", "floor_now"):
        cursor.execute(f"DELETE FROM {table} WHERE {_OF_GPU}", values)
    closed, still_open = _write(cursor, sources, prices, floor_ids, steps, floors, (natives, rates))
    _assign(cursor, prices, floor_ids)
    return Rebuilt(len(set(steps.groups.tolist())), closed, still_open)


def _read(cursor: Cursor, values: dict[str, Any]) -> _Prices:
    import numpy as np

    from tracker.store.series.binary import read_columns

    columns = read_columns(
        cursor.connection, _COLUMNS_SQL, values, len(_Prices._fields), times=(2, 3, 8)
    )
    order = np.lexsort((columns[2], columns[1]))  # of several that are as low the first one counts
    return _Prices(*(column[order] for column in columns))


class _Floor(NamedTuple):
    """Whose a floor is, and the moment at which all its prices expire (_FOREVER: they do not)."""

    source_id: int
    expires: int


def _floor_ids(cursor: Cursor, known: _Known, prices: _Prices) -> tuple[Ints, dict[int, _Floor]]:
    """The floor of each price, and what those floors are that spans have a part in."""
    import numpy as np

    offers = np.array(sorted(known.of_offer), dtype=np.int64)
    group = np.array([known.of_offer[id_] for id_ in offers.tolist()], dtype=np.int64)
    own = prices.key_ids == 0
    places = group[np.searchsorted(offers, prices.offers[own])]
    kinds, kind_of = np.unique(
        np.column_stack((places, prices.fallback[own], prices.expires[own])), axis=0,
        return_inverse=True,
    )  # fmt: skip
    rows, floors = [], []
    for place, fallback, expires in kinds.tolist():
        source_id, seller_id, family, is_slice, identity = known.identities[place]
        at = None if expires == _FOREVER else _PG_EPOCH + timedelta(microseconds=expires)
        told = identity._replace(fallback=bool(fallback), expires_at=at)
        rows.append(key_row(told, source_id, seller_id, family, is_slice=is_slice))
        floors.append(_Floor(source_id, expires))
    by_digest = make_keys(cursor, rows) if rows else {}
    ids = np.array([by_digest[row[0]] for row in rows], dtype=np.int64)
    floor_ids = prices.key_ids.copy()
    floor_ids[own] = ids[kind_of.reshape(-1)] if len(ids) else 0
    return floor_ids, dict(zip(ids.tolist(), floors, strict=True))


def _identities(slugs: Mapping[int, str], rows: Iterable[tuple[Any, ...]]) -> _Known:
    known = _Known([], {})
    for _, source_id, family, is_slice, ids, seller_id, *rest, upstream, native_id in rows:
        known.of_offer.update(dict.fromkeys(map(int, ids.split(" ")), len(known.identities)))
        part = None if native_id is None else part_of(native_id)
        identity = FloorIdentity._make(
            (slugs[source_id], slugs[seller_id], *rest, False, None, upstream, part)
        )
        known.identities.append((source_id, seller_id, family, is_slice, identity))
    return known


def _write(
    cursor: Cursor, sources: Mapping[int, _Source], prices: _Prices, floor_ids: Ints,
    steps: LowestSteps, floors: Mapping[int, _Floor], codes: tuple[list[Decimal], list[Decimal]],
) -> tuple[int, int]:  # fmt: skip
    """Write the *steps*, of which those that end with an open offer are open; how many of each."""
    import numpy as np

    limits = {id_: floor.expires for id_, floor in floors.items()}
    limit = np.array([limits.get(id_, _FOREVER) for id_ in steps.groups.tolist()], dtype=np.int64)
    at_end = np.flatnonzero(prices.is_open)
    open_ends = set(
        zip(
            floor_ids[at_end].tolist(), prices.natives[at_end].tolist(),
            prices.ends[at_end].tolist(), strict=True,
        )
    )  # fmt: skip
    known = zip(steps.groups.tolist(), steps.values.tolist(), steps.ends.tolist(), strict=True)
    opened = np.array([step in open_ends for step in known], dtype=bool)
    counts = []
    for statement, is_open in ((_CLOSED_SQL, False), (_OPEN_SQL, True)):
        ends = steps.ends if is_open else np.minimum(steps.ends, limit)
        wanted = (opened == is_open) & (np.minimum(ends, limit) > steps.starts)
        at = steps.chosen[wanted]
        last = ends[wanted].tolist()
        if is_open:
            of = [sources[floors[id_].source_id] for id_ in steps.groups[wanted].tolist()]
            last = list(map(_seen_until, of, last))
        counts.append(len(at))
        if len(at):
            natives, rates = codes
            cursor.execute(statement, [
                literal(steps.groups[wanted].tolist()), literal(prices.offers[at].tolist()),
                literal(prices.micro_usd[at].tolist()),
                literal([natives[place - 1] for place in prices.natives[at].tolist()]),
                literal([rates[p - 1] if p else None for p in prices.rates[at].tolist()]),
                literal(steps.starts[wanted].tolist()), literal(last),
            ])  # fmt: skip
    closed, still_open = counts
    return closed, still_open


def _assign(cursor: Cursor, prices: _Prices, floor_ids: Ints) -> None:
    """Note with every open offer which floor it counts for."""
    import numpy as np

    still_open = np.flatnonzero(prices.is_open)
    if len(still_open):
        cursor.execute(
            "UPDATE offer_now n SET floor_id = r.floor_id"
            " FROM unnest(%s::int8[], %s::int[]) AS r (offer_id, floor_id)"
            " WHERE n.offer_id = r.offer_id",
            (literal(prices.offers[still_open].tolist()), literal(floor_ids[still_open].tolist())),
        )


def _seen_until(source: _Source, end: int) -> int | None:
    """Until when an open step that is known until *end* has been seen; None: by the last poll."""
    seen = end - _micros(source.ttl)
    last_ok = None if source.last_ok_at is None else _micros(source.last_ok_at - _PG_EPOCH)
    return None if seen == last_ok else seen


def _micros(span: timedelta) -> int:
    return span // timedelta(microseconds=1)
