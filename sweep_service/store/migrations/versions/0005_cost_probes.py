"""Cost probes: what a few updates at full length took before a sweep's first trial."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """No sweep has one yet."""
    op.create_table(
        "probes",
        sa.Column("sweep_id", sa.String(40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("shape", sa.String(64), nullable=False),
        sa.Column("machines", sa.String(255), nullable=False),
        sa.Column("state", sa.String(16), nullable=False),
        sa.Column("training", sa.JSON(), nullable=False),
        sa.Column("gpus", sa.Double(), nullable=False),
        sa.Column("held_s", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("message", sa.Text()),
        sa.Column("figures", sa.JSON()),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_probes_sweep_id"),
        sa.PrimaryKeyConstraint("sweep_id", "number", name="pk_probes"),
    )
    op.create_index("ix_probes_by_shape", "probes", ["shape", "ended_at"])


def downgrade() -> None:
    """Drop the probes."""
    op.drop_table("probes")
