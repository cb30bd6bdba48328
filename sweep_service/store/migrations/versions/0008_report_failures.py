"""A column with the reason why a sweep's report could not be built."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No reason is known yet."""
    op.add_column("sweeps", sa.Column("report_failure", sa.Text()))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("sweeps", "report_failure")
