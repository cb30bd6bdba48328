"""The input and output of rules that drop configs: what tune runs have come to, and judgements. Pure.

A contender is a point of the space. Baselines are none: no rule sees them, so none is ever dropped.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from sweep_service.sweep.records import Judgement


@dataclass(frozen=True)
class Run:
    """What one tune run has recorded."""

    steps: Sequence[int] = ()
    """Steps of its evaluations, ascending."""
    values: Sequence[float] = ()
    """Values of the metric that chooses configs, at these steps."""
    is_over: bool = False
    result: float | None = None
    """Its objective; None while it runs, and for ever if it failed."""
    ruined: bool = False
    """True if it diverged, or was ended because it was ruined."""

    def value_at(self, step: int, last: int) -> float | None:
        """Return the mean of the last evaluations at or before a step; None unless one at or after it is recorded."""
        if not self.steps or self.steps[-1] < step:
            return None
        before = [value for at, value in zip(self.steps, self.values, strict=True) if at <= step]
        return fmean(before[-last:]) if before else None


@dataclass(frozen=True)
class Standing:
    """The contenders of a sweep, and what their tune runs have come to."""

    runs: Mapping[str, Mapping[int, Run]]
    """By contender and seed; contenders in the order of their numbers, a run that has not begun is missing."""
    seeds: Sequence[int]
    """The tune seeds, in the order in which they are trained."""
    total_steps: int
    last: int
    """Number of last evaluations whose mean is an objective."""
    top_k: int
    """Number of contenders that the confirm stage needs; no rule leaves fewer."""
    judged: Sequence[Judgement] = field(default_factory=list[Judgement])
    """All judgements so far."""

    @property
    def left(self) -> list[str]:
        """Ids of the contenders that are not dropped."""
        dropped = {one.config_id for one in self.judged if one.dropped and not one.taken_back}
        return [config_id for config_id in self.runs if config_id not in dropped]

    def carried_out(self, judgements: Sequence[Judgement]) -> list[Judgement]:
        """Return the judgements with a drop of each contender whose value lies below its bound, as far as it may be.

        The worst come first. One that somebody has taken back goes on, and `top_k` are left. Judgements of what has
        been dropped before are left out.
        """
        left = set(self.left)
        own = [one for one in judgements if one.config_id in left]
        kept = {one.config_id for one in self.judged if one.taken_back}
        below = [one for one in own if _margin(one) < 0 and one.config_id not in kept]
        worst_first = dict.fromkeys(one.config_id for one in sorted(below, key=_margin))
        drops = set([*worst_first][: max(0, len(left) - self.top_k)])
        return [one.model_copy(update={"dropped": one.config_id in drops and _margin(one) < 0}) for one in own]

    def results(self, config_id: str, num_seeds: int) -> dict[int, float]:
        """Return a contender's results on the first seeds, by seed; failed runs are missing."""
        runs = self.runs[config_id]
        found = ((seed, runs[seed].result) for seed in self.seeds[:num_seeds] if seed in runs)
        return {seed: result for seed, result in found if result is not None}

    def next_look(self, looks: Iterable[int]) -> int | None:
        """Return the first of these numbers of seeds that was not judged yet; None until all its runs are over.

        So a judgement reads the same rows, whatever else has arrived meanwhile.
        """
        done = max((judgement.mark for judgement in self.judged), default=0)
        look = next((look for look in looks if look > done), None)
        if look is None:
            return None
        runs = (self.runs[config_id].get(seed) for config_id in self.left for seed in self.seeds[:look])
        return look if all(run is not None and run.is_over for run in runs) else None


def _margin(judgement: Judgement) -> float:
    """Return how far a judgement's value lies above its bound: 0 without a bound, and far below without a value."""
    if judgement.bound is None:
        return 0.0
    return -math.inf if judgement.value is None else judgement.value - judgement.bound
