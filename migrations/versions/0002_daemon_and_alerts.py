"""The daemon's schedule and leader, and alerts: rules, events, outbox and silences."""

from __future__ import annotations

from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: None = None
depends_on: None = None

TABLES = (
    """
CREATE TABLE leader (
    name TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    holder TEXT NOT NULL,
    acquired_at timestamptz NOT NULL,
    beat_at timestamptz NOT NULL,
    CONSTRAINT leader_pkey PRIMARY KEY (name)
)
""",
    """
CREATE TABLE schedule (
    provider TEXT NOT NULL,
    next_due_at timestamptz NOT NULL,
    failures INTEGER DEFAULT 0 NOT NULL,
    breaker TEXT DEFAULT 'closed' NOT NULL,
    outage_since timestamptz,
    reason TEXT,
    updated_at timestamptz NOT NULL,
    CONSTRAINT schedule_pkey PRIMARY KEY (provider),
    CONSTRAINT schedule_failures_check CHECK (failures >= 0),
    CONSTRAINT schedule_breaker_check CHECK (breaker IN ('closed', 'open', 'half_open'))
) WITH (fillfactor = 50)
""",
    """
CREATE TABLE alert_rule (
    name TEXT NOT NULL,
    version INTEGER NOT NULL,
    definition JSONB NOT NULL,
    definition_sha256 BYTEA NOT NULL,
    machine JSONB NOT NULL,
    seq BIGINT DEFAULT 0 NOT NULL,
    phase TEXT NOT NULL,
    health TEXT NOT NULL,
    evaluation JSONB,
    evaluated_at timestamptz,
    removed_at timestamptz,
    CONSTRAINT alert_rule_pkey PRIMARY KEY (name),
    CONSTRAINT alert_rule_numbers_check CHECK (version > 0 AND seq >= 0),
    CONSTRAINT alert_rule_phase_check
        CHECK (phase IN ('ok', 'pending', 'firing', 'recovering')),
    CONSTRAINT alert_rule_health_check
        CHECK (health IN ('good', 'stale', 'no_data', 'suspect', 'error'))
) WITH (fillfactor = 50)
""",
    """
CREATE TABLE alert_event (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    event_id TEXT NOT NULL,
    rule TEXT NOT NULL,
    rule_version INTEGER NOT NULL,
    seq BIGINT NOT NULL,
    firing_seq BIGINT,
    kind TEXT NOT NULL,
    at timestamptz NOT NULL,
    value NUMERIC,
    inputs JSONB NOT NULL,
    suppressed_by TEXT,
    CONSTRAINT alert_event_pkey PRIMARY KEY (id),
    CONSTRAINT alert_event_event_id_key UNIQUE (event_id),
    CONSTRAINT alert_event_rule_seq_kind_key UNIQUE (rule, seq, kind)
)
""",
    """
CREATE INDEX alert_event_rule_at_idx ON alert_event (rule, at)
""",
    """
CREATE TABLE alert_outbox (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    event BIGINT NOT NULL,
    rule TEXT NOT NULL,
    seq BIGINT NOT NULL,
    firing_seq BIGINT,
    kind TEXT NOT NULL,
    channel TEXT NOT NULL,
    message JSONB NOT NULL,
    status TEXT DEFAULT 'pending' NOT NULL,
    attempts INTEGER DEFAULT 0 NOT NULL,
    created_at timestamptz NOT NULL,
    due_at timestamptz NOT NULL,
    lease_until timestamptz,
    lease_by TEXT,
    batch TEXT,
    ended_at timestamptz,
    last_error TEXT,
    CONSTRAINT alert_outbox_pkey PRIMARY KEY (id),
    CONSTRAINT alert_outbox_rule_seq_channel_kind_key UNIQUE (rule, seq, channel, kind),
    CONSTRAINT alert_outbox_status_check
        CHECK (status IN ('pending', 'sending', 'sent', 'dead', 'merged', 'dismissed')),
    CONSTRAINT alert_outbox_event_fkey FOREIGN KEY (event) REFERENCES alert_event (id)
) WITH (fillfactor = 70)
""",
    """
CREATE INDEX alert_outbox_waiting_idx ON alert_outbox (channel, id)
    WHERE status IN ('pending', 'sending')
""",
    """
CREATE TABLE alert_silence (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    rule TEXT,
    job TEXT,
    provider TEXT,
    gpu TEXT,
    starts_at timestamptz NOT NULL,
    until timestamptz NOT NULL,
    author TEXT NOT NULL,
    comment TEXT NOT NULL,
    CONSTRAINT alert_silence_pkey PRIMARY KEY (id),
    CONSTRAINT alert_silence_interval_check CHECK (until >= starts_at)
)
""",
)


def upgrade() -> None:
    for statement in TABLES:
        op.execute(statement)


def downgrade() -> None:
    for table in ("alert_silence", "alert_outbox", "alert_event", "alert_rule", "schedule",
                  "leader"):  # fmt: skip
        op.execute(f"DROP TABLE {table}")
