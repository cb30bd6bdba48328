"""Rewards shared out by entropy (GTPO, GRPO-S), a second time in scalar Python. Nothing here is from `trainers`."""

import math
from collections.abc import Sequence
from statistics import fmean, stdev

OFFSET = 1e-8


def entropy_rewarded(
    rewards: Sequence[float],
    right: Sequence[bool],
    entropies: Sequence[Sequence[float]],
    *,
    per_token: bool,
    base: float = 1.0,
    share: float = 0.1,
    own_set: bool = False,
    divisor_offset: float | None = 1e-6,
) -> list[list[float]]:
    """Advantages of the tokens of one group's completions; a reward that is NaN is missing.

    Args:
        rewards: of each completion; -1 of a wrong one.
        entropies: of each completion's tokens.
        own_set: compare right ones with right ones only, and wrong ones with wrong ones.
    """
    given = [not math.isnan(reward) and bool(tokens) for reward, tokens in zip(rewards, entropies, strict=True)]
    heights = [list(tokens) if per_token else [fmean(tokens)] if tokens else [] for tokens in entropies]
    shaped = [[0.0] * len(each) for each in heights]
    for i, own in enumerate(heights):
        for t in range(len(own) if given[i] else 0):
            peers = [k for k in range(len(heights)) if given[k] and right[k] == right[i] and t < len(heights[k])]
            if right[i]:
                part = (own[t] + OFFSET) / sum(heights[k][t] + OFFSET for k in peers)
                shaped[i][t] = base * rewards[i] + share * part * len(peers)
            else:
                part = (1 / (own[t] + OFFSET)) / sum(1 / (heights[k][t] + OFFSET) for k in peers)
                shaped[i][t] = base * rewards[i] - share * part * len(peers)
    both = {right[i] for i in range(len(rewards)) if given[i]} == {True, False}
    advantages = list[list[float]]()
    for i, tokens in enumerate(entropies):
        if not given[i] or not both:
            advantages.append([0.0] * len(tokens))
            continue
        compared = [
            value
            for k in range(len(rewards))
            if given[k] and (not own_set or right[k] == right[i])
            for value in shaped[k]
        ]
        mean, deviation = fmean(compared), stdev(compared) if len(compared) > 1 else 0.0
        divisor = 1.0 if divisor_offset is None else deviation + divisor_offset
        own = [(value - mean) / divisor for value in shaped[i]]
        advantages.append(own if per_token else own * len(tokens))
    return advantages
