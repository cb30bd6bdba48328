"""Deletions of sweeps: the wish, how far it is carried out, and what is remembered of a sweep that is gone."""

import sqlalchemy as sa
from alembic import op

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Let cost probes outlive the sweep that measured them, for sweeps of the same shape use them."""
    op.create_table(
        "deletions",
        sa.Column("sweep_id", sa.String(40), nullable=False),
        sa.Column("name", sa.String(64), nullable=False),
        sa.Column("keep_report", sa.Boolean(), nullable=False),
        sa.Column("asked_at", sa.Double(), nullable=False),
        sa.Column("by", sa.String(64)),
        sa.Column("mlflow_done_at", sa.Double()),
        sa.Column("files_done_at", sa.Double()),
        sa.Column("rows_done_at", sa.Double()),
        sa.Column("message", sa.Text()),
        sa.Column("idempotency_key", sa.String(255)),
        sa.PrimaryKeyConstraint("sweep_id", name="pk_deletions"),
    )
    op.create_index("ix_deletions_idempotency_key", "deletions", ["idempotency_key"])
    with op.batch_alter_table("probes") as probes:
        probes.drop_constraint("fk_probes_sweep_id", type_="foreignkey")


def downgrade() -> None:
    """Forget the deletions, and the probes of sweeps that are gone."""
    op.execute(sa.text("DELETE FROM probes WHERE sweep_id NOT IN (SELECT id FROM sweeps)"))
    with op.batch_alter_table("probes") as probes:
        probes.create_foreign_key("fk_probes_sweep_id", "sweeps", ["sweep_id"], ["id"])
    op.drop_index("ix_deletions_idempotency_key", "deletions")
    op.drop_table("deletions")
