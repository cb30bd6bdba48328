"""Computes `result.json`, the scores of one model on one benchmark. Pure, no clock: same samples, same bytes.

A sample on which the judge itself failed is missing from every score and counted in `failed_share`; it is not wrong.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np

from trainers.benchmarks.job import Job
from trainers.benchmarks.samples import BenchmarkSample
from trainers.evaluation.estimates import Counts, Estimate, average, average_pass_at_k, majority_right, mean

RESULT_FILE: Final = "result.json"
_NO_GROUPS: Final[Mapping[str, str]] = {}


def result(job: Job, samples: Iterable[BenchmarkSample], alike: Mapping[str, str] = _NO_GROUPS) -> dict[str, Any]:
    """Return scores over problems with standard errors, figures over samples, a row for each problem, and the job.

    Args:
        alike: group of each problem that has one, by its id.
    """
    groups = dict[str, list[BenchmarkSample]]()
    for sample in samples:
        groups.setdefault(sample.problem, []).append(sample)
    judged = {name: [sample for sample in group if sample.reward is not None] for name, group in groups.items()}
    return {
        "job": job.model_dump(mode="json"),
        "scores": _scores(list(judged.values()), job),
        "samples": _figures([sample for group in groups.values() for sample in group]),
        "problems": [
            {
                "id": name,
                "judged": len(judged[name]),
                "right": sum(sample.correct for sample in judged[name]),
                "truncated": sum(sample.truncated for sample in group),
                "tokens_mean": mean([sample.tokens for sample in group]),
                **({"group": alike[name]} if name in alike else {}),
            }
            for name, group in groups.items()
        ],
    }


def summary(name: str, scores: Mapping[str, Any]) -> str:
    """Write one line for people: avg@k with both errors, and pass@k."""
    average = scores["avg_at_k"]
    passed = ", ".join(f"pass@{row['k']} {_shown(row['mean'])}" for row in scores["pass_at_k"][1:])
    return (
        f"{name}: avg@{average['k']} {_shown(average['mean'])} (standard error {_shown(average['sampling_se'])} from "
        f"sampling, {_shown(average['problem_se'])} over problems){', ' if passed else ''}{passed}"
    )


def _scores(judged: Sequence[Sequence[BenchmarkSample]], job: Job) -> dict[str, Any]:
    k = job.sampling.samples
    sizes = sorted({*(2**power for power in range(k.bit_length())), k})  # 1, 2, 4, ... below k, and k
    counts = [Counts(len(group), sum(sample.correct for sample in group)) for group in judged]
    majorities = [
        [majority_right([sample.answer for sample in group], [sample.correct for sample in group])] if group else []
        for group in judged
    ]
    return {
        "avg_at_k": _row(k, average([[sample.correct for sample in group] for group in judged])),
        "pass_at_k": [_row(size, average_pass_at_k(counts, size)) for size in sizes],
        "majority_at_k": _row(k, average(majorities)),
        "distinct_answers": mean([len({sample.answer for sample in group} - {None}) for group in judged if group]),
    }


def _row(k: int, estimate: Estimate) -> dict[str, Any]:
    return {"k": k, **estimate._asdict()}


def _figures(samples: Sequence[BenchmarkSample]) -> dict[str, Any]:
    tokens = np.array([sample.tokens for sample in samples])
    return {
        "count": len(samples),
        "tokens_mean": float(tokens.mean()),
        "tokens_median": float(np.median(tokens)),
        "tokens_q90": float(np.quantile(tokens, 0.9)),
        "tokens_max": int(tokens.max()),
        "truncated_share": mean([sample.truncated for sample in samples]),
        "unanswered_share": mean([sample.answer is None for sample in samples if sample.reward is not None]),
        "failed_share": mean([sample.reward is None for sample in samples]),
        "timed_out_share": mean([sample.timed_out for sample in samples]),
    }


def _shown(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
