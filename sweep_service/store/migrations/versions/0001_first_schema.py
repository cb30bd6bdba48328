"""The first schema."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("desired_state", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("spec_digest", sa.String(length=64), nullable=False),
        sa.Column("mlflow_experiment_id", sa.String(length=64), nullable=True),
        sa.Column("mlflow_run_id", sa.String(length=64), nullable=True),
        sa.Column("mlflow_state", sa.String(length=16), nullable=True),
        sa.Column("mlflow_report", sa.String(length=64), nullable=True),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Double(), nullable=True),
        sa.Column("lease_clock", sa.String(length=64), nullable=True),
        sa.Column("lease_holder", sa.String(length=255), nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sweeps")),
    )
    op.create_index(op.f("ix_sweeps_state"), "sweeps", ["state"], unique=False)
    op.create_table(
        "configs",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("roles", sa.JSON(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("training", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_configs_sweep_id")),
        sa.PrimaryKeyConstraint("sweep_id", "id", name=op.f("pk_configs")),
        sa.UniqueConstraint("sweep_id", "number", name=op.f("uq_configs_sweep_id_number")),
    )
    op.create_table(
        "events",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_events_sweep_id")),
        sa.PrimaryKeyConstraint("sweep_id", "seq", name=op.f("pk_events")),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_idempotency_keys_sweep_id")),
        sa.PrimaryKeyConstraint("key", name=op.f("pk_idempotency_keys")),
    )
    op.create_table(
        "reports",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("inputs_digest", sa.String(length=64), nullable=False),
        sa.Column("format", sa.String(length=8), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_reports_sweep_id")),
        sa.PrimaryKeyConstraint("sweep_id", "inputs_digest", "format", name=op.f("pk_reports")),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("config_id", sa.String(length=40), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("total_steps", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=True),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.Column("mlflow_run_id", sa.String(length=64), nullable=True),
        sa.Column("mlflow_curve_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("mlflow_state", sa.String(length=16), nullable=True),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name=op.f("fk_trials_sweep_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_trials")),
        sa.UniqueConstraint(
            "sweep_id", "config_id", "seed", "stage", name=op.f("uq_trials_sweep_id_config_id_seed_stage")
        ),
        sa.UniqueConstraint("sweep_id", "number", name=op.f("uq_trials_sweep_id_number")),
    )
    op.create_index("ix_trials_by_sweep", "trials", ["sweep_id", "state"], unique=False)
    op.create_table(
        "attempts",
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("events_offset", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.String(length=255), nullable=True),
        sa.Column("pid", sa.Integer(), nullable=True),
        sa.Column("pid_started_at", sa.Double(), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double(), nullable=True),
        sa.Column("message", sa.Text(), nullable=True),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_attempts_trial_id")),
        sa.PrimaryKeyConstraint("trial_id", "number", name=op.f("pk_attempts")),
    )
    op.create_table(
        "checkpoints",
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_checkpoints_trial_id")),
        sa.PrimaryKeyConstraint("trial_id", "attempt", "step", name=op.f("pk_checkpoints")),
    )
    op.create_table(
        "curves",
        sa.Column("id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("first_step", sa.Integer(), nullable=False),
        sa.Column("last_step", sa.Integer(), nullable=False),
        sa.Column("points", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_curves_trial_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_curves")),
        sa.UniqueConstraint(
            "trial_id", "attempt", "kind", "first_step", name=op.f("uq_curves_trial_id_attempt_kind_first_step")
        ),
    )
    op.create_index("ix_curves_by_arrival", "curves", ["trial_id", "id"], unique=False)
    op.create_table(
        "samples",
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("samples", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name=op.f("fk_samples_trial_id")),
        sa.PrimaryKeyConstraint("trial_id", "step", name=op.f("pk_samples")),
    )


def downgrade() -> None:
    """Drop all tables."""
    op.drop_table("samples")
    op.drop_index("ix_curves_by_arrival", table_name="curves")
    op.drop_table("curves")
    op.drop_table("checkpoints")
    op.drop_table("attempts")
    op.drop_index("ix_trials_by_sweep", table_name="trials")
    op.drop_table("trials")
    op.drop_table("reports")
    op.drop_table("idempotency_keys")
    op.drop_table("events")
    op.drop_table("configs")
    op.drop_index(op.f("ix_sweeps_state"), table_name="sweeps")
    op.drop_table("sweeps")
