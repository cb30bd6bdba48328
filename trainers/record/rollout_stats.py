"""Computes a rollout's metrics: rewards, groups, lengths, the judge's failures; its sums are reduced over processes."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from trainers.tasks.base import Completion, Judgement

Judged = tuple[Completion, Judgement]


def rollout_stats(
    groups: Sequence[Sequence[Judged]], groups_sampled: int, accelerator: Any, parts: Sequence[str] = ()
) -> dict[str, float | None]:
    """Return the metrics of a rollout over all processes of `accelerator`; None where a mean is over nothing.

    Every process calls this, with whole groups, and gets the same. A completion whose judge failed has no reward and
    is neither right nor wrong.

    Args:
        groups: the completions trained on, prompt by prompt.
        groups_sampled: number of groups sampled for them.
        parts: names of the rewards whose weighted sum is trained on.
    """
    pairs = [pair for group in groups for pair in group]
    sums = {**_completion_sums(pairs), **_group_sums(groups), **_part_sums([one for _, one in pairs], parts)}
    sums["groups_sampled"] = groups_sampled
    if accelerator.num_processes > 1:
        local = torch.tensor(list(sums.values()), dtype=torch.float64, device=accelerator.device)
        sums = dict(zip(sums, accelerator.reduce(local, reduction="sum").tolist(), strict=True))
    return _metrics(sums) | {
        f"reward/of_{name}": sums[f"{name}: reward"] / judged if (judged := sums[f"{name}: judged"]) else None
        for name in parts
    }


def _part_sums(judgements: Sequence[Judgement], parts: Sequence[str]) -> dict[str, float]:
    sums = dict[str, float]()
    for name in parts:
        rewards = [reward for judgement in judgements if (reward := judgement.parts[name]) is not None]
        sums |= {f"{name}: judged": len(rewards), f"{name}: reward": sum(rewards)}
    return sums


def _completion_sums(pairs: Sequence[Judged]) -> dict[str, float]:
    def count_and_length(chosen: Callable[[Completion, Judgement], bool]) -> tuple[int, int]:
        lengths = [completion.tokens for completion, judgement in pairs if chosen(completion, judgement)]
        return len(lengths), sum(lengths)

    rewards = [judgement.reward for _, judgement in pairs if judgement.reward is not None]
    sums: dict[str, float] = {"judged": len(rewards), "reward": sum(rewards), "reward^2": sum(r * r for r in rewards)}
    sums["completions"], sums["length"] = count_and_length(lambda *_: True)
    sums["ended"], sums["length_ended"] = count_and_length(lambda c, _: not c.truncated)
    sums["correct"], sums["length_correct"] = count_and_length(lambda _, j: j.reward is not None and j.correct)
    sums["incorrect"], sums["length_incorrect"] = count_and_length(lambda _, j: j.reward is not None and not j.correct)
    sums["timed_out"] = sum(judgement.timed_out for _, judgement in pairs)
    return sums


def _group_sums(groups: Sequence[Sequence[Judged]]) -> dict[str, float]:
    judged = [[judgement for _, judgement in group if judgement.reward is not None] for group in groups]
    return {
        "groups": len(groups),
        "zero_spread": sum(len({judgement.reward for judgement in group}) <= 1 for group in judged),
        "all_right": sum(bool(group) and all(judgement.correct for judgement in group) for group in judged),
        "all_wrong": sum(bool(group) and not any(judgement.correct for judgement in group) for group in judged),
        "answers": sum(len({judgement.answer for judgement in group} - {None}) for group in judged),
    }


def _metrics(sums: dict[str, float]) -> dict[str, float | None]:
    def mean(total: float, count: float) -> float | None:
        return total / count if count else None

    judged, completions, groups = sums["judged"], sums["completions"], sums["groups"]
    return {
        "reward/mean": mean(sums["reward"], judged),
        "reward/std": _reward_std(sums),
        "reward/correct_share": mean(sums["correct"], judged),
        "group/zero_spread_share": mean(sums["zero_spread"], groups),
        "group/all_right_share": mean(sums["all_right"], groups),
        "group/all_wrong_share": mean(sums["all_wrong"], groups),
        "group/distinct_answers": mean(sums["answers"], groups),
        "sampling/groups_generated": mean(sums["groups_sampled"], groups),
        "completion/length_mean": mean(sums["length"], completions),
        "completion/length_ended": mean(sums["length_ended"], sums["ended"]),
        "completion/length_correct": mean(sums["length_correct"], sums["correct"]),
        "completion/length_incorrect": mean(sums["length_incorrect"], sums["incorrect"]),
        "completion/truncated_share": mean(completions - sums["ended"], completions),
        "grader/timeout_share": mean(sums["timed_out"], completions),
        "grader/failed_share": mean(completions - judged, completions),
    }


def _reward_std(sums: dict[str, float]) -> float | None:
    """Return the unbiased standard deviation of the judged completions' rewards."""
    judged = sums["judged"]
    if judged < 2:
        return None
    squares = sums["reward^2"] - sums["reward"] ** 2 / judged
    return math.sqrt(max(squares, 0.0) / (judged - 1))  # rounding may leave equal rewards below 0
