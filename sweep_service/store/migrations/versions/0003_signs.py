"""The sign of health by which a trial was judged."""

import sqlalchemy as sa
from alembic import op

revision = "schema_0003"
down_revision = "schema_0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Add the column."""
    op.add_column("judgements", sa.Column("sign", sa.String(length=40)))
