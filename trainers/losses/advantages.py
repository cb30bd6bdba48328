"""From rewards to advantages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from trainers.losses.params import Params

if TYPE_CHECKING:
    from torch import Tensor


class AdvantageParams(Params):
    """Group-relative advantages."""

    normalize_std: bool = Field(default=True, description="Divide by the group's standard deviation.")
    epsilon: float = Field(default=1e-6, ge=0, description="Added to that; the authors' value, TRL's is 1e-4.")


class OverlongParams(Params):
    """DAPO's soft penalty on long completions (arXiv:2503.14476 eq. 13)."""

    cache_tokens: int = Field(
        ge=1, description="The penalty grows linearly over the last so many of rollout.max_completion_tokens."
    )
    factor: float = Field(default=1.0, gt=0, description="Penalty at full length.")


def group_advantages(rewards_GN: Tensor, params: AdvantageParams) -> Tensor:
    """(R - mean) / (std + epsilon) in each of G groups of N completions; a missing reward (NaN) gets 0.

    The standard deviation is the unbiased one; a single completion keeps its reward.
    """
    raise NotImplementedError


def overlong_penalty(lengths_B: Tensor, max_tokens: int, params: OverlongParams) -> Tensor:
    """What is added to the reward of completions of these lengths: 0 down to -factor at `max_tokens`."""
    raise NotImplementedError
