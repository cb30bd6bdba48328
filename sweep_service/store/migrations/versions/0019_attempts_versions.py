"""Versions of the packages with which each attempt has trained."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add them; nobody has noted them of attempts so far."""
    with op.batch_alter_table("attempts") as attempts:
        attempts.add_column(sa.Column("versions", sa.JSON()))


def downgrade() -> None:
    """Forget them; the trainers' own records keep them."""
    with op.batch_alter_table("attempts") as attempts:
        attempts.drop_column("versions")
