"""Replays recorded grids of tune runs under a rule: what would it have trained, and what dropped? Pure."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from sweep_service.stopping.standing import Run, Standing
from sweep_service.sweep.records import Judgement

STEPS = 10
"""Steps between two evaluations; rules ask only for shares of all steps."""
Judge = Callable[[Standing], list[Judgement]]


@dataclass(frozen=True)
class Grid:
    """Runs of some contenders on the same seeds."""

    values_CSE: Sequence[Sequence[Sequence[float]]]
    """Value at each evaluation, the first one after some training."""
    ended_CS: Sequence[Sequence[int]]
    """Number of evaluations after which a run is ended as ruined; larger than the number of all if it never is."""
    last: int
    """Number of last evaluations whose mean is a result."""
    ruin: float = 0.0
    """Result of a ruined run."""

    @property
    def size(self) -> int:
        """Number of evaluations of all runs, if none is ended."""
        return sum(len(values) for runs in self.values_CSE for values in runs)

    def means(self) -> list[float]:
        """Return each contender's mean result over all seeds."""
        places = range(len(self.values_CSE))
        return [fmean(self.result(place, seed) for seed in range(len(self.values_CSE[place]))) for place in places]

    def result(self, contender: int, seed: int) -> float:
        """Return the result of a run that goes on to its end."""
        values = self.values_CSE[contender][seed]
        return self.ruin if self.is_ruined(contender, seed) else fmean(values[-self.last :])

    def is_ruined(self, contender: int, seed: int) -> bool:
        """Return True if a run is ended as ruined."""
        return self.ended_CS[contender][seed] <= len(self.values_CSE[contender][seed])


class Replay:
    """A grid as a sweep trains it: seed by seed, so many runs at a time, each an evaluation further at each turn."""

    def __init__(self, grid: Grid, judge: Judge, *, top_k: int, slots: int) -> None:
        self._grid, self._judge, self._top_k, self._slots = grid, judge, top_k, slots
        self._runs: dict[str, dict[int, Run]] = {str(place): {} for place in range(len(grid.values_CSE))}
        self._judged: list[Judgement] = []
        self.trained = 0
        """Evaluations trained, of all runs."""

    @property
    def standing(self) -> Standing:
        """The rows that the rule sees."""
        runs = self._grid.values_CSE[0]
        return Standing(self._runs, range(len(runs)), STEPS * len(runs[0]), self._grid.last, self._top_k, self._judged)

    def run(self) -> list[int]:
        """Train all that the rule lets train; return the contenders that are left."""
        left, waiting = set(self._runs), self._waiting()
        running: list[tuple[str, int]] = []
        while True:
            running = [one for one in running if one[0] in left and not self._runs[one[0]][one[1]].is_over]
            while len(running) < self._slots and (one := next((one for one in waiting if one[0] in left), None)):
                self._runs[one[0]][one[1]] = Run()
                running.append(one)
            if not running:
                return sorted(map(int, left))
            for config_id, seed in running:
                self._advance(config_id, seed)
            if new := self._judge(self.standing):
                self._judged += new
                left -= {judgement.config_id for judgement in new if judgement.dropped}

    def _waiting(self) -> Iterator[tuple[str, int]]:
        yield from ((config_id, seed) for seed in range(len(self._grid.values_CSE[0])) for config_id in self._runs)

    def _advance(self, config_id: str, seed: int) -> None:
        run, place = self._runs[config_id][seed], int(config_id)
        done, values = len(run.values) + 1, self._grid.values_CSE[place][seed]
        is_over = done >= min(self._grid.ended_CS[place][seed], len(values))
        result = self._grid.result(place, seed) if is_over else None
        steps, ruined = range(STEPS, STEPS * done + 1, STEPS), is_over and self._grid.is_ruined(place, seed)
        self._runs[config_id][seed] = Run(steps, values[:done], is_over, result, ruined)
        self.trained += 1
