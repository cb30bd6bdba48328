"""Since when each sweep asks for slots, and how many of its trials the cluster has room for."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them; sweeps so far have asked since they were submitted."""
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.add_column(sa.Column("asks_since", sa.Double()))
        sweeps.add_column(sa.Column("slots", sa.Integer(), nullable=False, server_default="1"))
    op.execute("UPDATE sweeps SET asks_since = created_at")
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.alter_column("asks_since", existing_type=sa.Double(), nullable=False)
        sweeps.alter_column("slots", existing_type=sa.Integer(), existing_nullable=False, server_default=None)


def downgrade() -> None:
    """Forget them; turns then go by what was used."""
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.drop_column("asks_since")
        sweeps.drop_column("slots")
