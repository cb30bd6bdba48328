"""Terms beside the policy loss: an entropy bonus, the likelihood of right completions, the divergence from a reference.

All are off by default. Shapes: B sequences, T completion tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from trainers.losses.base import Params

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch import Tensor

_LARGEST_LOG_RATIO: Final = 20.0
"""Nats at which k3 cuts the log-ratio; a probability ratio of 5e8, which would exhaust float32 soon after."""


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

    def _refusals(self) -> Iterator[str]:
        if self.target is not None and self.coefficient > self.largest:
            yield (
                f"entropy_bonus.coefficient {self.coefficient} starts above largest {self.largest}; "
                "lower it or raise largest"
            )


def next_coefficient(coefficient: float, entropy: float, params: EntropyBonusParams) -> float:
    """Return the coefficient of the update after one with this coefficient and this mean entropy, in nats.

    Without a target it stays. The coefficient is what the loss uses: unlike in arXiv:2505.22312 and TRL, the bonus is
    not switched off at once where the entropy exceeds the target, but fades by `delta` an update.
    """
    if params.target is None:
        return coefficient
    change = params.delta if entropy <= params.target else -params.delta
    return min(max(coefficient + change, 0.0), params.largest)


class ReferenceKLParams(Params):
    """Loss plus coefficient x estimated KL divergence from the initial model, aggregated like the loss."""

    coefficient: float = Field(
        default=0.0, ge=0, le=1e6, description="0: no reference model is loaded. GRPO's paper: 0.04."
    )
    estimator: Literal["k1", "k2", "k3", "k3+"] = Field(
        default="k3",
        description="Schulman's names; k3 as in GRPO; k3+ has k3's value and k2's gradient.",
    )


def reference_kl(logprobs_BT: Tensor, reference_logprobs_BT: Tensor, params: ReferenceKLParams) -> Tensor:
    """Return the estimated KL divergence (B, T) of the policy from the reference at each token, in nats.

    With d = log pi - log pi_ref, in nats, and the derivative by log pi:

        k1   d                   1, whatever d: its mean over the policy's own samples is 0, so it pulls nowhere
        k2   d^2 / 2             d: on the policy's own samples the gradient of KL(pi || pi_ref)
        k3   exp(-d) - 1 + d     1 - exp(-d): on such samples the gradient of KL(pi_ref || pi); arXiv:2402.03300 eq. 4
        k3+  as k3               d, as k2 (verl's straight-through estimator)

    The values of k1 and k3 estimate KL(pi || pi_ref) without bias, k2's is close to it where d is small; k1 may be
    negative. Tokens are those of the policy that sampled the rollout, and are not reweighted, as in GRPO. Where
    |d| > 20, k3 is cut and passes no gradient, so it is finite for any finite log-probabilities. verl cuts its value at
    10 besides, TRL cuts nothing.

    Source of the estimators: J. Schulman, "Approximating KL divergence", http://joschu.net/blog/kl-approx.html.
    """
    d_BT = logprobs_BT - reference_logprobs_BT
    if params.estimator == "k1":
        return d_BT
    k2_BT = d_BT.square() / 2
    if params.estimator == "k2":
        return k2_BT
    cut_BT = d_BT.clamp(-_LARGEST_LOG_RATIO, _LARGEST_LOG_RATIO)
    k3_BT = (-cut_BT).expm1() + cut_BT
    if params.estimator == "k3":
        return k3_BT
    return k2_BT + (k3_BT - k2_BT).detach()


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
