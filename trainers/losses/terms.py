"""What can be added to a policy loss: an entropy bonus and the likelihood of right completions. All off by default."""

from __future__ import annotations

from pydantic import Field

from trainers.losses.params import Params


class EntropyBonusParams(Params):
    """Loss minus coefficient x entropy, aggregated like the loss."""

    coefficient: float = Field(default=0.0, ge=0, description="With a target: where the coefficient starts.")
    target: float | None = Field(
        default=None,
        ge=0,
        description="Nats: the coefficient rises by delta below and falls by delta above; null: fixed.",
    )
    delta: float = Field(default=0.005, gt=0, description="Change of the coefficient in an update, with a target.")
    largest: float = Field(default=1.0, gt=0, description="Bound on the coefficient, with a target.")


class TermsParams(Params):
    """Terms besides the policy loss."""

    positive_nll: float = Field(
        default=0.0,
        ge=0,
        description="Weight of the negative log-likelihood of right completions; the authors' recipes have 0.1.",
    )
    entropy_bonus: EntropyBonusParams = EntropyBonusParams()
