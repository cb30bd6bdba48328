"""Trials keep the warnings of their trainers."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Trials stored so far have no warnings."""
    op.add_column("trials", sa.Column("warnings", sa.JSON(), nullable=False, server_default="[]"))


def downgrade() -> None:
    """Drop the column."""
    op.drop_column("trials", "warnings")
