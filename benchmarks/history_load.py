"""Loading an invented history into the store's tables, faster than poll by poll."""

# Statements are put together from names of the schema only; values travel as parameters.

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import psycopg
from numpy.typing import NDArray

from benchmarks.binary_rows import NULL, Column, cents, copy, moment, numeric, raw, text, whole
from benchmarks.history_world import (
    COUNTS,
    END,
    GPUS,
    INCREMENTS,
    MARKETS,
    OPEN,
    REGIONS,
    TIERS,
    Ints,
    Provider,
    Spans,
    micros,
)
from tracker.domain.floor import FloorIdentity
from tracker.store import floor_rows, partitions
from tracker.store.series.reduce import lowest_steps

Connection = psycopg.Connection[Any]
Cursor = psycopg.Cursor[Any]

_FAMILIES = [gpu.split("-")[0] for gpu in GPUS]


@dataclass(frozen=True)
class _Loaded:
    """A provider's offers and closed spans, these in the order of their ends."""

    source: int
    first_id: int
    provider: Provider
    spans: Spans


def load(connection: Connection, providers: Iterable[Provider]) -> None:
    """Write identities, polls, spans, what is open, and the price floor of all that.

    All tables must be empty: their indexes are made when they are full.
    """
    first, parts, floors = 1, list[_Loaded](), list[_Floors]()
    with connection.cursor() as cursor:
        with _unindexed(cursor, "offer", "offer_now", "price_floor"):
            for provider in providers:
                source = _provider(connection, provider)
                _offers(cursor, provider, source, first)
                _polls(cursor, provider, source)
                _open(cursor, provider, source, first)
                floors.append(_floors(cursor, provider, source, first))
                parts.append(_Loaded(source, first, provider, _closed(provider.spans)))
                first += len(provider.offers.gpu)
            _write_floors(cursor, _Floors(*map(np.concatenate, zip(*floors, strict=True))))
        cursor.execute("SELECT setval(pg_get_serial_sequence('offer', 'id'), %s)", (first,))
        _spans(cursor, parts)
    connection.commit()
    connection.autocommit = True
    connection.execute(
        "VACUUM (ANALYZE) offer, offer_now, price_span, floor_key, price_floor, floor_now, poll"
    )
    connection.autocommit = False


class _Floors(NamedTuple):
    """Steps of the floor; ``ends`` are OPEN where they are."""

    key_ids: Ints
    offer_ids: Ints
    cents: Ints
    starts: Ints
    ends: Ints


@contextmanager
def _unindexed(cursor: Cursor, *tables: str) -> Iterator[None]:
    """Empty tables without their indexes, which are made in the end."""
    cursor.execute("SET LOCAL maintenance_work_mem = '1GB'")
    cursor.execute(f"TRUNCATE {', '.join(tables)}")
    names = [f"public.{name}" for name in tables]
    cursor.execute(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
        " WHERE conrelid = ANY (%s::regclass[]) AND contype IN ('p', 'u')",
        (names,),
    )
    constraints = cursor.fetchall()
    for table, name, _ in constraints:
        cursor.execute(f"ALTER TABLE {table} DROP CONSTRAINT {name}")
    cursor.execute(
        "SELECT indexrelid::regclass::text, pg_get_indexdef(indexrelid) FROM pg_index"
        " WHERE indrelid = ANY (%s::regclass[])",
        (names,),
    )
    indexes = cursor.fetchall()
    for name, _ in indexes:
        cursor.execute(f"DROP INDEX {name}")
    yield
    for table, name, definition in constraints:
        cursor.execute(f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}")
    for _, definition in indexes:
        cursor.execute(definition)


def _closed(spans: Spans) -> Spans:
    order = np.argsort(spans.end, kind="stable")
    order = order[: np.searchsorted(spans.end[order], OPEN)]
    return Spans(*(column[order] for column in spans))


def _provider(connection: Connection, provider: Provider) -> int:
    now = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=provider.now)
    every = provider.every // 1_000_000
    [(id_,)] = connection.execute(
        "INSERT INTO provider (slug, kind, every_seconds, ttl_seconds, seq, last_ok_at,"
        " last_attempt_at, last_status, marketplace, floor_built)"
        " VALUES (%s, 'stream', %s, %s, %s, %s, %s, 'complete', %s, true) RETURNING id",
        (provider.slug, every, 3 * every, len(provider.polls), now, now, provider.marketplace),
    ).fetchall()
    assert provider.increment in INCREMENTS
    return int(id_)


def _identity(provider: Provider, source: int, first: int, of: Ints) -> dict[str, Column]:
    """What ``offer`` and ``offer_now`` have in common, of the offers at the places *of*."""
    offers = provider.offers
    gpu = offers.gpu[of]
    return {
        "key": raw(_keys(first + of)), "source_id": whole(source, 4), "seller_id": whole(source, 4),
        "native_id": _native(first + of), "gpu_key": text(gpu, GPUS),
        "gpu_family": text(gpu, _FAMILIES), "is_slice": whole(0, 1),
        "gpu_count": numeric(np.array(COUNTS)[offers.count[of]]),
        "market": text(offers.market[of], MARKETS), "tier": text(offers.tier[of], TIERS),
        "price_kind": text(0, ["fixed"]), "currency": text(0, ["USD"]),
        "price_unit": text(0, ["machine_hour"]), "region": text(offers.region[of], REGIONS),
        "billing_increment_seconds": whole(provider.increment), "commitment_unknown": whole(0, 1),
    }  # fmt: skip


def _native(ids: Ints) -> Column:
    digits = ids[:, None] // 10 ** np.arange(8, -1, -1) % 10 + ord("0")
    return raw(digits.astype(np.uint8).view("S9")[:, 0])


def _keys(ids: Ints) -> NDArray[Any]:
    """Sixteen bytes for each id that look like a digest: the id, multiplied about."""
    halves = np.empty((len(ids), 2), dtype=">u8")
    mixed = ids.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    halves[:, 0], halves[:, 1] = mixed ^ (mixed >> np.uint64(29)), ids
    return halves.view("V16")[:, 0]


def _offers(cursor: Cursor, provider: Provider, source: int, first: int) -> None:
    count = len(provider.offers.gpu)
    places = np.arange(count)
    columns = {
        "id": whole(first + places), **_identity(provider, source, first, places),
        "gpu_raw": text(provider.offers.gpu, GPUS), "first_seen_at": moment(provider.polls[0]),
    }  # fmt: skip
    copy(cursor, "offer", columns, count)


def _polls(cursor: Cursor, provider: Provider, source: int) -> None:
    columns = {
        "provider_id": whole(source, 4), "started_at": moment(provider.polls),
        "polled_at": moment(provider.polls), "duration_ms": whole(900, 4),
        "status": text(0, ["complete"]),
    }  # fmt: skip
    copy(cursor, "poll", columns, len(provider.polls))


def _priced(prices: Ints) -> dict[str, Column]:
    return {"price_native": cents(prices), "price_micro_usd": whole(prices * 10_000)}


def _open(cursor: Cursor, provider: Provider, source: int, first: int) -> None:
    spans = provider.spans
    still = np.flatnonzero(spans.end == OPEN)
    of, prices = spans.offer[still], spans.cents[still]
    columns = {
        "offer_id": whole(first + of), **_identity(provider, source, first, of),
        "mark": raw(_keys(first + of).view("V8").reshape(-1, 2)[:, 0]), **_priced(prices),
        "availability": text(0, ["yes"]), "fallback": whole(0, 1),
        "valid_from": moment(spans.start[still]),
    }  # fmt: skip
    copy(cursor, "offer_now", columns, len(still))


def _floors(cursor: Cursor, provider: Provider, source: int, first: int) -> _Floors:
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
        rows.append(floor_rows.key_row(identity, source, source, _FAMILIES[gpu], is_slice=False))
    by_digest = floor_rows.make_keys(cursor, rows)
    key_ids = np.array([by_digest[row[0]] for row in rows])[np.searchsorted(present, steps.groups)]
    offers = first + spans.offer[steps.chosen]
    return _Floors(key_ids, offers, steps.values, steps.starts, steps.ends)


def _write_floors(cursor: Cursor, steps: _Floors) -> None:
    """In the order of time, as polls close them."""
    order = np.argsort(steps.ends, kind="stable")
    closed = int(np.searchsorted(steps.ends[order], OPEN))
    for table, here in (("price_floor", order[:closed]), ("floor_now", order[closed:])):
        key_ids, offer_ids, prices, starts, ends = (column[here] for column in steps)
        columns = {
            "key_id": whole(key_ids, 4), "offer_id": whole(offer_ids), **_priced(prices),
            "valid_from": moment(starts),
        }  # fmt: skip
        if table == "price_floor":
            columns["valid_to"] = moment(ends)
        copy(cursor, table, columns, len(here))


def _spans(cursor: Cursor, parts: Sequence[_Loaded]) -> None:
    """Closed spans month by month, as polls close them: all providers' in the order of time. A
    month's table gets its indexes when it is full."""
    month = partitions.month_of(_moment(min(int(p.spans.end[0]) for p in parts)))
    while month <= END:
        after = partitions.next_month(month)
        name = partitions.partition_name(month)
        cursor.execute(f"CREATE TABLE {name} (LIKE price_span INCLUDING CONSTRAINTS)")
        bounds = [np.searchsorted(p.spans.end, (micros(month), micros(after))) for p in parts]
        columns = _closed_in([(p, slice(*b)) for p, b in zip(parts, bounds, strict=True)])
        copy(cursor, name, columns, int(sum(high - low for low, high in bounds)))
        cursor.execute(f"ALTER TABLE {name} ADD PRIMARY KEY (offer_id, valid_to)")
        cursor.execute(f"CREATE INDEX ON {name} (gpu_key, valid_to)")
        cursor.execute(
            f"ALTER TABLE price_span ATTACH PARTITION {name}"
            f" FOR VALUES FROM ('{month.isoformat()}') TO ('{after.isoformat()}')"
        )
        month = after


def _closed_in(parts: Sequence[tuple[_Loaded, slice]]) -> dict[str, Column]:
    ends = np.concatenate([p.spans.end[part] for p, part in parts])
    order = np.argsort(ends, kind="stable")

    def of_spans(name: str) -> Ints:
        found = [getattr(p.spans, name)[part] for p, part in parts]
        return np.concatenate(found)[order]

    def of_offers(name: str) -> Ints:
        found = [getattr(p.provider.offers, name)[p.spans.offer[part]] for p, part in parts]
        return np.concatenate(found)[order]

    ids = np.concatenate([p.first_id + p.spans.offer[part] for p, part in parts])[order]
    sources = np.concatenate([np.full(len(p.spans.end[part]), p.source) for p, part in parts])
    return {
        "offer_id": whole(ids), "source_id": whole(sources[order], 4),
        "seller_id": whole(sources[order], 4), "gpu_key": text(of_offers("gpu"), GPUS),
        "market": text(of_offers("market"), MARKETS), "tier": text(of_offers("tier"), TIERS),
        "gpu_count": numeric(np.array(COUNTS)[of_offers("count")]),
        "region": text(of_offers("region"), REGIONS), **_priced(of_spans("cents")),
        "fx_rate": NULL, "fallback": whole(0, 1), "valid_from": moment(of_spans("start")),
        "valid_to": moment(ends[order]),
    }  # fmt: skip


def _moment(at: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at)
