"""What is said of benchmarks that cannot be added to a sweep that has ended."""

from pathlib import Path
from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.intake.added_check import MeasuredSweep, check_added
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.plan import first_records
from sweep_service.sweep.records import Role, Stage, TrialState
from tests.refusals import refusals
from tests.stored_sweeps import SPEC, make_sweep

WORDS: dict[str, Any] = {"training": {"steps": 16, "task": {"name": "word_problems"}}}


def measured(**changes: Any) -> MeasuredSweep:
    """Return a sweep of which every trial has SUCCEEDED but those of the last config."""
    spec = parse_spec(SPEC | WORDS | changes)
    sweep = make_sweep(spec)
    configs, trials = first_records(spec, sweep.id)
    last = configs[-1].id
    ended = [
        trial.model_copy(update={"state": TrialState.FAILED if trial.config_id == last else TrialState.SUCCEEDED})
        for trial in trials
    ]
    return MeasuredSweep(sweep, configs, ended, configs[1].id)


def refused(raw: object, rows: MeasuredSweep, cache: Path) -> dict[str, str]:
    return refusals(raw, rows, cache, check=check_added)


def test_the_best_and_the_baseline_are_meant_unless_others_are_named(tmp_path: Path) -> None:
    rows = measured()
    added = check_added({"names": ["arithmetic"], "samples": 2}, rows, tmp_path)
    baseline = next(config.id for config in rows.configs if Role.BASELINE in config.roles)
    of = {trial.id: trial.config_id for trial in rows.trials}
    assert {of[id_] for id_ in added.trials} == {rows.best, baseline}
    assert len(added.trials) == 4  # two seeds each
    assert (added.names, added.samples) == (("arithmetic",), 2)
    of_all = check_added({"names": ["arithmetic"], "of": ["all"]}, rows, tmp_path)
    assert {of[id_] for id_ in of_all.trials} == {config.id for config in rows.configs[:-1]}
    by_id = check_added({"names": ["arithmetic"], "of": [rows.configs[0].id]}, rows, tmp_path)
    assert {of[id_] for id_ in by_id.trials} == {rows.configs[0].id}


def test_a_config_stands_for_its_confirm_trials_where_it_has_any(tmp_path: Path) -> None:
    rows = measured()
    config = rows.configs[0].model_copy(update={"roles": (Role.BASELINE, Role.MATCHED)})
    tuned = next(trial for trial in rows.trials if trial.config_id == config.id)
    confirmed = tuned.model_copy(update={"id": "trl_confirmed", "stage": Stage.CONFIRM})
    rows = rows._replace(configs=[config, *rows.configs[1:]], trials=[*rows.trials, confirmed])
    for word in (config.id, "baseline", "matched"):
        assert check_added({"names": ["arithmetic"], "of": [word]}, rows, tmp_path).trials == ("trl_confirmed",)


def test_tune_trials_do_not_stand_for_a_config_whose_confirm_trials_failed(tmp_path: Path) -> None:
    rows = measured()
    tuned = next(trial for trial in rows.trials if trial.config_id == rows.best)
    failed = {"id": "trl_failed", "stage": Stage.CONFIRM, "state": TrialState.FAILED}
    rows = rows._replace(trials=[*rows.trials, tuned.model_copy(update=failed)])
    wrong = refused({"names": ["arithmetic"], "of": ["best"]}, rows, tmp_path)
    assert wrong == {"/of": "no trial of best has SUCCEEDED, so there is no model to measure"}


def test_every_reason_comes_at_once(tmp_path: Path) -> None:
    wrong = refused({"names": ["nosuch"], "of": ["best", "winner"]}, measured(), tmp_path)
    assert "nosuch is not in the catalog" in wrong["/names"]
    assert "winner is no config of this sweep; name best, baseline, space, all, or a config's id" in wrong["/of"]


@pytest.mark.parametrize("raw", [None, [], "arithmetic", 7])
def test_what_is_no_request_is_refused(raw: object, tmp_path: Path) -> None:
    with pytest.raises(InvalidSpec) as error:
        check_added(raw, measured(), tmp_path)
    assert error.value.what == "the benchmarks cannot be added"


def test_unknown_and_wrong_fields_are_named(tmp_path: Path) -> None:
    wrong = refused({"names": ["arithmetic", "arithmetic"], "sample": 3, "top_p": 2}, measured(), tmp_path)
    assert wrong.keys() == {"/names", "/sample", "/top_p"}


def test_a_config_without_a_trained_model_is_refused(tmp_path: Path) -> None:
    rows = measured()
    wrong = refused({"names": ["arithmetic"], "of": [rows.configs[-1].id]}, rows, tmp_path)
    assert "has SUCCEEDED" in wrong["/of"]


def test_no_config_is_best_where_none_has_a_result(tmp_path: Path) -> None:
    wrong = refused({"names": ["arithmetic"], "of": ["best"]}, measured()._replace(best=None), tmp_path)
    assert wrong == {"/of": "no config of this sweep has a result, so none is best; name other configs"}


def test_numbers_that_the_models_have_learned_measure_nothing(tmp_path: Path) -> None:
    wrong = refused({"names": ["expressions"]}, measured(training={"steps": 16}), tmp_path)
    assert "expressions has 24 problems" in wrong["/names"]
    kept_apart = measured(training={"steps": 16}, benchmarks={"names": ["expressions"], "of": "all"})
    assert check_added({"names": ["expressions"]}, kept_apart, tmp_path)


def test_what_each_of_the_models_has_learned_counts_and_nothing_else(tmp_path: Path) -> None:
    rows = measured(training={"steps": 16})
    first, second, *rest = rows.configs
    task = second.training["task"] | {"apart_from": ["expressions"]}
    apart = second.model_copy(update={"training": second.training | {"task": task}})
    for configs in ([first, apart, *rest], [apart, first, *rest]):
        rows = rows._replace(configs=configs)
        assert check_added({"names": ["expressions"], "of": [apart.id]}, rows, tmp_path)
        wrong = refused({"names": ["expressions"], "of": [first.id, apart.id]}, rows, tmp_path)
        assert "expressions has 24 problems" in wrong["/names"]


def test_data_that_is_gone_cannot_be_compared(tmp_path: Path) -> None:
    gone = {"steps": 16, "task": {"name": "word_problems", "data": {"ref": "gone"}}}
    wrong = refused({"names": ["arithmetic"]}, measured(training=gone), tmp_path)
    assert "arithmetic cannot be compared with the data of the training: " in wrong["/names"]


def test_a_benchmark_is_measured_in_one_way(tmp_path: Path) -> None:
    named = measured(benchmarks={"names": ["arithmetic"], "samples": 4, "of": "all"})
    wrong = refused({"names": ["arithmetic"], "samples": 8}, named, tmp_path)
    assert "measures arithmetic with samples 4, longest of the benchmark" in wrong["/names"]
    assert check_added({"names": ["arithmetic"], "samples": 4}, named, tmp_path).samples == 4
    hotter = {"names": ["arithmetic"], "samples": 4, "temperature": 0.5}
    assert "measures arithmetic with samples 4" in refused(hotter, named, tmp_path)["/names"]
    rows = measured()
    earlier = AddedBenchmarks(names=("arithmetic",), samples=2, trials=())
    added = rows._replace(sweep=rows.sweep.model_copy(update={"added_benchmarks": (earlier,)}))
    assert "samples 2" in refused({"names": ["arithmetic"], "longest": 9}, added, tmp_path)["/names"]


def test_what_chose_the_configs_is_refused(tmp_path: Path) -> None:
    task = {"name": "word_problems", "validation": {"benchmark": "arithmetic"}}
    wrong = refused({"names": ["arithmetic"]}, measured(training={"steps": 16, "task": task}), tmp_path)
    assert "is what configs are chosen by" in wrong["/names"]


def test_without_settings_whatever_is_measured_can_be_asked_for_again(tmp_path: Path) -> None:
    named = measured(benchmarks={"names": ["arithmetic", "expressions"], "samples": 4, "of": "all"})
    assert check_added({"names": ["arithmetic"]}, named, tmp_path).samples is None
    rows = measured()
    earlier = AddedBenchmarks(names=("arithmetic",), samples=2, trials=())
    both = rows._replace(sweep=rows.sweep.model_copy(update={"added_benchmarks": (earlier,)}))
    assert check_added({"names": ["expressions", "arithmetic"]}, both, tmp_path).samples is None
