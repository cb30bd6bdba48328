"""Several rewards as one: their weighted sum; the first decides which completions are correct."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from trainers.rewards.checked import CheckedReward, Unread
from trainers.tasks.base import Completion, Judgement, Problem


class WeightedRewards:
    """The weighted sum of rewards.

    The first one says whether a completion is correct and what its answer is. A completion that one of them could not
    judge, or whose sum is not finite, has no reward.

    Args:
        rewards: by name, in order.
        weights: factor on each reward, by name.
    """

    def __init__(self, rewards: Mapping[str, CheckedReward], weights: Mapping[str, float]) -> None:
        self._rewards, self._weights = dict(rewards), weights
        self.columns = {column: name for name, reward in rewards.items() for column in reward.columns}
        """Columns of the dataset that one of them reads beside problem and answer, each with the last that does."""

    def judge(self, problems: Sequence[Problem], completions: Sequence[Completion]) -> list[Judgement]:
        """Judge by every reward; `parts` has the value of each before weights."""
        judged = [reward.judge(problems, completions) for reward in self._rewards.values()]
        return [self._together(judgements) for judgements in zip(*judged, strict=True)]

    def unreadable(self, answers: Sequence[str], cache: Path) -> dict[str, Unread]:
        """Return the right answers that one of the rewards cannot read: a completion that it cannot judge has none."""
        by_reward = [reward.unreadable(answers, cache) for reward in self._rewards.values()]
        return {answer: unread for reasons in reversed(by_reward) for answer, unread in reasons.items()}

    def close(self) -> None:
        """End the processes that the rewards keep running."""
        for reward in self._rewards.values():
            reward.close()

    def _together(self, judgements: Sequence[Judgement]) -> Judgement:
        parts = dict(zip(self._rewards, (judgement.reward for judgement in judgements), strict=True))
        first, timed_out = judgements[0], any(judgement.timed_out for judgement in judgements)
        total = sum(self._weights[name] * (math.nan if reward is None else reward) for name, reward in parts.items())
        if not math.isfinite(total):
            return Judgement(None, False, first.answer, timed_out, parts)
        return Judgement(total, first.correct, first.answer, timed_out, parts)
