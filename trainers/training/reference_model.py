"""Loads the frozen reference policy: the initial model once more, beside the one that is trained."""

from pathlib import Path
from typing import Any

from trl.trainer.utils import add_fused_lm_head

from trainers.config import TrainingConfig
from trainers.policy.load_policy import load_policy
from trainers.policy.positions import give_positions


def reference_model(folder: Path, config: TrainingConfig, accelerator: Any) -> Any:
    """Load the initial model in evaluation mode and without gradients, to be scored exactly as the policy is.

    Returns: None, where no copy is needed: without a KL term, and with LoRA, below whose adapters that model lies.
    """
    if not config.copies_initial_model:
        return None
    model = load_policy(folder, config.model).eval().requires_grad_(requires_grad=False)
    give_positions(model)
    add_fused_lm_head(model, temperature=config.rollout.temperature, outputs=("log_probs", "entropy"))
    return accelerator.prepare_model(model, evaluation_mode=True)
