"""Evaluations of models on benchmarks: handed out like trials, hence rows of the same table, and their results."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None

_BEFORE = "uq_trials_sweep_id_config_id_seed_stage"
_AFTER = "uq_trials_sweep_id_config_id_seed_stage_model_step"
_KEY = ["sweep_id", "config_id", "seed", "stage"]


def upgrade() -> None:
    """Let one seed of a config have several rows, one for each number of updates after which it is evaluated."""
    with op.batch_alter_table("trials") as trials:
        trials.add_column(sa.Column("trained_by", sa.String(40)))
        trials.add_column(sa.Column("model_step", sa.Integer(), nullable=False, server_default="0"))
        trials.drop_constraint(_BEFORE, type_="unique")
        trials.create_unique_constraint(_AFTER, [*_KEY, "model_step"])
    op.create_table(
        "benchmark_results",
        sa.Column("evaluation_id", sa.String(40), nullable=False),
        sa.Column("benchmark", sa.String(64), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("model_sha256", sa.String(64), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("shown", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["evaluation_id"], ["trials.id"], name="fk_benchmark_results_evaluation_id"),
        sa.PrimaryKeyConstraint("evaluation_id", "benchmark", name="pk_benchmark_results"),
    )
    op.create_table(
        "kept_models",
        sa.Column("trial_id", sa.String(40), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_kept_models_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "step", name="pk_kept_models"),
    )


def downgrade() -> None:
    """Drop the evaluations with their attempts and results."""
    op.drop_table("kept_models")
    op.drop_table("benchmark_results")
    evaluations = "SELECT id FROM trials WHERE stage = 'benchmark'"
    op.execute(sa.text(f"DELETE FROM attempts WHERE trial_id IN ({evaluations})"))
    op.execute(sa.text("DELETE FROM trials WHERE stage = 'benchmark'"))
    with op.batch_alter_table("trials") as trials:
        trials.drop_constraint(_AFTER, type_="unique")
        trials.drop_column("model_step")
        trials.drop_column("trained_by")
        trials.create_unique_constraint(_BEFORE, _KEY)
