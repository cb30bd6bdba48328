"""The number that is differentiated: policy loss, aggregation and terms put together."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from trainers.losses.aggregation import AGGREGATIONS, token_mean
from trainers.losses.by_name import policy_loss
from trainers.losses.critic import value_loss
from trainers.losses.positive_weight import reweighted
from trainers.losses.terms import reference_kl

if TYPE_CHECKING:
    from torch import Tensor

    from trainers.losses.aggregation import AggregationParams
    from trainers.losses.base import AggregationName, LossOutput
    from trainers.losses.batch import TokenBatch
    from trainers.losses.critic import CriticParams
    from trainers.losses.table import LossConfig
    from trainers.losses.terms import TermsParams


@dataclass(frozen=True)
class Totals:
    """Denominators of a whole update that is handed over in parts, so that the parts' objectives add up to the whole's.

    Losses that look at a batch as a whole do not add up exactly: clip_cov and kl_cov choose tokens in each part
    separately, bapo its bounds, and erc's penalty becomes the mean of the parts' penalties, weighted by their tokens.

    With several processes whose gradients are averaged, each is the update's number divided by the processes. Numbers
    or scalar tensors. A total of 0 stands for parts without such a token, which contribute 0.

    Attributes:
        tokens: completion tokens.
        sequences: completions with at least one token.
        active_tokens, active_sequences: those in groups whose rewards differ.
        correct_tokens, correct_sequences: those of right completions; with the denominator "active" only those of them
            in groups whose rewards differ.
        width: denominator of seq_mean_token_sum_norm.
    """

    tokens: float | Tensor
    sequences: float | Tensor
    active_tokens: float | Tensor
    active_sequences: float | Tensor
    correct_tokens: float | Tensor
    correct_sequences: float | Tensor
    width: float | Tensor

    def denominator(self, mode: AggregationName, rows: Literal["all", "active", "correct"]) -> float | Tensor:
        """Return the denominator of an aggregation over all tokens of these rows."""
        if mode == "seq_mean_token_sum_norm":
            return self.width
        if mode == "token_mean":
            return {"all": self.tokens, "active": self.active_tokens, "correct": self.correct_tokens}[rows]
        return {"all": self.sequences, "active": self.active_sequences, "correct": self.correct_sequences}[rows]


class Objective(NamedTuple):
    """A loss to call backward on, and its parts, which carry no gradient and are None where off.

    loss = policy_loss + penalty - coefficient x entropy + terms.kl.coefficient x kl + weight x positive_nll +
    value_coeff x value_loss. In the policy loss, and in `output`, each token's loss is multiplied by its sampling
    weight, if the batch has one, and by the positive weight.
    """

    loss: Tensor
    policy_loss: Tensor
    output: LossOutput
    entropy: Tensor | None = None
    positive_nll: Tensor | None = None
    penalty: Tensor | None = None
    kl: Tensor | None = None
    value_loss: Tensor | None = None


def objective(
    batch: TokenBatch,
    params: LossConfig,
    aggregation: AggregationParams,
    terms: TermsParams,
    *,
    entropy_coefficient: float | None = None,
    positive_weight: float = 1.0,
    critic: CriticParams | None = None,
    totals: Totals | None = None,
) -> Objective:
    """Put a batch's loss together: policy loss, penalty, entropy bonus, KL divergence, likelihood and value loss.

    Args:
        params: of the policy loss, with the betas of this step. A loss that is defined with one aggregation only has it
            whatever `aggregation.mode` says.
        aggregation: one mode for the loss and all terms. With the denominator "active" the batch is read as if
            completions of groups without spread were not there.
        entropy_coefficient: the adaptive bonus's present value; None: as `terms` says.
        positive_weight: weight on the policy loss of tokens with A > 0, of this update: see `next_weight`.
        critic: whose values' loss is added; None: the batch has none.
        totals: denominators of the update that `batch` is a part of; None: the batch is the update.
    Raises: ValueError, if the batch lacks what the loss or a term reads.
    """
    mode = params.fixed_aggregation or aggregation.mode or params.own_aggregation
    aggregate, rows = AGGREGATIONS[mode], "all"
    if aggregation.denominator == "active":
        active_B = batch.needed("active_B", "aggregation.denominator active")
        batch, rows = replace(batch, mask_BT=batch.mask_BT & active_B.unsqueeze(-1)), "active"
    total = None if totals is None else totals.denominator(mode, rows)
    output = policy_loss(batch, params)
    if batch.sampling_weight_BT is not None:
        output = replace(output, loss_BT=output.loss_BT * batch.sampling_weight_BT)
    output = replace(output, loss_BT=reweighted(output.loss_BT, batch.advantages_BT, positive_weight))
    loss = aggregate(output.loss_BT, batch.mask_BT, total)
    parts = {"policy_loss": loss}
    if output.penalty is not None:
        tokens = None if totals is None else totals.denominator("token_mean", rows)
        penalty = parts["penalty"] = token_mean(output.penalty.expand(batch.mask_BT.shape), batch.mask_BT, tokens)
        loss = loss + penalty
    coefficient = terms.entropy_bonus.coefficient if entropy_coefficient is None else entropy_coefficient
    if coefficient > 0:
        entropy = parts["entropy"] = aggregate(batch.needed("entropy_BT", "terms.entropy_bonus"), batch.mask_BT, total)
        loss = loss - coefficient * entropy
    if terms.kl.coefficient > 0:
        reference_BT = batch.needed("reference_logprobs_BT", "terms.kl")
        kl = parts["kl"] = aggregate(reference_kl(batch.logprobs_BT, reference_BT, terms.kl), batch.mask_BT, total)
        loss = loss + terms.kl.coefficient * kl
    if critic is not None:
        values_BT, old_BT, returns_BT = (
            batch.needed(name, "critic") for name in ("values_BT", "old_values_BT", "returns_BT")
        )
        value = parts["value_loss"] = aggregate(value_loss(values_BT, old_BT, returns_BT, critic), batch.mask_BT, total)
        loss = loss + critic.value_coeff * value if critic.value_coeff else loss
    if terms.positive_nll > 0:
        mask_BT = batch.mask_BT & batch.needed("correct_B", "terms.positive_nll").unsqueeze(-1)
        total = None if totals is None else totals.denominator(mode, "correct")
        nll = parts["positive_nll"] = aggregate(-batch.logprobs_BT, mask_BT, total)
        loss = loss + terms.positive_nll * nll
    return Objective(loss, output=output, **{name: part.detach() for name, part in parts.items()})
