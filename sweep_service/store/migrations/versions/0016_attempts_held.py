"""The time from which, and the seconds for which, each attempt has held its resources."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add both; nobody has noted them of attempts so far."""
    with op.batch_alter_table("attempts") as attempts:
        attempts.add_column(sa.Column("held_from", sa.Double()))
        attempts.add_column(sa.Column("held_s", sa.Double(), nullable=False, server_default="0"))


def downgrade() -> None:
    """Forget it; the trials keep what their attempts have held all together."""
    with op.batch_alter_table("attempts") as attempts:
        attempts.drop_column("held_from")
        attempts.drop_column("held_s")
