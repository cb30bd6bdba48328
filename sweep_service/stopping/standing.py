"""The input and output of rules that drop configs: what tune runs have come to, and judgements. Pure.

A contender is a point of the space. Baselines are none: no rule sees them, so none is ever dropped.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import NamedTuple


class Judgement(NamedTuple):
    """A rule's word on one contender: it is dropped, with all its tune runs, or goes on."""

    config_id: str
    dropped: bool
    seed: int | None
    """Seed of the run that was judged; None if the contender was judged by its results on several seeds."""
    mark: int
    """Point of the judgement: of a run its step, else the number of seeds, the first ones, that were compared."""
    value: float | None
    """What it was judged by; None if it had no result."""
    bound: float
    """What `value` was held against; each rule says what that is."""
    rival: str | None = None
    """Id of the contender that proves it worse, under a rule that proves something."""


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
        dropped = {judgement.config_id for judgement in self.judged if judgement.dropped}
        return [config_id for config_id in self.runs if config_id not in dropped]

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


def spare(judgements: Sequence[Judgement], top_k: int) -> list[Judgement]:
    """Take back drops of the best ones until `top_k` contenders are left; ties go by their order.

    Args:
        judgements: of all contenders that are left.
    """
    to_spare = top_k - sum(not judgement.dropped for judgement in judgements)
    dropped = [judgement for judgement in judgements if judgement.dropped and judgement.value is not None]
    best = sorted(dropped, key=lambda judgement: -(judgement.value or 0.0))[: max(0, to_spare)]
    spared = {judgement.config_id for judgement in best}
    return [one._replace(dropped=one.dropped and one.config_id not in spared) for one in judgements]
