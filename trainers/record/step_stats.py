"""Sums over the tokens of one optimizer step, reduced once over all processes and then divided.

Device batches hold unequal numbers of tokens, so the mean of their means would not be the mean over tokens.
Shapes: B sequences, T completion tokens, N = B x T of them with padding.
"""

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import torch
from torch import Tensor

from trainers.losses import PARTS, REGIONS, Objective, TokenBatch
from trainers.record.metrics import RATIO_BINS, RATIO_EDGES

_SETS: Final = (*PARTS, "correct", "incorrect")
"""The sets of tokens over which each of `_VALUES` is summed."""
_VALUES: Final = (
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
_COUNTS: Final = ("low", "high", "dropped", "selected", "at_bound")
"""Kinds of tokens counted separately: below and above the bounds, without gradient, singled out by the loss; and the
size that the gradient of the tokens that PPO's clip drops has with a weight equal to the bound, |A x bound|."""
_LOSSES: Final = ("loss", "loss/policy", "loss/penalty", "loss/entropy", "loss/positive_nll", "loss/kl", "loss/value")
_DIVERGENCES: Final = ("kl/reference", "kl/reference_k3")
_QUANTILES: Final = {"entropy/p10": 0.1, "entropy/p50": 0.5, "entropy/p90": 0.9, "entropy/p99": 0.99}

_Sums = dict[str, float]


class StepStats:
    """Collects the device batches of one optimizer step. `add` waits for no device and starts no communication."""

    def __init__(self) -> None:
        self._sums: Tensor | None = None
        self._extremes: Tensor | None = None
        self._entropies: list[Tensor] = []

    @torch.no_grad()
    def add(
        self, batch: TokenBatch, objective: Objective, token_gradient_BT: Tensor, *, bounds: tuple[float, float]
    ) -> None:
        """Add a device batch. What it lacks, such as old entropies, becomes NaN here and None in the metrics.

        Args:
            objective: what was differentiated, divided by the update's `Totals`, so that batches add up.
            token_gradient_BT: gradient of the sum of the per-token losses with respect to the log-probabilities,
                -A x weight; 0 at padding.
            bounds: on the ratio of `objective.output`, unless that says them itself.
        """
        output, mask_BT, missing_BT = objective.output, batch.mask_BT, torch.full_like(token_gradient_BT, math.nan)
        logprobs_BT = batch.logprobs_BT.double()
        log_ratio_BT = logprobs_BT - batch.old_logprobs_BT
        old_probability_BT = batch.old_logprobs_BT.exp()
        logit_step_BT = -old_probability_BT * token_gradient_BT
        entropy_BT = missing_BT if batch.entropy_BT is None else batch.entropy_BT
        values_VN = _rows(
            mask_BT,
            entropy_BT,
            missing_BT if batch.old_entropy_BT is None else batch.old_entropy_BT,
            old_probability_BT,
            output.ratio_BT,
            log_ratio_BT,
            log_ratio_BT.expm1() - log_ratio_BT,
            token_gradient_BT.abs(),
            logprobs_BT,
            logit_step_BT,
            logprobs_BT * logit_step_BT,
        )
        outside = [output.regions[region] for region in REGIONS]
        inside_BT = mask_BT & ~torch.stack(outside).any(0)
        correct_BT = None if batch.correct_B is None else batch.correct_B.bool().unsqueeze(1)
        sets_SN = _rows(
            *outside,
            inside_BT,
            missing_BT if correct_BT is None else mask_BT & correct_BT,
            missing_BT if correct_BT is None else mask_BT & ~correct_BT,
        )
        low, high = output.bounds or bounds
        size_BT = batch.advantages_BT.abs().double()
        counts_CN = _rows(
            mask_BT & (output.ratio_BT < low),
            mask_BT & (output.ratio_BT > high),
            (token_gradient_BT == 0) & (batch.advantages_BT != 0),
            missing_BT if output.selected_BT is None else mask_BT & output.selected_BT,
            output.regions["na_lp"] * size_BT * low + output.regions["pa_lp"] * size_BT * high,
        )
        below_EN = mask_BT.flatten() & (output.ratio_BT.flatten() < output.ratio_BT.new_tensor(RATIO_EDGES)[:, None])
        terms = (objective.penalty, objective.entropy, objective.positive_nll, objective.kl, objective.value_loss)
        missing = missing_BT.new_full((), math.nan)
        losses_L = torch.stack(
            [objective.loss, objective.policy_loss, *(missing if term is None else term for term in terms)]
        )
        sums = torch.cat(
            [(sets_SN @ values_VN.T).flatten(), counts_CN.sum(1), below_EN.sum(1), losses_L, _divergences(batch)]
        )
        ends_BT = torch.stack([output.ratio_BT, -output.ratio_BT]).masked_fill(~mask_BT, -math.inf)
        extremes = ends_BT.flatten(1).amax(1)
        self._sums = sums if self._sums is None else self._sums + sums
        self._extremes = extremes if self._extremes is None else self._extremes.maximum(extremes)
        self._entropies.append(entropy_BT.masked_fill(~mask_BT, math.nan).flatten())

    def reduced(self, accelerator: Any, learning_rate: float) -> dict[str, float | None]:
        """Return the metrics of the step over all processes of `accelerator`; empties the collection.

        Every process calls this and gets the same. Values that do not exist or are not finite are None.
        """
        assert self._sums is not None, "no device batch was added"
        assert self._extremes is not None
        processes: int = accelerator.num_processes
        sums, extremes, entropies_N = self._sums, self._extremes, torch.cat(self._entropies)
        if processes > 1:
            sums = accelerator.reduce(sums, reduction="sum")
            extremes = accelerator.gather(extremes.unsqueeze(0)).amax(0)
            entropies_N = accelerator.gather(accelerator.pad_across_processes(entropies_N, pad_index=math.nan))
        self.__init__()
        totals, (largest, smallest) = iter(sums.tolist()), extremes.tolist()
        sets: dict[str, _Sums] = {part: {name: next(totals) for name in _VALUES} for part in _SETS}
        counts: _Sums = {name: next(totals) for name in _COUNTS}
        below = [next(totals) for _ in RATIO_EDGES]
        losses = {name: next(totals) / processes for name in _LOSSES}  # gradients are averaged, and so are losses
        divergences = {name: next(totals) for name in _DIVERGENCES}
        metrics: _Sums = {
            **losses,
            **_metrics(sets, counts, below, learning_rate),
            "ratio/max": largest,
            "ratio/min": -smallest,
        }
        tokens = metrics["tokens/step"]
        metrics |= {name: total / tokens if tokens else math.nan for name, total in divergences.items()}
        metrics |= _quantiles(entropies_N, int(tokens))
        return {name: value + 0.0 if math.isfinite(value) else None for name, value in metrics.items()}  # 0, never -0


def _divergences(batch: TokenBatch) -> Tensor:
    """Sum the k1 and k3 estimates of KL(policy || reference) over all tokens, in nats; NaN without a reference."""
    if batch.reference_logprobs_BT is None:
        return batch.logprobs_BT.new_full((2,), math.nan, dtype=torch.float64)
    log_ratio_BT = batch.logprobs_BT.double() - batch.reference_logprobs_BT
    return torch.stack([log_ratio_BT.sum(), ((-log_ratio_BT).expm1() + log_ratio_BT).sum()])


def _rows(*values_BT: Tensor) -> Tensor:
    """Stack tensors as rows of N values, in float64."""
    return torch.stack(values_BT).double().flatten(1)


def _quantiles(entropies_N: Tensor, tokens: int) -> dict[str, float]:
    """Interpolate linearly between order statistics, as NumPy does; the highest fifth is rounded up to whole tokens."""
    if not tokens:
        return dict.fromkeys((*_QUANTILES, "entropy/top20_mean"), math.nan)
    ordered = entropies_N.sort().values[:tokens].double()  # NaN, the padding, comes last
    places = torch.tensor(list(_QUANTILES.values()), dtype=torch.float64, device=ordered.device) * (tokens - 1)
    below = places.long()
    quantiles = ordered[below].lerp(ordered[(below + 1).clamp(max=tokens - 1)], places - below)
    top = ordered[-math.ceil(tokens / 5) :].mean()
    return dict(zip((*_QUANTILES, "entropy/top20_mean"), torch.cat([quantiles, top[None]]).tolist(), strict=True))


def _metrics(sets: dict[str, _Sums], counts: _Sums, below: Sequence[float], learning_rate: float) -> _Sums:
    """Return the metrics that follow from sums; NaN for those that do not exist, such as a mean over no tokens.

    Args:
        sets: the sum of each of `_VALUES` over each of `_SETS`.
        counts: number of tokens, or size, for each of `_COUNTS`.
        below: number of tokens with a ratio below each of `RATIO_EDGES`.
    """
    every = {name: sum(sets[part][name] for part in PARTS) for name in _VALUES}
    tokens = every["tokens"]
    logprob, logit_step = (_mean(every[name], tokens) for name in ("logprob", "logit_step"))

    def entropy_change(sums: _Sums) -> float:
        """Return -learning_rate x the sums' share of the covariance of log-probability and logit step."""
        crossed = logprob * sums["logit_step"] + logit_step * sums["logprob"] - sums["tokens"] * logprob * logit_step
        return -learning_rate * _mean(sums["logprob_x_logit_step"] - crossed, tokens)

    metrics = {
        "tokens/step": tokens,
        "entropy": _mean(every["entropy"], tokens),
        "entropy/old": _mean(every["old_entropy"], tokens),
        "ratio/mean": _mean(every["ratio"], tokens),
        "ppo_kl": _mean(-every["log_ratio"], tokens),
        "kl/k3": _mean(every["k3"], tokens),
        "clip_fraction/low": _mean(counts["low"], tokens),
        "clip_fraction/high": _mean(counts["high"], tokens),
        "clip_fraction/dropped": _mean(counts["dropped"], tokens),
        "share/selected": _mean(counts["selected"], tokens),
        "entropy_change/predicted": entropy_change(every),
    }
    inside = (high - low for low, high in pairwise((0.0, *below, tokens)))
    metrics |= {f"ratio_share/{name}": _mean(count, tokens) for name, count in zip(RATIO_BINS, inside, strict=True)}
    metrics |= {f"share/{region}": _mean(sets[region]["tokens"], tokens) for region in REGIONS}
    for name in (*REGIONS, "correct", "incorrect"):
        metrics[f"entropy/{name}"] = _mean(sets[name]["entropy"], sets[name]["tokens"])
    for part in PARTS:
        metrics[f"weight_share/{part}"] = _mean(sets[part]["weight"], every["weight"])
        metrics[f"old_probability/{part}"] = _mean(sets[part]["old_probability"], sets[part]["tokens"])
        metrics[f"entropy_change/predicted_{part}"] = entropy_change(sets[part])
    potential = counts["at_bound"] + sum(sets[part]["weight"] for part in ("pa_low", "na_high", "inside"))
    metrics["weight/potential"] = _mean(potential, tokens)
    metrics["weight_share/potential"] = _mean(counts["at_bound"], potential)
    return metrics


def _mean(total: float, count: float) -> float:
    return total / count if count else math.nan
