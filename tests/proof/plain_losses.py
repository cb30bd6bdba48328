"""The losses written down a second time, as plainly as possible. Nothing here comes from `trainers`.

Scalar Python, one token at a time, each branch a line of the papers' case distinctions. Shapes: B sequences,
T completion tokens.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

ROUNDING = 1e-12

Place = tuple[int, int]
"""Row and column of a token."""


@dataclass(frozen=True)
class Values:
    """PPO's critic: GAE's lambda and gamma, factor and bound of the values' loss, learning rate of the head."""

    gae_lambda: float
    gamma: float
    coefficient: float
    clip: float
    learning_rate: float


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
    kl: float = 0.0  # coefficient of the divergence from the initial model
    kl_estimator: str = "k3"
    values: Values | None = None
    per_sequence: bool = False  # mean over sequences of means over their tokens, not mean over all tokens
    only_active: bool = False  # groups with equal rewards are not there
    probability_bounds: tuple[float, float] = (0.0, 0.0)  # of dcpo: its epsilons
    largest_bound: float = math.inf  # of dcpo
    ends: tuple[float, float] = (0.0, 0.0)  # of bapo: how far its bounds may rise
    steps: tuple[float, float] = (1.0, 1.0)  # of bapo
    target: float = 0.0  # of bapo: positive tokens' part divided by the negative tokens'
    entropy_advantage: tuple[float, float] | None = None  # alpha and kappa
    positive_weight: float = 1.0


class TokenLoss(NamedTuple):
    value: float
    gradient: float  # by the token's log-probability


class Losses(NamedTuple):
    values_BT: Tensor
    gradients_BT: Tensor
    outside: Counter[str]
    """Number of tokens on each side of the bounds with each sign of the advantage."""


def token_loss(rule: Rule, ratio: float, advantage: float, logprob: float) -> TokenLoss:
    """The loss of one token before what singles tokens out. `ratio` is the sequence's for gspo."""
    above, below = ratio > rule.high, ratio < rule.low
    weight = ratio  # of -advantage * grad logprob
    value = -ratio * advantage
    if rule.name in ("grpo", "dapo", "gspo", "clip_cov", "dcpo", "bapo"):
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


def own_bounds(rule: Rule, old_logprob: float) -> Rule:
    """Return the rule with a token's own bounds: dcpo's depend on the probability with which it was sampled."""
    if rule.name != "dcpo":
        return rule
    under = 1 - 4 * rule.probability_bounds[0] / math.exp(old_logprob)
    low = (1 + math.sqrt(under)) / 2 if under > 0 else 0.5
    high = (1 + math.sqrt(1 + 4 * rule.probability_bounds[1] / math.exp(old_logprob))) / 2
    return replace(rule, low=low, high=min(high, rule.largest_bound))


def searched_bounds(rule: Rule, tokens: Sequence[tuple[float, float]]) -> Rule:
    """Return the rule with the bounds at which bapo ends for these ratios and advantages."""
    low, high = rule.low, rule.high
    while True:
        positive = sum(min(ratio, high) * advantage for ratio, advantage in tokens if advantage > 0)
        negative = sum(max(ratio, low) * -advantage for ratio, advantage in tokens if advantage < 0)
        if negative == 0 or positive / (negative + 1e-8) >= rule.target:
            break
        if low < rule.ends[0]:
            low = min(low + rule.steps[0], rule.ends[0])
        elif high < rule.ends[1]:
            high = min(high + rule.steps[1], rule.ends[1])
        else:
            break
    return replace(rule, low=low, high=high)


def raised(rule: Rule, advantage: float, entropy: float) -> float:
    """The advantage with what the token's entropy adds."""
    if rule.entropy_advantage is None:
        return advantage
    alpha, kappa = rule.entropy_advantage
    return advantage + min(alpha * entropy, abs(advantage) / kappa)


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
    raised_BT = advantages_BT.clone()
    for at in all_valid(mask_BT) if entropy_BT is not None else []:
        raised_BT[at] = raised(rule, advantages_BT[at].item(), entropy_BT[at].item())
    if rule.name == "bapo":
        tokens = [((logprobs_BT[at] - old_logprobs_BT[at]).item(), raised_BT[at].item()) for at in all_valid(mask_BT)]
        limit = rule.largest_delta
        rule = searched_bounds(rule, [(math.exp(max(-limit, min(delta, limit))), a) for delta, a in tokens])
    for row in range(len(mask_BT)):
        valid = [t for t in range(mask_BT.shape[1]) if mask_BT[row, t]]
        deltas = {t: (logprobs_BT[row, t] - old_logprobs_BT[row, t]).item() for t in valid}
        mean = sum(deltas.values()) / max(len(valid), 1)
        for t in valid:
            delta = mean if rule.name == "gspo" else max(-rule.largest_delta, min(deltas[t], rule.largest_delta))
            ratio = math.exp(delta)
            advantage = raised_BT[row, t].item()
            own = own_bounds(rule, old_logprobs_BT[row, t].item())
            side = "above" if ratio > own.high else "below" if ratio < own.low else "inside"
            outside[f"{side}, A {'>' if advantage > 0 else '<' if advantage < 0 else '='} 0"] += 1
            loss = token_loss(own, ratio, advantage, logprobs_BT[row, t].item())
            if selected_BT is not None and selected_BT[row, t]:
                loss = singled_out(rule, loss, delta)
            if abs(deltas[t]) > rule.largest_delta and rule.name != "cispo":
                loss = TokenLoss(loss.value, 0.0)
            if entropy_BT is not None and old_entropy_BT is not None:
                entropy_ratio = (entropy_BT[row, t].item() + 1e-8) / (old_entropy_BT[row, t].item() + 1e-8)
                if not rule.entropy_band[0] < entropy_ratio < rule.entropy_band[1]:
                    loss = TokenLoss(loss.value, 0.0)
            weight = rule.positive_weight if advantage > 0 else 1.0
            values_BT[row, t], gradients_BT[row, t] = weight * loss.value, weight * loss.gradient
    return Losses(values_BT, gradients_BT, outside)


def all_valid(mask_BT: Tensor) -> list[Place]:
    return [(row, t) for row, t in torch.nonzero(mask_BT).tolist()]


def singled_out(rule: Rule, loss: TokenLoss, delta: float) -> TokenLoss:
    """The loss of a token that clip_cov drops or kl_cov penalises."""
    if rule.name == "clip_cov":
        return TokenLoss(0.0, 0.0)
    sign = 0.0 if abs(delta) < ROUNDING else math.copysign(1.0, delta)
    return TokenLoss(loss.value + rule.coefficient * abs(delta), loss.gradient + rule.coefficient * sign)


def covariances(logprobs_BT: Tensor, advantages_BT: Tensor, mask_BT: Tensor) -> dict[Place, float]:
    """(A - mean A)(log pi - mean log pi) of each valid token of a device batch."""
    valid = all_valid(mask_BT)
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


def divergence(rule: Rule, logprob: float, reference: float) -> TokenLoss:
    """A token's estimate of KL(policy || reference), from the probabilities."""
    ratio = math.exp(reference) / math.exp(logprob)  # Schulman's r
    if rule.kl_estimator == "k1":
        return TokenLoss(-math.log(ratio), 1.0)
    if rule.kl_estimator == "k2":
        return TokenLoss(math.log(ratio) ** 2 / 2, -math.log(ratio))
    k3 = (ratio - 1) - math.log(ratio)
    return TokenLoss(k3, -math.log(ratio) if rule.kl_estimator == "k3+" else 1 - ratio)


def divergences(rule: Rule, logprobs_BT: Tensor, reference_BT: Tensor, mask_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Values and gradients of `divergence` of each token, 0 at padding."""
    values_BT, gradients_BT = torch.zeros_like(logprobs_BT), torch.zeros_like(logprobs_BT)
    for b, t in mask_BT.nonzero().tolist():
        values_BT[b, t], gradients_BT[b, t] = divergence(rule, logprobs_BT[b, t].item(), reference_BT[b, t].item())
    return values_BT, gradients_BT


def value_error(values: Values, value: float, old: float, target: float) -> TokenLoss:
    """A token's value loss and its derivative by the value."""
    if abs(value - old) > values.clip:
        bounded = old + values.clip if value > old else old - values.clip
        if abs(bounded - target) > abs(value - target):
            return TokenLoss((bounded - target) ** 2 / 2, 0.0)
    return TokenLoss((value - target) ** 2 / 2, value - target)


def value_errors(values: Values, values_BT: Tensor, batch: Any, mask_BT: Tensor) -> tuple[Tensor, Tensor]:
    """Losses and derivatives of `value_error` of each token, 0 at padding."""
    losses_BT, slopes_BT = torch.zeros_like(values_BT), torch.zeros_like(values_BT)
    for b, t in mask_BT.nonzero().tolist():
        token = (values_BT[b, t].item(), batch.old_values_BT[b, t].item(), batch.returns_BT[b, t].item())
        losses_BT[b, t], slopes_BT[b, t] = value_error(values, *token)
    return losses_BT, slopes_BT


def generalised_advantages(values: Values, reward: float, before: Sequence[float]) -> list[float]:
    """A completion's advantages from the values before its tokens, each as the sum of the paper."""
    after = [*before[1:], 0.0]
    rewards = [0.0] * (len(before) - 1) + [reward]
    deltas = [r + values.gamma * v1 - v0 for r, v0, v1 in zip(rewards, before, after, strict=True)]
    decay = values.gamma * values.gae_lambda
    return [sum(decay**ahead * delta for ahead, delta in enumerate(deltas[t:])) for t in range(len(deltas))]
