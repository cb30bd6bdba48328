"""What the golden file of warnings does not show of those about benchmarks: when they do not fire, and the store."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from sweep_service.report.build import build
from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.model import Caution
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import (
    SweepState,
    ValidatedSweep,
)
from sweep_service.sweep.spec import SweepSpec
from sweep_service.worker.reports.contents import gather
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.report.report_benchmarks import measured_inputs


def warning(inputs: ReportInputs, code: str) -> Caution | None:
    return next((caution for caution in build(inputs).cautions if caution.code == code), None)


def missing(inputs: ReportInputs) -> Caution | None:
    return warning(inputs, "BENCHMARKS_MISSING")


def test_a_sweep_that_asks_for_no_benchmarks_misses_none() -> None:
    inputs = measured_inputs()
    plain = inputs.sweep.spec.model_copy(update={"benchmarks": None})
    sweep = inputs.sweep.model_copy(update={"spec": plain})
    assert missing(replace(inputs, sweep=sweep, evaluations=(), benchmark_results=())) is None


def test_models_without_an_evaluation_count_once_the_sweep_is_over() -> None:
    inputs = measured_inputs()
    kept = [one for one in inputs.benchmark_results if one.evaluation_id != inputs.evaluations[-1].id]
    fewer = replace(inputs, evaluations=inputs.evaluations[:-1], benchmark_results=tuple(kept))
    found = missing(fewer)
    assert found.text.startswith(f"1 of {len(inputs.evaluations)} models ")
    assert "Never finished: " in found.text
    running = fewer.sweep.model_copy(update={"state": SweepState.RUNNING})
    assert missing(replace(fewer, sweep=running)) is None


# What the store finds


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
