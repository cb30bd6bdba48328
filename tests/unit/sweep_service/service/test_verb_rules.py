"""Extensions and other tries let work wait again, or are refused."""

from pathlib import Path
from typing import Any

import pytest

from sweep_service.errors import Conflict
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.extension import looks
from sweep_service.sweep.records import Evaluation, Judgement, Sweep, SweepState, TrialState
from tests.stored_sweeps import add_missing_evaluations, finish, one_attempt, run_trial, start

NO_WAIT: dict[str, Any] = {"budget": {"max_wait_hours": 0}}
WITH_GPUS: dict[str, Any] = {
    "training": {"device_batch": 32},
    "resources": {"gpus": 1},
    "budget": {"max_gpu_hours": 20, "max_trial_hours": 1},
    "probe": "off",
}
MEASURED: dict[str, Any] = {"benchmarks": {"names": ["arithmetic"], "of": "all"}}


@pytest.fixture
def service(store: Store, tmp_path: Path) -> SweepService:
    return SweepService(store, Settings(home=tmp_path))


def states(store: Store, sweep: Sweep) -> list[TrialState]:
    return [trial.state for trial in store.list_trials(sweep.id)]


def measured_sweep(store: Store, ending: Ending, **changes: Any) -> tuple[Sweep, Fence, Evaluation]:
    """Return a sweep that has SUCCEEDED, whose first evaluation ended otherwise."""
    sweep, fence = start(store, **MEASURED | changes)
    for trial in store.list_trials(sweep.id):
        run_trial(store, fence, trial)
    first, *_ = add_missing_evaluations(store, fence)
    if ending is Ending.OVER_BUDGET:
        store.end_waiting(fence, ending, "not begun", first.id)
    else:
        attempt = store.start_attempt(fence, first.id, "/data/{attempt}")
        store.finish_attempt(fence, attempt, ending, "it ended", max_crashes=0, more_held_s=3600.0)
    finish(store, fence)
    return store.get_sweep(sweep.id), fence, first


@pytest.mark.parametrize(
    ("changes", "extension"),
    [
        (NO_WAIT, {"budget": {"max_wait_hours": None}}),
        ({"retries": {"max_failed_trials": 1}}, {"retries": {"max_failed_trials": None}}),
    ],
)
def test_what_the_failure_of_a_sweep_cancelled_waits_again_once_it_is_extended(
    store: Store, service: SweepService, changes: dict[str, Any], extension: dict[str, Any]
) -> None:
    sweep, fence = start(store, **changes)
    first, stopped, *others = store.list_trials(sweep.id)
    run_trial(store, fence, first, Ending.FAILED)
    store.request_stop(stopped.id, counts=False)
    store.set_sweep_state(fence, SweepState.FAILED, "no node has room")
    assert states(store, sweep)[2:] == [TrialState.CANCELLED] * len(others)
    assert service.extend(sweep.id, extension).state is SweepState.QUEUED
    kept = [TrialState.FAILED, TrialState.DISCARDED]
    assert states(store, sweep) == [*kept, *[TrialState.PENDING] * len(others)]


def test_trials_that_did_not_fit_the_budget_wait_again_only_if_it_is_larger(
    store: Store, service: SweepService
) -> None:
    sweep, fence = start(store, **WITH_GPUS)
    over = store.list_trials(sweep.id)[-1].id
    for hours, waits in ((19, False), (19.5, True), (None, True)):
        store.end_waiting(fence, Ending.OVER_BUDGET, "not begun", over)
        service.extend(sweep.id, {"budget": {"max_gpu_hours": hours}})
        assert (store.get_trial(over).state is TrialState.PENDING) is waits


def test_an_evaluation_that_did_not_fit_the_budget_waits_again_once_it_is_larger(
    store: Store, service: SweepService
) -> None:
    sweep, _, evaluation = measured_sweep(store, Ending.OVER_BUDGET, **WITH_GPUS)
    service.extend(sweep.id, {"budget": {"max_gpu_hours": 21}})
    assert store.list_evaluations(sweep.id)[0].state is TrialState.PENDING
    told = [event for event in store.list_events(sweep.id) if event.type == "evaluation.state_changed"]
    assert told[-1].data == {"evaluation_id": evaluation.id, "state": "PENDING", "message": None}


def test_a_trial_that_has_used_up_its_hours_is_not_tried_again_before_it_has_more(
    store: Store, service: SweepService
) -> None:
    sweep, fence = start(store, budget={"max_trial_hours": 1})
    trial = store.list_trials(sweep.id)[0]
    one_attempt(store, fence, trial.id, Ending.TIMED_OUT, more_held_s=3600)
    finish(store, fence)
    with pytest.raises(Conflict, match=f"^trial {trial.id} has used up budget.max_trial_hours 1; raise it first"):
        service.retry_trial(trial.id)


def test_an_evaluation_that_has_failed_is_tried_again(store: Store, service: SweepService) -> None:
    sweep, _, evaluation = measured_sweep(store, Ending.TIMED_OUT, budget={"max_trial_hours": 1})
    with pytest.raises(Conflict, match=f"evaluation {evaluation.id} has used up budget.max_trial_hours 1; raise it"):
        service.retry_failed(sweep.id)
    service.extend(sweep.id, {"budget": {"max_trial_hours": 2}})
    service.retry_failed(sweep.id)
    assert store.list_evaluations(sweep.id)[0].state is TrialState.PENDING
    assert set(states(store, sweep)) == {TrialState.SUCCEEDED}


def test_only_an_extension_that_draws_results_makes_another_look(store: Store, service: SweepService) -> None:
    sweep, fence = start(store)
    numbers = list[int]()
    confirm = {"seeds": {"confirm": {"seeds": [7, 8]}}}
    more = {"seeds": {"tune": [0, 1, 2], "confirm": {"seeds": [8, 7]}}}
    for changes in (confirm, confirm | {"resources": {"max_parallel": 3}}, more, {"budget": {"max_trial_hours": 9}}):
        finish(store, fence)
        store.put_report(sweep.id, f"{len(numbers)}", {"md": b""}, compares=bool(numbers))
        service.extend(sweep.id, changes)
        store.set_sweep_state(fence, SweepState.RUNNING)
        numbers.append(looks(store.list_events(sweep.id)))
    assert numbers == [1, 1, 2, 3]  # the first one added the stage, and the second one draws nothing


def test_a_failed_sweep_that_goes_on_after_a_report_looks_again(store: Store, service: SweepService) -> None:
    sweep, fence = start(store)
    store.set_sweep_state(fence, SweepState.FAILED, "no room")
    store.put_report(sweep.id, "late", {"md": b""}, compares=True)
    service.extend(sweep.id, {"retries": {"max_failed_trials": None}})
    assert looks(store.list_events(sweep.id)) == 2


def test_a_sweep_whose_report_is_being_built_is_not_extended(store: Store, service: SweepService) -> None:
    sweep, fence = start(store)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    with pytest.raises(Conflict, match="is being built, which takes seconds"):
        service.extend(sweep.id, {"seeds": {"tune": [0, 1, 2]}})


@pytest.mark.parametrize("counts", [True, False])
def test_a_trial_that_was_stopped_by_hand_is_tried_again(store: Store, service: SweepService, counts: bool) -> None:
    sweep, _ = start(store)
    stopped = store.list_trials(sweep.id)[0].id
    service.stop_trial(stopped, counts=counts)
    service.retry_trial(stopped)
    again = store.get_trial(stopped)
    assert (again.state, again.stop_counts) == (TrialState.PENDING, None)


def dropping(store: Store, fence: Fence, config_id: str) -> None:
    """Drop a config as a rule of early stopping does."""
    said = {"dropped": True, "seed": None, "mark": 3, "value": -0.2, "bound": -0.1, "message": "it is the worst"}
    store.judge(fence, [Judgement.model_validate({"config_id": config_id} | said)])


def test_what_was_dropped_is_left_alone_by_another_try_of_all_that_failed(store: Store, service: SweepService) -> None:
    sweep, fence = start(store)
    first, *_ = trials = store.list_trials(sweep.id)
    run_trial(store, fence, first, Ending.FAILED)
    dropping(store, fence, first.config_id)
    for trial in trials[1:]:
        if trial.config_id != first.config_id:
            run_trial(store, fence, trial)
    finish(store, fence)
    assert service.retry_failed(sweep.id).state is SweepState.SUCCEEDED
    assert store.get_trial(first.id).state is TrialState.FAILED


def test_what_was_dropped_is_left_alone_by_a_larger_budget(store: Store, service: SweepService) -> None:
    sweep, fence = start(store, **WITH_GPUS)
    first, other, *_ = store.list_trials(sweep.id)
    store.end_waiting(fence, Ending.OVER_BUDGET, "not begun")
    dropping(store, fence, first.config_id)
    finish(store, fence)
    service.extend(sweep.id, {"budget": {"max_gpu_hours": 40}})
    again = {trial.config_id for trial in store.list_trials(sweep.id) if trial.state is TrialState.PENDING}
    assert other.config_id in again
    assert first.config_id not in again


@pytest.mark.parametrize("ending", [Ending.EARLY_STOPPED, Ending.FAILED])
def test_another_try_of_one_trial_takes_its_config_back_with_all_that_was_stopped(
    store: Store, service: SweepService, ending: Ending
) -> None:
    sweep, fence = start(store, seeds={"tune": [0, 1, 2]})
    first, *_ = trials = store.list_trials(sweep.id)
    if ending is Ending.FAILED:
        run_trial(store, fence, first, ending)
    dropping(store, fence, first.config_id)
    own = [trial.id for trial in trials if trial.config_id == first.config_id]
    service.retry_trial(first.id)
    assert {store.get_trial(id_).state for id_ in own} == {TrialState.PENDING}
    assert not any(config.dropped for config in store.list_configs(sweep.id))
