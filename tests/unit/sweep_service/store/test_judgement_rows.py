"""Judgements of early stopping: stored with what follows from them, and taken back by another try."""

import pytest

from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Judgement, Stage, Sweep, SweepState
from tests.stored_sweeps import start

pytestmark = pytest.mark.both_databases


def judgement(config_id: str, *, dropped: bool = True, **more: object) -> Judgement:
    usual = {"seed": None, "mark": 3, "value": -0.2, "bound": -0.05, "rival": None, "message": "it is the worst"}
    return Judgement.model_validate({"config_id": config_id, "dropped": dropped} | usual | more)


def states(store: Store, sweep: Sweep, config_id: str) -> list[TrialState]:
    return [trial.state for trial in store.list_trials(sweep.id) if trial.config_id == config_id]


def begun(store: Store) -> tuple[Sweep, Fence, str, str]:
    """Return a sweep of which the first trial of a config runs, with the ids of the config and of another one."""
    sweep, fence = start(store)
    first, other, *_ = store.list_trials(sweep.id)
    return sweep, fence, first.config_id, other.config_id


def test_a_drop_ends_what_waits_and_names_what_runs(store: Store) -> None:
    sweep, fence, worst, other = begun(store)
    running = next(trial for trial in store.list_trials(sweep.id) if trial.config_id == worst)
    attempt = store.start_attempt(fence, running.id, "/data/{attempt}")
    given = [judgement(worst), judgement(other, dropped=False, value=None, bound=None, message="")]
    store.judge(fence, given)
    assert store.judgements(sweep.id) == given
    assert states(store, sweep, worst) == [TrialState.RUNNING, TrialState.EARLY_STOPPED]
    assert set(states(store, sweep, other)) == {TrialState.PENDING}
    assert store.dropped_running(sweep.id) == {running.id: "it is the worst"}
    assert {one.id: one.dropped for one in store.list_configs(sweep.id) if one.dropped} == {worst: given[0]}
    (told,) = [event.data for event in store.list_events(sweep.id) if event.type == "config.dropped"]
    assert (told["config_id"], told["message"]) == (worst, "it is the worst")
    assert store.finish_attempt(fence, attempt, Ending.LOST, None, 3) is TrialState.EARLY_STOPPED
    assert store.get_trial(running.id).message == "it is the worst"


@pytest.mark.parametrize("ending", [Ending.SUCCEEDED, Ending.DIVERGED, Ending.FAILED, Ending.CANCELLED])
def test_a_trial_of_a_dropped_config_that_ends_by_itself_ends_so(store: Store, ending: Ending) -> None:
    sweep, fence, worst, _ = begun(store)
    running = next(trial for trial in store.list_trials(sweep.id) if trial.config_id == worst)
    attempt = store.start_attempt(fence, running.id, "/data/{attempt}")
    store.judge(fence, [judgement(worst)])
    assert store.finish_attempt(fence, attempt, ending, None, 3).value == ending.value


def test_confirm_trials_of_a_dropped_config_go_on(store: Store) -> None:
    """Its matched baseline may be one that was dropped as a point of the space."""
    sweep, fence, worst, _ = begun(store)
    tune = next(trial for trial in store.list_trials(sweep.id) if trial.config_id == worst)
    number = len(store.list_trials(sweep.id))
    fresh = tune.model_copy(update={"id": "trl_fresh", "stage": Stage.CONFIRM, "seed": 99, "number": number})
    store.add_configs(fence, [], [fresh])
    store.judge(fence, [judgement(worst)])
    assert store.get_trial(fresh.id).state is TrialState.PENDING


def test_another_try_takes_a_config_back_for_good(store: Store) -> None:
    sweep, fence, worst, other = begun(store)
    store.judge(fence, [judgement(worst), judgement(other)])
    store.set_sweep_state(fence, SweepState.FINALIZING)
    ids = [trial.id for trial in store.list_trials(sweep.id) if trial.config_id == worst]
    store.give_more(store.get_sweep(sweep.id), sweep.spec, ids, "sweep.trials_retried", {"trials": ids})
    assert set(states(store, sweep, worst)) == {TrialState.PENDING}
    assert set(states(store, sweep, other)) == {TrialState.EARLY_STOPPED}
    assert [one.id for one in store.list_configs(sweep.id) if one.dropped] == [other]
    assert {one.config_id: one.taken_back for one in store.judgements(sweep.id)} == {worst: True, other: False}
