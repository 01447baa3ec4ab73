"""The first tables: providers, offers, prices, polls, findings and the archive of answers."""

from __future__ import annotations

from alembic import op

revision: str = "0001"
down_revision: str | None = None
branch_labels: None = None
depends_on: None = None

TABLES = (
    """
CREATE TABLE provider (
    id INTEGER GENERATED ALWAYS AS IDENTITY,
    slug TEXT NOT NULL,
    kind TEXT NOT NULL,
    every_seconds INTEGER,
    ttl_seconds INTEGER,
    seq BIGINT DEFAULT 0 NOT NULL,
    last_ok_at timestamptz,
    last_attempt_at timestamptz,
    last_status TEXT,
    last_error TEXT,
    consecutive_failures INTEGER DEFAULT 0 NOT NULL,
    content_sha256 BYTEA,
    content_since timestamptz,
    marketplace BOOLEAN DEFAULT false NOT NULL,
    default_tiers TEXT[] DEFAULT '{}' NOT NULL,
    facts JSONB DEFAULT '{}' NOT NULL,
    CONSTRAINT provider_pkey PRIMARY KEY (id),
    CONSTRAINT provider_interval_check CHECK (every_seconds > 0 AND ttl_seconds > 0),
    CONSTRAINT provider_slug_key UNIQUE (slug)
) WITH (fillfactor = 50)
""",
    """
CREATE TABLE offer (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    key BYTEA NOT NULL,
    source_id INTEGER NOT NULL,
    seller_id INTEGER NOT NULL,
    native_id TEXT NOT NULL,
    gpu_key TEXT NOT NULL,
    gpu_family TEXT NOT NULL,
    form_factor TEXT,
    vram_gb INTEGER,
    is_slice BOOLEAN NOT NULL,
    gpu_count NUMERIC NOT NULL,
    market TEXT NOT NULL,
    tier TEXT NOT NULL,
    price_kind TEXT NOT NULL,
    currency TEXT NOT NULL,
    price_unit TEXT NOT NULL,
    region TEXT,
    country TEXT,
    interconnect TEXT,
    vcpus NUMERIC,
    ram_gib NUMERIC,
    dedicated BOOLEAN,
    datacenter BOOLEAN,
    upstream TEXT,
    billing_increment_seconds BIGINT,
    minimum_seconds BIGINT,
    commitment_hours BIGINT,
    commitment_unknown BOOLEAN NOT NULL,
    disk_included_gb NUMERIC,
    disk_usd_per_gb_hour NUMERIC,
    egress_usd_per_gb NUMERIC,
    gpu_raw TEXT NOT NULL,
    source_url TEXT,
    notes TEXT[] DEFAULT '{}' NOT NULL,
    first_seen_at timestamptz NOT NULL,
    CONSTRAINT offer_pkey PRIMARY KEY (id),
    CONSTRAINT offer_key_check CHECK (octet_length(key) = 16),
    CONSTRAINT offer_gpu_count_check CHECK (gpu_count > 0),
    CONSTRAINT offer_market_check
        CHECK (market IN ('on_demand', 'spot', 'reserved', 'monthly', 'capacity_block')),
    CONSTRAINT offer_price_kind_check
        CHECK (price_kind IN ('fixed', 'dynamic', 'auction')),
    CONSTRAINT offer_price_unit_check
        CHECK (price_unit IN ('machine_hour', 'gpu_hour', 'machine_month', 'gpu_month')),
    CONSTRAINT offer_key_key UNIQUE (key)
)
""",
    """
CREATE INDEX offer_native_id_idx ON offer (native_id)
""",
    """
CREATE TABLE offer_now (
    offer_id BIGINT NOT NULL,
    key BYTEA NOT NULL,
    mark BYTEA NOT NULL,
    seen_until timestamptz,
    price_native NUMERIC NOT NULL,
    price_micro_usd BIGINT NOT NULL,
    fx_rate NUMERIC,
    fx_date DATE,
    source_id INTEGER NOT NULL,
    seller_id INTEGER NOT NULL,
    native_id TEXT NOT NULL,
    gpu_key TEXT NOT NULL,
    gpu_family TEXT NOT NULL,
    form_factor TEXT,
    vram_gb INTEGER,
    is_slice BOOLEAN NOT NULL,
    gpu_count NUMERIC NOT NULL,
    market TEXT NOT NULL,
    tier TEXT NOT NULL,
    price_kind TEXT NOT NULL,
    currency TEXT NOT NULL,
    price_unit TEXT NOT NULL,
    region TEXT,
    country TEXT,
    interconnect TEXT,
    vcpus NUMERIC,
    ram_gib NUMERIC,
    dedicated BOOLEAN,
    datacenter BOOLEAN,
    upstream TEXT,
    billing_increment_seconds BIGINT,
    minimum_seconds BIGINT,
    commitment_hours BIGINT,
    commitment_unknown BOOLEAN NOT NULL,
    disk_included_gb NUMERIC,
    disk_usd_per_gb_hour NUMERIC,
    egress_usd_per_gb NUMERIC,
    flags TEXT[],
    availability TEXT NOT NULL,
    stock_count BIGINT,
    stock_label TEXT,
    disk_gb NUMERIC,
    network_down_mbps NUMERIC,
    network_up_mbps NUMERIC,
    reliability NUMERIC,
    interruption_percent_max BIGINT,
    max_duration_hours NUMERIC,
    valid_as_of DATE,
    expires_at timestamptz,
    fallback BOOLEAN NOT NULL,
    valid_from timestamptz NOT NULL,
    CONSTRAINT offer_now_pkey PRIMARY KEY (offer_id),
    CONSTRAINT offer_now_price_check CHECK (price_native > 0 AND price_micro_usd > 0),
    CONSTRAINT offer_now_availability_check
        CHECK (availability IN ('yes', 'no', 'unknown')),
    CONSTRAINT offer_now_lengths_check
        CHECK (octet_length(key) = 16 AND octet_length(mark) = 8),
    CONSTRAINT offer_now_seen_until_check
        CHECK (seen_until >= valid_from)
) WITH (fillfactor = 70)
""",
    """
CREATE INDEX offer_now_gpu_key_idx ON offer_now (gpu_key)
""",
    """
CREATE TABLE price_span (
    offer_id BIGINT NOT NULL,
    source_id INTEGER NOT NULL,
    seller_id INTEGER NOT NULL,
    gpu_key TEXT NOT NULL,
    market TEXT NOT NULL,
    tier TEXT NOT NULL,
    gpu_count NUMERIC NOT NULL,
    region TEXT,
    price_native NUMERIC NOT NULL,
    price_micro_usd BIGINT NOT NULL,
    fx_rate NUMERIC,
    fx_date DATE,
    valid_as_of DATE,
    expires_at timestamptz,
    fallback BOOLEAN NOT NULL,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz NOT NULL,
    CONSTRAINT price_span_pkey PRIMARY KEY (offer_id, valid_to),
    CONSTRAINT price_span_price_check CHECK (price_native > 0 AND price_micro_usd > 0),
    CONSTRAINT price_span_interval_check CHECK (valid_to > valid_from)
)
PARTITION BY RANGE (valid_to)
""",
    """
CREATE INDEX price_span_gpu_key_valid_to_idx ON price_span (gpu_key, valid_to)
""",
    """
CREATE TABLE poll (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    provider_id INTEGER NOT NULL,
    started_at timestamptz NOT NULL,
    polled_at timestamptz NOT NULL,
    duration_ms INTEGER NOT NULL,
    status TEXT NOT NULL,
    offers INTEGER DEFAULT 0 NOT NULL,
    opened INTEGER DEFAULT 0 NOT NULL,
    changed INTEGER DEFAULT 0 NOT NULL,
    closed INTEGER DEFAULT 0 NOT NULL,
    updated INTEGER DEFAULT 0 NOT NULL,
    unchanged INTEGER DEFAULT 0 NOT NULL,
    quarantined INTEGER DEFAULT 0 NOT NULL,
    rejected INTEGER DEFAULT 0 NOT NULL,
    requests INTEGER DEFAULT 0 NOT NULL,
    bytes BIGINT DEFAULT 0 NOT NULL,
    rejects JSONB,
    incomplete_reason TEXT,
    error TEXT,
    content_sha256 BYTEA,
    CONSTRAINT poll_pkey PRIMARY KEY (id),
    CONSTRAINT poll_status_check
        CHECK (status IN ('complete', 'partial', 'empty', 'failed', 'shrunk', 'late', 'duplicate')),
    CONSTRAINT poll_provider_id_fkey
        FOREIGN KEY (provider_id) REFERENCES provider (id)
)
""",
    """
CREATE INDEX poll_provider_id_polled_at_idx ON poll (provider_id, polled_at)
""",
    """
CREATE UNIQUE INDEX poll_accepted_key ON poll (provider_id, polled_at)
    WHERE status IN ('complete', 'partial')
""",
    """
CREATE TABLE payload_body (
    sha256 BYTEA NOT NULL,
    codec TEXT NOT NULL,
    body BYTEA NOT NULL,
    bytes_raw BIGINT NOT NULL,
    CONSTRAINT payload_body_pkey PRIMARY KEY (sha256),
    CONSTRAINT payload_body_codec_check CHECK (codec IN ('none', 'zlib'))
)
""",
    # The bodies are compressed already: keep the server from trying again.
    "ALTER TABLE payload_body ALTER COLUMN body SET STORAGE EXTERNAL",
    """
CREATE TABLE payload (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    poll_id BIGINT NOT NULL,
    ordinal SMALLINT NOT NULL,
    url TEXT NOT NULL,
    method TEXT NOT NULL,
    request_body BYTEA NOT NULL,
    status SMALLINT NOT NULL,
    headers JSONB NOT NULL,
    fetched_at timestamptz NOT NULL,
    body_sha256 BYTEA NOT NULL,
    CONSTRAINT payload_pkey PRIMARY KEY (id),
    CONSTRAINT payload_poll_id_ordinal_key UNIQUE (poll_id, ordinal),
    CONSTRAINT payload_poll_id_fkey
        FOREIGN KEY (poll_id) REFERENCES poll (id),
    CONSTRAINT payload_body_sha256_fkey
        FOREIGN KEY (body_sha256) REFERENCES payload_body (sha256)
)
""",
    """
CREATE INDEX payload_body_sha256_idx ON payload (body_sha256)
""",
    """
CREATE INDEX payload_fetched_at_idx ON payload (fetched_at)
""",
    """
CREATE TABLE http_cache (
    url_key TEXT NOT NULL,
    etag TEXT,
    last_modified TEXT,
    headers JSONB NOT NULL,
    stored_at timestamptz NOT NULL,
    body_sha256 BYTEA NOT NULL,
    CONSTRAINT http_cache_pkey PRIMARY KEY (url_key),
    CONSTRAINT http_cache_body_sha256_fkey
        FOREIGN KEY (body_sha256) REFERENCES payload_body (sha256)
)
""",
    """
CREATE INDEX http_cache_body_sha256_idx ON http_cache (body_sha256)
""",
    """
CREATE TABLE quarantine (
    source_id INTEGER NOT NULL,
    offer_key BYTEA NOT NULL,
    gate TEXT NOT NULL,
    seller TEXT NOT NULL,
    native_id TEXT NOT NULL,
    gpu_key TEXT NOT NULL,
    gpu_raw TEXT NOT NULL,
    gpu_count NUMERIC NOT NULL,
    market TEXT NOT NULL,
    tier TEXT NOT NULL,
    region TEXT,
    source_url TEXT,
    price_micro_usd BIGINT NOT NULL,
    accepted_micro_usd BIGINT,
    reason TEXT NOT NULL,
    releasable BOOLEAN NOT NULL,
    confirmations INTEGER NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    released_at timestamptz,
    CONSTRAINT quarantine_pkey PRIMARY KEY (source_id, offer_key, gate),
    CONSTRAINT quarantine_source_id_fkey
        FOREIGN KEY (source_id) REFERENCES provider (id)
) WITH (fillfactor = 70)
""",
    """
CREATE TABLE unmapped_gpu (
    source_id INTEGER NOT NULL,
    name TEXT NOT NULL,
    vram_text TEXT NOT NULL,
    sample TEXT NOT NULL,
    rows_last_poll INTEGER NOT NULL,
    first_seen_at timestamptz NOT NULL,
    last_seen_at timestamptz NOT NULL,
    CONSTRAINT unmapped_gpu_pkey PRIMARY KEY (source_id, name),
    CONSTRAINT unmapped_gpu_source_id_fkey
        FOREIGN KEY (source_id) REFERENCES provider (id)
) WITH (fillfactor = 70)
""",
    """
CREATE TABLE discount (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    source_id INTEGER NOT NULL,
    provider TEXT NOT NULL,
    percent NUMERIC NOT NULL,
    valid_as_of DATE NOT NULL,
    expires_at timestamptz NOT NULL,
    gpu TEXT,
    market TEXT,
    note TEXT,
    CONSTRAINT discount_pkey PRIMARY KEY (id),
    CONSTRAINT discount_percent_check CHECK (percent > 0 AND percent < 100),
    CONSTRAINT discount_source_id_fkey
        FOREIGN KEY (source_id) REFERENCES provider (id)
)
""",
)


def upgrade() -> None:
    for statement in TABLES:
        op.execute(statement)


def downgrade() -> None:
    raise NotImplementedError("nothing comes before the first tables: drop the database instead")
