"""The number that is differentiated: policy loss, aggregation and terms put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from torch import Tensor

    from trainers.losses.aggregation import AggregationParams
    from trainers.losses.base import LossOutput, LossParams, TokenBatch
    from trainers.losses.terms import TermsParams


@dataclass(frozen=True)
class Totals:
    """Denominators of a whole update when it is handed over in parts: the sum of the parts' objectives is the whole's.

    With several processes whose gradients are averaged, each is the update's number divided by the processes. Numbers or
    scalar tensors.

    Attributes:
        tokens: completion tokens.
        sequences: completions.
        active_tokens, active_sequences: those in groups whose rewards differ.
        correct_tokens, correct_sequences: those of right completions.
        width: what seq_mean_token_sum_norm divides by.
    """

    tokens: float | Tensor
    sequences: float | Tensor
    active_tokens: float | Tensor
    active_sequences: float | Tensor
    correct_tokens: float | Tensor
    correct_sequences: float | Tensor
    width: float | Tensor


class Objective(NamedTuple):
    """A loss to call backward on, and what it is made of; the parts carry no gradient."""

    loss: Tensor
    policy_loss: Tensor
    entropy: Tensor | None
    positive_nll: Tensor | None
    output: LossOutput


def objective(
    batch: TokenBatch,
    params: LossParams,
    aggregation: AggregationParams,
    terms: TermsParams,
    *,
    entropy_coefficient: float | None = None,
    totals: Totals | None = None,
) -> Objective:
    """Put a batch's loss together.

    Args:
        params: of the policy loss, with the betas of this step.
        entropy_coefficient: the adaptive bonus's present value; None: as `terms` says.
        totals: denominators of the update that `batch` is a part of; None: the batch is the update.
    """
    raise NotImplementedError
