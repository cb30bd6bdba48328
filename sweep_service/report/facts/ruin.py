"""Ruined runs, by their outcome: those that collapsed, never took off, or lost most of what they had.

A run is ruined if its curve collapsed (`Health.collapsed`), or if it ended far below the others: with less than three
quarters of the median result, and by more than sampling and the spread over seeds explain. The median is that of the
confirmed configs in the run's own stage, whose problems may be easier or harder than the other stage's.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import combinations
from statistics import median
from typing import Final

import numpy as np

from sweep_service.health.run_health import ERRORS
from sweep_service.sweep.records import Stage, Trial

KEPT: Final = 0.75
"""Share of the median result below which a run may be a ruin."""
_QUARTILE: Final = 0.4506
"""Lower quartile of the distance between two draws from the normal distribution, in standard deviations."""


def fallen_trials(
    trials: Sequence[Trial],
    objectives: Mapping[str, float | None],
    error: Callable[[str, float], float],
    references: Collection[str],
    worst: float,
) -> frozenset[str]:
    """Return the ids of trials that ended far below the others of their stage.

    Args:
        trials: of all configs.
        objectives: results by trial id; a trial without one is not judged.
        error: returns the standard error that sampling alone gives a trial whose true result is so high.
        references: ids of the configs whose median the others are held against.
        worst: the lowest result that a trial can have; one below it is not judged.
    """
    fallen: set[str] = set()
    for stage in Stage:
        by_config: dict[str, list[float]] = {}
        own = [trial for trial in trials if trial.stage is stage and objectives[trial.id] is not None]
        for trial in own:
            if trial.config_id in references and (value := objectives[trial.id]) is not None:
                by_config.setdefault(trial.config_id, []).append(value)
        if not by_config:
            continue
        middle = median(median(values) for values in by_config.values())
        spread = _spread(by_config.values())
        for trial in own:
            value = objectives[trial.id]
            noise = ERRORS * max(error(trial.id, middle), spread)
            if value is not None and 0 <= value - worst < KEPT * (middle - worst) and middle - value > noise:
                fallen.add(trial.id)
    return frozenset(fallen)


def _spread(results: Collection[Sequence[float]]) -> float:
    """Estimate the standard deviation over seeds, by the closer pairs of runs: half of the runs may be ruins."""
    apart = [abs(one - other) for values in results for one, other in combinations(values, 2)]
    return float(np.quantile(apart, 0.25)) / _QUARTILE if apart else 0.0
