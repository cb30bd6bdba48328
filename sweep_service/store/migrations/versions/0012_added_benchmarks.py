"""Benchmarks that users add to sweeps that have ended."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No sweep has any so far."""
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.add_column(sa.Column("added_benchmarks", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    """Forget what was asked for; what has been measured stays."""
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.drop_column("added_benchmarks")
