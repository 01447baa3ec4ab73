"""Prices over time: floors, their packs, versions of estimates, exchange rates, imports."""

from __future__ import annotations

from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"
branch_labels: None = None
depends_on: None = None

STATEMENTS = (
    # The floor that an open offer counts for; NULL while its source's floors are not maintained.
    "ALTER TABLE offer_now ADD COLUMN floor_id INTEGER",
    # Whether floors say all that spans do: not for what was recorded before there were any.
    "ALTER TABLE provider ADD COLUMN floor_built BOOLEAN DEFAULT false NOT NULL",
    # Where retention has taken away the spans before: from there on they tell everything.
    "ALTER TABLE provider ADD COLUMN spans_from timestamptz",
    # Discounts as they were then: NULL since for what an older version recorded.
    "ALTER TABLE discount ADD COLUMN since timestamptz, ADD COLUMN ended_at timestamptz",
    """
CREATE TABLE floor_key (
    id INTEGER GENERATED ALWAYS AS IDENTITY,
    key BYTEA NOT NULL,
    source_id INTEGER NOT NULL,
    seller_id INTEGER NOT NULL,
    gpu_key TEXT NOT NULL,
    gpu_family TEXT NOT NULL,
    is_slice BOOLEAN NOT NULL,
    gpu_count NUMERIC NOT NULL,
    market TEXT NOT NULL,
    tier TEXT NOT NULL,
    price_unit TEXT NOT NULL,
    currency TEXT NOT NULL,
    price_kind TEXT NOT NULL,
    billing_increment_seconds BIGINT,
    minimum_seconds BIGINT,
    commitment_hours BIGINT,
    commitment_unknown BOOLEAN NOT NULL,
    disk_included_gb NUMERIC,
    disk_usd_per_gb_hour NUMERIC,
    egress_usd_per_gb NUMERIC,
    fallback BOOLEAN NOT NULL,
    expires_at timestamptz,
    upstream TEXT,
    part TEXT,
    CONSTRAINT floor_key_pkey PRIMARY KEY (id),
    CONSTRAINT floor_key_key_key UNIQUE (key),
    CONSTRAINT floor_key_key_check CHECK (octet_length(key) = 16)
)
""",
    "CREATE INDEX floor_key_gpu_key_idx ON floor_key (gpu_key)",
    """
CREATE TABLE price_floor (
    key_id INTEGER NOT NULL,
    offer_id BIGINT NOT NULL,
    price_micro_usd BIGINT NOT NULL,
    price_native NUMERIC NOT NULL,
    fx_rate NUMERIC,
    valid_from timestamptz NOT NULL,
    valid_to timestamptz NOT NULL,
    CONSTRAINT price_floor_pkey PRIMARY KEY (key_id, valid_to),
    CONSTRAINT price_floor_price_check CHECK (price_native > 0 AND price_micro_usd > 0),
    CONSTRAINT price_floor_interval_check CHECK (valid_to > valid_from)
)
""",
    """
CREATE TABLE floor_now (
    key_id INTEGER NOT NULL,
    offer_id BIGINT NOT NULL,
    price_micro_usd BIGINT NOT NULL,
    price_native NUMERIC NOT NULL,
    fx_rate NUMERIC,
    valid_from timestamptz NOT NULL,
    seen_until timestamptz,
    CONSTRAINT floor_now_pkey PRIMARY KEY (key_id, valid_from),
    CONSTRAINT floor_now_price_check CHECK (price_native > 0 AND price_micro_usd > 0)
) WITH (fillfactor = 70)
""",
    """
CREATE TABLE floor_pack (
    gpu_key TEXT NOT NULL,
    month DATE NOT NULL,
    rows INTEGER NOT NULL,
    body BYTEA NOT NULL,
    built_at timestamptz NOT NULL,
    CONSTRAINT floor_pack_pkey PRIMARY KEY (gpu_key, month)
)
""",
    # Not compressed: that would save a third, and take as long as all the rest of reading it.
    "ALTER TABLE floor_pack ALTER COLUMN body SET STORAGE EXTERNAL",
    """
CREATE TABLE job_estimate (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    job_digest BYTEA NOT NULL,
    gpu_key TEXT NOT NULL,
    machine_gpus INTEGER NOT NULL,
    way JSONB NOT NULL,
    version TEXT NOT NULL,
    recorded_at timestamptz NOT NULL,
    CONSTRAINT job_estimate_pkey PRIMARY KEY (id),
    CONSTRAINT job_estimate_job_digest_gpu_key_machine_gpus_version_key
        UNIQUE (job_digest, gpu_key, machine_gpus, version)
)
""",
    """
CREATE TABLE exchange_rate (
    currency TEXT NOT NULL,
    day DATE NOT NULL,
    usd_per_unit NUMERIC NOT NULL,
    CONSTRAINT exchange_rate_pkey PRIMARY KEY (currency, day),
    CONSTRAINT exchange_rate_usd_per_unit_check CHECK (usd_per_unit > 0)
)
""",
    """
CREATE TABLE import_run (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    format TEXT NOT NULL,
    source TEXT NOT NULL,
    digest BYTEA,
    source_id INTEGER NOT NULL,
    started_at timestamptz NOT NULL,
    finished_at timestamptz,
    state TEXT NOT NULL,
    position JSONB NOT NULL,
    counts JSONB NOT NULL,
    CONSTRAINT import_run_pkey PRIMARY KEY (id),
    CONSTRAINT import_run_state_check CHECK (state IN ('running', 'done', 'failed')),
    CONSTRAINT import_run_source_id_fkey FOREIGN KEY (source_id) REFERENCES provider (id)
)
""",
)


def upgrade() -> None:
    for statement in STATEMENTS:
        op.execute(statement)


def downgrade() -> None:
    for table in ("import_run", "exchange_rate", "job_estimate", "floor_pack", "floor_now",
                  "price_floor", "floor_key"):  # fmt: skip
        op.execute(f"DROP TABLE {table}")
    op.execute("DELETE FROM discount WHERE ended_at IS NOT NULL")
    op.execute("ALTER TABLE discount DROP COLUMN since, DROP COLUMN ended_at")
    op.execute("ALTER TABLE provider DROP COLUMN spans_from, DROP COLUMN floor_built")
    op.execute("ALTER TABLE offer_now DROP COLUMN floor_id")
