"""Policy losses as pure functions: `LOSSES`, the table, and `LossConfig`, the union of their parameters on `name`.

    from trainers.losses import CEGPPOParams, TokenBatch, policy_loss, token_mean

    batch = TokenBatch(logprobs_BT, old_logprobs_BT, advantages_BT, mask_BT)
    output = policy_loss(batch, CEGPPOParams(beta1=0.5, beta2=1.0))
    token_mean(output.loss_BT, batch.mask_BT).backward()

Importing this package does not import torch.
"""

from trainers.losses.advantages import AdvantageParams, OverlongParams, group_advantages, overlong_penalty
from trainers.losses.aggregation import AGGREGATIONS, AggregationParams, token_mean
from trainers.losses.any_loss import AnyLoss
from trainers.losses.base import PARTS, REGIONS, ClipParams, DualClipParams, LossOutput, TokenRatioParams, regions
from trainers.losses.batch import TokenBatch
from trainers.losses.beta_schedule import BetaSwitch
from trainers.losses.clipped import DAPOParams, GRPOParams, GSPOParams, dapo, grpo, gspo
from trainers.losses.covariance import ClipCovParams, KLCovParams, clip_cov, kl_cov
from trainers.losses.critic import CriticParams, gae, value_loss
from trainers.losses.dynamic_bounds import BAPOParams, DCPOParams, bapo, dcpo
from trainers.losses.entropy_advantages import (
    EntropyAdvantageParams,
    EntropyRewardParams,
    entropy_advantages,
    entropy_rewarded_advantages,
)
from trainers.losses.entropy_ratio import ERCMask, ERCPenalty
from trainers.losses.entry import LossEntry
from trainers.losses.gradient_preserving import CEGPPOParams, GPPOParams, ce_gppo, gppo
from trainers.losses.importance_weighted import CISPOParams, cispo, truncated_weights
from trainers.losses.objective import Objective, Totals, objective
from trainers.losses.positive_weight import PositiveWeightParams, next_weight
from trainers.losses.reference_kl import ReferenceKLParams, reference_kl
from trainers.losses.table import LOSS_NAMES, LOSSES, LossConfig, loss_entry, policy_loss
from trainers.losses.terms import EntropyBonusParams, TermsParams, next_coefficient

__all__ = [
    "AGGREGATIONS",
    "LOSSES",
    "LOSS_NAMES",
    "PARTS",
    "REGIONS",
    "AdvantageParams",
    "AggregationParams",
    "AnyLoss",
    "BAPOParams",
    "BetaSwitch",
    "CEGPPOParams",
    "CISPOParams",
    "ClipCovParams",
    "ClipParams",
    "CriticParams",
    "DAPOParams",
    "DCPOParams",
    "DualClipParams",
    "ERCMask",
    "ERCPenalty",
    "EntropyAdvantageParams",
    "EntropyBonusParams",
    "EntropyRewardParams",
    "GPPOParams",
    "GRPOParams",
    "GSPOParams",
    "KLCovParams",
    "LossConfig",
    "LossEntry",
    "LossOutput",
    "Objective",
    "OverlongParams",
    "PositiveWeightParams",
    "ReferenceKLParams",
    "TermsParams",
    "TokenBatch",
    "TokenRatioParams",
    "Totals",
    "bapo",
    "ce_gppo",
    "cispo",
    "clip_cov",
    "dapo",
    "dcpo",
    "entropy_advantages",
    "entropy_rewarded_advantages",
    "gae",
    "gppo",
    "group_advantages",
    "grpo",
    "gspo",
    "kl_cov",
    "loss_entry",
    "next_coefficient",
    "next_weight",
    "objective",
    "overlong_penalty",
    "policy_loss",
    "reference_kl",
    "regions",
    "token_mean",
    "truncated_weights",
    "value_loss",
]
