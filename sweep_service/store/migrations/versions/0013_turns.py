"""What a running sweep waits for, as its CPUs and GPUs."""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No sweep waits so far."""
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.add_column(sa.Column("waits_for", sa.JSON(none_as_null=True)))


def downgrade() -> None:
    """Forget it; running sweeps note it again."""
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.drop_column("waits_for")
