"""Loading an invented history into the store's tables, faster than poll by poll."""

# Statements are put together from names of the schema only; values travel as parameters.
# ruff: noqa: S608

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import psycopg

from benchmarks.history_world import (
    COUNTS,
    GPUS,
    INCREMENTS,
    MARKETS,
    OPEN,
    REGIONS,
    TIERS,
    Ints,
    Provider,
    micros,
)
from tracker.domain.floor import FloorIdentity
from tracker.store import floor_rows, partitions
from tracker.store.series.binary import PG_EPOCH_MICROS
from tracker.store.series.reduce import lowest_steps

Connection = psycopg.Connection[Any]


def load(connection: Connection, providers: Iterable[Provider]) -> None:
    """Write identities, spans, what is open, and the price floor of all that."""
    connection.execute(
        "CREATE TEMPORARY TABLE staged (offer_id int8, start int8, finish int8, cents int8)"
    )
    connection.execute(
        "CREATE TEMPORARY TABLE staged_offer (id int8, gpu int8, count int8, market int8,"
        " tier int8, region int8)"
    )
    connection.execute(
        "CREATE TEMPORARY TABLE staged_step"
        " (key_id int8, offer_id int8, start int8, finish int8, cents int8)"
    )
    first, parts = 1, []
    for provider in providers:
        source = _provider(connection, provider)
        ids = first + np.arange(len(provider.offers.gpu))
        first += len(ids)
        _offers(connection, provider, source, ids)
        offer, start, end, cents = provider.spans
        parts.append((ids[offer], start, end, cents))
        open_ = end == OPEN
        _open(connection, (ids[offer[open_]], start[open_], end[open_], cents[open_]))
        _floors(connection, provider, source, ids)
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    _closed(connection, columns)
    connection.commit()
    connection.autocommit = True
    connection.execute(
        "VACUUM (ANALYZE) offer, offer_now, price_span, floor_key, price_floor, floor_now"
    )
    connection.autocommit = False


def _provider(connection: Connection, provider: Provider) -> int:
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=provider.now)
    every = provider.every // 1_000_000
    [(id_,)] = connection.execute(
        "INSERT INTO provider (slug, kind, every_seconds, ttl_seconds, seq, last_ok_at,"
        " last_attempt_at, last_status, marketplace)"
        " VALUES (%s, 'stream', %s, %s, %s, %s, %s, 'complete', %s) RETURNING id",
        (provider.slug, every, 3 * every, provider.polls, now, now, provider.marketplace),
    ).fetchall()
    return int(id_)


def _offers(connection: Connection, provider: Provider, source: int, ids: Ints) -> None:
    connection.execute("TRUNCATE staged_offer")
    _copy(connection, "staged_offer", (ids, *provider.offers))
    connection.execute(
        "INSERT INTO offer (id, key, source_id, seller_id, native_id, gpu_key, gpu_family,"
        " is_slice, gpu_count, market, tier, price_kind, currency, price_unit, region,"
        " billing_increment_seconds, commitment_unknown, gpu_raw, first_seen_at)"
        " OVERRIDING SYSTEM VALUE SELECT id, decode(md5(id::text), 'hex'), %(source)s, %(source)s,"
        " 'm-' || id, (%(gpus)s::text[])[gpu + 1],"
        " split_part((%(gpus)s::text[])[gpu + 1], '-', 1), false,"
        " (%(counts)s::int[])[count + 1], (%(markets)s::text[])[market + 1],"
        " (%(tiers)s::text[])[tier + 1], 'fixed', 'USD', 'machine_hour',"
        " (%(regions)s::text[])[region + 1], %(increment)s, false,"
        " (%(gpus)s::text[])[gpu + 1], now() FROM staged_offer",
        {
            "source": source, "gpus": list(GPUS), "counts": list(COUNTS),
            "markets": list(MARKETS), "tiers": list(TIERS), "regions": list(REGIONS),
            "increment": provider.increment,
        },
    )  # fmt: skip
    assert provider.increment in INCREMENTS


_SHARED = "offer_id, source_id, seller_id, gpu_key, market, tier, gpu_count, region"
_FROM_OFFER = ", ".join(f"o.{name}" for name in ("id", *_SHARED.split(", ")[1:]))
_PRICE = "s.cents / 100.0, s.cents * 10000"
_START, _FINISH = (
    f"timestamptz '2000-01-01 00:00+00' + s.{name} * interval '1 microsecond'"
    for name in ("start", "finish")
)


def _open(connection: Connection, columns: Sequence[Ints]) -> None:
    connection.execute("TRUNCATE staged")
    _copy(connection, "staged", columns)
    same = (
        "native_id, gpu_family, is_slice, price_kind, currency, price_unit,"
        " billing_increment_seconds, commitment_unknown, key"
    )
    connection.execute(
        f"INSERT INTO offer_now ({_SHARED}, {same}, mark, price_native, price_micro_usd,"
        f" availability, fallback, valid_from) SELECT {_FROM_OFFER}, {same},"
        f" substring(key for 8), {_PRICE}, 'yes', false, {_START}"
        " FROM staged s JOIN offer o ON o.id = s.offer_id"
    )


def _floors(connection: Connection, provider: Provider, source: int, ids: Ints) -> None:
    """What ``floor_rebuild`` would build (``history.py`` has it do so for one provider)."""
    of, spans = provider.offers, provider.spans
    shape = (len(GPUS), len(COUNTS), len(MARKETS), len(TIERS))
    group = np.ravel_multi_index((of.gpu, of.count, of.market, of.tier), shape)[spans.offer]
    steps = lowest_steps(spans.start, spans.end, spans.cents, group)
    present = np.unique(steps.groups)
    rows = []
    for gpu, count, market, tier in zip(*np.unravel_index(present, shape), strict=True):
        identity = FloorIdentity(
            provider.slug, provider.slug, GPUS[gpu], Decimal(COUNTS[count]), MARKETS[market],
            TIERS[tier], "machine_hour", "USD", "fixed", provider.increment, None, None, False,
            None, None, None, False, None,
        )  # fmt: skip
        family = GPUS[gpu].split("-")[0]
        rows.append(floor_rows.key_row(identity, source, source, family, is_slice=False))
    with connection.cursor() as cursor:
        by_digest = floor_rows.make_keys(cursor, rows)
    key_ids = np.array([by_digest[row[0]] for row in rows])[np.searchsorted(present, steps.groups)]
    columns = (key_ids, ids[spans.offer[steps.chosen]], steps.starts, steps.ends, steps.values)
    connection.execute("TRUNCATE staged_step")
    _copy(connection, "staged_step", columns)
    shared = "key_id, offer_id, price_native, price_micro_usd, valid_from"
    prices = f"key_id, offer_id, {_PRICE}, {_START}"
    ended = f"finish < {OPEN - PG_EPOCH_MICROS}"
    connection.execute(
        f"INSERT INTO price_floor ({shared}, valid_to)"
        f" SELECT {prices}, {_FINISH} FROM staged_step s WHERE {ended}"
    )
    connection.execute(
        f"INSERT INTO floor_now ({shared}) SELECT {prices} FROM staged_step s WHERE NOT {ended}"
    )
    connection.execute("UPDATE provider SET floor_built = true WHERE id = %s", (source,))


def _closed(connection: Connection, columns: Sequence[Ints]) -> None:
    """Spans month by month, each into a table that gets its indexes when it is full."""
    end = columns[2]
    known = end[end != OPEN]
    month = partitions.month_of(_moment(int(known.min())))
    while micros(month) <= known.max():
        after = partitions.next_month(month)
        within = (end >= micros(month)) & (end < micros(after))
        connection.execute("TRUNCATE staged")
        _copy(connection, "staged", [column[within] for column in columns])
        name = partitions.partition_name(month)
        connection.execute(f"CREATE TABLE {name} (LIKE price_span INCLUDING CONSTRAINTS)")
        connection.execute(
            f"INSERT INTO {name} ({_SHARED}, price_native, price_micro_usd, fallback, valid_from,"
            f" valid_to) SELECT {_FROM_OFFER}, {_PRICE}, false, {_START}, {_FINISH}"
            " FROM staged s JOIN offer o ON o.id = s.offer_id"
        )
        connection.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (offer_id, valid_to)")
        connection.execute(f"CREATE INDEX ON {name} (gpu_key, valid_to)")
        connection.execute(
            f"ALTER TABLE price_span ATTACH PARTITION {name}"
            f" FOR VALUES FROM ('{month.isoformat()}') TO ('{after.isoformat()}')"
        )
        month = after


def _moment(at: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)


def _copy(connection: Connection, table: str, columns: Sequence[Ints]) -> None:
    """COPY columns of 64 bits in binary; times of spans and steps become PostgreSQL's."""
    if table != "staged_offer":
        *ids, start, end, cents = columns
        columns = (*ids, start - PG_EPOCH_MICROS, end - PG_EPOCH_MICROS, cents)
    row = np.dtype(
        [("fields", ">i2"), ("body", [("length", ">i4"), ("value", ">i8")], (len(columns),))]
    )
    rows = np.empty(len(columns[0]), dtype=row)
    rows["fields"] = len(columns)
    rows["body"]["length"] = 8
    for number, column in enumerate(columns):
        rows["body"]["value"][:, number] = column
    with (
        connection.cursor() as cursor,
        cursor.copy(f"COPY {table} FROM STDIN (FORMAT BINARY)") as copy,
    ):
        copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
        copy.write(rows.tobytes())
        copy.write(b"\xff\xff")
