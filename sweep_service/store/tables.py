"""The tables. Each fact has one row; ARCHITECTURE.md says who writes which."""

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    TypeDecorator,
    UniqueConstraint,
)


class AnyText(TypeDecorator[str]):
    """Text from outside. NUL is replaced, for PostgreSQL has no place for it."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: object) -> str | None:
        """Return the text to store."""
        return None if value is None else value.replace("\0", "\N{REPLACEMENT CHARACTER}")


metadata = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)
_ID = BigInteger().with_variant(Integer, "sqlite")  # SQLite autoincrements INTEGER only

sweeps = Table(
    "sweeps",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("name", String(64), nullable=False),
    Column("state", String(16), nullable=False, index=True),
    Column("desired_state", String(16), nullable=False),
    Column("created_at", Double, nullable=False),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("message", AnyText),
    Column("spec", JSON, nullable=False),
    Column("spec_digest", String(64), nullable=False),
    Column("mlflow_experiment_id", String(64)),
    Column("mlflow_run_id", String(64)),
    Column("mlflow_state", String(16)),
    Column("mlflow_report", String(64)),
    Column("mlflow_anew", Boolean, nullable=False, default=False),
    Column("last_seq", Integer, nullable=False, default=0),
    Column("epoch", Integer, nullable=False, default=0),
    Column("lease_until", Double),
    Column("lease_clock", String(64)),
    Column("lease_holder", String(255)),
    Column("report_wanted", Boolean, nullable=False, default=False),
    Column("report_failure", AnyText),
    Column("added_benchmarks", JSON, nullable=False, default=[]),
    Column("waits_for", JSON(none_as_null=True)),
    Column("asks_since", Double, nullable=False),
    Column("slots", Integer, nullable=False, default=1),
    Column("generation", Integer, nullable=False),
)

configs = Table(
    "configs",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    Column("id", String(40), primary_key=True),
    Column("number", Integer, nullable=False),
    Column("roles", JSON, nullable=False),
    Column("params", JSON, nullable=False),
    Column("training", JSON, nullable=False),
    UniqueConstraint("sweep_id", "number"),
)

trials = Table(
    "trials",
    metadata,
    Column("id", String(40), primary_key=True),
    Column("sweep_id", ForeignKey("sweeps.id"), nullable=False),
    Column("config_id", String(40), nullable=False),
    Column("seed", BigInteger, nullable=False),
    Column("stage", String(16), nullable=False),
    Column("trained_by", String(40)),
    Column("model_step", Integer, nullable=False, default=0),
    Column("number", Integer, nullable=False),
    Column("state", String(16), nullable=False),
    Column("threads", Integer, nullable=False),
    Column("step", Integer, nullable=False, default=0),
    Column("total_steps", Integer, nullable=False),
    Column("attempts", Integer, nullable=False, default=0),
    Column("retried_after", Integer, nullable=False, default=0),
    Column("stop_counts", Boolean),
    Column("held_s", Double, nullable=False, default=0.0),
    Column("started_at", Double),
    Column("ended_at", Double),
    Column("message", AnyText),
    Column("ending", String(16)),
    Column("mlflow_run_id", String(64)),
    # Of an evaluation: number of its results that MLflow has.
    Column("mlflow_curve_id", _ID, nullable=False, default=0),
    Column("mlflow_state", String(16)),
    Column("summary", JSON, nullable=False),
    Column("warnings", JSON, nullable=False),
    UniqueConstraint("sweep_id", "config_id", "seed", "stage", "model_step"),
    UniqueConstraint("sweep_id", "number"),
)

judgements = Table(
    "judgements",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("sweep_id", ForeignKey("sweeps.id"), nullable=False, index=True),
    Column("config_id", String(40), nullable=False),
    Column("dropped", Boolean, nullable=False),
    Column("seed", BigInteger),
    Column("mark", Integer, nullable=False),
    Column("value", Double),
    Column("bound", Double),
    Column("rival", String(40)),
    Column("message", AnyText, nullable=False),
    Column("taken_back", Boolean, nullable=False, default=False),
    Column("time", Double, nullable=False),
    Column("sign", String(40)),
)

attempts = Table(
    "attempts",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("epoch", Integer, nullable=False),
    Column("directory", Text, nullable=False),
    Column("events_offset", BigInteger, nullable=False, default=0),
    Column("host", String(255)),
    Column("pid", Integer),
    Column("pid_started_at", Double),
    Column("outcome", String(16)),
    Column("ending", String(16)),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("held_from", Double),
    Column("held_s", Double, nullable=False, default=0.0),
    Column("versions", JSON),
    Column("message", AnyText),
)

curves = Table(
    "curves",
    metadata,
    Column("id", _ID, primary_key=True, autoincrement=True),
    Column("trial_id", ForeignKey("trials.id"), nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("first_step", Integer, nullable=False),
    Column("last_step", Integer, nullable=False),
    Column("points", JSON, nullable=False),
    UniqueConstraint("trial_id", "attempt", "kind", "first_step"),
)

samples = Table(
    "samples",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("samples", JSON, nullable=False),
)

problem_sets = Table(
    "problem_sets",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    Column("digest", String(64), primary_key=True),
    Column("names", JSON, nullable=False),
)

problem_counts = Table(
    "problem_counts",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("judged", JSON, nullable=False),
    Column("right", JSON, nullable=False),
)

checkpoints = Table(
    "checkpoints",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("attempt", Integer, primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("path", Text, nullable=False),
    Column("time", Double, nullable=False),
)

kept_models = Table(
    "kept_models",
    metadata,
    Column("trial_id", ForeignKey("trials.id"), primary_key=True),
    Column("step", Integer, primary_key=True),
    Column("path", Text, nullable=False),
)

benchmark_results = Table(
    "benchmark_results",
    metadata,
    Column("evaluation_id", ForeignKey("trials.id"), primary_key=True),
    Column("benchmark", String(64), primary_key=True),
    Column("time", Double, nullable=False),
    Column("model_sha256", String(64), nullable=False),
    Column("content", JSON, nullable=False),
    Column("shown", JSON, nullable=False),
)

events = Table(
    "events",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    Column("seq", Integer, primary_key=True),
    Column("time", Double, nullable=False),
    Column("type", String(64), nullable=False),
    Column("data", JSON, nullable=False),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("key", String(255), primary_key=True),
    Column("fingerprint", String(64), nullable=False),
    Column("sweep_id", ForeignKey("sweeps.id"), nullable=False),
    Column("created_at", Double, nullable=False),
)

reports = Table(
    "reports",
    metadata,
    Column("sweep_id", ForeignKey("sweeps.id"), primary_key=True),
    Column("inputs_digest", String(64), primary_key=True),
    Column("format", String(8), primary_key=True),
    Column("content", LargeBinary, nullable=False),
    Column("interim", Boolean, nullable=False, default=False),
    Column("created_at", Double, nullable=False),
    Column("gzipped", Boolean, nullable=False, default=False),
    Column("part", String(64)),
    Column("part_at", Integer),
    Column("superseded_at", Double),
)

report_parts = Table(
    "report_parts",
    metadata,
    Column("digest", String(64), primary_key=True),
    Column("deflated", LargeBinary, nullable=False),
)

deletions = Table(
    "deletions",
    metadata,
    Column("sweep_id", String(40), primary_key=True),  # of a sweep that may be gone
    Column("name", String(64), nullable=False),
    Column("keep_report", Boolean, nullable=False),
    Column("asked_at", Double, nullable=False),
    Column("by", String(64)),
    Column("mlflow_done_at", Double),
    Column("files_done_at", Double),
    Column("rows_done_at", Double),
    Column("message", AnyText),
    Column("idempotency_key", String(255)),
)

probes = Table(
    "probes",
    metadata,
    Column("sweep_id", String(40), primary_key=True),  # its figures serve others even if the sweep is gone
    Column("number", Integer, primary_key=True),
    Column("shape", String(64), nullable=False),
    Column("machines", String(255), nullable=False),
    Column("state", String(16), nullable=False),
    Column("training", JSON, nullable=False),
    Column("gpus", Double, nullable=False),
    Column("held_s", Double, nullable=False),
    Column("started_at", Double, nullable=False),
    Column("ended_at", Double),
    Column("message", AnyText),
    Column("figures", JSON(none_as_null=True)),
)

Index("ix_deletions_idempotency_key", deletions.c.idempotency_key)
Index("ix_probes_by_shape", probes.c.shape, probes.c.ended_at)
Index("ix_trials_by_sweep", trials.c.sweep_id, trials.c.state)
Index("ix_curves_by_arrival", curves.c.trial_id, curves.c.id)
