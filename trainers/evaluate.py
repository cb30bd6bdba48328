"""avg@k and pass@k of a policy on problems it was not trained on."""

import math
import random
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import torch

from trainers.config import EvaluationConfig
from trainers.tasks import Task


class Completion(NamedTuple):
    """Sampled text without its end token."""

    text: str
    tokens: int
    truncated: bool


class Evaluation(NamedTuple):
    """Metrics named in `trainers.metrics.EVALUATION_METRICS` and a few completions to look at."""

    metrics: dict[str, float | None]
    samples: list[dict[str, Any]]


Sampler = Callable[[Sequence[str]], list[Completion]]
"""Samples one completion for each prompt."""


def evaluate(sample: Sampler, task: Task, config: EvaluationConfig) -> Evaluation:
    """Sample every validation problem `config.samples_per_problem` times and judge the completions."""
    problems, k = task.validation, config.samples_per_problem
    asked = [problem for problem in problems for _ in range(k)]
    completions = sample([problem.prompt for problem in asked])
    rewards = [
        task.reward(problem, completion.text, truncated=completion.truncated)
        for problem, completion in zip(asked, completions, strict=True)
    ]
    groups = [rewards[start : start + k] for start in range(0, len(rewards), k)]
    metrics: dict[str, float | None] = {
        "eval/avg_at_k": _mean(rewards),
        "eval/avg_at_k_se": standard_error(groups),
        "eval/pass_at_k": _mean([pass_at_k(k, sum(reward >= 1 for reward in g), config.pass_k) for g in groups]),
        "eval/length_mean": _mean([completion.tokens for completion in completions]),
        "eval/truncated_share": _mean([completion.truncated for completion in completions]),
        "eval/problems": float(len(problems)),
    }
    # the first sample of each problem, then the second of each, and so on
    shown = [p * k + s for s in range(k) for p in range(len(problems))][: config.shown_samples]
    return Evaluation(
        metrics,
        [{"prompt": asked[i].prompt, "completion": completions[i].text, "reward": rewards[i]} for i in sorted(shown)],
    )


def pass_at_k(samples: int, right: int, k: int) -> float:
    """Unbiased estimate of the chance that one of `k` samples is right: 1 - C(n - c, k) / C(n, k).

    Source: arXiv:2107.03374. Needs k <= samples.
    """
    return 1 - math.comb(samples - right, k) / math.comb(samples, k)


def standard_error(groups: Sequence[Sequence[float]]) -> float | None:
    """Standard error of the mean over all groups that comes from sampling, the problems being fixed.

    Each group holds the rewards of one problem. None, if a problem has a single sample.
    """
    if any(len(group) < 2 for group in groups):
        return None
    variances = [float(np.var(group, ddof=1)) / len(group) for group in groups]
    return math.sqrt(sum(variances)) / len(groups)


@contextmanager
def own_random_state(seed: int) -> Generator[None]:
    """Seed every generator for the block and put back their states after it, so that training does not notice."""
    states = (random.getstate(), np.random.get_state())
    with torch.random.fork_rng():
        try:
            random.seed(seed)
            np.random.seed(seed % 2**32)
            torch.manual_seed(seed)
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
