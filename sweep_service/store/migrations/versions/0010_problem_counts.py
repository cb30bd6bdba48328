"""Counts of right samples for each validation problem, with the problems' names once for each sweep."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Sweeps stored so far have none: their trainers did not count."""
    op.create_table(
        "problem_sets",
        sa.Column("sweep_id", sa.String(40), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("names", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_problem_sets_sweep_id"),
        sa.PrimaryKeyConstraint("sweep_id", "digest", name="pk_problem_sets"),
    )
    op.create_table(
        "problem_counts",
        sa.Column("trial_id", sa.String(40), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("judged", sa.JSON(), nullable=False),
        sa.Column("right", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_problem_counts_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "step", name="pk_problem_counts"),
    )


def downgrade() -> None:
    """Drop the counts."""
    op.drop_table("problem_counts")
    op.drop_table("problem_sets")
