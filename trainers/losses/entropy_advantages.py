"""Options that steer advantages by entropy, whichever policy loss they are for. Shapes: G groups of N completions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from trainers.losses.base import Params

if TYPE_CHECKING:
    from torch import Tensor

_ENTROPY_OFFSET_NATS: Final = 1e-8


class EntropyAdvantageParams(Params):
    """Raise the advantages of uncertain tokens. Defaults: arXiv:2506.14758 for GRPO."""

    alpha: float = Field(default=0.4, ge=0, le=1e6, description="Factor on the entropy, in 1 / nats.")
    kappa: float = Field(
        default=2.0, gt=1, le=1e6, description="The rise is at most the advantage's size divided by this."
    )


class EntropyRewardParams(Params):
    """Share rewards out by entropy, as GTPO and GRPO-S do. Defaults: arXiv:2508.04349."""

    level: Literal["token", "sequence"] = Field(
        default="token", description="What has a share: each token (GTPO), or each completion (GRPO-S)."
    )
    base: float = Field(default=1.0, ge=0, le=1e6, description="Factor on the completion's reward; alpha_1 and beta_1.")
    share: float = Field(
        default=0.1, ge=0, le=1e6, description="Factor on the share of the entropy; alpha_2 and beta_2."
    )
    compared: Literal["group", "set"] = Field(
        default="group",
        description="With which others a reward is compared: all of its group, or only the right or only the wrong.",
    )


def entropy_advantages(advantages_BT: Tensor, entropy_BT: Tensor, params: EntropyAdvantageParams) -> Tensor:
    """A + min(alpha H, |A| / kappa), without a gradient through H; the sign of A stays, and A = 0 stays 0.

    Args:
        advantages_BT: advantages (B, T).
        entropy_BT: full-vocabulary entropy of the policy being trained, in nats.
    Source: arXiv:2506.14758, the section on the entropy-based advantage.
    """
    rise_BT = (params.alpha * entropy_BT.detach()).minimum(advantages_BT.abs() / params.kappa)
    return advantages_BT + rise_BT.to(advantages_BT.dtype)


def entropy_rewarded_advantages(
    rewards_GN: Tensor,
    correct_GN: Tensor,
    entropy_GNT: Tensor,
    mask_GNT: Tensor,
    params: EntropyRewardParams,
    divisor_offset: float | None,
) -> Tensor:
    """Return advantages (G, N, T) of rewards that are shared out among a group's tokens by their entropy.

    With H a token's entropy, at each position t: a right completion's token has the reward base R + share d H / sum H,
    over the d right completions that are at least so long; a wrong one's base R - share h (1 / H) / sum (1 / H), over
    the h wrong ones. So uncertain tokens of right answers and certain ones of wrong answers have the most. With the
    level "sequence", H is the mean over a completion's tokens, d and h count all right and all wrong ones. At each
    position the right ones' rewards have the sum (base R + share) d where their R are equal.

    From each reward the mean over the valid tokens (or, with "sequence", completions) that it is compared with is
    subtracted, and the difference divided by their unbiased standard deviation + `divisor_offset`; None: not divided.

    Args:
        rewards_GN: 1 or what else a right completion has, -1 of a wrong one, each with its penalties; NaN: none, which
            counts nowhere and has advantage 0.
        correct_GN: whether each completion is right.
        entropy_GNT: of the policy that sampled, in nats; 1e-8 is added to each.
        mask_GNT: true for completion tokens.
    Returns: advantages, 0 at padding and in groups without a right or without a wrong completion.
    Source: arXiv:2508.04349 eq. 3, 5 and 6 for tokens, 9 for sequences, as read by others who implemented them. Eq. 6
        compares right tokens with right ones and wrong with wrong ones; that is "set". Then whether a completion is
        right has no effect on the sign of its advantages, which is why "group" is the default.
    """
    dtype, mask_GNT = rewards_GN.dtype, mask_GNT.bool() & ~rewards_GN.isnan().unsqueeze(-1)
    rewards_GN1 = rewards_GN.double().nan_to_num().unsqueeze(-1)
    right_GNT, wrong_GNT = (mask_GNT & each_GN.unsqueeze(-1) for each_GN in (correct_GN.bool(), ~correct_GN.bool()))
    entropy_GNT = entropy_GNT.double().masked_fill(~mask_GNT, 0.0)
    if params.level == "sequence":
        entropy_GNT = (entropy_GNT.sum(-1) / mask_GNT.sum(-1).clamp(min=1)).unsqueeze(-1)
        right_GNT, wrong_GNT = (each_GNT.any(-1, keepdim=True) for each_GNT in (right_GNT, wrong_GNT))
    entropy_GNT = entropy_GNT + _ENTROPY_OFFSET_NATS
    bonus_GNT = _shares(entropy_GNT, right_GNT) - _shares(entropy_GNT.reciprocal(), wrong_GNT)
    shaped_GNT = params.base * rewards_GN1 + params.share * bonus_GNT
    sets = [right_GNT | wrong_GNT] if params.compared == "group" else [right_GNT, wrong_GNT]
    advantages_GNT = sum(_standardised(shaped_GNT, set_GNT, divisor_offset) for set_GNT in sets)
    both_G11 = (right_GNT.any(1).any(-1) & wrong_GNT.any(1).any(-1))[:, None, None]
    return (advantages_GNT * both_G11).expand(mask_GNT.shape).masked_fill(~mask_GNT, 0.0).to(dtype)


def _shares(weights_GNT: Tensor, of_GNT: Tensor) -> Tensor:
    """Return each one's weight as a multiple of the mean over its group's at the same position, 0 for others."""
    weights_GNT, count_G1T = weights_GNT.masked_fill(~of_GNT, 0.0), of_GNT.sum(1, keepdim=True)
    return weights_GNT * count_G1T / weights_GNT.sum(1, keepdim=True).masked_fill(count_G1T == 0, 1.0)


def _standardised(values_GNT: Tensor, of_GNT: Tensor, offset: float | None) -> Tensor:
    """Return (value - mean) / (std + offset) over a group's valid values, 0 elsewhere; undivided without an offset."""
    count_G11 = of_GNT.sum((1, 2), keepdim=True)
    mean_G11 = values_GNT.masked_fill(~of_GNT, 0.0).sum((1, 2), keepdim=True) / count_G11.clamp(min=1)
    centred_GNT = (values_GNT - mean_G11).masked_fill(~of_GNT, 0.0)
    if offset is None:
        return centred_GNT
    variance_G11 = centred_GNT.square().sum((1, 2), keepdim=True) / (count_G11 - 1).clamp(min=1)
    return centred_GNT / (variance_G11.sqrt() + offset)
