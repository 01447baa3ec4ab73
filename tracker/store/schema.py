"""The tables, as SQLAlchemy Core metadata. The migrations create them; a test compares the two.

Facts are insert-only (``offer``, ``price_span``, ``poll``, ``payload``); ``provider``,
``offer_now``, ``quarantine``, ``unmapped_gpu`` and ``discount`` are the current state. Prices are
integer micro-USD per machine-hour beside the provider's own amount; times are UTC.
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
    MetaData,
    Numeric,
    PrimaryKeyConstraint,
    SmallInteger,
    Table,
    Text,
    UniqueConstraint,
    text,
)
from sqlalchemy.dialects.postgresql import ARRAY, JSONB

from tracker.domain.offer import Availability, Market, PriceKind, PriceUnit

# PostgreSQL's own default names, so that hand-written DDL and metadata agree.
metadata = MetaData(
    naming_convention={
        "pk": "%(table_name)s_pkey",
        "uq": "%(table_name)s_%(column_0_N_name)s_key",
        "fk": "%(table_name)s_%(column_0_N_name)s_fkey",
        "ck": "%(table_name)s_%(constraint_name)s_check",
    }
)

POLL_STATUSES = ("complete", "partial", "empty", "failed", "shrunk", "late", "duplicate")
ACCEPTED_STATUSES = ("complete", "partial")


def _need(name: str, kind: Any, *rest: Any, **options: Any) -> Column[Any]:
    return Column(name, kind, *rest, nullable=False, **options)


def _instant(name: str, *, nullable: bool = False) -> Column[Any]:
    return Column(name, DateTime(timezone=True), nullable=nullable)


def _one_of(column: str, values: Any) -> CheckConstraint:
    listed = ", ".join(f"'{value}'" for value in values)
    return CheckConstraint(f"{column} IN ({listed})", name=column)


def _identity() -> list[Column[Any]]:
    """What an offer is. None of it changes while the offer lives."""
    return [
        _need("source_id", Integer),
        _need("seller_id", Integer),
        _need("native_id", Text),
        _need("gpu_key", Text),
        _need("gpu_family", Text),
        Column("form_factor", Text),
        Column("vram_gb", Integer),  # of one GPU, nominal
        _need("is_slice", Boolean),
        _need("gpu_count", Numeric),
        _need("market", Text),
        _need("tier", Text),
        _need("price_kind", Text),
        _need("currency", Text),
        _need("price_unit", Text),
        Column("region", Text),
        Column("country", Text),
        Column("interconnect", Text),
        Column("vcpus", Numeric),
        Column("ram_gib", Numeric),
        Column("dedicated", Boolean),
        Column("datacenter", Boolean),
        Column("upstream", Text),
        Column("billing_increment_seconds", BigInteger),
        Column("minimum_seconds", BigInteger),
        Column("commitment_hours", BigInteger),
        _need("commitment_unknown", Boolean),
        Column("disk_included_gb", Numeric),
        Column("disk_usd_per_gb_hour", Numeric),
        Column("egress_usd_per_gb", Numeric),
    ]


def _price() -> list[Column[Any]]:
    """A price: as the provider says it, and what it makes in USD. No rate: it is in USD."""
    return [
        _need("price_native", Numeric),
        _need("price_micro_usd", BigInteger),
        Column("fx_rate", Numeric),
        Column("fx_date", Date),
    ]


def _positive_price() -> CheckConstraint:
    return CheckConstraint("price_native > 0 AND price_micro_usd > 0", name="price")


provider = Table(
    # One row per stream that is polled and per seller; a seller known only from another stream
    # (the price book) has kind 'seller' and neither interval nor polls.
    "provider",
    metadata,
    _need("id", Integer, Identity(always=True), primary_key=True),
    _need("slug", Text, unique=True),
    _need("kind", Text),
    Column("every_seconds", Integer),
    Column("ttl_seconds", Integer),
    _need("seq", BigInteger, server_default=text("0")),  # of the last accepted poll
    _instant("last_ok_at", nullable=True),
    _instant("last_attempt_at", nullable=True),
    Column("last_status", Text),
    Column("last_error", Text),
    _need("consecutive_failures", Integer, server_default=text("0")),
    Column("content_sha256", LargeBinary),
    _instant("content_since", nullable=True),
    _need("marketplace", Boolean, server_default=text("false")),
    _need("default_tiers", ARRAY(Text), server_default=text("'{}'")),
    _need("facts", JSONB, server_default=text("'{}'")),
    # Whether its floors say all that its spans do; while not, read spans (floor_rebuild.py).
    _need("floor_built", Boolean, server_default=text("false")),
    _instant("spans_from", nullable=True),  # retention took away the spans before it
    CheckConstraint("every_seconds > 0 AND ttl_seconds > 0", name="interval"),
    postgresql_with={"fillfactor": "50"},  # rewritten by every poll: in place
)

offer = Table(
    # Every identity ever seen. Its ids, like those in offer_now and price_span, carry no foreign
    # keys: one writer fills all three in one transaction, and checks would double the cost.
    "offer",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("key", LargeBinary, unique=True),
    *_identity(),
    _need("gpu_raw", Text),
    Column("source_url", Text),
    _need("notes", ARRAY(Text), server_default=text("'{}'")),
    _instant("first_seen_at"),
    CheckConstraint("octet_length(key) = 16", name="key"),
    CheckConstraint("gpu_count > 0", name="gpu_count"),
    _one_of("market", Market),
    _one_of("price_kind", PriceKind),
    _one_of("price_unit", PriceUnit),
    Index("offer_native_id_idx", "native_id"),
)

offer_now = Table(
    # What is open, with all that a question filters and costs by: no join with ``offer``. Small,
    # and rewritten where prices move: no more indexes than a question needs.
    "offer_now",
    metadata,
    _need("offer_id", BigInteger, primary_key=True, autoincrement=False),
    _need("key", LargeBinary),
    # What a recorder reads of all when it starts comes first: later columns take longer to reach.
    _need("mark", LargeBinary),  # stands for what may change: see tracker/domain/spans.py
    _instant("seen_until", nullable=True),  # None: seen by the last accepted poll
    *_price(),
    *_identity(),
    Column("flags", ARRAY(Text)),  # None rather than empty
    _need("availability", Text),
    Column("stock_count", BigInteger),
    Column("stock_label", Text),
    Column("disk_gb", Numeric),
    Column("network_down_mbps", Numeric),
    Column("network_up_mbps", Numeric),
    Column("reliability", Numeric),
    Column("interruption_percent_max", BigInteger),
    Column("max_duration_hours", Numeric),
    Column("valid_as_of", Date),
    _instant("expires_at", nullable=True),
    _need("fallback", Boolean),
    _instant("valid_from"),
    Column("floor_id", Integer),  # floor_key's; None while floors are not maintained
    _positive_price(),
    _one_of("availability", Availability),
    CheckConstraint("octet_length(key) = 16 AND octet_length(mark) = 8", name="lengths"),
    CheckConstraint("seen_until >= valid_from", name="seen_until"),
    Index("offer_now_gpu_key_idx", "gpu_key"),
    postgresql_with={"fillfactor": "70"},
)

price_span = Table(
    # Partitions are made by the recorder (partitions.py). There is no default partition:
    # a row without a home is an error, not a row that retention and pruning never find.
    "price_span",
    metadata,
    _need("offer_id", BigInteger),
    _need("source_id", Integer),
    _need("seller_id", Integer),
    _need("gpu_key", Text),
    _need("market", Text),
    _need("tier", Text),
    _need("gpu_count", Numeric),
    Column("region", Text),
    # The rate, and what a typed price says of itself, are of the last poll that confirmed the span.
    *_price(),
    Column("valid_as_of", Date),
    _instant("expires_at", nullable=True),
    _need("fallback", Boolean),
    _instant("valid_from"),
    _instant("valid_to"),
    PrimaryKeyConstraint("offer_id", "valid_to"),
    _positive_price(),
    CheckConstraint("valid_to > valid_from", name="interval"),
    Index("price_span_gpu_key_valid_to_idx", "gpu_key", "valid_to"),
    postgresql_partition_by="RANGE (valid_to)",
)

poll = Table(
    "poll",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("provider_id", Integer, ForeignKey(provider.c.id)),
    _instant("started_at"),
    _instant("polled_at"),
    _need("duration_ms", Integer),
    _need("status", Text),
    *(
        _need(name, Integer, server_default=text("0"))
        for name in ("offers", "opened", "changed", "closed", "updated", "unchanged",
                     "quarantined", "rejected", "requests")
    ),
    _need("bytes", BigInteger, server_default=text("0")),
    Column("rejects", JSONB),  # {reason: {count, sample}}
    Column("incomplete_reason", Text),
    Column("error", Text),
    Column("content_sha256", LargeBinary),
    _one_of("status", POLL_STATUSES),
    Index("poll_provider_id_polled_at_idx", "provider_id", "polled_at"),
    Index(
        # One accepted poll per provider and moment; refused ones may repeat it.
        "poll_accepted_key",
        "provider_id",
        "polled_at",
        unique=True,
        postgresql_where=text("status IN ('complete', 'partial')"),
    ),
)  # fmt: skip

quarantine = Table(
    # Current state: a row goes when its offer does, or passes the gate by itself.
    "quarantine",
    metadata,
    _need("source_id", Integer, ForeignKey(provider.c.id)),
    _need("offer_key", LargeBinary),
    _need("gate", Text),
    _need("seller", Text),
    _need("native_id", Text),
    _need("gpu_key", Text),
    _need("gpu_raw", Text),
    _need("gpu_count", Numeric),
    _need("market", Text),
    _need("tier", Text),
    Column("region", Text),
    Column("source_url", Text),
    _need("price_micro_usd", BigInteger),
    Column("accepted_micro_usd", BigInteger),  # the last price that had been accepted
    _need("reason", Text),
    _need("releasable", Boolean),
    _need("confirmations", Integer),
    _instant("first_seen_at"),
    _instant("last_seen_at"),
    _instant("released_at", nullable=True),
    PrimaryKeyConstraint("source_id", "offer_key", "gate"),
    postgresql_with={"fillfactor": "70"},
)

unmapped_gpu = Table(
    "unmapped_gpu",
    metadata,
    _need("source_id", Integer, ForeignKey(provider.c.id)),
    _need("name", Text),
    _need("vram_text", Text),
    _need("sample", Text),
    _need("rows_last_poll", Integer),
    _instant("first_seen_at"),
    _instant("last_seen_at"),
    PrimaryKeyConstraint("source_id", "name"),
    postgresql_with={"fillfactor": "70"},
)

discount = Table(
    # Negotiated percentages. A complete poll of their source ends those that it does not tell any
    # more, and begins the new ones: what was answered before is answered again as of then.
    "discount",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("source_id", Integer, ForeignKey(provider.c.id)),
    _need("provider", Text),
    _need("percent", Numeric),
    _need("valid_as_of", Date),
    _instant("expires_at"),
    Column("gpu", Text),
    Column("market", Text),
    Column("note", Text),
    _instant("since", nullable=True),
    _instant("ended_at", nullable=True),
    CheckConstraint("percent > 0 AND percent < 100", name="percent"),
)

payload_body = Table(
    # Answers repeat: a body is kept once, whoever refers to it.
    "payload_body",
    metadata,
    _need("sha256", LargeBinary, primary_key=True),
    _need("codec", Text),
    _need("body", LargeBinary),
    _need("bytes_raw", BigInteger),
    _one_of("codec", ("none", "zlib")),
)

payload = Table(
    "payload",
    metadata,
    _need("id", BigInteger, Identity(always=True), primary_key=True),
    _need("poll_id", BigInteger, ForeignKey(poll.c.id)),
    _need("ordinal", SmallInteger),
    _need("url", Text),
    _need("method", Text),
    _need("request_body", LargeBinary),
    _need("status", SmallInteger),
    _need("headers", JSONB),
    _instant("fetched_at"),
    _need("body_sha256", LargeBinary, ForeignKey(payload_body.c.sha256)),
    UniqueConstraint("poll_id", "ordinal"),
    Index("payload_body_sha256_idx", "body_sha256"),
    Index("payload_fetched_at_idx", "fetched_at"),
)

http_cache = Table(
    # Validators for conditional requests, and the body that a 304 stands for.
    "http_cache",
    metadata,
    _need("url_key", Text, primary_key=True),
    Column("etag", Text),
    Column("last_modified", Text),
    _need("headers", JSONB),
    _instant("stored_at"),
    _need("body_sha256", LargeBinary, ForeignKey(payload_body.c.sha256)),
    Index("http_cache_body_sha256_idx", "body_sha256"),
)
