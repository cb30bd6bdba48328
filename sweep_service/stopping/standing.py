"""The input and output of rules that drop configs: what tune runs have come to, and judgements. Pure.

A contender is a point of the space. Baselines are none: no rule sees them, so none is ever dropped.
"""

import math
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Final

from sweep_service.sweep.records import Judgement

_ROUNDING: Final = 1e-9
"""Largest difference of values that are equal but for rounding."""


@dataclass(frozen=True)
class Run:
    """Record of one tune run."""

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
        """Return the mean of the last evaluations up to the first one from a step on; None before that is recorded."""
        if not self.steps or self.steps[-1] < step:
            return None
        place = bisect_left(self.steps, step) + 1
        return fmean(self.values[max(0, place - last) : place])


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
    """All judgements of the rule so far."""
    by_signs: Sequence[Judgement] = ()
    """All judgements by signs of health so far."""

    @property
    def left(self) -> list[str]:
        """Ids of the contenders that are not dropped."""
        dropped = {one.config_id for one in (*self.judged, *self.by_signs) if one.dropped and not one.taken_back}
        return [config_id for config_id in self.runs if config_id not in dropped]

    def carried_out(self, judgements: Sequence[Judgement], best: Sequence[str] = ()) -> list[Judgement]:
        """Return the judgements with a drop of each contender whose value lies below its bound, as far as it may be.

        The worst come first, each by its worst judgement. One that somebody has taken back goes on, and `top_k` are
        left that may have a result. Judgements of what has been dropped before are left out.

        Args:
            best: contenders that go on in any case.
        """
        left = set(self.left)
        own = [one for one in judgements if one.config_id in left]
        kept = self.taken_back | {*best}
        below = (one for one in sorted(own, key=_margin) if _margin(one) < -_ROUNDING and one.config_id not in kept)
        worst: dict[str, Judgement] = {}
        for one in below:
            worst.setdefault(one.config_id, one)
        drops = [worst[config_id] for config_id in self.droppable(worst)]
        return [one.model_copy(update={"dropped": any(one is drop for drop in drops)}) for one in own]

    @property
    def taken_back(self) -> set[str]:
        """Ids of the contenders that somebody has taken back."""
        return {one.config_id for one in (*self.judged, *self.by_signs) if one.taken_back}

    def droppable(self, config_ids: Iterable[str]) -> list[str]:
        """Return those of these contenders, the first ones, without which `top_k` are left.

        As long as `top_k` are not hopeless, so many of these are left.
        """
        left = self.left
        spare = sum(not self.is_hopeless(config_id) for config_id in left) - self.top_k
        found = list[str]()
        for config_id in config_ids:
            hopeless = self.is_hopeless(config_id)
            if spare > 0 or (hopeless and len(left) - len(found) > self.top_k):
                found.append(config_id)
                spare -= not hopeless
        return found

    def is_hopeless(self, config_id: str) -> bool:
        """Return True if none of a contender's runs that are over has a result that counts, so that none is chosen."""
        over = [run for run in self.runs[config_id].values() if run.is_over]
        return bool(over) and all(run.result is None or run.ruined for run in over)

    def results(self, config_id: str, num_seeds: int) -> dict[int, float]:
        """Return a contender's results on the first seeds, by seed; failed runs are missing."""
        runs = self.runs[config_id]
        found = ((seed, runs[seed].result) for seed in self.seeds[:num_seeds] if seed in runs)
        return {seed: result for seed, result in found if result is not None}

    def means(self, num_seeds: int) -> dict[str, float | None]:
        """Return how far each contender that is left lies above the mean of all on the same seed, on average.

        It is over the first seeds on which the contender has a result; None if it has none.
        """
        results = {config_id: self.results(config_id, num_seeds) for config_id in self.left}
        by_seed = {seed: [one[seed] for one in results.values() if seed in one] for seed in self.seeds[:num_seeds]}
        usual = {seed: fmean(values) for seed, values in by_seed.items() if values}
        return {
            config_id: fmean(value - usual[seed] for seed, value in one.items()) if one else None
            for config_id, one in results.items()
        }

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
