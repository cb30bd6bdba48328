"""Interim reports: a column for requests, and one that marks stored reports as interim."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Reports kept so far are final, and nobody wants another."""
    op.add_column("sweeps", sa.Column("report_wanted", sa.Boolean(), nullable=False, server_default=sa.false()))
    op.add_column("reports", sa.Column("interim", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Drop the interim reports, then the columns."""
    op.execute(sa.text("DELETE FROM reports WHERE interim"))
    op.drop_column("reports", "interim")
    op.drop_column("sweeps", "report_wanted")
