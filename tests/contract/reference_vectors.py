"""Adapter from a reference case to this project's own losses: `solve(case)` gives the loss and its gradient.

A case names an algorithm (`ppo_clip`, `dapo`, `gppo`, `ce_gppo`), its hyperparameters, an aggregation and the inputs as
B x T lists. Nothing here knows a single case or a formula; autograd runs in float64.
"""

from typing import Any

import torch

from trainers.losses import AGGREGATIONS, LOSSES, TokenBatch

LOSS_OF = {"ppo_clip": "grpo", "dapo": "dapo", "gppo": "ce_gppo", "ce_gppo": "ce_gppo"}
PARAM_OF = {
    "eps_low": "epsilon_low",
    "eps_high": "epsilon_high",
    "dual_clip_c": "dual_clip",
    "log_ratio_clamp": "log_ratio_clamp",
    "beta1": "beta1",
    "beta2": "beta2",
}


def solve(case: dict[str, Any]) -> dict[str, Any]:
    """Return {"loss": float, "grad": B x T list of d loss / d log_prob}; NotImplementedError for other algorithms."""
    if case["algo"] not in LOSS_OF:
        raise NotImplementedError(f"{case['algo']} is not in LOSSES")
    entry = LOSSES[LOSS_OF[case["algo"]]]
    params = entry.params(**{PARAM_OF[key]: value for key, value in case["hyper"].items()})
    inputs = {key: torch.tensor(value, dtype=torch.float64) for key, value in case["inputs"].items()}
    logprobs_BT = inputs["log_prob"].requires_grad_()
    batch = TokenBatch(logprobs_BT, inputs["old_log_prob"], inputs["advantages"], inputs["response_mask"])
    loss = AGGREGATIONS[case["agg"].replace("-", "_")](entry.function(batch, params).loss_BT, batch.mask_BT)
    loss.backward()
    assert logprobs_BT.grad is not None
    return {"loss": loss.item(), "grad": logprobs_BT.grad.tolist()}
