"""Losses that scale, rather than drop, the gradient of tokens outside the clip bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Self

from pydantic import Field, model_validator

from trainers.losses.base import AuthorsClamp, LossOutput, regions
from trainers.losses.beta_schedule import MAX_BETA, BetaSchedule
from trainers.losses.clipped import dual_clipped
from trainers.losses.entropy_ratio import ERCOptionParams, entropy_ratio_clipped

if TYPE_CHECKING:
    from trainers.losses.batch import TokenBatch


class _GradientPreservingParams(ERCOptionParams):
    log_ratio_clamp: AuthorsClamp = None


class GPPOParams(_GradientPreservingParams):
    """GPPO. Defaults: arXiv:2508.07629; dual clip of the authors' recipes."""

    name: Literal["gppo"] = "gppo"


class CEGPPOParams(_GradientPreservingParams):
    """CE-GPPO. Defaults: arXiv:2509.20712 for 1.5B models (7B: beta1 0.75); dual clip of the authors' recipes.

    beta1 = beta2 = 0 has PPO-clip's gradient, beta1 = beta2 = 1 is GPPO (arXiv:2508.07629).
    """

    name: Literal["ce_gppo"] = "ce_gppo"
    beta1: float = Field(
        default=0.5, ge=0, le=MAX_BETA, description="Gradient scale where A < 0 and ratio < 1 - epsilon_low."
    )
    beta2: float = Field(
        default=1.0, ge=0, le=MAX_BETA, description="Gradient scale where A > 0 and ratio > 1 + epsilon_high."
    )
    schedule: BetaSchedule = Field(
        default=(),
        description="Changes of the betas in order of their steps, or a shape: linear, cosine, steps (docs/losses.md).",
    )

    def at(self, step: int) -> Self:
        """Return the parameters after `step` updates, with the betas of the next one and without a schedule."""
        betas = {"beta1": self.beta1, "beta2": self.beta2}
        for switch in self.schedule:
            if step < switch.step:
                break
            share = switch.share(step)
            for name, new in (("beta1", switch.beta1), ("beta2", switch.beta2)):
                if new is not None:
                    betas[name] = (1 - share) * betas[name] + share * new
        return self.model_copy(update={**betas, "schedule": ()})

    @model_validator(mode="after")
    def _in_order(self) -> Self:
        for i, (switch, following) in enumerate(zip(self.schedule, self.schedule[1:], strict=False)):
            if following.step <= switch.step:
                raise ValueError(
                    f"schedule[{i + 1}].step {following.step} must come after schedule[{i}].step {switch.step}; "
                    "list the switches in order, at most one a step"
                )
            if switch.step + switch.ramp > following.step:
                raise ValueError(
                    f"schedule[{i}] ends its ramp at step {switch.step + switch.ramp}, after schedule[{i + 1}].step "
                    f"{following.step}; shorten the ramp to at most {following.step - switch.step}"
                )
        return self


def gppo(batch: TokenBatch, params: GPPOParams) -> LossOutput:
    """Gradient-preserving clipping: the value of PPO-clip, and a bounded gradient where PPO-clip has none.

    Gradient weight (the factor on A grad log pi): low for A < 0 with r < low, high for A > 0 with r > high, 0 for A < 0
    with r > dual_clip, r otherwise. The same as `ce_gppo` with both betas 1.

    Source: arXiv:2508.07629 eq. 11-12; dual clip from the authors' code; entropy ratio arXiv:2512.05591.
    """
    return _gradient_preserving(batch, params, beta1=1.0, beta2=1.0)


def ce_gppo(batch: TokenBatch, params: CEGPPOParams) -> LossOutput:
    """Policy-gradient loss that scales the gradient outside the clip bounds to a constant.

    Gradient weight (the factor on A grad log pi): beta1 (1 - epsilon_low) for A < 0 with r < 1 - epsilon_low (NA&LP),
    beta2 (1 + epsilon_high) for A > 0 with r > 1 + epsilon_high (PA&LP), 0 for A < 0 with r > dual_clip, r otherwise.

    The betas are those of one update: see `CEGPPOParams.at`.

    Source: arXiv:2509.20712 eq. 8; dual clip and separate epsilons from the authors' code; on that, entropy ratio
        arXiv:2512.05591, a combination that no official code has.
    """
    assert not params.schedule, "which update is this? params.at(step) says its betas"
    return _gradient_preserving(batch, params, params.beta1, params.beta2)


def _gradient_preserving(
    batch: TokenBatch, params: _GradientPreservingParams, beta1: float, beta2: float
) -> LossOutput:
    ratio_BT, advantages_BT = batch.ratio_BT(params.log_ratio_clamp), batch.advantages_BT
    masks = regions(ratio_BT, advantages_BT, params)
    weight_BT = ratio_BT.masked_fill(masks["na_lp"], beta1 * params.low)
    weight_BT = weight_BT.masked_fill(masks["pa_lp"], beta2 * params.high)
    loss_BT = -weight_BT * batch.unit_BT(params.log_ratio_clamp) * advantages_BT
    output = dual_clipped(LossOutput(loss_BT, masks, ratio_BT), advantages_BT, params.dual_clip)
    return entropy_ratio_clipped(output, batch, params.erc)
