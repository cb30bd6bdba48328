"""Importance weights: of CISPO, which does not differentiate them, and of tokens that another engine sampled."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Literal

from trainers.losses.base import NO_BOUND, LossOutput, TokenRatioParams, UnlimitedEpsilonLow, regions

if TYPE_CHECKING:
    from torch import Tensor

    from trainers.losses.batch import TokenBatch


class CISPOParams(TokenRatioParams):
    """CISPO. Defaults: the bounds of arXiv:2509.20712's CISPO baseline; arXiv:2506.13585 uses no lower bound."""

    epsilon_below: ClassVar[float] = NO_BOUND

    name: Literal["cispo"] = "cispo"
    epsilon_low: UnlimitedEpsilonLow = 0.2


def cispo(batch: TokenBatch, params: CISPOParams) -> LossOutput:
    """Importance-weighted likelihood, -sg(clip(r, low, high)) A log pi: no token is dropped.

    Gradient weight (the factor on A grad log pi): low for r < low, high for r > high, r otherwise, for both signs of A
    and at any log-ratio: `log_ratio_clamp` cuts the ratio only.

    The loss's value is not a ratio's but the weighted log-likelihood.

    Source: arXiv:2506.13585 eq. 4-5. TRL's "cispo" has no lower bound, and its `epsilon_high` is `high` here.
    """
    ratio_BT, advantages_BT = batch.ratio_BT(params.log_ratio_clamp), batch.advantages_BT
    loss_BT = -ratio_BT.clamp(params.low, params.high) * advantages_BT * batch.logprobs_BT
    return LossOutput(loss_BT, regions(ratio_BT, advantages_BT, params), ratio_BT)


def truncated_weights(logprobs_BT: Tensor, engine_logprobs_BT: Tensor, cap: float) -> Tensor:
    """Truncated importance weights, min(pi_trainer / pi_engine, cap), of tokens that another engine sampled.

    Both have the same weights and differ in their arithmetic.

    Args:
        logprobs_BT: of the policy that sampled, as the trainer computes them, in nats.
        engine_logprobs_BT: the same as the engine that sampled gave them; NaN: it gave none, and the weight is 1.
    """
    return (logprobs_BT - engine_logprobs_BT).nan_to_num(nan=0.0).exp().clamp(max=cap)
