from dataclasses import replace
from math import sqrt
from statistics import stdev

import numpy as np
import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.parts.curve_sets import FEWEST_POINTS, MOST_POINTS, curve_sets, prominent
from sweep_service.sweep.records import Curve, Role, Stage, Trial, TrialState
from tests.unit.sweep_service.report.report_sweeps import series_of, sweep_inputs


def curve(key: str, values: list[float | None], trial_id: str = "trl_0", config_id: str = "cfg_0") -> Curve:
    steps = list(range(1, len(values) + 1))
    times = [float(step) for step in steps]
    where = {"trial_id": trial_id, "config_id": config_id, "seed": 0, "stage": Stage.TUNE}
    return Curve(**where, key=key, steps=steps, times=times, values=values)


def trial(steps: int, state: TrialState = TrialState.SUCCEEDED) -> Trial:
    names = {"id": "trl_0", "sweep_id": "swp_0", "config_id": "cfg_0"}
    return Trial(**names, seed=0, stage=Stage.TUNE, number=0, state=state, threads=1, total_steps=steps)


def inputs_of(*curves: Curve) -> ReportInputs:
    """A sweep that recorded these curves and no others."""
    made = sweep_inputs()
    by_trial = {curve.trial_id: curve for curve in curves}
    trials = [
        trial(len(curve.steps)).model_copy(update={"id": id_, "config_id": curve.config_id})
        for id_, curve in by_trial.items()
    ]
    return replace(made, configs=made.configs[:1], trials=tuple(trials), series=series_of(list(curves)))


@pytest.mark.parametrize(
    ("reward", "right", "collapsed"),
    [
        ([0.2] * 40 + [0.8] * 20 + [0.41] * 40, [], False),
        ([0.2] * 40 + [0.8] * 20 + [0.39] * 40, [], True),  # below half of its own peak
        ([0.016] * 20 + [0.0] * 80, [], False),  # it was never above noise
        ([0.016] * 20 + [0.0] * 80, [0.5] * 20 + [0.0] * 80, True),  # a small reward of a policy that is right
        ([0.6] * 12 + [0.1] + [0.6] * 7, [], False),  # one poor batch of a short trial
        ([0.6] * 12 + [0.1] * 4 + [0.6] * 4, [], True),
        ([0.3] * 50 + [1.0] + [0.3] * 49, [], False),  # one lucky step is no peak
        ([], [], False),
    ],
)
def test_a_reward_collapses_by_its_own_peak(reward: list[float], right: list[float], collapsed: bool) -> None:
    curves = [curve(key, values) for key, values in (("reward/mean", reward), ("eval/avg_at_k", right)) if values]
    assert inputs_of(*curves).run_curves(trial(len(reward))).health.reward_collapsed is collapsed


def test_peak_and_final_reward_are_means_over_windows() -> None:
    health = inputs_of(curve("reward/mean", [0.2] * 40 + [0.8] * 20 + [0.41] * 40)).run_curves(trial(100)).health
    assert (health.reward_peak, health.reward_final) == (pytest.approx(0.8), pytest.approx(0.41))


@pytest.mark.parametrize(
    ("entropy", "collapsed"),
    [([1.0] * 50 + [0.22] * 50, False), ([1.0] * 50 + [0.18] * 50, True), ([None, None], False)],
)
def test_an_entropy_below_a_fifth_of_its_start_has_collapsed(entropy: list[float | None], collapsed: bool) -> None:
    assert inputs_of(curve("entropy", entropy)).run_curves(trial(100)).health.entropy_collapsed is collapsed


def test_a_diverged_trial_has_collapsed() -> None:
    assert inputs_of().run_curves(trial(100, TrialState.DIVERGED)).health.reward_collapsed


def test_thinning_keeps_a_spike_of_one_step() -> None:
    values: list[float | None] = [1.0] * 10_000
    values[7_777] = 42.0
    values[3_333] = None
    configs = sweep_inputs().configs[:1]
    (found,) = curve_sets(
        configs, inputs_of(curve("eval/avg_at_k", values, config_id=configs[0].id)), {"eval/avg_at_k": "seeds"}
    )
    (seed,) = found.configs[0].seeds
    assert len(seed.steps) <= MOST_POINTS + 2
    assert 7_778 in seed.steps
    assert seed.values[seed.steps.index(7_778)] == 42.0
    assert seed.steps == sorted(set(seed.steps))


def test_the_mean_stops_where_fewer_than_half_of_the_trials_go_on() -> None:
    configs = sweep_inputs().configs[:1]
    lengths = (10, 6, 4, 4)
    curves = [
        curve("eval/avg_at_k", [float(i)] * length, trial_id=f"trl_{i}", config_id=configs[0].id)
        for i, length in enumerate(lengths)
    ]
    (found,) = curve_sets(configs, inputs_of(*curves), {"eval/avg_at_k": "configs"})
    assert found.configs[0].steps == [1, 2, 3, 4, 5, 6]
    assert found.configs[0].mean == [1.5, 1.5, 1.5, 1.5, 0.5, 0.5]
    assert found.configs[0].seeds == []


def test_a_band_is_students_interval_over_the_trials_that_have_a_value() -> None:
    configs = sweep_inputs().configs[:1]
    trials: list[list[float | None]] = [[0.1, 0.2, 0.3], [0.2, 0.4, None], [0.6, 0.9, 0.5], [0.3, None, None]]
    curves = [curve("eval/avg_at_k", trial, f"trl_{i}", configs[0].id) for i, trial in enumerate(trials)]
    (found,) = curve_sets(configs, inputs_of(*curves), {"eval/avg_at_k": "configs"})
    (shown,) = found.configs
    assert shown.mean == [0.3, 0.5, 0.4]
    of_four = 3.182446 * stdev([0.1, 0.2, 0.6, 0.3]) / sqrt(4)
    of_three = 4.302653 * stdev([0.2, 0.4, 0.9]) / sqrt(3)
    assert shown.low == [pytest.approx(0.3 - of_four, rel=1e-3), pytest.approx(0.5 - of_three, rel=1e-3), None]
    assert shown.high == [pytest.approx(0.3 + of_four, rel=1e-3), pytest.approx(0.5 + of_three, rel=1e-3), None]


def test_metrics_that_nobody_recorded_are_left_out() -> None:
    silent = curve("grad_norm", [None] * 8, config_id=sweep_inputs().configs[0].id)
    recorded = inputs_of(silent)
    assert curve_sets(recorded.configs, recorded, {"grad_norm": "configs", "entropy": "configs"}) == []


def test_a_thousand_trials_stay_within_the_budget_of_points() -> None:
    configs = sweep_inputs().configs[:1]
    values: list[float | None] = list(np.linspace(1, 0, 300))
    curves = [curve("eval/avg_at_k", values, trial_id=f"trl_{i}", config_id=configs[0].id) for i in range(3000)]
    (found,) = curve_sets(configs, inputs_of(*curves), {"eval/avg_at_k": "seeds"})
    assert sum(len(seed.steps) for seed in found.configs[0].seeds) <= 130_000


def test_training_metrics_have_a_point_a_rollout() -> None:
    configs = sweep_inputs().configs[:1]
    sawtooth: list[float | None] = [float(i) for i in range(8)] * 3
    sawtooth[-4:] = [None] * 4
    (found,) = curve_sets(
        configs, inputs_of(curve("share/na_lp", sawtooth, config_id=configs[0].id)), {"share/na_lp": "seeds"}
    )
    (seed,) = found.configs[0].seeds
    assert seed.steps == [8, 16, 24]
    assert seed.values == [3.5, 3.5, 1.5]


def spiky(at: int, of: int) -> list[float | None]:
    values: list[float | None] = [1.0] * of
    values[at] = 42.0
    return values


@pytest.mark.parametrize("key", ["grad_norm", "ppo_kl", "clip_fraction/low"])
def test_a_thinned_mean_keeps_a_spike_of_one_rollout(key: str) -> None:
    configs = sweep_inputs().configs[:1]
    updates = configs[0].updates_per_rollout
    values: list[float | None] = [value for value in spiky(777, 2000) for _ in range(updates)]
    (found,) = curve_sets(configs, inputs_of(curve(key, values, config_id=configs[0].id)), {key: "configs"})
    assert len(found.configs[0].steps) <= MOST_POINTS + 2
    assert dict(zip(found.configs[0].steps, found.configs[0].mean, strict=True))[778 * updates] == 42.0


def test_means_that_are_drawn_against_each_other_have_common_steps_and_a_band_around_every_peak() -> None:
    configs = sweep_inputs().configs[:1]
    updates = configs[0].updates_per_rollout
    curves = [
        curve(key, [v for v in spiky(at, 2000) for _ in range(updates)], f"trl_{i}", configs[0].id)
        for key, at in (("entropy", 700), ("reward/mean", 1400))
        for i in range(3)
    ]
    entropy, reward = curve_sets(configs, inputs_of(*curves), {"entropy": "configs", "reward/mean": "configs"})
    assert entropy.configs[0].steps == reward.configs[0].steps
    assert len(entropy.configs[0].steps) == MOST_POINTS
    assert max(value or 0 for value in entropy.configs[0].mean) < 10
    assert max(value or 0 for value in entropy.configs[0].high) == 42.0
    assert np.mean([value or 0 for value in entropy.configs[0].mean]) == pytest.approx(1 + 41 / 2000, rel=0.01)


@pytest.mark.long
def test_of_many_configs_those_that_anyone_will_ask_for_are_drawn_in_full() -> None:
    betas = [round(0.02 * i, 2) for i in range(30)]
    report = build(sweep_inputs({"space": {"loss.beta1": betas, "loss.beta2": [1.0, 0.5]}}))
    chosen = prominent(report.configs)
    ranked = sorted((row.tune.mean, row.id) for row in report.configs if row.tune)
    assert {ranked[0][1], *(id_ for _, id_ in ranked[-5:])} <= chosen
    assert {row.id for row in report.configs if row.confirm or Role.SPACE not in row.roles} <= chosen
    assert len(chosen) < 15
    assert prominent(report.configs[:20]) == {row.id for row in report.configs[:20]}
    (entropy,) = (found for found in report.curves if found.key == "entropy")
    points = {curve.config_id: (len(curve.steps), len(curve.seeds[0].steps)) for curve in entropy.configs}
    assert set(points) == {row.id for row in report.configs}
    assert {points[id_] for id_ in chosen} == {(30, 30)}


def test_a_very_large_sweep_has_the_lesser_metrics_of_prominent_configs_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_service.report.parts.curve_sets.POINTS", 50)
    inputs = sweep_inputs({"space": {"loss.beta1": [0.0, 0.25, 0.5, 0.75], "loss.beta2": 1.0}})
    first = inputs.configs[0].id
    sets = curve_sets(
        inputs.configs, inputs, {"entropy": "seeds", "grad_norm": "configs", "kl/k3": "prominent"}, {first}
    )
    found = {(curves.key, curve.config_id): curve for curves in sets for curve in curves.configs}
    assert 16 <= len(found[("kl/k3", first)].steps) <= 18
    assert {config_id for key, config_id in found if key == "kl/k3"} == {first}
    assert {config_id for key, config_id in found if key == "grad_norm"} == {config.id for config in inputs.configs}
    others = [curve for (_, config_id), curve in found.items() if config_id != first]
    assert {len(curve.steps) for curve in others} <= {FEWEST_POINTS, FEWEST_POINTS + 1, FEWEST_POINTS + 2}
    assert all(curve.seeds == [] for curve in others)
    assert len(found[("entropy", first)].seeds) > 0
