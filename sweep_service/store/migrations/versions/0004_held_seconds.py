"""A column for the seconds for which a trial's attempts held their resources."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Trials that have ended get the time from their first hand-out to their end, for nothing better is known."""
    op.add_column("trials", sa.Column("held_s", sa.Double(), nullable=False, server_default=sa.text("0")))
    op.execute(
        sa.text(
            "UPDATE trials SET held_s = ended_at - started_at "
            "WHERE started_at IS NOT NULL AND ended_at IS NOT NULL AND ended_at > started_at"
        )
    )


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("trials", "held_s")
