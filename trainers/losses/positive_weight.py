"""Positive-advantage reweighting: a weight on the loss of tokens with A > 0, whose updates make entropy fall."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import Field

from trainers.losses.base import MAX_STEPS, Params

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor


class PositiveWeightParams(Params):
    """The weight on the loss of tokens with A > 0. Defaults: the loss unchanged; delta of arXiv:2511.05993."""

    weight: float = Field(default=1.0, ge=0, le=1, description="The weight; with a target or a rise: where it starts.")
    target: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Nats: below it the weight falls by delta an update, above it rises; null: not by entropy.",
    )
    delta: float = Field(default=0.05, gt=0, le=1, description="Change of the weight in an update, with a target.")
    rise_from: int = Field(
        default=0, ge=0, le=MAX_STEPS, description="Updates before the weight begins to rise to 1, linearly."
    )
    rise_until: int | None = Field(
        default=None, ge=1, le=MAX_STEPS, description="Updates after which it is 1; null: no rise."
    )

    def _refusals(self) -> Iterator[str]:
        if self.target is not None and self.rise_until is not None:
            yield (
                f"positive_weight.target {self.target} and rise_until {self.rise_until} both change the weight; "
                "set one of them to null"
            )
        if self.rise_until is None and self.rise_from:
            yield f"positive_weight.rise_from {self.rise_from} does nothing without rise_until; give both"
        if self.rise_until is not None and self.rise_until <= self.rise_from:
            yield f"positive_weight.rise_until {self.rise_until} must come after rise_from {self.rise_from}; raise it"


def next_weight(before: float | None, step: int, entropy: float | None, params: PositiveWeightParams | None) -> float:
    """Return the weight of the update that follows `step` updates.

    Args:
        before: weight of the update before; None: there was none.
        entropy: mean entropy of that update, in nats; None: unknown, and the weight stays.
        params: None: 1.
    Source: arXiv:2511.05993: "entropy-guided" is a target with 0.05, "stage-based" a rise from 0 over the second half,
        "epoch-wise" a rise from 0 from the first to the last epoch, there in steps of an epoch.
    """
    if params is None:
        return 1.0
    if params.rise_until is not None:
        progress = (step - params.rise_from) / (params.rise_until - params.rise_from)
        return params.weight + (1 - params.weight) * min(max(progress, 0.0), 1.0)
    if params.target is None or before is None or entropy is None:
        return params.weight if before is None else before
    change = -params.delta if entropy < params.target else params.delta
    return min(max(before + change, 0.0), 1.0)


def reweighted(loss_BT: Tensor, advantages_BT: Tensor, weight: float) -> Tensor:
    """Multiply the loss, and with it the gradient weight, of tokens with A > 0 by `weight`; 1: the same tensor.

    Source: arXiv:2511.05993, positive-advantage reweighting, for the clipped loss of GRPO; here for any.
    """
    return loss_BT if weight == 1 else loss_BT.where(advantages_BT <= 0, weight * loss_BT)
