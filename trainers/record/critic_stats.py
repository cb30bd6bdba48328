"""Computes the metrics of a critic from sums over the tokens of a rollout."""

from typing import Final

from torch import Tensor

from trainers.losses.critic import variance
from trainers.record.metrics import STEP_SECTIONS

NO_CRITIC: Final[dict[str, float | None]] = dict.fromkeys(STEP_SECTIONS["Critic"])
"""Metrics of a rollout whose advantages are group-relative."""


def critic_stats(advantages: Tensor, values: Tensor, returns: Tensor) -> dict[str, float | None]:
    """Return the metrics of a rollout.

    Args:
        advantages: `moments` of the advantages before they are normalised, which are what the values leave unexplained.
        values, returns: those of the values when the rollout was scored, and of their targets.
    """
    tokens, spread = values[0].item(), variance(returns).item()
    if not tokens:
        return dict(NO_CRITIC)
    return {
        "critic/value_mean": values[1].item() / tokens,
        "critic/return_mean": returns[1].item() / tokens,
        "critic/explained_variance": 1 - variance(advantages).item() / spread if spread > 0 else None,
    }
