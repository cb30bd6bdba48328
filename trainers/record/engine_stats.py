"""Measures the distance of the sampling engine from the trainer; with equal weights, every difference is arithmetic.

Shapes: B sequences, T completion tokens, N tokens of all of them.
"""

import math
from typing import Any, Final

import torch
from torch import Tensor

from trainers.record.metrics import STEP_SECTIONS

NO_ENGINE: Final[dict[str, float | None]] = dict.fromkeys(STEP_SECTIONS["Engine"])
"""Metrics of a rollout that the trained model itself sampled."""


def engine_stats(
    logprobs_BT: Tensor, engine_logprobs_BT: Tensor, mask_BT: Tensor, cap: float | None, accelerator: Any
) -> dict[str, float | None]:
    """Return the metrics of a rollout over all processes of `accelerator`. Every process calls this and gets the same.

    Args:
        logprobs_BT: log-probabilities of the policy that sampled, computed by the trainer, in nats.
        engine_logprobs_BT: the same, reported by the engine; a token with NaN does not count.
        cap: upper bound of the tokens' weights; None without correction.
    """
    gap_BT = (logprobs_BT - engine_logprobs_BT).double()
    gap_N = gap_BT[mask_BT.bool() & gap_BT.isfinite()]
    limit = math.inf if cap is None else cap
    cut_N, weight_N = gap_N > math.log(limit), gap_N.exp().clamp(max=limit)
    sums = torch.stack([gap_N.new_tensor(len(gap_N)), gap_N.abs().sum(), weight_N.sum(), cut_N.sum()])
    largest = torch.cat([gap_N.abs(), gap_N.new_zeros(1)]).amax(0, keepdim=True)
    if accelerator.num_processes > 1:
        sums = accelerator.reduce(sums, reduction="sum")
        largest = accelerator.gather(largest).amax(0)
    tokens, gap, weight, cut = sums.tolist()
    if not tokens:
        return dict(NO_ENGINE)
    return {
        "engine/logprob_gap_mean": gap / tokens,
        "engine/logprob_gap_max": largest.item(),
        "engine/weight_mean": weight / tokens if cap else None,
        "engine/weight_cut_share": cut / tokens if cap else None,
    }
