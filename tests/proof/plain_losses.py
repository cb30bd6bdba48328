"""The losses written down a second time, as plainly as possible. Nothing here comes from `trainers`.

Scalar Python, one token at a time, each branch a line of the papers' case distinctions. Shapes: B sequences,
T completion tokens.
"""

import math
from collections import Counter
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

ROUNDING = 1e-12

Place = tuple[int, int]
"""Row and column of a token."""


@dataclass(frozen=True)
class Rule:
    """A loss and its numbers, in the papers' terms: ratio bounds `low` and `high`, not epsilons."""

    name: str
    low: float = 0.0
    high: float = math.inf
    dual_clip: float = math.inf
    beta1: float = 1.0
    beta2: float = 1.0
    largest_delta: float = math.inf  # nats: log-ratios are cut there
    entropy_band: tuple[float, float] = (-math.inf, math.inf)
    coefficient: float = 0.0  # of kl_cov
    share: float = 0.0  # of tokens that clip_cov drops and kl_cov penalises
    covariance: tuple[float, float] = (-math.inf, math.inf)  # of clip_cov's candidates
    positive_nll: float = 0.0
    entropy_bonus: float = 0.0
    per_sequence: bool = False  # mean over sequences of means over their tokens, not mean over all tokens
    only_active: bool = False  # groups with equal rewards are not there


class TokenLoss(NamedTuple):
    value: float
    gradient: float  # by the token's log-probability


class Losses(NamedTuple):
    values_BT: Tensor
    gradients_BT: Tensor
    outside: Counter[str]
    """How many tokens met each side of the bounds with each sign of the advantage."""


def token_loss(rule: Rule, ratio: float, advantage: float, logprob: float) -> TokenLoss:
    """The loss of one token before what singles tokens out. `ratio` is the sequence's for gspo."""
    above, below = ratio > rule.high, ratio < rule.low
    weight = ratio  # of -advantage * grad logprob
    value = -ratio * advantage
    if rule.name in ("grpo", "dapo", "gspo", "clip_cov"):
        if advantage > 0 and above:
            value, weight = -rule.high * advantage, 0.0
        if advantage < 0 and below:
            value, weight = -rule.low * advantage, 0.0
    elif rule.name in ("gppo", "ce_gppo"):
        if advantage > 0 and above:
            weight = rule.beta2 * rule.high
            value = -weight * advantage
        if advantage < 0 and below:
            weight = rule.beta1 * rule.low
            value = -weight * advantage
    elif rule.name == "cispo":
        weight = rule.high if above else rule.low if below else ratio
        value = -weight * advantage * logprob
    else:
        assert rule.name == "kl_cov"
    if advantage < 0 and ratio > rule.dual_clip:
        value, weight = -rule.dual_clip * advantage, 0.0
    return TokenLoss(value, -advantage * weight)


def batch_losses(
    rule: Rule,
    logprobs_BT: Tensor,
    old_logprobs_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    entropy_BT: Tensor | None = None,
    old_entropy_BT: Tensor | None = None,
    selected_BT: Tensor | None = None,
) -> Losses:
    """Each token's loss and its gradient by the token's log-probability, 0 at padding."""
    values_BT, gradients_BT, outside = torch.zeros_like(logprobs_BT), torch.zeros_like(logprobs_BT), Counter[str]()
    for row in range(len(mask_BT)):
        valid = [t for t in range(mask_BT.shape[1]) if mask_BT[row, t]]
        deltas = {t: (logprobs_BT[row, t] - old_logprobs_BT[row, t]).item() for t in valid}
        mean = sum(deltas.values()) / max(len(valid), 1)
        for t in valid:
            delta = mean if rule.name == "gspo" else max(-rule.largest_delta, min(deltas[t], rule.largest_delta))
            ratio = math.exp(delta)
            advantage = advantages_BT[row, t].item()
            side = "above" if ratio > rule.high else "below" if ratio < rule.low else "inside"
            outside[f"{side}, A {'>' if advantage > 0 else '<' if advantage < 0 else '='} 0"] += 1
            loss = token_loss(rule, ratio, advantage, logprobs_BT[row, t].item())
            if selected_BT is not None and selected_BT[row, t]:
                loss = singled_out(rule, loss, delta)
            if abs(deltas[t]) > rule.largest_delta and rule.name != "cispo":
                loss = TokenLoss(loss.value, 0.0)
            if entropy_BT is not None and old_entropy_BT is not None:
                entropy_ratio = (entropy_BT[row, t].item() + 1e-8) / (old_entropy_BT[row, t].item() + 1e-8)
                if not rule.entropy_band[0] < entropy_ratio < rule.entropy_band[1]:
                    loss = TokenLoss(loss.value, 0.0)
            values_BT[row, t], gradients_BT[row, t] = loss
    return Losses(values_BT, gradients_BT, outside)


def singled_out(rule: Rule, loss: TokenLoss, delta: float) -> TokenLoss:
    """The loss of a token that clip_cov drops or kl_cov penalises."""
    if rule.name == "clip_cov":
        return TokenLoss(0.0, 0.0)
    sign = 0.0 if abs(delta) < ROUNDING else math.copysign(1.0, delta)
    return TokenLoss(loss.value + rule.coefficient * abs(delta), loss.gradient + rule.coefficient * sign)


def covariances(logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor) -> dict[Place, float]:
    """(A - mean A)(log pi - mean log pi) of each valid token of a device batch."""
    valid = [(row, t) for row, t in torch.nonzero(mask_BT).tolist()]
    logprob = {at: logprobs_BT[at].item() for at in valid}
    advantage = {at: advantages_BT[at].item() for at in valid}
    mean_logprob, mean_advantage = (sum(each.values()) / max(len(valid), 1) for each in (logprob, advantage))
    return {at: (advantage[at] - mean_advantage) * (logprob[at] - mean_logprob) for at in valid}


def assert_selection(
    rule: Rule,
    logprobs_BT: Tensor,
    old_logprobs_BT: Tensor,
    advantages_BT: Tensor,
    mask_BT: Tensor,
    selected_BT: Tensor,
) -> None:
    """The tokens that a covariance loss singled out are as many and such as it may."""
    covariance = covariances(logprobs_BT, advantages_BT, mask_BT)
    selected = {(row, t) for row, t in torch.nonzero(selected_BT).tolist()}
    number = max(int(rule.share * len(covariance)), 1)
    if rule.name == "kl_cov":  # the highest; rounding decides between equal ones
        rest = [value for at, value in covariance.items() if at not in selected]
        assert len(selected) == min(number, len(covariance))
        assert not rest or min(covariance[at] for at in selected) >= max(rest) - ROUNDING
        return
    candidates = set[Place]()
    for at, value in covariance.items():
        ratio, advantage = math.exp((logprobs_BT[at] - old_logprobs_BT[at]).item()), advantages_BT[at].item()
        clipped = (advantage > 0 and ratio > rule.high) or (advantage < 0 and ratio < rule.low)
        if not clipped and rule.covariance[0] < value < rule.covariance[1]:
            candidates.add(at)
    assert selected <= candidates
    assert len(selected) == min(number, len(candidates))
