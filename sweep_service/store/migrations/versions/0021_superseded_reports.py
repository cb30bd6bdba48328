"""Since when a final report has been superseded by a newer one, which no longer replaces it."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add it; of each sweep only the report that stands is there so far."""
    op.add_column("reports", sa.Column("superseded_at", sa.Double()))


def downgrade() -> None:
    """Drop the superseded reports, since earlier versions expect one a sweep."""
    op.execute("DELETE FROM reports WHERE superseded_at IS NOT NULL")
    op.drop_column("reports", "superseded_at")
