"""How each estimate on record came about; of older ones nobody knows."""

from __future__ import annotations

from alembic import op

revision: str = "0005"
down_revision: str | None = "0004"
branch_labels: None = None
depends_on: None = None


def upgrade() -> None:
    op.execute("ALTER TABLE job_estimate ADD COLUMN provenance JSONB")


def downgrade() -> None:
    op.execute("ALTER TABLE job_estimate DROP COLUMN provenance")
