"""Terms beside the policy loss: an entropy bonus, the likelihood of right completions, the divergence from a reference.

All are off by default.
"""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from trainers.losses.base import Params
from trainers.losses.reference_kl import ReferenceKLParams


class EntropyBonusParams(Params):
    """Loss minus coefficient x entropy, aggregated like the loss."""

    coefficient: float = Field(default=0.0, ge=0, le=1e6, description="With a target: where the coefficient starts.")
    target: float | None = Field(
        default=None,
        ge=0,
        le=100,
        description="Nats: up to it the coefficient rises by delta, above it falls; null: fixed.",
    )
    delta: float = Field(
        default=0.005, gt=0, le=1e6, description="Change of the coefficient in an update, with a target."
    )
    largest: float = Field(default=1.0, gt=0, le=1e6, description="Bound on the coefficient, with a target.")

    @model_validator(mode="after")
    def _starts_inside(self) -> Self:
        if self.target is not None and self.coefficient > self.largest:
            raise ValueError(
                f"entropy_bonus.coefficient {self.coefficient} starts above largest {self.largest}; "
                "lower it or raise largest"
            )
        return self


def next_coefficient(coefficient: float, entropy: float, params: EntropyBonusParams) -> float:
    """Return the coefficient of the update after one with this coefficient and this mean entropy, in nats.

    Without a target it stays. The coefficient is what the loss uses: unlike in arXiv:2505.22312 and TRL, the bonus is
    not switched off at once where the entropy exceeds the target, but fades by `delta` an update.
    """
    if params.target is None:
        return coefficient
    change = params.delta if entropy <= params.target else -params.delta
    return min(max(coefficient + change, 0.0), params.largest)


class TermsParams(Params):
    """Terms besides the policy loss."""

    positive_nll: float = Field(
        default=0.0,
        ge=0,
        le=1e6,
        description="Weight of the negative log-likelihood of right completions; the authors' recipes have 0.1.",
    )
    entropy_bonus: EntropyBonusParams = EntropyBonusParams()
    kl: ReferenceKLParams = Field(
        default=ReferenceKLParams(),
        exclude_if=lambda kl: kl == ReferenceKLParams(),  # so that older configurations keep their names
    )
