"""Policy losses as pure functions: `LOSSES`, the table, and `LossConfig`, the union of their parameters on `name`.

    from trainers.losses import CEGPPOParams, TokenBatch, policy_loss, token_mean

    batch = TokenBatch(logprobs_BT, old_logprobs_BT, advantages_BT, mask_BT)
    output = policy_loss(batch, CEGPPOParams(beta1=0.5, beta2=1.0))
    token_mean(output.loss_BT, batch.mask_BT).backward()

Importing this package does not import torch.
"""

from trainers.losses.advantages import AdvantageParams, OverlongParams, group_advantages, overlong_penalty
from trainers.losses.aggregation import AGGREGATIONS, AggregationParams, token_mean
from trainers.losses.base import PARTS, REGIONS, ClipParams, LossOutput
from trainers.losses.batch import TokenBatch
from trainers.losses.clipped import DAPOParams, GRPOParams, GSPOParams, dapo, grpo, gspo
from trainers.losses.covariance import ClipCovParams, KLCovParams, clip_cov, kl_cov
from trainers.losses.entropy_ratio import ERCMask, ERCPenalty
from trainers.losses.gradient_preserving import BetaSwitch, CEGPPOParams, GPPOParams, ce_gppo, gppo
from trainers.losses.importance_weighted import CISPOParams, cispo, truncated_weights
from trainers.losses.objective import Objective, Totals, objective
from trainers.losses.table import LOSSES, LossConfig, policy_loss
from trainers.losses.terms import EntropyBonusParams, TermsParams, next_coefficient

__all__ = [
    "AGGREGATIONS",
    "LOSSES",
    "PARTS",
    "REGIONS",
    "AdvantageParams",
    "AggregationParams",
    "BetaSwitch",
    "CEGPPOParams",
    "CISPOParams",
    "ClipCovParams",
    "ClipParams",
    "DAPOParams",
    "ERCMask",
    "ERCPenalty",
    "EntropyBonusParams",
    "GPPOParams",
    "GRPOParams",
    "GSPOParams",
    "KLCovParams",
    "LossConfig",
    "LossOutput",
    "Objective",
    "OverlongParams",
    "TermsParams",
    "TokenBatch",
    "Totals",
    "ce_gppo",
    "cispo",
    "clip_cov",
    "dapo",
    "gppo",
    "group_advantages",
    "grpo",
    "gspo",
    "kl_cov",
    "next_coefficient",
    "objective",
    "overlong_penalty",
    "policy_loss",
    "token_mean",
    "truncated_weights",
]
