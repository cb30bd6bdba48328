"""Turns rewards into advantages."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

from pydantic import Field

from trainers.losses.base import Params
from trainers.losses.entropy_advantages import EntropyAdvantageParams, EntropyRewardParams
from trainers.losses.positive_weight import PositiveWeightParams

if TYPE_CHECKING:
    from torch import Tensor


def _is_null(value: object) -> bool:
    return value is None


class AdvantageParams(Params):
    """Group-relative advantages, and options that shape them. An option that is off is not part of a dump."""

    normalize_std: bool = Field(default=True, description="Divide by the group's standard deviation.")
    epsilon: float = Field(
        default=1e-6, ge=0, le=1e6, description="Added to that deviation; the authors' value. TRL: 1e-4."
    )
    entropy: EntropyAdvantageParams | None = Field(
        default=None, exclude_if=_is_null, description="Raise the advantages of uncertain tokens; null: no."
    )
    entropy_reward: EntropyRewardParams | None = Field(
        default=None,
        exclude_if=_is_null,
        description="Share rewards out by entropy (GTPO, GRPO-S); null: a completion's tokens have one advantage.",
    )
    positive_weight: PositiveWeightParams | None = Field(
        default=None, exclude_if=_is_null, description="Weight on the loss of tokens with A > 0; null: 1."
    )


class OverlongParams(Params):
    """DAPO's soft penalty on long completions (arXiv:2503.14476 eq. 13)."""

    cache_tokens: int = Field(
        ge=1, le=65536, description="The penalty grows over the last so many of rollout.max_completion_tokens."
    )
    factor: float = Field(default=1.0, gt=0, le=1e6, description="Penalty at full length.")


def group_advantages(rewards_GN: Tensor, params: AdvantageParams) -> Tensor:
    """(R - mean) / (std + epsilon) in each of G groups of N completions, in the rewards' dtype.

    The standard deviation is the unbiased one (n - 1). A missing reward (NaN) counts nowhere and gets 0, as do equal
    rewards, exactly, and a reward that has no other one in its group to be compared with. Where N is 1, mean is 0 and
    std 1, as in the authors' code.

    Source: arXiv:2402.03300 section 4.1.2; arXiv:2509.20712 eq. 2.
    """
    values_GN = rewards_GN.double()  # in float32 the mean of equal rewards may differ from them
    missing_GN = values_GN.isnan()
    if values_GN.shape[-1] == 1:
        centred_GN, equal_G1, std_G1 = values_GN, missing_GN, missing_GN.double() + 1
    else:
        highest_G1 = values_GN.masked_fill(missing_GN, -inf).amax(-1, keepdim=True)
        equal_G1 = values_GN.masked_fill(missing_GN, inf).amin(-1, keepdim=True) >= highest_G1
        centred_GN = values_GN - values_GN.nanmean(-1, keepdim=True)
        degrees_G1 = ((~missing_GN).sum(-1, keepdim=True) - 1).clamp(min=1)
        std_G1 = (centred_GN.square().nansum(-1, keepdim=True) / degrees_G1).sqrt()
    if params.normalize_std:
        centred_GN = centred_GN / (std_G1 + params.epsilon)
    return centred_GN.masked_fill(missing_GN | equal_G1, 0.0).to(rewards_GN.dtype)


def overlong_penalty(lengths_B: Tensor, max_tokens: int, params: OverlongParams) -> Tensor:
    """Return the term added to the reward of completions of these lengths: 0 down to -factor at `max_tokens`.

    The penalty starts at max_tokens - cache_tokens and grows linearly. Source: arXiv:2503.14476 eq. 13, which it equals
    with factor 1; the authors' code lets it grow on beyond `max_tokens`, where no completion of ours can be.
    """
    room_B = max_tokens - params.cache_tokens - lengths_B
    return params.factor * (room_B / params.cache_tokens).clamp(-1.0, 0.0)
