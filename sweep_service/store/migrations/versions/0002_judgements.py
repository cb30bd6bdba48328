"""The judgements of `early_stopping`."""

import sqlalchemy as sa
from alembic import op

revision = "schema_0002"
down_revision = "schema_0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "judgements",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), primary_key=True, autoincrement=True),
        sa.Column("sweep_id", sa.String(length=40), sa.ForeignKey("sweeps.id"), nullable=False),
        sa.Column("config_id", sa.String(length=40), nullable=False),
        sa.Column("dropped", sa.Boolean(), nullable=False),
        sa.Column("seed", sa.BigInteger()),
        sa.Column("mark", sa.Integer(), nullable=False),
        sa.Column("value", sa.Double()),
        sa.Column("bound", sa.Double()),
        sa.Column("rival", sa.String(length=40)),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("taken_back", sa.Boolean(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
    )
    op.create_index("ix_judgements_sweep_id", "judgements", ["sweep_id"])
