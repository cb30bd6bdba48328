"""The schema. Later versions add revisions; this one stays as it is, whatever becomes of `store/tables.py`."""

import sqlalchemy as sa
from alembic import op

revision = "schema_0001"
down_revision = None
branch_labels = None
depends_on = None

_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")  # SQLite autoincrements INTEGER only


def upgrade() -> None:
    """Make all tables."""
    op.create_table(
        "sweeps",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("desired_state", sa.String(length=16), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("message", sa.Text()),
        sa.Column("spec", sa.JSON(), nullable=False),
        sa.Column("spec_digest", sa.String(length=64), nullable=False),
        sa.Column("mlflow_experiment_id", sa.String(length=64)),
        sa.Column("mlflow_run_id", sa.String(length=64)),
        sa.Column("mlflow_state", sa.String(length=16)),
        sa.Column("mlflow_report", sa.String(length=64)),
        sa.Column("mlflow_anew", sa.Boolean(), nullable=False),
        sa.Column("last_seq", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("lease_until", sa.Double()),
        sa.Column("lease_clock", sa.String(length=64)),
        sa.Column("lease_holder", sa.String(length=255)),
        sa.Column("report_wanted", sa.Boolean(), nullable=False),
        sa.Column("report_failure", sa.Text()),
        sa.Column("added_benchmarks", sa.JSON(), nullable=False),
        sa.Column("waits_for", sa.JSON()),
        sa.Column("asks_since", sa.Double(), nullable=False),
        sa.Column("slots", sa.Integer(), nullable=False),
        sa.Column("generation", sa.Integer(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_sweeps"),
    )
    op.create_index("ix_sweeps_state", "sweeps", ["state"])
    op.create_table(
        "configs",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("roles", sa.JSON(), nullable=False),
        sa.Column("params", sa.JSON(), nullable=False),
        sa.Column("training", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_configs_sweep_id"),
        sa.PrimaryKeyConstraint("sweep_id", "id", name="pk_configs"),
        sa.UniqueConstraint("sweep_id", "number", name="uq_configs_sweep_id_number"),
    )
    op.create_table(
        "trials",
        sa.Column("id", sa.String(length=40), nullable=False),
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("config_id", sa.String(length=40), nullable=False),
        sa.Column("seed", sa.BigInteger(), nullable=False),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("trained_by", sa.String(length=40)),
        sa.Column("model_step", sa.Integer(), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("threads", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("total_steps", sa.Integer(), nullable=False),
        sa.Column("attempts", sa.Integer(), nullable=False),
        sa.Column("retried_after", sa.Integer(), nullable=False),
        sa.Column("stop_counts", sa.Boolean()),
        sa.Column("held_s", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double()),
        sa.Column("ended_at", sa.Double()),
        sa.Column("message", sa.Text()),
        sa.Column("ending", sa.String(length=16)),
        sa.Column("mlflow_run_id", sa.String(length=64)),
        sa.Column("mlflow_curve_id", _ID, nullable=False),
        sa.Column("mlflow_state", sa.String(length=16)),
        sa.Column("summary", sa.JSON(), nullable=False),
        sa.Column("warnings", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_trials_sweep_id"),
        sa.PrimaryKeyConstraint("id", name="pk_trials"),
        sa.UniqueConstraint(
            "sweep_id",
            "config_id",
            "seed",
            "stage",
            "model_step",
            name="uq_trials_sweep_id_config_id_seed_stage_model_step",
        ),
        sa.UniqueConstraint("sweep_id", "number", name="uq_trials_sweep_id_number"),
    )
    op.create_index("ix_trials_by_sweep", "trials", ["sweep_id", "state"])
    op.create_table(
        "attempts",
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("epoch", sa.Integer(), nullable=False),
        sa.Column("directory", sa.Text(), nullable=False),
        sa.Column("events_offset", sa.BigInteger(), nullable=False),
        sa.Column("host", sa.String(length=255)),
        sa.Column("pid", sa.Integer()),
        sa.Column("pid_started_at", sa.Double()),
        sa.Column("outcome", sa.String(length=16)),
        sa.Column("ending", sa.String(length=16)),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("held_from", sa.Double()),
        sa.Column("held_s", sa.Double(), nullable=False),
        sa.Column("versions", sa.JSON()),
        sa.Column("message", sa.Text()),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_attempts_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "number", name="pk_attempts"),
    )
    op.create_table(
        "curves",
        sa.Column("id", _ID, autoincrement=True, nullable=False),
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("kind", sa.String(length=16), nullable=False),
        sa.Column("first_step", sa.Integer(), nullable=False),
        sa.Column("last_step", sa.Integer(), nullable=False),
        sa.Column("points", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_curves_trial_id"),
        sa.PrimaryKeyConstraint("id", name="pk_curves"),
        sa.UniqueConstraint(
            "trial_id", "attempt", "kind", "first_step", name="uq_curves_trial_id_attempt_kind_first_step"
        ),
    )
    op.create_index("ix_curves_by_arrival", "curves", ["trial_id", "id"])
    op.create_table(
        "samples",
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("samples", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_samples_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "step", name="pk_samples"),
    )
    op.create_table(
        "problem_sets",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("names", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_problem_sets_sweep_id"),
        sa.PrimaryKeyConstraint("sweep_id", "digest", name="pk_problem_sets"),
    )
    op.create_table(
        "problem_counts",
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("judged", sa.JSON(), nullable=False),
        sa.Column("right", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_problem_counts_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "step", name="pk_problem_counts"),
    )
    op.create_table(
        "checkpoints",
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("attempt", sa.Integer(), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_checkpoints_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "attempt", "step", name="pk_checkpoints"),
    )
    op.create_table(
        "kept_models",
        sa.Column("trial_id", sa.String(length=40), nullable=False),
        sa.Column("step", sa.Integer(), nullable=False),
        sa.Column("path", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(["trial_id"], ["trials.id"], name="fk_kept_models_trial_id"),
        sa.PrimaryKeyConstraint("trial_id", "step", name="pk_kept_models"),
    )
    op.create_table(
        "benchmark_results",
        sa.Column("evaluation_id", sa.String(length=40), nullable=False),
        sa.Column("benchmark", sa.String(length=64), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("model_sha256", sa.String(length=64), nullable=False),
        sa.Column("content", sa.JSON(), nullable=False),
        sa.Column("shown", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["evaluation_id"], ["trials.id"], name="fk_benchmark_results_evaluation_id"),
        sa.PrimaryKeyConstraint("evaluation_id", "benchmark", name="pk_benchmark_results"),
    )
    op.create_table(
        "events",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("seq", sa.Integer(), nullable=False),
        sa.Column("time", sa.Double(), nullable=False),
        sa.Column("type", sa.String(length=64), nullable=False),
        sa.Column("data", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_events_sweep_id"),
        sa.PrimaryKeyConstraint("sweep_id", "seq", name="pk_events"),
    )
    op.create_table(
        "idempotency_keys",
        sa.Column("key", sa.String(length=255), nullable=False),
        sa.Column("fingerprint", sa.String(length=64), nullable=False),
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_idempotency_keys_sweep_id"),
        sa.PrimaryKeyConstraint("key", name="pk_idempotency_keys"),
    )
    op.create_table(
        "reports",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("inputs_digest", sa.String(length=64), nullable=False),
        sa.Column("format", sa.String(length=8), nullable=False),
        sa.Column("content", sa.LargeBinary(), nullable=False),
        sa.Column("interim", sa.Boolean(), nullable=False),
        sa.Column("created_at", sa.Double(), nullable=False),
        sa.Column("gzipped", sa.Boolean(), nullable=False),
        sa.Column("part", sa.String(length=64)),
        sa.Column("part_at", sa.Integer()),
        sa.Column("superseded_at", sa.Double()),
        sa.ForeignKeyConstraint(["sweep_id"], ["sweeps.id"], name="fk_reports_sweep_id"),
        sa.PrimaryKeyConstraint("sweep_id", "inputs_digest", "format", name="pk_reports"),
    )
    op.create_table(
        "report_parts",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("deflated", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_report_parts"),
    )
    op.create_table(
        "deletions",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("name", sa.String(length=64), nullable=False),
        sa.Column("keep_report", sa.Boolean(), nullable=False),
        sa.Column("asked_at", sa.Double(), nullable=False),
        sa.Column("by", sa.String(length=64)),
        sa.Column("mlflow_done_at", sa.Double()),
        sa.Column("files_done_at", sa.Double()),
        sa.Column("rows_done_at", sa.Double()),
        sa.Column("message", sa.Text()),
        sa.Column("idempotency_key", sa.String(length=255)),
        sa.PrimaryKeyConstraint("sweep_id", name="pk_deletions"),
    )
    op.create_index("ix_deletions_idempotency_key", "deletions", ["idempotency_key"])
    op.create_table(
        "probes",
        sa.Column("sweep_id", sa.String(length=40), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("shape", sa.String(length=64), nullable=False),
        sa.Column("machines", sa.String(length=255), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("training", sa.JSON(), nullable=False),
        sa.Column("gpus", sa.Double(), nullable=False),
        sa.Column("held_s", sa.Double(), nullable=False),
        sa.Column("started_at", sa.Double(), nullable=False),
        sa.Column("ended_at", sa.Double()),
        sa.Column("message", sa.Text()),
        sa.Column("figures", sa.JSON()),
        sa.PrimaryKeyConstraint("sweep_id", "number", name="pk_probes"),
    )
    op.create_index("ix_probes_by_shape", "probes", ["shape", "ended_at"])
