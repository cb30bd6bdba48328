"""Warnings about benchmarks fire where models lack results or benchmarks have chosen before, and nowhere else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Caution
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import (
    Config,
    Evaluation,
    Role,
    SweepState,
    Trial,
    TrialState,
    ValidatedSweep,
)
from sweep_service.sweep.spec import SweepSpec
from sweep_service.worker.reports import gather
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs
from tests.unit.sweep_service.report.report_sweeps import succeed


def warning(inputs: ReportInputs, code: str) -> Caution | None:
    return next((caution for caution in build(inputs).cautions if caution.code == code), None)


def missing(inputs: ReportInputs) -> Caution | None:
    return warning(inputs, "BENCHMARKS_MISSING")


def ended(inputs: ReportInputs, seed: int, **changes: Any) -> ReportInputs:
    """Let the evaluations of one seed of β1=0 β2=1 end otherwise, or the initial model's for seed 0."""
    configs = {config.id: config for config in inputs.configs}

    def is_meant(one: Evaluation) -> bool:
        own = configs[one.config_id]
        in_space = own.params.get("loss.beta1") == 0.0 and Role.BASELINE not in own.roles
        return one.seed == seed and (one.trial_id is None or in_space)

    evaluations = [one.model_copy(update=changes) if is_meant(one) else one for one in inputs.evaluations]
    assert evaluations != list(inputs.evaluations)
    lost = {one.id for one in evaluations if one.state is not TrialState.SUCCEEDED}
    results = [result for result in inputs.benchmark_results if result.evaluation_id not in lost]
    return replace(inputs, evaluations=tuple(evaluations), benchmark_results=tuple(results))


def test_a_sweep_whose_models_are_all_measured_has_no_warning_of_benchmarks() -> None:
    inputs = measured_inputs()
    assert missing(inputs) is None
    plain = inputs.sweep.spec.model_copy(update={"benchmarks": None})
    sweep = inputs.sweep.model_copy(update={"spec": plain})
    assert missing(replace(inputs, sweep=sweep, evaluations=(), benchmark_results=())) is None


def test_failed_evaluations_are_named_with_their_reason_and_the_command_that_tries_again() -> None:
    inputs = measured_inputs()
    message = "out of GPU memory while sampling\nTraceback"
    changed = ended(inputs, 11, state=TrialState.FAILED, ending=Ending.CRASHED, message=message)
    ((trial_id, of),) = ((o.trial_id, o.config_id) for o in changed.evaluations if o.state is TrialState.FAILED)
    found = missing(changed)
    assert found.trials == [trial_id]
    assert found.text.startswith(f"1 of {len(inputs.evaluations)} models has no result on every benchmark. ")
    assert "Failed: β1=0 β2=1 seed 11 (out of GPU memory while sampling)." in found.text
    assert f"`sweeps benchmarks run {inputs.sweep.id} --names aime24,aime25 --of {of}` tries again" in found.text


def test_the_remedy_of_a_budget_that_was_too_small_is_a_larger_one() -> None:
    inputs = ended(measured_inputs(), 12, state=TrialState.CANCELLED, ending=Ending.OVER_BUDGET, message="not begun: …")
    found = missing(ended(inputs, 0, state=TrialState.FAILED, ending=Ending.TIMED_OUT, message="stopped after …"))
    assert "Did not fit the budget: β1=0 β2=1 seed 12 (not begun: …)." in found.text
    assert "Ran out of time: the initial model (stopped after …)." in found.text
    assert "Raise budget.max_gpu_hours" in found.text
    assert "`sweeps benchmarks run" in found.text
    (only,) = (one for one in [missing(inputs)] if one)
    assert "`sweeps benchmarks run" not in only.text  # the hours are used up


def test_models_without_an_evaluation_count_once_the_sweep_is_over() -> None:
    inputs = measured_inputs()
    fewer = replace(inputs, evaluations=inputs.evaluations[:-1])
    kept = [one for one in inputs.benchmark_results if one.evaluation_id != inputs.evaluations[-1].id]
    fewer = replace(fewer, benchmark_results=tuple(kept))
    found = missing(fewer)
    assert found.text.startswith(f"1 of {len(inputs.evaluations)} models ")
    assert "Never finished: " in found.text
    running = fewer.sweep.model_copy(update={"state": SweepState.RUNNING})
    assert missing(replace(fewer, sweep=running)) is None


def test_a_trial_without_a_last_model_is_no_gap_of_the_benchmarks() -> None:
    def diverging(config: Config, trial: Trial) -> Trial:
        changes = {"state": TrialState.DIVERGED, "step": 100} if trial.seed == 10 else {}
        return succeed(config, trial).model_copy(update=changes)

    assert missing(measured_inputs(fate=diverging)) is None


@pytest.mark.parametrize(("at", "name"), [("end", "β1=0 β2=1 seed 11"), ([120, 240], "β1=0 β2=1 seed 11 step 120")])
def test_a_model_s_step_is_named_where_there_are_several(at: object, name: str) -> None:
    inputs = measured_inputs(spec={"benchmarks": {"names": ["aime24"], "at": at}})
    found = missing(ended(inputs, 11, state=TrialState.FAILED, ending=Ending.FAILED))
    assert f"Failed: {name}" in found.text


# Benchmarks that chose configs before


def test_a_benchmark_that_chose_configs_before_is_named_with_its_sweeps() -> None:
    inputs = measured_inputs()
    assert warning(inputs, "BENCHMARK_CHOSE_BEFORE") is None
    earlier = [
        ValidatedSweep(sweep_id=f"swp_{number}", name=f"rates-{number}", benchmark="aime24") for number in range(8)
    ]
    changed = replace(inputs, validated_before=tuple(earlier))
    found = warning(changed, "BENCHMARK_CHOSE_BEFORE")
    assert found.text.startswith("aime24 chose the configs of rates-0 (swp_0), rates-1 (swp_1), ")
    assert "rates-5 (swp_5) and 2 more. What this sweep took over" in found.text


def test_gather_finds_earlier_sweeps_of_the_same_model_that_validated_on_a_benchmark(
    store: Store, tmp_path: Path
) -> None:
    def training(model: str, benchmark: str | None, **model_settings: Any) -> dict[str, Any]:
        validation = {"benchmark": benchmark} if benchmark else None
        task = {"name": "word_problems", "validation": validation}
        return {"steps": 16, "task": task, "model": {"name": "pretrained", "model": model, **model_settings}}

    chose, _ = sweeps.start(store, training=training("m", "arithmetic", lora={"rank": 4}), name="chose")
    sweeps.start(store, training=training("other", "arithmetic"), name="another-model")
    sweeps.start(store, training=training("m", "expressions"), name="another-benchmark")
    sweeps.start(store, training=training("m", None), name="no-benchmark")
    measured = {"names": ["arithmetic", "gsm8k"], "of": "all"}
    sweep, _ = sweeps.start(store, training=training("m", None), name="measures", benchmarks=measured)
    plain, _ = sweeps.start(store, training=training("m", None), name="measures-nothing")
    sweeps.start(store, training=training("m", "arithmetic"), name="later")
    expected = ValidatedSweep(sweep_id=chose.id, name="chose", benchmark="arithmetic")
    assert gather(store, sweep.id, Settings(home=tmp_path)).validated_before == (expected,)
    assert gather(store, plain.id, Settings(home=tmp_path)).validated_before == ()


def test_a_stored_spec_that_today_s_version_refuses_spoils_no_other_report(store: Store, tmp_path: Path) -> None:
    task = {"name": "word_problems", "validation": {"benchmark": "arithmetic"}}
    refused = SweepSpec.model_validate(sweeps.SPEC | {"training": {"task": task, "no_longer_known": 1}})
    stored = store.create_sweep(sweeps.make_sweep(refused), [], [])
    claimed = store.claim("test", 3600)
    store.set_sweep_state(Fence(stored.id, claimed.epoch), SweepState.RUNNING)
    sweep, _ = sweeps.start(store, benchmarks={"names": ["arithmetic"], "of": "all"})
    assert [found.id for found in store.validated_on(["arithmetic"], before=sweep.id)] == [stored.id]
    assert gather(store, sweep.id, Settings(home=tmp_path)).validated_before == ()


def test_a_sweep_that_has_not_begun_has_chosen_nothing(store: Store) -> None:
    task = {"name": "word_problems", "validation": {"benchmark": "arithmetic"}}
    began, _ = sweeps.start(store, training={"steps": 16, "task": task})
    waiting = sweeps.submit(store, training={"steps": 16, "task": task})
    last = sweeps.submit(store)
    assert waiting.id < last.id
    assert [sweep.id for sweep in store.validated_on(["arithmetic"], before=last.id)] == [began.id]
    assert store.validated_on(["gsm8k"], before=last.id) == store.validated_on([], before=last.id) == []
