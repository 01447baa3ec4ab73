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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from tracker.domain.floor import FloorIdentity
from tracker.domain.mig import part_of
from tracker.store import floor_packs, floor_prices, floor_write
from tracker.store.floor_prices import Prices
from tracker.store.floor_rows import key_row, make_keys
from tracker.store.floor_write import FOREVER, PG_EPOCH, Built, Floor, Source
from tracker.store.stored import sellers_by_id

if TYPE_CHECKING:
    from tracker.store.series.keys import Ints

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
    sources = {row[0]: Source(*row) for row in cursor.fetchall()}
    slugs = {id_: seller.slug for id_, seller in sellers_by_id(cursor.connection).items()}
    gpus, totals = list[str](), Rebuilt(0, 0, 0)
    for gpu_key, counts in _gpu_by_gpu(cursor, sources, slugs):
        gpus.append(gpu_key)
        totals = Rebuilt(*(a + b for a, b in zip(totals, counts, strict=True)))
    cursor.execute(_RATES_SQL, {"sources": list(sources)})
    cursor.execute(
        "UPDATE provider SET floor_built = true, seq = seq + 1 WHERE id = ANY (%s)",
        (list(sources),),
    )
    floor_packs.throw_away(cursor, gpu_keys=gpus)
    return totals


def _gpu_by_gpu(
    cursor: Cursor, sources: Mapping[int, Source], slugs: Mapping[int, str]
) -> Iterator[tuple[str, Rebuilt]]:
    """Build the floors of one GPU after another. While they are worked out, the server puts
    together the prices of the next one; it is left alone with that, as it does one thing at a time.
    """
    from tracker.store.series.reduce import lowest_steps

    with (
        # The rows of all GPUs are more than need be in memory.
        cursor.connection.cursor(name="floor_identities") as rows,
        _Reader(cursor.connection) as reader,
    ):
        rows.execute(_IDENTITIES_SQL, {"sources": list(sources)})
        of_gpus = itertools.groupby(rows, key=lambda row: row[0])

        def ahead() -> _Ahead | None:
            gpu_key, found = next(of_gpus, (None, ()))
            if gpu_key is None:
                return None
            known = _identities(slugs, found)
            return _Ahead(gpu_key, known, reader.ask(list(sources), gpu_key))

        now = ahead()
        while now is not None:
            prices = now.prices.result()
            floor_ids, floors = _floor_ids(cursor, now.known, prices)
            following = ahead()
            steps = lowest_steps(prices.starts, prices.ends, prices.natives, floor_ids)
            built = Built(prices, floor_ids, floors, steps)
            lines = floor_write.rows_of(built, sources)
            if following is not None:
                following.prices.result()  # also to raise what has gone wrong there
            floor_write.replace(cursor, sources, now.gpu_key, built, lines)
            yield now.gpu_key, Rebuilt(len(set(steps.groups.tolist())), *lines.counts)
            now = following


class _Reader:
    """Reads the prices of one GPU beside what else is done. An error in its block breaks it off:
    who interrupts a long reading need not wait for its end."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._pool = ThreadPoolExecutor(1, "floor-prices")
        self._latest: Future[Prices] | None = None

    def ask(self, sources: Sequence[int], gpu_key: str) -> Future[Prices]:
        """Begin to read; the connection is taken until it is done."""
        self._latest = self._pool.submit(floor_prices.read, self._connection, sources, gpu_key)
        return self._latest

    def __enter__(self) -> _Reader:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        while kind is not None and self._latest is not None and not self._latest.done():
            with suppress(psycopg.Error):
                self._connection.cancel()
            wait([self._latest], timeout=0.1)  # it may have come before the statement
        self._pool.shutdown()


class _Known(NamedTuple):
    """What the offers of a GPU are, without limits (source, seller, family, slice, identity), and
    for each offer its place among them."""

    identities: list[tuple[int, int, str, bool, FloorIdentity]]
    of_offer: dict[int, int]


class _Ahead(NamedTuple):
    """A GPU whose prices are being read."""

    gpu_key: str
    known: _Known
    prices: Future[Prices]


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


def _floor_ids(cursor: Cursor, known: _Known, prices: Prices) -> tuple[Ints, dict[int, Floor]]:
    """The floor of each price, and what those floors are that spans have a part in."""
    import numpy as np

    offers = np.array(sorted(known.of_offer), dtype=np.int64)
    group = np.array([known.of_offer[id_] for id_ in offers.tolist()], dtype=np.int64)
    own = prices.key_ids == 0
    places = group[np.searchsorted(offers, prices.offers[own])]
    moments, moment = np.unique(prices.expires[own], return_inverse=True)
    # A floor has the prices of one place that are alike in both: one number for the three.
    numbers = (places * len(moments) + moment.reshape(-1)) * 2 + (prices.fallback[own] > 0)
    kinds, kind_of = np.unique(numbers, return_inverse=True)
    rows, floors = [], []
    for kind in kinds.tolist():
        rest, fallback = divmod(kind, 2)
        place, expires = rest // len(moments), int(moments[rest % len(moments)])
        source_id, seller_id, family, is_slice, identity = known.identities[place]
        at = None if expires == FOREVER else PG_EPOCH + timedelta(microseconds=expires)
        told = identity._replace(fallback=bool(fallback), expires_at=at)
        rows.append(key_row(told, source_id, seller_id, family, is_slice=is_slice))
        floors.append(Floor(source_id, expires))
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
