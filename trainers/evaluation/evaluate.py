"""Computes avg@k and pass@k of a policy on problems on which it was not trained; of a base model once for all runs."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, NamedTuple

from trainers.config import EvaluationConfig
from trainers.evaluation.estimates import Counts, average, average_pass_at_k, mean
from trainers.evaluation.problem_counts import ProblemCounts, count_problems
from trainers.evaluation.problem_parts import PART_METRICS, PARTS, part_metric, split_problems
from trainers.process.durable import write_whole
from trainers.process.locks import locked
from trainers.tasks.base import Completion, Judgement, Problem

_LIBRARIES: Final = ("torch", "transformers", "trl", "math-verify", "sweep-service")


class EvaluationResult(NamedTuple):
    """Metrics named in `trainers.record.metrics.EVALUATION_METRICS`, a few completions to look at, and the counts."""

    metrics: dict[str, float | None]
    samples: list[dict[str, Any]]
    problems: ProblemCounts


Sampler = Callable[[Sequence[Problem]], list[tuple[Completion, Judgement]]]
"""Samples and judges one completion for each problem."""


def evaluate(sample: Sampler, problems: Sequence[Problem], config: EvaluationConfig) -> EvaluationResult:
    """Sample every problem `config.samples_per_problem` times and sum up the judgements.

    A completion on which the judge itself failed is missing from the scores and counted; it is not wrong.
    """
    k = config.samples_per_problem
    repeated = [problem for problem in problems for _ in range(k)]
    pairs = sample(repeated)
    completions, judgements = [completion for completion, _ in pairs], [judgement for _, judgement in pairs]
    groups = [judgements[start : start + k] for start in range(0, len(judgements), k)]
    counts = count_problems(problems, groups)
    metrics: dict[str, float | None] = {
        **_scores(groups, config.pass_k),
        **_scores_of_parts(groups, counts.names, config.pass_k),
        **_reward_means(groups),
        "eval/length_mean": mean([completion.tokens for completion in completions]),
        "eval/truncated_share": mean([completion.truncated for completion in completions]),
        "eval/failed_share": mean([judgement.reward is None for judgement in judgements]),
        "eval/problems": float(len(problems)),
    }
    # the first sample of each problem, then the second of each, and so on
    shown = [p * k + s for s in range(k) for p in range(len(problems))][: config.shown_samples]
    return EvaluationResult(
        metrics,
        [
            {"prompt": repeated[i].prompt, "completion": completions[i].text, "reward": judgements[i].reward}
            for i in sorted(shown)
        ],
        counts,
    )


def base_evaluation(
    cache: Path,
    key: Mapping[str, Any],
    compute: Callable[[], EvaluationResult],
    while_waiting: Callable[[], None] = lambda: None,
) -> EvaluationResult:
    """Return the stored evaluation of `key`, computing it if no process has done so before.

    Processes that need the same one wait for the first; if that one dies, the next computes it. A damaged file counts
    as missing.

    Args:
        cache: gets the result as evaluations/DIGEST.json.
        key: everything that determines the evaluation, as JSON: model, task, sampling; library versions are added.
        while_waiting: called a few times a second while another process computes; what it raises ends the waiting.
    """
    full_key = json.dumps({**key, "versions": {name: version(name) for name in _LIBRARIES}}, sort_keys=True)
    path = cache / "evaluations" / f"{hashlib.sha256(full_key.encode()).hexdigest()[:32]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_suffix(".lock"), while_waiting):
        with suppress(FileNotFoundError, ValueError, KeyError, TypeError):
            stored = json.loads(path.read_text(encoding="utf-8"))
            counts = ProblemCounts(**stored["problems"])
            if stored["key"] == full_key:
                return EvaluationResult(stored["metrics"], stored["samples"], counts)
        evaluation = compute()
        content = evaluation._asdict() | {"problems": evaluation.problems._asdict()}
        write_whole(path, json.dumps({"key": full_key, **content}, allow_nan=False))
        return evaluation


def _scores(groups: Sequence[Sequence[Judgement]], k: int) -> dict[str, float | None]:
    """Average over the judgements of each problem that did not fail."""
    judged = [[judgement for judgement in group if judgement.reward is not None] for group in groups]
    right = average([[judgement.correct for judgement in group] for group in judged])
    reward = average([[judgement.reward or 0.0 for judgement in group] for group in judged])
    passed = average_pass_at_k([Counts(len(group), sum(j.correct for j in group)) for group in judged], k)
    answers = [{judgement.answer for judgement in group} - {None} for group in judged if group]
    return {
        "eval/avg_at_k": right.mean,
        "eval/avg_at_k_se": right.sampling_se,
        "eval/avg_at_k_problem_se": right.problem_se,
        "eval/reward_mean": reward.mean,
        "eval/reward_mean_se": reward.sampling_se,
        "eval/pass_at_k": passed.mean,
        "eval/pass_at_k_se": passed.sampling_se,
        "eval/distinct_answers": mean([len(distinct) for distinct in answers]),
    }


def _reward_means(groups: Sequence[Sequence[Judgement]]) -> dict[str, float | None]:
    """Average the values of each of several rewards; empty where there is one."""
    names = dict.fromkeys(name for group in groups for judgement in group for name in judgement.parts)

    def values(name: str) -> list[list[float]]:
        return [[value for judgement in group if (value := judgement.parts[name]) is not None] for group in groups]

    return {f"eval/reward_of_{name}": average(values(name)).mean for name in names}


def _scores_of_parts(groups: Sequence[Sequence[Judgement]], names: Sequence[str], k: int) -> dict[str, float | None]:
    """Return `PART_METRICS` over each half of the problems; None where there are too few problems for halves."""
    parts = split_problems(names)
    scores: dict[str, float | None] = {}
    for part in PARTS:
        own = _scores([groups[index] for index in parts[part]], k) if parts else dict.fromkeys(PART_METRICS)
        scores |= {part_metric(name, part): own[name] for name in PART_METRICS}
    return scores
