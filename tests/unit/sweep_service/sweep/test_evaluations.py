"""Which models of a sweep are measured on benchmarks."""

from typing import Any

import pytest

from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.evaluations import (
    benchmarks_of,
    measuring_request,
    missing_evaluations,
    models_of_trials,
    most_evaluations,
)
from sweep_service.sweep.plan import first_records, stage_counts
from sweep_service.sweep.records import Config, Sweep, Trial, TrialState
from tests import stored_sweeps as sweeps


def trained(*added: AddedBenchmarks, **changes: Any) -> tuple[Sweep, list[Config], list[Trial]]:
    """Return a sweep of which every trial has SUCCEEDED, and what benchmarks were added to it."""
    sweep = sweeps.make_sweep(parse_spec(sweeps.SPEC | changes), added_benchmarks=added)
    configs, trials = first_records(sweep.spec, sweep.id)
    return sweep, configs, [trial.model_copy(update={"state": TrialState.SUCCEEDED}) for trial in trials]


def with_arithmetic(*trials: Trial, samples: int | None = None) -> AddedBenchmarks:
    return AddedBenchmarks(names=("arithmetic",), samples=samples, trials=tuple(trial.id for trial in trials))


OF_ALL: dict[str, Any] = {"benchmarks": {"names": ["arithmetic"], "of": "all"}}
TWO_SIZES: dict[str, Any] = {"space": {"model.hidden_size": [32, 64]}}


def test_a_trial_s_models_begin_with_the_one_from_which_its_config_starts() -> None:
    space = {"model.hidden_size": [32, 64], "loss.beta1": [0.0, 0.5]}
    changes = {"space": space, "benchmarks": {"names": ["expressions"], "of": "all", "at": [8, 16]}}
    sweep, configs, (first, *ended) = trained(**changes)
    kept = {(trial.id, 8) for trial in ended}
    running = first.model_copy(update={"state": TrialState.RUNNING})
    evaluations = missing_evaluations(sweep, configs, [running, *ended], [], kept)
    models = models_of_trials(configs, evaluations[::-1])
    assert models.keys() == {trial.id for trial in ended}
    size = {config.id: config.training["model"]["hidden_size"] for config in configs}
    assert set(size.values()) == {32, 64}
    for trial in ended:
        initial, *later = models[trial.id]
        assert (initial.trial_id, initial.model_step, size[initial.config_id]) == (None, 0, size[trial.config_id])
        assert [(one.trial_id, one.model_step) for one in later] == [(trial.id, 8), (trial.id, 16)]


@pytest.mark.parametrize(
    ("training", "space", "models"),
    [
        ({}, {"loss.beta1": [0.0, 0.5]}, 1),
        ({"model": {"lora": {"rank": 4, "alpha": 8}}}, {"model.lora.rank": [2, 4]}, 1),
        ({}, {"task.largest": [49, 99]}, 2),
        ({"model": {"name": "pretrained", "model": "qwen"}}, {"task.largest": [49, 99]}, 1),
        ({"model": {"name": "pretrained", "model": "qwen"}}, {"model.model": ["qwen", "llama"]}, 2),
    ],
    ids=["losses", "adapters", "warm starts", "tasks", "pretrained models"],
)
def test_configs_share_an_initial_model_where_they_start_from_the_same(
    training: dict[str, Any], space: dict[str, Any], models: int
) -> None:
    sweep, configs, trials = trained(training={"steps": 16} | training, space=space, **OF_ALL)
    assert len(missing_evaluations(sweep, configs, trials, [])) == len(trials) + models
    assert most_evaluations(sweep.spec, *stage_counts(sweep.spec)) >= len(trials) + models


def test_the_models_of_every_seed_are_measured_whenever_their_trials_end() -> None:
    sweep, configs, ended = trained(**OF_ALL)
    running = [trial.model_copy(update={"state": TrialState.RUNNING}) for trial in ended[1:]]
    early = missing_evaluations(sweep, configs, [ended[0], *running], [])
    late = missing_evaluations(sweep, configs, ended, early)
    assert [one.trial_id for one in early] == [None, ended[0].id]
    assert [one.trial_id for one in late] == [trial.id for trial in ended[1:]]
    assert missing_evaluations(sweep, configs, ended, [*early, *late]) == []


@pytest.mark.parametrize(
    ("benchmarks", "space", "most"),
    [
        (None, {"loss.beta1": [0.0, 0.5]}, 0),
        ({}, {"loss.beta1": [0.0, 0.5]}, 6 + 1),
        ({"at": [4, 8, 16]}, {"loss.beta1": [0.0, 0.5]}, 3 * 6 + 1),
        ({"of": "all"}, {"loss.beta1": [0.0, 0.5]}, 4 + 6 + 1),
        ({}, {"model.hidden_size": [32, 64]}, 6 + 6),
        ({"of": "all", "at": [8]}, {"task.largest": [49, 99]}, 10 + 10),
    ],
)
def test_the_most_evaluations_are_of_every_model_of_every_trial_and_of_all_initial_ones(
    benchmarks: dict[str, Any] | None, space: dict[str, Any], most: int
) -> None:
    seeds = {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [5, 6]}}
    named = None if benchmarks is None else {"names": ["arithmetic"]} | benchmarks
    spec = parse_spec(sweeps.SPEC | {"space": space, "seeds": seeds, "benchmarks": named})
    assert most_evaluations(spec, tune=4, confirm=6) == most


def test_what_is_asked_of_a_measurement_are_the_specs_settings_for_each_benchmark() -> None:
    settings = {"samples": 3, "longest": 32, "temperature": 0.7, "top_p": 0.9}
    benchmarks = {"names": ["expressions", "arithmetic"], "of": "all"} | settings
    sweep = sweeps.make_sweep(parse_spec(sweeps.SPEC | {"benchmarks": benchmarks}))
    asked = measuring_request(benchmarks_of(sweep, None, 0), "/models/step-16", "/results")
    expected = [{"name": name} | settings for name in ("expressions", "arithmetic")]
    assert asked == {"model": "/models/step-16", "results": "/results", "benchmarks": expected}


def test_a_model_of_another_trial_or_step_is_not_measured_on_what_was_added() -> None:
    sweep, _, (first, second, *_) = trained(**OF_ALL)
    added = AddedBenchmarks(names=("expressions",), trials=(first.id,))
    sweep = sweep.model_copy(update={"added_benchmarks": (added,)})
    named = [[*benchmarks_of(sweep, trial, step)] for trial, step in ((first, 16), (second, 16), (first, 8))]
    assert named == [["arithmetic", "expressions"], ["arithmetic"], []]
    assert sweep.benchmarks == ("arithmetic", "expressions")


def test_an_initial_model_is_measured_once_whichever_configs_are_asked_for_first() -> None:
    _, configs, ended = trained()
    last, first = with_arithmetic(ended[-1]), with_arithmetic(ended[0])
    early = missing_evaluations(trained(last)[0], configs, ended, [])
    assert [one.trial_id for one in early] == [None, ended[-1].id]
    late = missing_evaluations(trained(last, first)[0], configs, ended, early)
    assert [one.trial_id for one in late] == [ended[0].id]


def test_the_initial_model_of_a_config_that_is_measured_later_is_measured_then() -> None:
    sweep, configs, _ = trained(**TWO_SIZES, **OF_ALL)
    _, trials = first_records(sweep.spec, sweep.id)
    size = {config.id: config.training["model"]["hidden_size"] for config in configs}
    begun = [trial for trial in trials if size[trial.config_id] == 32]
    early = missing_evaluations(sweep, configs, begun, [])
    late = missing_evaluations(sweep, configs, trials, early)
    assert [[(one.trial_id, size[one.config_id]) for one in new] for new in (early, late)] == [
        [(None, 32)],
        [(None, 64)],
    ]


def test_a_benchmark_is_sampled_as_where_it_was_named_first() -> None:
    _, _, (one, other, *_) = trained()
    again = AddedBenchmarks(names=("arithmetic", "expressions"), trials=(other.id,))
    sampled = benchmarks_of(trained(with_arithmetic(one, samples=2), again)[0], other, other.total_steps)
    assert {name: part.samples for name, part in sampled.items()} == {"arithmetic": 2, "expressions": None}


def test_the_initial_model_of_a_config_that_nobody_asked_for_is_not_measured() -> None:
    _, configs, (*ended, last) = trained(**TWO_SIZES)
    sweep, *_ = trained(with_arithmetic(last), **TWO_SIZES)
    new = missing_evaluations(sweep, configs, [*ended, last], [])
    assert [(one.trial_id, one.config_id) for one in new] == [(None, last.config_id), (last.id, last.config_id)]
