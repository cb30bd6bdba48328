"""Wishes to have sweeps carried over to MLflow anew."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Nobody wants any so far."""
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.add_column(sa.Column("mlflow_anew", sa.Boolean(), nullable=False, server_default=sa.false()))


def downgrade() -> None:
    """Forget it; what was carried over stays."""
    with op.batch_alter_table("sweeps") as sweeps:
        sweeps.drop_column("mlflow_anew")
