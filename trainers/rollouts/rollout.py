"""Turns a stream of prompts into the tensors of one rollout. Sampling is handed in, so it needs no trainer or model.

Shapes: B sequences, P prompt tokens (padded left), T completion tokens (padded right).
"""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from trainers.config import RolloutConfig
from trainers.losses import (
    AdvantageParams,
    AggregationParams,
    Totals,
    entropy_rewarded_advantages,
    group_advantages,
    overlong_penalty,
)
from trainers.tasks.base import Completion, Judgement, Task, prompt_at


class Sample(NamedTuple):
    """One completion of one prompt, as token ids and as text, and its judgement."""

    prompt_ids: list[int]
    completion_ids: list[int]
    completion: Completion
    judgement: Judgement
    logprobs: list[float] | None = None
    """Log-probabilities of the completion's tokens in nats, as the engine reports them; None if it reports none."""


Group = Sequence[Sample]
"""All completions of one prompt."""


class PromptStream:
    """Hands out a process's share of the run's prompts, from a position that a checkpoint keeps."""

    def __init__(self, num_problems: int, seed: int, rank: int, processes: int) -> None:
        self._problems, self._seed, self._rank, self._processes = num_problems, seed, rank, processes
        self.position = 0

    def take(self, prompts: int) -> list[int]:
        """Return the indices of this process's part of the next `prompts` problems."""
        start, self.position = self.position, self.position + prompts
        places = range(start + self._rank, self.position, self._processes)
        return [prompt_at(place, self._problems, self._seed) for place in places]


def problems_digest(task: Task) -> str:
    """Return a digest that is the same for the same problems, to train and to validate on, in the same order."""
    return hashlib.sha256(json.dumps([one.content for one in [*task.training, *task.validation]]).encode()).hexdigest()


class Collected(NamedTuple):
    """The groups to train on, and the number of groups sampled for them."""

    groups: list[Group]
    sampled: int


def collect(
    config: RolloutConfig,
    prompts: PromptStream,
    processes: int,
    sample: Callable[[list[int]], list[Group]],
    any_process: Callable[[bool], bool],
) -> Collected:
    """Sample the groups of a rollout; with dynamic sampling, replace those whose rewards do not differ.

    Args:
        sample: completes each of the problems `completions_per_prompt` times.
        any_process: tells whether its argument is true in any process; all processes sample equally often.
    """
    size, dynamic = config.prompts_per_rollout // processes, config.dynamic_sampling
    if dynamic is None:
        groups = sample(prompts.take(config.prompts_per_rollout))
        return Collected(groups, len(groups))
    useful, spare = list[Group](), list[Group]()
    for _ in range(dynamic.max_rounds):
        for group in sample(prompts.take(dynamic.prompts_per_round)):
            (useful if has_spread(group) else spare).append(group)
        if not any_process(len(useful) < size):
            break
    return Collected((useful + spare)[:size], len(useful) + len(spare))


def has_spread(group: Group) -> bool:
    """Tell whether the rewards of a group differ; without a spread all its advantages are 0."""
    rewards = [sample.judgement.reward for sample in group if sample.judgement.reward is not None]
    return len(set(rewards)) > 1


class RolloutTensors(NamedTuple):
    """A rollout, one row a completion, group by group."""

    prompt_ids: Tensor
    prompt_mask: Tensor
    completion_ids: Tensor
    completion_mask: Tensor
    advantages: Tensor
    """Advantages, unitless: (B,), or (B, T) where a completion's tokens have their own."""
    correct: Tensor
    """True where the completion is right: (B,), bool."""
    active: Tensor
    """True where the completion's group has an advantage that is not 0: (B,), bool."""


def as_tensors(
    groups: Sequence[Group], config: RolloutConfig, advantage: AdvantageParams, pad: int, device: torch.device
) -> RolloutTensors:
    """Pad the token ids with `pad` and compute the advantages."""
    samples = [sample for group in groups for sample in group]
    rewards_B = rewards(groups, config)
    prompt_ids, prompt_mask = padded([sample.prompt_ids for sample in samples], pad, "left")
    completion_ids, completion_mask = padded([sample.completion_ids for sample in samples], pad, "right")
    advantages_GN = group_advantages(rewards_B.view(len(groups), -1), advantage)
    correct_B = torch.tensor([sample.judgement.correct for sample in samples])
    active_B = (advantages_GN != 0).any(1, keepdim=True).expand_as(advantages_GN).flatten()
    parts = (prompt_ids, prompt_mask, completion_ids, completion_mask, advantages_GN.flatten(), correct_B, active_B)
    return RolloutTensors(*(part.to(device) for part in parts))


def rewards(groups: Sequence[Group], config: RolloutConfig, wrong: float | None = None) -> Tensor:
    """Return the rewards (B,) that training sees, with the penalty on long completions; NaN where the judge failed.

    Args:
        wrong: reward of every wrong completion; None: as judged.
    """
    samples = [sample for group in groups for sample in group]
    judged = [
        math.nan if one.reward is None else one.reward if one.correct or wrong is None else wrong
        for one in (sample.judgement for sample in samples)
    ]
    rewards_B = torch.tensor(judged, dtype=torch.float32)
    if config.overlong is None:
        return rewards_B
    lengths_B = torch.tensor([len(sample.completion_ids) for sample in samples])
    return rewards_B + overlong_penalty(lengths_B, config.max_completion_tokens, config.overlong)


def with_entropy_rewards(
    rollout: RolloutTensors,
    groups: Sequence[Group],
    config: RolloutConfig,
    advantage: AdvantageParams,
    old_entropy_BT: Tensor,
) -> RolloutTensors:
    """Replace the advantages by those of rewards shared out by entropy, (B, T), if `advantage` asks for that.

    Args:
        old_entropy_BT: of the policy that sampled, in nats.
    """
    shares = advantage.entropy_reward
    if shares is None:
        return rollout
    mask_BT, shape = rollout.completion_mask, (len(groups), -1)
    advantages_GNT = entropy_rewarded_advantages(
        rewards(groups, config, wrong=-1.0).to(mask_BT.device).view(shape),
        rollout.correct.view(shape),
        old_entropy_BT.view(*shape, mask_BT.shape[1]),
        mask_BT.view(*shape, mask_BT.shape[1]),
        shares,
        advantage.epsilon if advantage.normalize_std else None,
    )
    active_BT = (advantages_GNT != 0).any(1, keepdim=True).expand_as(advantages_GNT).flatten(0, 1)
    return rollout._replace(advantages=advantages_GNT.flatten(0, 1), active=active_BT.any(1))


def engine_logprobs(groups: Sequence[Group], device: torch.device) -> Tensor | None:
    """Return the log-probabilities (B, T) that the engine reported, 0 at padding; None if it reported none."""
    samples = [sample for group in groups for sample in group]
    rows = [torch.tensor(sample.logprobs) for sample in samples if sample.logprobs is not None]
    return pad_sequence(rows, batch_first=True).to(device) if rows else None


_COUNTS: Final = tuple(f"{rows}{unit}" for rows in ("", "active_", "correct_") for unit in ("tokens", "sequences"))


def counts(rollout: RolloutTensors, aggregation: AggregationParams) -> Tensor:
    """Return the counts of `Totals`, without the width, over this process's part of a rollout, in float64."""
    correct_B = rollout.correct & rollout.active if aggregation.denominator == "active" else rollout.correct
    lengths_B = rollout.completion_mask.sum(1)
    ones_B = torch.ones_like(lengths_B)
    rows = [ones_B.bool(), rollout.active, correct_B]
    return torch.stack([(part_B * row_B).sum() for row_B in rows for part_B in (lengths_B, ones_B)]).double()


def totals(counts_of_rollout: Tensor, updates_per_rollout: int, processes: int, max_completion_tokens: int) -> Totals:
    """Return the denominators of each update: a rollout's counts over all processes, divided evenly among its updates.

    So every token of a rollout weighs the same, whichever update it falls into; gradients are averaged over processes,
    so each process divides by its part.
    """
    shares = counts_of_rollout.clamp(min=1) / updates_per_rollout / processes
    return Totals(**dict(zip(_COUNTS, shares, strict=True)), width=max_completion_tokens / processes)


def padded(rows: Sequence[Sequence[int]], pad: int, side: str) -> tuple[Tensor, Tensor]:
    """Fill rows of token ids up to the longest with `pad` on one side, "left" or "right"; return ids and mask."""
    tensors = [torch.tensor(row) for row in rows]
    ids = pad_sequence(tensors, batch_first=True, padding_value=pad, padding_side=side)
    mask = pad_sequence([torch.ones_like(t) for t in tensors], batch_first=True, padding_side=side)
    return ids, mask
