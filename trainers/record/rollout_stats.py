"""Computes a rollout's metrics from sums over it, which are reduced over processes; None where a mean is over nothing.

Shapes: B sequences, T completion tokens, N tokens of all of them.
"""

import math
from collections.abc import Sequence
from typing import Any, Final

import torch
from torch import Tensor

from trainers.losses.critic import variance
from trainers.record.metrics import STEP_SECTIONS
from trainers.tasks.base import Completion, Judgement

NO_ENGINE: Final[dict[str, float | None]] = dict.fromkeys(STEP_SECTIONS["Engine"])
"""Metrics of a rollout that the trained model itself sampled."""
NO_CRITIC: Final[dict[str, float | None]] = dict.fromkeys(STEP_SECTIONS["Critic"])
"""Metrics of a rollout whose advantages are group-relative."""

_MEANS: Final = {
    "reward/mean": ("reward", "judged"),
    "reward/correct_share": ("correct", "judged"),
    "group/zero_spread_share": ("zero_spread", "groups"),
    "group/all_right_share": ("all_right", "groups"),
    "group/all_wrong_share": ("all_wrong", "groups"),
    "group/distinct_answers": ("answers", "groups"),
    "sampling/groups_generated": ("groups_sampled", "groups"),
    "completion/length_mean": ("length_completions", "completions"),
    "completion/length_ended": ("length_ended", "ended"),
    "completion/length_correct": ("length_correct", "correct"),
    "completion/length_incorrect": ("length_incorrect", "incorrect"),
    "completion/truncated_share": ("truncated", "completions"),
    "grader/timeout_share": ("timed_out", "completions"),
    "grader/failed_share": ("failed", "completions"),
}
"""Metrics that are one of a rollout's sums divided by another."""


def rollout_stats(
    groups: Sequence[Sequence[tuple[Completion, Judgement]]],
    groups_sampled: int,
    accelerator: Any,
    parts: Sequence[str] = (),
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
    judged = [(completion, judgement) for completion, judgement in pairs if judgement.reward is not None]
    judged_groups = [[judgement for _, judgement in group if judgement.reward is not None] for group in groups]
    rewards = [reward for _, judgement in pairs if (reward := judgement.reward) is not None]
    lengths = {
        "completions": [completion.tokens for completion, _ in pairs],
        "ended": [completion.tokens for completion, _ in pairs if not completion.truncated],
        "correct": [completion.tokens for completion, judgement in judged if judgement.correct],
        "incorrect": [completion.tokens for completion, judgement in judged if not judgement.correct],
    }
    sums: dict[str, float] = {
        **{name: len(lengths_of) for name, lengths_of in lengths.items()},
        **{f"length_{name}": sum(lengths_of) for name, lengths_of in lengths.items()},
        "judged": len(rewards),
        "reward": sum(rewards),
        "reward^2": sum(reward * reward for reward in rewards),
        "truncated": sum(completion.truncated for completion, _ in pairs),
        "timed_out": sum(judgement.timed_out for _, judgement in pairs),
        "failed": len(pairs) - len(rewards),
        "groups": len(groups),
        "groups_sampled": groups_sampled,
        "zero_spread": sum(len({judgement.reward for judgement in group}) <= 1 for group in judged_groups),
        "all_right": sum(bool(group) and all(judgement.correct for judgement in group) for group in judged_groups),
        "all_wrong": sum(bool(group) and not any(judgement.correct for judgement in group) for group in judged_groups),
        "answers": sum(len({judgement.answer for judgement in group} - {None}) for group in judged_groups),
    }
    for part in parts:
        part_rewards = [reward for _, judgement in pairs if (reward := judgement.parts[part]) is not None]
        sums |= {f"{part}: judged": len(part_rewards), f"{part}: reward": sum(part_rewards)}
    if accelerator.num_processes > 1:
        local = torch.tensor(list(sums.values()), dtype=torch.float64, device=accelerator.device)
        sums = dict(zip(sums, accelerator.reduce(local, reduction="sum").tolist(), strict=True))
    means = _MEANS | {f"reward/of_{part}": (f"{part}: reward", f"{part}: judged") for part in parts}
    metrics = {name: sums[total] / sums[count] if sums[count] else None for name, (total, count) in means.items()}
    return metrics | {"reward/std": _reward_std(sums)}


def _reward_std(sums: dict[str, float]) -> float | None:
    """Return the unbiased standard deviation of the judged completions' rewards."""
    judged = sums["judged"]
    if judged < 2:
        return None
    squares = sums["reward^2"] - sums["reward"] ** 2 / judged
    return math.sqrt(max(squares, 0.0) / (judged - 1))  # rounding may leave equal rewards below 0


def engine_stats(
    logprobs_BT: Tensor, engine_logprobs_BT: Tensor, mask_BT: Tensor, cap: float | None, accelerator: Any
) -> dict[str, float | None]:
    """Return the distance of the sampling engine from the trainer; with equal weights, every difference is arithmetic.

    Every process of `accelerator` calls this and gets the metrics over all processes.

    Args:
        logprobs_BT: log-probabilities of the policy that sampled, computed by the trainer, in nats.
        engine_logprobs_BT: the same, reported by the engine; a token with NaN does not count.
        cap: upper bound of the tokens' weights; None without correction.
    """
    gap_BT = (logprobs_BT - engine_logprobs_BT).double()
    gap_N = gap_BT[mask_BT.bool() & gap_BT.isfinite()]
    limit = math.inf if cap is None else cap
    cut_N, weight_N = gap_N > math.log(limit), gap_N.exp().clamp(max=limit)
    sums = torch.stack([gap_N.new_tensor(len(gap_N)), gap_N.abs().sum(), weight_N.sum(), cut_N.sum()])
    largest = torch.cat([gap_N.abs(), gap_N.new_zeros(1)]).amax(0, keepdim=True)
    if accelerator.num_processes > 1:
        sums = accelerator.reduce(sums, reduction="sum")
        largest = accelerator.gather(largest).amax(0)
    tokens, gap, weight, cut = sums.tolist()
    if not tokens:
        return dict(NO_ENGINE)
    return {
        "engine/logprob_gap_mean": gap / tokens,
        "engine/logprob_gap_max": largest.item(),
        "engine/weight_mean": weight / tokens if cap else None,
        "engine/weight_cut_share": cut / tokens if cap else None,
    }


def critic_stats(advantages: Tensor, values: Tensor, returns: Tensor) -> dict[str, float | None]:
    """Return the metrics of a critic from sums over the tokens of a rollout.

    Args:
        advantages: `moments` of the advantages before they are normalised, which are what the values leave unexplained.
        values, returns: those of the values when the rollout was scored, and of their targets.
    """
    tokens, spread = values[0].item(), variance(returns).item()
    if not tokens:
        return dict(NO_CRITIC)
    return {
        "critic/value_mean": values[1].item() / tokens,
        "critic/return_mean": returns[1].item() / tokens,
        "critic/explained_variance": 1 - variance(advantages).item() / spread if spread > 0 else None,
    }
