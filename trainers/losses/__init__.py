"""Policy losses as pure functions: `LOSSES`, the table, and `LossConfig`, the union of their parameters on `name`.

    from trainers.losses import CEGPPOParams, TokenBatch, policy_loss, token_mean

    batch = TokenBatch(logprobs_BT, old_logprobs_BT, advantages_BT, mask_BT)
    output = policy_loss(batch, CEGPPOParams(beta1=0.5, beta2=1.0))
    token_mean(output.loss_BT, batch.mask_BT).backward()

Importing this package does not import torch.
"""

from trainers.losses.advantages import AdvantageParams, OverlongParams, group_advantages, overlong_penalty
from trainers.losses.aggregation import (
    AGGREGATIONS,
    Aggregation,
    AggregationName,
    AggregationParams,
    seq_mean_token_mean,
    seq_mean_token_sum,
    seq_mean_token_sum_norm,
    token_mean,
)
from trainers.losses.base import REGIONS, ClipParams, LossOutput, LossParams, PolicyLoss, Region, TokenBatch
from trainers.losses.clipped import DAPOParams, GRPOParams, clipped
from trainers.losses.gradient_preserving import CEGPPOParams, ce_gppo
from trainers.losses.objective import Objective, Totals, objective
from trainers.losses.table import LOSSES, LossConfig, LossEntry, policy_loss
from trainers.losses.terms import EntropyBonusParams, TermsParams

__all__ = [
    "AGGREGATIONS",
    "LOSSES",
    "REGIONS",
    "AdvantageParams",
    "Aggregation",
    "AggregationName",
    "AggregationParams",
    "CEGPPOParams",
    "ClipParams",
    "DAPOParams",
    "EntropyBonusParams",
    "GRPOParams",
    "LossConfig",
    "LossEntry",
    "LossOutput",
    "LossParams",
    "Objective",
    "OverlongParams",
    "PolicyLoss",
    "Region",
    "TermsParams",
    "TokenBatch",
    "Totals",
    "ce_gppo",
    "clipped",
    "group_advantages",
    "objective",
    "overlong_penalty",
    "policy_loss",
    "seq_mean_token_mean",
    "seq_mean_token_sum",
    "seq_mean_token_sum_norm",
    "token_mean",
]
