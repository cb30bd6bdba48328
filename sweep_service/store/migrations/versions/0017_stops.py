"""Wishes to stop single trials, and whether the result of each counts."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody wants any stopped so far."""
    with op.batch_alter_table("trials") as trials:
        trials.add_column(sa.Column("stop_counts", sa.Boolean()))


def downgrade() -> None:
    """Forget who was to be stopped; to an earlier version a trial that was stopped is one of a cancelled sweep."""
    for column in ("state", "ending"):
        op.execute(sa.text(f"UPDATE trials SET {column} = 'CANCELLED' WHERE {column} IN ('STOPPED', 'DISCARDED')"))
    for column in ("outcome", "ending"):
        op.execute(sa.text(f"UPDATE attempts SET {column} = 'CANCELLED' WHERE {column} IN ('STOPPED', 'DISCARDED')"))
    with op.batch_alter_table("trials") as trials:
        trials.drop_column("stop_counts")
