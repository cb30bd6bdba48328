"""Warns of a run whose beta1 and beta2 can hardly change anything."""

import math
from collections.abc import Mapping
from typing import Any, Final

from trainers.config import TrainingConfig

_JUDGED_AFTER: Final = 0.05
"""Share of the steps after which the rule applies, rounded up to whole rollouts, whose first update has only ratios
of 1."""
_SMALLEST_SHARE: Final = 0.001
_MOST_DEAD: Final = 0.8
"""Share of groups with equal rewards above which the warning names them as the cause."""


class InertBetas:
    """Applies the rule BETAS_NEARLY_INERT to the metrics of every step from the first.

    It looks at `weight_share/potential`, the share of the gradient's size that the two clipped regions would have with
    betas of 1: the actual share of a run with beta1 = beta2 = 0 is 0 whatever the betas could do.
    """

    def __init__(self, config: TrainingConfig) -> None:
        updates = config.rollout.updates_per_rollout
        self._judged_at = math.ceil(_JUDGED_AFTER * config.steps / updates) * updates
        self._has_betas = hasattr(config.loss, "beta1")
        self.sums = {"clipped": 0.0, "all": 0.0, "dead": 0.0}
        """The sums over all steps so far, which a checkpoint keeps."""

    def after_step(self, step: int, metrics: Mapping[str, float | None]) -> dict[str, Any] | None:
        """Return the warning's code, message and evidence when it is due, at most once in a run."""
        sums, weight = self.sums, (metrics["weight/potential"] or 0.0) * (metrics["tokens/step"] or 0.0)
        sums["clipped"] += (metrics["weight_share/potential"] or 0.0) * weight
        sums["all"] += weight
        sums["dead"] += metrics.get("group/zero_spread_share") or 0.0
        if not self._has_betas or step != self._judged_at or sums["clipped"] >= _SMALLEST_SHARE * sums["all"]:
            return None
        share, dead = sums["clipped"] / sums["all"], sums["dead"] / step
        remedy = "make more updates per rollout, raise the learning rate or lower epsilon"
        if dead > _MOST_DEAD:
            remedy = f"{dead:.0%} of the groups had equal rewards and no gradient: first make rewards differ"
        return {
            "code": "BETAS_NEARLY_INERT",
            "message": (
                f"in the first {step} steps the tokens that beta1 and beta2 weigh had {share:.2g} of the gradient's "
                f"size, counted with betas of 1, below {_SMALLEST_SHARE:g}: other betas would train nearly the same "
                f"policy; {remedy}"
            ),
            "evidence": {"share": share, "threshold": _SMALLEST_SHARE, "steps": step},
        }
