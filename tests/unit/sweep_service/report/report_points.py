"""Sweeps with given results, for tests of the report's parts: no curves but evaluations, unless asked for."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.plan import add_config, first_records, make_trials
from sweep_service.sweep.records import Attempt, Config, Role, Stage, SweepState, Trial, TrialState
from sweep_service.sweep.series import TrialSeries
from sweep_service.sweep.spec import SweepSpec
from tests.stored_sweeps import make_sweep

Score = Callable[[Mapping[str, Any], int], float | None]
"""The objective of params on a seed; None: the trial failed."""


def tuned(
    space: dict[str, Any],
    score: Score,
    *,
    seeds: Sequence[int] = (0,),
    points: Sequence[dict[str, Any]] | None = None,
    baselines: bool = False,
    collapsed: Callable[[Mapping[str, Any]], bool] = lambda _: False,
    training: dict[str, Any] | None = None,
) -> Facts:
    """A sweep after its tune stage.

    Args:
        points: what a sampler proposed; None: the space's grid.
        collapsed: whether the reward of a config's trials ends below half of its peak.
    """
    spec = SweepSpec.model_validate(
        {
            "name": "made-up",
            "training": {"loss": {"name": "ce_gppo"}, "steps": 240} | (training or {}),
            "space": space,
            "seeds": {"tune": list(seeds)},
            "baselines": {"ppo_clip": baselines, "dapo": baselines, "matched": False},
            "search": {"strategy": "grid"} if points is None else {"strategy": "random", "num_configs": len(points)},
        }
    )
    found = {config.id: config for config in first_records(spec, "swp_test")[0]}
    for point in points or ():
        add_config(found, "swp_test", Role.SPACE, spec.at(point))
    configs = list(found.values())
    planned = make_trials(spec, "swp_test", configs, Stage.TUNE, 0)
    trials: list[Trial] = []
    series: dict[str, TrialSeries] = {}
    for trial in planned:
        params = found[trial.config_id].params
        value = score(params, trial.seed)
        state = TrialState.FAILED if value is None else TrialState.SUCCEEDED
        trial = trial.model_copy(update={"id": f"trl_{trial.number:05}", "state": state, "step": 240})
        trials.append(trial)
        if value is not None:
            series[trial.id] = _series(trial.id, value, collapsed(params))
    return facts_of(spec, configs, trials, series)


def facts_of(
    spec: SweepSpec,
    configs: Sequence[Config],
    trials: Sequence[Trial],
    series: Mapping[str, TrialSeries],
    attempts: Sequence[Attempt] = (),
) -> Facts:
    """What the parts start from."""
    sweep = make_sweep(spec, id="swp_test", state=SweepState.FINALIZING)
    return Facts(ReportInputs(sweep, tuple(configs), tuple(trials), series, tuple(attempts)))


def _series(trial_id: str, value: float, collapsed: bool) -> TrialSeries:
    metrics = {"eval/avg_at_k": np.array([value])}
    if collapsed:
        metrics["reward/mean"] = np.array([0.5] * 20 + [0.0] * 20)
    return TrialSeries(trial_id, np.arange(1, 41), np.array([240]), np.array([1e9]), metrics)
