"""PPO's clipped loss with bounds that are found from the tokens: of each token (dcpo) or of the batch (bapo)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pydantic import Field

from trainers.losses.base import NO_BOUND, AggregationName, AuthorsClamp, Bounds, DualClipParams, LossOutput
from trainers.losses.clipped import token_clipped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

    from trainers.losses.batch import TokenBatch

_MOST_BOUNDS: Final = 100
"""Most pairs of bounds that bapo may try; each costs a pass over the ratios of a device batch."""
_OFFSET: Final = 1e-8
"""Added to the negative tokens' part, as in bapo's official code."""


class DCPOParams(DualClipParams):
    """DCPO's clip. Defaults: the epsilons of arXiv:2509.02333, the dual clip and no clamp of the official recipe."""

    own_aggregation: ClassVar[AggregationName] = "seq_mean_token_mean"

    name: Literal["dcpo"] = "dcpo"
    epsilon_low: float = Field(
        default=0.16,
        gt=0,
        lt=1,
        description="Largest fall of a token's probability, as its ratio times the fall; not 1 - low.",
    )
    epsilon_high: float = Field(
        default=0.2,
        gt=0,
        le=NO_BOUND,
        description="Largest rise of a token's probability, as its ratio times the rise; not high - 1.",
    )
    log_ratio_clamp: AuthorsClamp = None
    largest_bound: float = Field(
        default=10.0, gt=1, le=NO_BOUND, description="No token's upper bound on the ratio exceeds this."
    )

    @property
    def low(self) -> float:
        """Lower bound on the ratio of a token with old probability 1, the highest of all lower bounds."""
        return 0.5 + 0.5 * max(1 - 4 * self.epsilon_low, 0.0) ** 0.5

    @property
    def high(self) -> float:
        """Upper bound on the ratio of a token with old probability 1, the lowest of all upper bounds."""
        return min(0.5 + 0.5 * (1 + 4 * self.epsilon_high) ** 0.5, self.largest_bound)


class BAPOParams(DualClipParams):
    """BAPO. Defaults: the example recipe of the official code; the dual clip is verl's."""

    name: Literal["bapo"] = "bapo"
    dual_clip: float | None = Field(
        default=3.0,
        gt=1,
        le=NO_BOUND,
        description="Where A < 0, a token whose ratio exceeds this is dropped; above high_end; null: none.",
    )
    low_end: float = Field(
        default=0.95, gt=0, lt=1, description="The lower bound rises from 1 - epsilon_low at most to this."
    )
    low_step: float = Field(default=0.05, gt=0, le=1, description="Rise of the lower bound in one step of the search.")
    high_end: float = Field(
        default=2.0, gt=1, le=NO_BOUND, description="The upper bound rises from 1 + epsilon_high at most to this."
    )
    high_step: float = Field(
        default=0.1, gt=0, le=NO_BOUND, description="Rise of the upper bound in one step of the search."
    )
    target: float = Field(
        default=0.5,
        ge=0,
        le=1e6,
        description="The search stops where the positive tokens' part of the loss is at least this times the "
        "negative tokens' part.",
    )

    def _refusals(self) -> Iterator[str]:
        if unfit := list(super()._refusals()):
            yield from unfit
            return
        if self.low_end < self.low:
            yield f"low_end {self.low_end} lies below 1 - epsilon_low = {self.low:g}; raise it to that"
        if self.high_end < self.high:
            yield f"high_end {self.high_end} lies below 1 + epsilon_high = {self.high:g}; raise it to that"
        if self.dual_clip is not None and self.dual_clip <= self.high_end:
            yield f"dual_clip {self.dual_clip} must exceed high_end {self.high_end}; raise it or use null"
        number = (self.low_end - self.low) / self.low_step + (self.high_end - self.high) / self.high_step
        if number > _MOST_BOUNDS:
            yield (
                f"low_step {self.low_step} and high_step {self.high_step} would try {number:.0f} pairs of bounds in "
                f"every device batch, more than {_MOST_BOUNDS}; raise them"
            )

    def pairs(self) -> list[Bounds]:
        """Return the bounds in the order in which they are tried: first the lower one rises to its end."""
        low, high = self.low, self.high
        pairs = [Bounds(low, high)]
        while low < self.low_end:
            low = min(low + self.low_step, self.low_end)
            pairs.append(Bounds(low, high))
        while high < self.high_end:
            high = min(high + self.high_step, self.high_end)
            pairs.append(Bounds(low, high))
        return pairs


def dcpo(batch: TokenBatch, params: DCPOParams) -> LossOutput:
    """PPO's clipped loss with bounds that are the wider, the lower a token's old probability q.

    low = 1/2 + 1/2 sqrt(max(1 - 4 epsilon_low / q, 0)), high = 1/2 + 1/2 sqrt(1 + 4 epsilon_high / q), at most
    largest_bound: where |r - 1| r q, the change of the probability times the ratio, is epsilon. Gradient weight (the
    factor on A grad log pi): 0 for A < 0 with r < low, for A > 0 with r > high and for A < 0 with r > dual_clip; r
    otherwise.

    Region masks go by each token's own bounds, which the output has, (B, T).

    Source: arXiv:2509.02333, the section on dynamic adaptive clipping, and its official code (lime-RL/DCPO), whose
        dual clip this has. Its smooth advantages, which remember a prompt's earlier rewards, are not part of this.
    """
    old_BT = batch.old_logprobs_BT.exp()
    low_BT = 0.5 + 0.5 * (1 - 4 * params.epsilon_low / old_BT).clamp(min=0).sqrt()
    high_BT = (0.5 + 0.5 * (1 + 4 * params.epsilon_high / old_BT).sqrt()).clamp(max=params.largest_bound)
    return token_clipped(batch, params, Bounds(low_BT, high_BT))


def bapo(batch: TokenBatch, params: BAPOParams) -> LossOutput:
    """PPO's clipped loss with bounds raised until tokens with A > 0 have enough of the loss.

    With P = sum of min(r, high) A over A > 0 and N = sum of max(r, low) |A| over A < 0, the first of
    `BAPOParams.pairs` with P >= target (N + 1e-8) is used, the last if none has it. A raised lower bound drops more
    tokens with A < 0, a raised upper one keeps more with A > 0. Dropped tokens count in N with their value at the
    bound, so that the lower bound either stays or rises to its end. Gradient weight (the factor on A grad log pi), with
    the bounds found: 0 for A < 0 with r < low, for A > 0 with r > high and for A < 0 with r > dual_clip; r otherwise.

    The sums are over the batch's tokens. Region masks go by the bounds found, which the output has as scalars.

    Source: arXiv:2510.18927, by its official code (WooooDyy/BAPO), which compares P to N where the paper speaks of a
        share P / (P + N). The code sums over a micro-batch of all processes, this over its own device batch.
    """
    ratio_BT = batch.ratio_BT(params.log_ratio_clamp)
    *others, last = params.pairs()
    bounds = Bounds(ratio_BT.new_tensor(last.low), ratio_BT.new_tensor(last.high))
    for pair in reversed(others):
        enough = _positive_part(ratio_BT, batch.advantages_BT, pair) >= params.target
        bounds = Bounds(*(old.new_tensor(new).where(enough, old) for new, old in zip(pair, bounds, strict=True)))
    return token_clipped(batch, params, bounds)


def _positive_part(ratio_BT: Tensor, advantages_BT: Tensor, pair: Bounds) -> Tensor:
    """Return P / (N + 1e-8), infinity where no token has A < 0; a scalar."""
    positive = (ratio_BT.clamp(max=pair.high) * advantages_BT.clamp(min=0)).sum()
    negative = (ratio_BT.clamp(min=pair.low) * -advantages_BT.clamp(max=0)).sum()
    return (positive / (negative + _OFFSET)).masked_fill(negative <= 0, float("inf"))
