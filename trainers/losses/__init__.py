"""Policy losses as pure functions: `LOSSES`, the table, and `LossConfig`, the union of their parameters on `name`.

    from trainers.losses import CEGPPOParams, TokenBatch, policy_loss, token_mean

    batch = TokenBatch(logprobs_BT, old_logprobs_BT, advantages_BT, mask_BT)
    output = policy_loss(batch, CEGPPOParams(beta1=0.5, beta2=1.0))
    token_mean(output.loss_BT, batch.mask_BT).backward()

Importing this package does not import torch.
"""
# These imports are the package's public names.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

from trainers.losses.advantages import AdvantageParams, OverlongParams, group_advantages, overlong_penalty
from trainers.losses.aggregation import AGGREGATIONS, AggregationParams, token_mean
from trainers.losses.base import PARTS, REGIONS, ClipParams, DualClipParams, LossOutput, TokenRatioParams, regions
from trainers.losses.batch import TokenBatch
from trainers.losses.beta_schedule import BetaSwitch
from trainers.losses.by_name import LOSS_NAMES, AnyLoss, loss_entry, policy_loss
from trainers.losses.critic import CriticParams, gae, value_loss
from trainers.losses.entropy_advantages import (
    EntropyAdvantageParams,
    EntropyRewardParams,
    entropy_advantages,
    entropy_rewarded_advantages,
)
from trainers.losses.entropy_ratio import ERCMask, ERCPenalty
from trainers.losses.entry import LossEntry
from trainers.losses.importance_weighted import truncated_weights
from trainers.losses.objective import Objective, Totals, objective
from trainers.losses.positive_weight import PositiveWeightParams, next_weight
from trainers.losses.table import *  # noqa: F403 with the parameters and the function of each loss
from trainers.losses.terms import EntropyBonusParams, ReferenceKLParams, TermsParams, next_coefficient, reference_kl
