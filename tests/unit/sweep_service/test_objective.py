"""The ranking number: the mean of the last evaluations, with failures missing and divergence counting 0."""

import pytest

from sweep_service.objective import choose, config_objectives, trial_objectives
from sweep_service.records import Config, Curve, Role, Stage, Trial, TrialState
from sweep_service.spec import Objective


def trial(name: str, state: TrialState = TrialState.SUCCEEDED, config: str = "a") -> Trial:
    return Trial(
        id=name,
        sweep_id="s",
        config_id=config,
        seed=0,
        stage=Stage.TUNE,
        number=0,
        state=state,
        threads=1,
        total_steps=10,
    )


def curve(name: str, *values: float | None) -> Curve:
    steps = list(range(len(values)))
    times = [0.0] * len(values)
    return Curve(
        trial_id=name,
        config_id="a",
        seed=0,
        stage=Stage.TUNE,
        key="eval/avg_at_k",
        steps=steps,
        times=times,
        values=list(values),
    )


def config(name: str, number: int, *roles: Role) -> Config:
    return Config(id=name, sweep_id="s", number=number, roles=roles, params={}, training={})


def test_trial_objective_is_the_mean_of_the_last_evaluations_never_the_maximum() -> None:
    found = trial_objectives([trial("t")], [curve("t", 0.9, 0.1, None, 0.2, 0.3)], Objective(last=3))
    assert found["t"] == pytest.approx(0.2)


def test_a_diverged_trial_counts_zero_and_unfinished_ones_are_missing() -> None:
    states = [TrialState.DIVERGED, TrialState.FAILED, TrialState.RUNNING, TrialState.CANCELLED]
    trials = [trial(state.value, state) for state in states]
    found = trial_objectives(trials, [curve(state.value, 0.5) for state in states], Objective())
    assert found == {"DIVERGED": 0.0, "FAILED": None, "RUNNING": None, "CANCELLED": None}


def test_config_objective_is_the_mean_over_seeds_that_have_one() -> None:
    trials = [trial("x"), trial("y"), trial("z"), trial("w", config="b")]
    means = config_objectives(trials, {"x": 0.2, "y": 0.4, "z": None, "w": 0.9}, Stage.TUNE)
    assert means == {"a": pytest.approx(0.3), "b": 0.9}
    assert config_objectives(trials, {"x": 0.2}, Stage.CONFIRM) == {}


def test_choose_takes_points_of_the_space_that_are_not_baselines_best_first() -> None:
    configs = [
        config("base", 0, Role.BASELINE, Role.SPACE),
        config("dapo", 1, Role.DAPO),
        config("low", 2, Role.SPACE),
        config("tie", 3, Role.SPACE),
        config("high", 4, Role.SPACE),
        config("none", 5, Role.SPACE),
    ]
    means = {"base": 0.9, "dapo": 0.9, "low": 0.1, "tie": 0.1, "high": 0.5}
    assert [chosen.id for chosen in choose(configs, means, 2)] == ["high", "low"]
