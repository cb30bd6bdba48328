"""How often a sweep was given more to do, and after which attempt a trial was tried again by hand."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """None was so far."""
    for table, column in (("sweeps", "generation"), ("trials", "retried_after")):
        with op.batch_alter_table(table) as altered:
            altered.add_column(sa.Column(column, sa.Integer(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Forget it; what was trained stays."""
    for table, column in (("sweeps", "generation"), ("trials", "retried_after")):
        with op.batch_alter_table(table) as altered:
            altered.drop_column(column)
