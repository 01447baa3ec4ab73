"""What users measured of their jobs."""

from __future__ import annotations

from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    op.execute(
        """
CREATE TABLE measurement (
    id BIGINT GENERATED ALWAYS AS IDENTITY,
    job TEXT NOT NULL,
    subject TEXT NOT NULL,
    gpu TEXT NOT NULL,
    gpus INTEGER NOT NULL,
    version INTEGER NOT NULL,
    hours NUMERIC NOT NULL,
    unit TEXT,
    amount NUMERIC,
    utilisation JSONB NOT NULL,
    note TEXT,
    measured_at timestamptz NOT NULL,
    CONSTRAINT measurement_pkey PRIMARY KEY (id),
    CONSTRAINT measurement_job_gpu_gpus_version_key UNIQUE (job, gpu, gpus, version),
    CONSTRAINT measurement_numbers_check CHECK (gpus > 0 AND version > 0 AND hours > 0)
)
"""
    )


def downgrade() -> None:
    op.execute("DROP TABLE measurement")
