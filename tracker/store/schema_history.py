"""The tables of prices over time, of versions of estimates, of exchange rates and of imports.

``price_floor`` and ``floor_now`` say what the cheapest price of each ``floor_key`` was and is. They
are derived from the spans, maintained by the transaction that records a poll, and can be built
anew. ``floor_pack`` is a cache of settled months. ``job_estimate`` and ``import_run`` are facts.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    BigInteger,
    Boolean,
    CheckConstraint,
    Column,
    Date,
    DateTime,
    ForeignKey,
    Identity,
    Index,
    Integer,
    LargeBinary,
    Numeric,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy.dialects.postgresql import JSONB

from tracker.store.schema import provider
from tracker.store.schema_service import metadata

__all__ = ["metadata"]

IMPORT_STATES = ("running", "done", "failed")


def _need(name: str, kind: Any, *rest: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, *rest, nullable=False, **options)


def _instant(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def _price() -> list[Column[Any]]:
    return [
        _need("offer_id", BigInteger),  # one that had it
        _need("price_micro_usd", BigInteger),
        _need("price_native", Numeric),
        Column("fx_rate", Numeric),
    ]


floor_key = Table(
    # Offers that share a row differ, for any job's bill, by their price alone. Prices that a
    # person typed share one only if they also expire together: ``expires_at`` ends all its steps.
    "floor_key",
    metadata,
    _need("id", Integer, Identity(always=True), primary_key=True),
    _need("key", LargeBinary, unique=True),
    _need("source_id", Integer),
    _need("seller_id", Integer),
    _need("gpu_key", Text),
    _need("gpu_family", Text),
    _need("is_slice", Boolean),
    _need("gpu_count", Numeric),
    _need("market", Text),
    _need("tier", Text),
    _need("price_unit", Text),
    _need("currency", Text),
    _need("price_kind", Text),
    Column("billing_increment_seconds", BigInteger),
    Column("minimum_seconds", BigInteger),
    Column("commitment_hours", BigInteger),
    _need("commitment_unknown", Boolean),
    Column("disk_included_gb", Numeric),
    Column("disk_usd_per_gb_hour", Numeric),
    Column("egress_usd_per_gb", Numeric),
    _need("fallback", Boolean),
    _instant("expires_at", nullable=True),
    Column("upstream", Text),
    Column("part", Text),  # of a GPU that is divided: its MIG profile
    CheckConstraint("octet_length(key) = 16", name="key"),
    Index("floor_key_gpu_key_idx", "gpu_key"),
)

price_floor = Table(
    # Closed steps: half-open, and those of one key do not overlap. By the end, like spans: a
    # window that reaches until today is one range of the index.
    "price_floor",
    metadata,
    _need("key_id", Integer),
    *_price(),
    _instant("valid_from"),
    _instant("valid_to"),
    PrimaryKeyConstraint("key_id", "valid_to"),
    CheckConstraint("price_native > 0 AND price_micro_usd > 0", name="price"),
    CheckConstraint("valid_to > valid_from", name="interval"),
)

floor_now = Table(
    # The open step of a key: known, like an offer in offer_now, for a ttl from ``seen_until``
    # (None: from its source's last accepted poll), never beyond the key's ``expires_at``. After
    # partial polls a key may have more rows: each begins where the one before ceases to be known.
    "floor_now",
    metadata,
    _need("key_id", Integer),
    *_price(),
    _instant("valid_from"),
    _instant("seen_until", nullable=True),
    PrimaryKeyConstraint("key_id", "valid_from"),
    CheckConstraint("price_native > 0 AND price_micro_usd > 0", name="price"),
    postgresql_with={"fillfactor": "70"},
)

floor_pack = Table(
    # All steps of a GPU within a month that nobody writes to any more: see floor_packs.py.
    "floor_pack",
    metadata,
    _need("gpu_key", Text),
    _need("month", Date),
    _need("rows", Integer),
    _need("body", LargeBinary),
    _instant("built_at"),
    PrimaryKeyConstraint("gpu_key", "month"),
)

job_estimate = Table(
    # Which runtime a job was estimated at, by the version of what estimated it. ``provenance``:
    # how it came about; NULL where that was not kept yet.
    "job_estimate",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("job_digest", LargeBinary),
    _need("gpu_key", Text),
    _need("machine_gpus", Integer),
    _need("way", JSONB),
    _need("version", Text),
    _instant("recorded_at"),
    Column("provenance", JSONB),
    UniqueConstraint("job_digest", "gpu_key", "machine_gpus", "version"),
)

exchange_rate = Table(
    # Of the ECB's daily fixing, in USD: a row a currency and day on which somebody polled.
    "exchange_rate",
    metadata,
    _need("currency", Text),
    _need("day", Date),
    _need("usd_per_unit", Numeric),
    PrimaryKeyConstraint("currency", "day"),
    CheckConstraint("usd_per_unit > 0", name="usd_per_unit"),
)

import_run = Table(
    # ``position`` is where an interrupted import goes on, ``counts`` what became of its rows.
    "import_run",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("format", Text),
    _need("source", Text),
    Column("digest", LargeBinary),
    _need("source_id", Integer, ForeignKey(provider.c.id)),
    _instant("started_at"),
    _instant("finished_at", nullable=True),
    _need("state", Text),
    _need("position", JSONB),
    _need("counts", JSONB),
    CheckConstraint(f"state IN {IMPORT_STATES!r}", name="state"),
)
