"""PPO's critic as pure functions: advantages from values, and the loss of the values.

Shapes: B completions, T completion tokens with padding on the right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pydantic import Field

from trainers.losses.base import Params

if TYPE_CHECKING:
    from torch import Tensor

_SMALLEST_VARIANCE: Final = 1e-8
"""Added to the variance that advantages are divided by, as in TRL and verl."""


class CriticParams(Params):
    """A value head on the policy's last hidden state, and advantages from it in place of group-relative ones.

    Defaults are those of TRL's PPO.
    """

    gae_lambda: float = Field(
        default=0.95,
        ge=0,
        le=1,
        description="1: reward minus value. Below it the reward fades by this factor with each token before the last.",
    )
    gamma: float = Field(default=1.0, ge=0, le=1, description="Discount of a token.")
    value_coeff: float = Field(default=0.1, ge=0, le=1e6, description="Factor on the value loss.")
    value_clip: float | None = Field(
        default=0.2, gt=0, le=1e9, description="Largest change of a value in a rollout's updates; null: no bound."
    )
    normalize: bool = Field(default=True, description="Advantages of a rollout get mean 0 and standard deviation 1.")
    learning_rate: float | None = Field(
        default=None, gt=0, le=1, description="Of the value head; null: optimizer.learning_rate."
    )


def gae(rewards_B: Tensor, values_BT: Tensor, mask_BT: Tensor, params: CriticParams) -> Tensor:
    """Return the generalised advantages (B, T) of completions that are rewarded at their last token, 0 at padding.

    A_t = sum over l >= 0 of (gamma lambda)^l d_(t+l), where d_t = r_t + gamma V_(t+1) - V_t. The value after the last
    token is 0, also where a completion was cut at the longest length. A completion without a reward (NaN) gets 0.
    Advantage plus value is the target of the value, with lambda 1 and gamma 1 the reward.

    Args:
        rewards_B: rewards of whole completions.
        values_BT: expected rewards before each token.
        mask_BT: true for completion tokens, which come before padding.
    Returns: advantages in the values' dtype, computed in float64.
    Source: arXiv:1506.02438 eq. 16; PPO, arXiv:1707.06347 eq. 11.
    """
    import torch
    from torch.nn.functional import pad

    mask_BT, missing_B1 = mask_BT.bool(), rewards_B.isnan().unsqueeze(1)
    last_BT = mask_BT & ~pad(mask_BT[:, 1:], (0, 1))
    rewards_BT = torch.where(last_BT, rewards_B.double().nan_to_num().unsqueeze(1), 0.0)
    before_BT = values_BT.double().masked_fill(~mask_BT, 0.0)
    delta_BT = rewards_BT + params.gamma * pad(before_BT[:, 1:], (0, 1)) - before_BT
    decay, advantages_BT = params.gamma * params.gae_lambda, torch.zeros_like(delta_BT)
    following_B = torch.zeros_like(delta_BT[:, 0])
    for place in reversed(range(delta_BT.size(1))):
        following_B = advantages_BT[:, place] = delta_BT[:, place] + decay * following_B
    return advantages_BT.masked_fill(missing_B1, 0.0).to(values_BT.dtype)


def moments(values_BT: Tensor, mask_BT: Tensor) -> Tensor:
    """Return number, sum and sum of squares (3,) of the values where the mask is true, in float64; parts add up."""
    import torch

    values_N = values_BT[mask_BT.bool()].double()
    return torch.stack([values_N.new_tensor(len(values_N)), values_N.sum(), values_N.square().sum()])


def variance(of: Tensor) -> Tensor:
    """Return the unbiased variance of what has these `moments`; 0 of fewer than two values."""
    number, total, squares = of
    return ((squares - total.square() / number.clamp(min=1)) / (number - 1).clamp(min=1)).clamp(min=0)


def normalized(advantages_BT: Tensor, mask_BT: Tensor, of: Tensor) -> Tensor:
    """Return (A - mean) / sqrt(variance + 1e-8), 0 where the mask is false, in the advantages' dtype.

    Args:
        of: `moments` of the advantages of all processes.
    """
    number, total, _ = of
    scaled_BT = (advantages_BT.double() - total / number.clamp(min=1)) * (variance(of) + _SMALLEST_VARIANCE).rsqrt()
    return scaled_BT.masked_fill(~mask_BT.bool(), 0.0).to(advantages_BT.dtype)


def value_loss(values_BT: Tensor, old_values_BT: Tensor, returns_BT: Tensor, params: CriticParams) -> Tensor:
    """Return max((V - R)^2, (clip(V, V_old - c, V_old + c) - R)^2) / 2 of each token (B, T), with c = value_clip.

    A value that has moved further than c towards its target passes no gradient, as in the authors' implementation of
    PPO (openai/baselines), in TRL and verl. A token whose completion has no reward (target NaN) has loss 0.

    Args:
        values_BT: values of the head that is trained; carry the gradient.
        old_values_BT, returns_BT: values when the rollout was scored, and their targets; no gradient.
    """
    import torch

    missing_BT, targets_BT = returns_BT.isnan(), returns_BT.nan_to_num()
    errors_BT = (values_BT - targets_BT).square()
    if params.value_clip is not None:
        bounded_BT = values_BT.clamp(old_values_BT - params.value_clip, old_values_BT + params.value_clip)
        errors_BT = torch.maximum(errors_BT, (bounded_BT - targets_BT).square())
    return (errors_BT / 2).masked_fill(missing_BT, 0.0)
