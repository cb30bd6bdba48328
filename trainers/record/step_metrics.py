"""Computes the metrics of one optimizer step from its sums over tokens, without tensors.

NaN stands for what does not exist, such as a mean over no tokens.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from trainers.losses import PARTS, REGIONS
from trainers.record.metrics import RATIO_BINS

SETS: Final[tuple[str, ...]] = (*PARTS, "correct", "incorrect")
"""The sets of tokens over which each of `VALUES` is summed."""

VALUES: Final[tuple[str, ...]] = (
    "tokens",
    "entropy",
    "old_entropy",
    "old_probability",
    "ratio",
    "log_ratio",
    "k3",
    "weight",  # |A x weight|, the size of the gradient
    "logprob",
    "logit_step",
    "logprob_x_logit_step",
)

COUNTS: Final[tuple[str, ...]] = ("low", "high", "dropped", "selected", "at_bound")
"""Kinds of tokens counted separately: below and above the bounds, without gradient, singled out by the loss; and the
size that the gradient of the tokens that PPO's clip drops has with a weight equal to the bound, |A x bound|."""

Sums = dict[str, float]


def step_metrics(
    sets: dict[str, Sums],
    counts: Sums,
    below: Sequence[float],
    *,
    learning_rate: float,
) -> dict[str, float]:
    """Return the metrics that follow from sums.

    Args:
        sets: the sum of each of `VALUES` over each of `SETS`.
        counts: number of tokens, or size, for each of `COUNTS`.
        below: number of tokens with a ratio below each of `RATIO_EDGES`.
    """
    every = {name: sum(sets[part][name] for part in PARTS) for name in VALUES}
    return {
        **_token_metrics(sets, every, counts),
        **_histogram(below, every["tokens"]),
        **_region_metrics(sets, every, counts["at_bound"]),
        **_predicted_change(sets, every, learning_rate),
    }


def _token_metrics(sets: dict[str, Sums], every: Sums, counts: Sums) -> Sums:
    tokens = every["tokens"]
    return {
        "tokens/step": tokens,
        "entropy": _mean(every["entropy"], tokens),
        "entropy/old": _mean(every["old_entropy"], tokens),
        **{f"entropy/{name}": _mean(sets[name]["entropy"], sets[name]["tokens"]) for name in ("correct", "incorrect")},
        "ratio/mean": _mean(every["ratio"], tokens),
        "ppo_kl": _mean(-every["log_ratio"], tokens),
        "kl/k3": _mean(every["k3"], tokens),
        "clip_fraction/low": _mean(counts["low"], tokens),
        "clip_fraction/high": _mean(counts["high"], tokens),
        "clip_fraction/dropped": _mean(counts["dropped"], tokens),
        "share/selected": _mean(counts["selected"], tokens),
    }


def _histogram(below: Sequence[float], tokens: float) -> Sums:
    inside = (high - low for low, high in pairwise((0.0, *below, tokens)))
    return {f"ratio_share/{name}": _mean(count, tokens) for name, count in zip(RATIO_BINS, inside, strict=True)}


def _region_metrics(sets: dict[str, Sums], every: Sums, at_bound: float) -> Sums:
    metrics = Sums()
    for region in REGIONS:
        metrics[f"share/{region}"] = _mean(sets[region]["tokens"], every["tokens"])
        metrics[f"entropy/{region}"] = _mean(sets[region]["entropy"], sets[region]["tokens"])
    for part in PARTS:
        metrics[f"weight_share/{part}"] = _mean(sets[part]["weight"], every["weight"])
        metrics[f"old_probability/{part}"] = _mean(sets[part]["old_probability"], sets[part]["tokens"])
    potential = at_bound + sum(sets[part]["weight"] for part in ("pa_low", "na_high", "inside"))
    metrics["weight/potential"] = _mean(potential, every["tokens"])
    metrics["weight_share/potential"] = _mean(at_bound, potential)
    return metrics


def _predicted_change(sets: dict[str, Sums], every: Sums, learning_rate: float) -> Sums:
    """Return -learning_rate x covariance of log-probability and logit step over all tokens, and each part's share."""
    logprob, logit_step = (_mean(every[name], every["tokens"]) for name in ("logprob", "logit_step"))

    def change(sums: Sums) -> float:
        crossed = logprob * sums["logit_step"] + logit_step * sums["logprob"] - sums["tokens"] * logprob * logit_step
        return -learning_rate * _mean(sums["logprob_x_logit_step"] - crossed, every["tokens"])

    return {
        "entropy_change/predicted": change(every),
        **{f"entropy_change/predicted_{part}": change(sets[part]) for part in PARTS},
    }


def _mean(total: float, count: float) -> float:
    return total / count if count else math.nan
