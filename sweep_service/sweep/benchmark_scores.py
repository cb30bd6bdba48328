"""Scores of models on benchmarks as API, MLflow and report show them. Pure."""

import csv
import io
from collections.abc import Iterator, Sequence
from typing import Any, Self

from pydantic import BaseModel, Field

from sweep_service.sweep.records import BenchmarkResult, Evaluation, Record


class BenchmarkScore(Record):
    """The scores of one model on one benchmark: means over problems of equal weight."""

    evaluation_id: str
    evaluation_number: int = Field(description="Order in which the sweep's evaluations were asked for.")
    trial_id: str | None = Field(description="The trial that trained the model; null for an initial model.")
    config_id: str
    seed: int | None = Field(description="The trial's seed; null for an initial model.")
    model_step: int = Field(description="Optimizer updates that the model has had.")
    benchmark: str
    samples: int = Field(description="Completions of each problem, the k of avg@k.")
    problems: int
    avg_at_k: float | None = Field(description="Share of right completions.")
    sampling_se: float | None = Field(description="Standard error of avg_at_k for these problems.")
    problem_se: float | None = Field(description="The same for other problems of the kind; contains sampling_se.")
    pass_at_k: dict[int, float | None] = Field(
        description="By k: the chance that one of k completions is right, estimated without bias."
    )
    majority_at_k: float | None = Field(description="Share of problems whose most frequent answer is right.")
    tokens_mean: float | None = Field(description="Mean length of the completions, in tokens.")
    truncated_share: float | None = Field(description="Completions that were cut at the longest length.")
    failed_share: float | None = Field(description="Completions that the judge failed on; no score counts them.")
    model_sha256: str = Field(description="Digest of the model's weights and tokenizer.")
    time: float = Field(description="When it was measured, in seconds since the Unix epoch.")

    @classmethod
    def of(cls, evaluation: Evaluation, result: BenchmarkResult) -> Self:
        """Read the scores of a result."""
        scores, figures = result.content["scores"], result.content["samples"]
        average = scores["avg_at_k"]
        return cls(
            **_model(evaluation),
            evaluation_number=evaluation.number,
            benchmark=result.benchmark,
            samples=average["k"],
            problems=len(result.content["problems"]),
            avg_at_k=average["mean"],
            sampling_se=average["sampling_se"],
            problem_se=average["problem_se"],
            pass_at_k={row["k"]: row["mean"] for row in scores["pass_at_k"]},
            majority_at_k=scores["majority_at_k"]["mean"],
            tokens_mean=figures["tokens_mean"],
            truncated_share=figures["truncated_share"],
            failed_share=figures["failed_share"],
            model_sha256=result.model_sha256,
            time=result.time,
        )


class ProblemScore(Record):
    """The completions of one model on one problem of a benchmark, counted."""

    evaluation_id: str
    trial_id: str | None = Field(description="The trial that trained the model; null for an initial model.")
    config_id: str
    seed: int | None = Field(description="The trial's seed; null for an initial model.")
    model_step: int = Field(description="Optimizer updates that the model has had.")
    problem: str = Field(description="The problem's id in the benchmark.")
    judged: int = Field(description="Completions that the judge did not fail on.")
    right: int
    truncated: int = Field(description="Completions that were cut at the longest length.")
    tokens_mean: float | None


def problem_scores(evaluation: Evaluation, result: BenchmarkResult) -> Iterator[ProblemScore]:
    """Yield the problems of a result in the benchmark's order."""
    for row in result.content["problems"]:
        figures = {name: row[name] for name in ("judged", "right", "truncated", "tokens_mean")}
        yield ProblemScore(**_model(evaluation), problem=row["id"], **figures)


def _model(evaluation: Evaluation) -> dict[str, Any]:
    """Return the fields that say which model was measured."""
    return {
        "evaluation_id": evaluation.id,
        "trial_id": evaluation.trial_id,
        "config_id": evaluation.config_id,
        "seed": None if evaluation.trial_id is None else evaluation.seed,
        "model_step": evaluation.model_step,
    }


def as_csv(rows: Sequence[BaseModel], kind: type[BaseModel]) -> str:
    """Write rows as CSV, with the fields of the JSON as columns; an object becomes one column per key.

    Args:
        kind: the rows' type, for the columns if there is no row.
    """
    flat = [_flat(row.model_dump()) for row in rows]
    columns = list(dict.fromkeys(name for row in flat for name in row)) or list(kind.model_fields)
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(flat)
    return text.getvalue()


def _flat(row: dict[str, Any]) -> dict[str, Any]:
    flat = dict[str, Any]()
    for name, value in row.items():
        flat |= {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    return flat
