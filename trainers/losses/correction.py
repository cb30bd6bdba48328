"""Weights for tokens that another engine sampled than the one that trains: the same weights, other arithmetic.

Shapes: B sequences, T completion tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def truncated_weights(logprobs_BT: Tensor, engine_logprobs_BT: Tensor, cap: float) -> Tensor:
    """Truncated importance weights: min(pi_trainer / pi_engine, cap) of each token.

    Args:
        logprobs_BT: of the policy that sampled, as the trainer computes them, in nats.
        engine_logprobs_BT: the same as the engine that sampled gave them; NaN: it gave none, and the weight is 1.
    """
    return (logprobs_BT - engine_logprobs_BT).nan_to_num(nan=0.0).exp().clamp(max=cap)
