"""Benchmarks that are added to a sweep after its end: what is handed out then, and how it ends."""

from pathlib import Path
from typing import Any

import pytest

from sweep_service.errors import Conflict
from sweep_service.runner.ledger import Ledger, Nothing
from sweep_service.runner.trainer_process import Job
from sweep_service.runner.wishes import interruption_for
from sweep_service.store import Fence, Store
from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.evaluations import evaluations_to_reopen
from sweep_service.sweep.records import DesiredState, Stage, Sweep, SweepState, Trial
from tests import stored_sweeps as sweeps
from tests.unit.sweep_service.runner.ledgers import ledger_of
from tests.unit.sweep_service.runner.test_evaluations_ledger import Run, measuring


def finished(store: Store, home: Path, **changes: Any) -> tuple[Run, list[Trial]]:
    """Return a sweep that has SUCCEEDED, and its confirm trials."""
    run = Run(store, home, **changes)
    for _ in range(3):  # tune, confirm, evaluations
        run.train()
    for job in measuring(run):
        name = run.name_of(job.trial_id)
        run.tell(name, *(sweeps.benchmark_event(one["name"], 2) for one in (job.measure or {})["benchmarks"]))
        run.ledger.complete(name, {"ending": "SUCCEEDED", "message": None})
    assert run.ledger.next_job("none") is Nothing.EVER
    sweeps.finish(store, run.fence)
    store.release_lease(run.fence)
    return run, [trial for trial in store.list_trials(run.sweep.id) if trial.stage is Stage.CONFIRM]


def open_again(store: Store, sweep_id: str, added: AddedBenchmarks) -> Sweep:
    sweep = store.get_sweep(sweep_id)
    extended = sweep.model_copy(update={"added_benchmarks": (*sweep.added_benchmarks, added)})
    rows = store.list_trials(sweep_id), store.list_evaluations(sweep_id), store.benchmark_results(sweep_id)
    return store.open_again(sweep, added, evaluations_to_reopen(extended, *rows))


def taken(store: Store, home: Path) -> tuple[Ledger, Fence]:
    _, fence = sweeps.claimed(store)
    store.set_sweep_state(fence, SweepState.RUNNING)
    return ledger_of(store, fence, home, slots=99), fence


def handed_out(ledger: Ledger) -> list[Job]:
    jobs = list[Job]()
    while isinstance(job := ledger.next_job(f"again-{len(jobs)}"), Job):
        jobs.append(job)
    return jobs


def test_a_sweep_that_named_none_has_the_chosen_models_and_the_initial_one_measured(
    store: Store, tmp_path: Path
) -> None:
    run, confirmed = finished(store, tmp_path, benchmarks=None)
    assert run.evaluations == []
    added = AddedBenchmarks(names=("arithmetic",), samples=5, trials=(confirmed[0].id,))
    assert open_again(store, run.sweep.id, added).state is SweepState.QUEUED
    jobs = handed_out(taken(store, tmp_path)[0])
    assert [job.measure and job.measure["benchmarks"] for job in jobs] == 2 * [
        [{"name": "arithmetic", "samples": 5, "longest": None, "temperature": None, "top_p": None}]
    ]
    assert {evaluation.trial_id for evaluation in run.evaluations} == {None, confirmed[0].id}
    assert {evaluation.total_steps for evaluation in run.evaluations} == {1}


def test_nothing_is_trained_though_a_trial_waits(store: Store, tmp_path: Path) -> None:
    run, confirmed = finished(store, tmp_path, benchmarks=None)
    open_again(store, run.sweep.id, AddedBenchmarks(names=("arithmetic",), trials=(confirmed[0].id,)))
    ledger, fence = taken(store, tmp_path)
    waiting = confirmed[0].model_copy(update={"id": "trl_more", "seed": 99, "number": 99, "state": TrialState.PENDING})
    store.add_configs(fence, [], [waiting])
    jobs = handed_out(ledger)
    assert all(job.measure for job in jobs)
    assert len(jobs) == 2


def test_an_evaluation_goes_on_with_what_was_added_and_keeps_its_results(store: Store, tmp_path: Path) -> None:
    run, confirmed = finished(store, tmp_path, benchmarks={"names": ["arithmetic"], "samples": 3})
    before = store.benchmark_results(run.sweep.id)
    added = AddedBenchmarks(names=("expressions",), samples=7, trials=(confirmed[0].id,))
    open_again(store, run.sweep.id, added)
    again = {one.trial_id: one for one in run.evaluations if one.state is TrialState.PENDING}
    assert again.keys() == {None, confirmed[0].id}
    assert {(one.step, one.total_steps, one.ending, one.ended_at) for one in again.values()} == {(1, 2, None, None)}
    jobs = {job.trial_id: job for job in handed_out(taken(store, tmp_path)[0])}
    assert jobs.keys() == {one.id for one in again.values()}
    for job in jobs.values():
        assert job.attempt == 2
        assert job.measure is not None
        samples = [(one["name"], one["samples"]) for one in job.measure["benchmarks"]]
        assert samples == [("arithmetic", 3), ("expressions", 7)]
    assert store.benchmark_results(run.sweep.id) == before


def test_a_sweep_that_has_changed_meanwhile_is_not_opened(store: Store, tmp_path: Path) -> None:
    run, confirmed = finished(store, tmp_path)
    sweep, added = store.get_sweep(run.sweep.id), AddedBenchmarks(names=("gsm8k",), trials=(confirmed[0].id,))
    store.open_again(sweep, added, {})
    with pytest.raises(Conflict, match="has changed"):
        store.open_again(sweep, added, {})
    assert store.get_sweep(run.sweep.id).added_benchmarks == (added,)


def test_opened_again_it_forgets_how_it_ended_and_keeps_what_was_added(store: Store, tmp_path: Path) -> None:
    run, (trial, *_) = finished(store, tmp_path)
    first, second = (AddedBenchmarks(names=(name,), trials=(trial.id,)) for name in ("gsm8k", "math500"))
    open_again(store, run.sweep.id, first)
    fence = taken(store, tmp_path)[1]
    store.end_waiting(fence, Ending.FAILED, "the weights of its trial are gone")
    store.request_cancel(run.sweep.id)
    store.set_report_failure(run.sweep.id, "no room")
    store.set_sweep_state(fence, SweepState.FAILED, "the report could not be built")
    for added, together in ((first, (first,)), (second, (first, second))):
        sweep = open_again(store, run.sweep.id, added)
        assert sweep.added_benchmarks == together
        assert (sweep.desired_state, sweep.message) == (DesiredState.RUN, None)
        assert store.report_failure(sweep.id) is None
        waiting = [one for one in run.evaluations if one.state is TrialState.PENDING]
        assert [one.message for one in waiting] == [None, None]


@pytest.mark.parametrize("is_taken", [False, True])
def test_cancelled_while_it_is_to_measure_it_ends_with_a_new_report(
    store: Store, tmp_path: Path, is_taken: bool
) -> None:
    run, confirmed = finished(store, tmp_path)
    last = store.last_event(run.sweep.id)
    open_again(store, run.sweep.id, AddedBenchmarks(names=("gsm8k",), trials=(confirmed[0].id,)))
    types = [event.type for event in store.list_events(run.sweep.id, last)]
    assert types == 2 * ["evaluation.state_changed"] + ["sweep.benchmarks_added", "sweep.state_changed"]
    if is_taken:
        ledger, fence = taken(store, tmp_path)
        assert handed_out(ledger)
        store.request_cancel(run.sweep.id)
        interruption = interruption_for(store.get_sweep(run.sweep.id))
        assert interruption is not None
        assert interruption.state is SweepState.FINALIZING
        store.set_sweep_state(fence, SweepState.FINALIZING)
        store.set_sweep_state(fence, SweepState.SUCCEEDED)
        return
    assert store.request_cancel(run.sweep.id).state is SweepState.FINALIZING
    states = {one.trial_id: one.state for one in run.evaluations}
    assert (states[confirmed[0].id], states[confirmed[1].id]) == (TrialState.CANCELLED, TrialState.SUCCEEDED)


@pytest.mark.parametrize("held_s", [1800.0, 0.0])
def test_what_was_added_stays_inside_the_hours_of_the_sweep_of_which_an_evaluation_may_give_some_back(
    store: Store, tmp_path: Path, held_s: float
) -> None:
    hours = {"resources": {"gpus": 1}, "budget": {"max_gpu_hours": 4, "max_trial_hours": 0.5}, "probe": "off"}
    run, confirmed = finished(store, tmp_path, benchmarks=None, **hours)
    open_again(store, run.sweep.id, AddedBenchmarks(names=("gsm8k",), trials=(confirmed[0].id,)))
    ledger, fence = taken(store, tmp_path)
    for trial in store.list_trials(run.sweep.id):  # 7 trials, half an hour each
        store.set_held(fence, store.attempts_of(trial.id)[-1], 1800.0)
    (first,) = handed_out(ledger)
    store.set_held(fence, store.attempts_of(first.trial_id)[-1], held_s)
    ledger.complete("again-0", {"ending": "SUCCEEDED", "message": None})
    assert isinstance(ledger.next_job("next"), Job) == (not held_s)
    (second,) = (one for one in run.evaluations if one.id != first.trial_id)
    assert second.state is (TrialState.CANCELLED if held_s else TrialState.RUNNING)
    assert second.ending is (Ending.OVER_BUDGET if held_s else None)
