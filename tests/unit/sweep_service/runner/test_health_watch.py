"""When trials are looked at while they train and as they end, and that what is asked for their signs is done."""

import json
from pathlib import Path
from typing import Any

import pytest

from sweep_service.runner.health_watch import HealthWatch, looked_at
from sweep_service.runner.recovery import recover
from sweep_service.runner.trainer_process import AttemptEnd
from sweep_service.runner.wishes import Wishes
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import DesiredState, Stage, Sweep, SweepState, Trial, new_id
from tests.stored_sweeps import START, ingest, start, warning_event

SPACE = {"loss.beta1": [0.25, 0.5, 0.75, 1.0], "loss.beta2": [1.0]}
LOST = [0.5, 0.6, 0.6, 0.6, 0.0, 0.0, 0.0]


def begun(store: Store, **changes: Any) -> tuple[Sweep, Fence, HealthWatch, Wishes]:
    sweep, fence = start(store, space=SPACE, training={"steps": 64}, **changes)
    wishes = Wishes(store, sweep.id)
    return sweep, fence, HealthWatch(store, fence, wishes), wishes


def evaluations(values: list[float]) -> list[dict[str, Any]]:
    key = "eval/avg_at_k"
    return [
        {"type": "evaluation", "step": 10 * place, "time": START, "metrics": {key: value}}
        for place, value in enumerate(values)
    ]


def steps(first: int, last: int, entropy: float) -> list[dict[str, Any]]:
    return [
        {"type": "step", "step": step, "time": START, "metrics": {"entropy": entropy}}
        for step in range(first, last + 1)
    ]


def warnings(store: Store, trial: Trial) -> dict[str, int]:
    return {warning.code: warning.step for warning in store.get_trial(trial.id).warnings}


def told(store: Store, sweep: Sweep) -> list[str]:
    return [event.data["code"] for event in store.list_events(sweep.id, types=["trial.warned"])]


def contender(store: Store, sweep: Sweep) -> Trial:
    """The first trial of the first point of the space."""
    ids = [config.id for config in store.list_configs(sweep.id) if config.is_contender]
    return next(trial for trial in store.list_trials(sweep.id) if trial.config_id == ids[0])


def test_a_sign_is_told_once_while_a_trial_trains(store: Store) -> None:
    sweep, fence, watch, wishes = begun(store)
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    for place, events in enumerate(([*steps(1, 8, 1.0)], [*steps(9, 20, 0.1)], [*steps(21, 40, 0.1)])):
        ingest(store, fence, attempt, events)
        watch.note_events(trial, events)
        watch.look()
        assert warnings(store, trial) == ({"ENTROPY_COLLAPSE": 20} if place else {})
    assert told(store, sweep) == ["ENTROPY_COLLAPSE"]
    assert not wishes.some_end


def test_a_trial_is_looked_at_after_evaluations_and_windows_of_steps(store: Store) -> None:
    sweep, fence, watch, _ = begun(store)
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    ingest(store, fence, attempt, [*steps(1, 20, 1.0), *steps(21, 40, 0.1)])
    watch.note_events(trial, steps(1, 3, 1.0))  # a window of 64 steps has 4
    watch.look()
    assert warnings(store, trial) == {}
    watch.note_events(trial, steps(1, 4, 1.0))
    watch.note_events(trial, steps(5, 7, 1.0))
    assert list(watch._due) == [trial.id]
    watch._due.clear()
    watch.note_events(trial, steps(5, 7, 1.0))
    assert not watch._due, "fewer steps than a window since it was noted"
    watch.note_events(trial, evaluations([0.5]))
    watch.look()
    assert warnings(store, trial) == {"ENTROPY_COLLAPSE": 40}


@pytest.mark.parametrize(
    ("changes", "ends"),
    [({}, False), ({"health": {"answers_lost": "stop"}}, True), ({"early_stopping": "median"}, True)],
    ids=str,
)
def test_a_ruined_run_ends_at_once_where_it_is_to(store: Store, changes: dict[str, Any], *, ends: bool) -> None:
    if "early_stopping" in changes:
        changes = {"early_stopping": {"rule": "median", "min_runs": 1}}
    sweep, fence, watch, wishes = begun(store, **changes)
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    events = evaluations(LOST[:6])
    ingest(store, fence, attempt, events)
    watch.note_events(trial, events)
    watch.look()
    assert warnings(store, trial) == {"ANSWERS_LOST": 50}
    halt = wishes.halt(trial.id)
    assert wishes.some_end == ends
    assert (halt is not None) == ends
    if halt is not None:
        assert (halt.ending, halt.save_within_s) == (Ending.RUINED, 0)
        assert halt.message is not None
        assert halt.message.startswith("ruined: at step 50")
        assert store.finish_attempt(fence, attempt, halt.ending, halt.message, 3) is TrialState.DIVERGED


def test_a_sign_that_is_to_stop_it_drops_the_config(store: Store) -> None:
    sweep, fence, watch, wishes = begun(store, health={"entropy_collapse": "stop"})
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    events = [*steps(1, 20, 1.0), *steps(21, 40, 0.1)]
    ingest(store, fence, attempt, events)
    watch.note_events(trial, events)
    watch.look()
    assert list(wishes.dropped) == [trial.id]
    states = {one.seed: one.state for one in store.list_trials(sweep.id) if one.config_id == trial.config_id}
    assert states == {0: TrialState.RUNNING, 1: TrialState.EARLY_STOPPED}
    (dropped,) = store.list_events(sweep.id, types=["config.dropped"])
    assert (dropped.data["sign"], dropped.data["seed"], dropped.data["mark"]) == ("ENTROPY_COLLAPSE", 0, 40)


def test_a_sign_pauses_the_sweep_once(store: Store) -> None:
    sweep, fence, watch, _ = begun(store, health={"entropy_collapse": "pause"})
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    events = [*steps(1, 20, 1.0), *steps(21, 40, 0.1)]
    ingest(store, fence, attempt, events)
    watch.note_events(trial, events)
    watch.look()
    assert store.get_sweep(sweep.id).desired_state is DesiredState.PAUSE
    (asked,) = store.list_events(sweep.id, types=["sweep.pause_requested"])
    assert asked.data["by"].startswith(f"health, for ENTROPY_COLLAPSE of trial {trial.number} (seed 0): entropy fell")
    store.request_resume(sweep.id)
    watch.note_events(trial, events)
    watch.look()
    assert store.get_sweep(sweep.id).desired_state is DesiredState.RUN


def test_neither_a_cancelled_sweep_is_paused_nor_one_for_a_sign_that_only_warns(store: Store) -> None:
    for action, cancelled in (("warn", False), ("pause", True)):
        sweep, fence, watch, _ = begun(store, health={"entropy_collapse": action})
        trial = contender(store, sweep)
        attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
        events = [*steps(1, 20, 1.0), *steps(21, 40, 0.1)]
        ingest(store, fence, attempt, events)
        if cancelled:
            store.request_cancel(sweep.id)
        watch.note_events(trial, events)
        watch.look()
        assert warnings(store, trial) == {"ENTROPY_COLLAPSE": 40}
        assert store.get_sweep(sweep.id).desired_state is (DesiredState.CANCEL if cancelled else DesiredState.RUN)
        store.set_sweep_state(fence, SweepState.CANCELLED)
        store.release_lease(fence)


def test_once_configs_are_chosen_no_sign_drops_one(store: Store) -> None:
    sweep, fence, watch, _ = begun(store, health={"entropy_collapse": "stop"})
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    events = [*steps(1, 20, 1.0), *steps(21, 40, 0.1)]
    ingest(store, fence, attempt, events)
    confirm = trial.model_copy(update={"id": new_id("trl"), "seed": 9, "stage": Stage.CONFIRM, "number": 99})
    store.add_configs(fence, [], [confirm])
    watch.note_events(trial, events)
    watch.look()
    assert store.judgements(sweep.id) == []


@pytest.mark.parametrize("others", [True, False])
def test_at_its_end_a_trial_drops_its_config_only_where_others_of_it_wait(store: Store, *, others: bool) -> None:
    sweep, fence, _, _ = begun(store, health={"entropy_collapse": "stop"}, seeds={"tune": [0, 1] if others else [0]})
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    ingest(store, fence, attempt, [*steps(1, 20, 1.0), *steps(21, 64, 0.1)])
    looked_at(store, fence, sweep, trial.id, AttemptEnd(Ending.SUCCEEDED, None))
    assert [one.dropped for one in store.judgements(sweep.id)] == [True] * others


def test_a_sign_is_told_apart_from_a_trainer_s_own_warning_of_that_name(store: Store) -> None:
    sweep, fence, watch, wishes = begun(store, health={"entropy_collapse": "stop"})
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    events = [warning_event("ENTROPY_COLLAPSE", 8), *steps(1, 20, 1.0), *steps(21, 40, 0.1)]
    ingest(store, fence, attempt, events)
    watch.note_events(trial, events)
    watch.look()
    assert list(wishes.dropped) == [trial.id]
    assert [(one.code, one.step, one.is_sign) for one in store.get_trial(trial.id).warnings] == [
        ("ENTROPY_COLLAPSE", 8, False),
        ("ENTROPY_COLLAPSE", 40, True),
    ]


def test_errors_of_sampling_are_those_of_the_first_evaluation(store: Store) -> None:
    sweep, fence, _, _ = begun(store, health={"answers_lost": "stop"})
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    few = {"digest": "two", "judged": 4, "right": [1, 2]}
    values = [0.5, 0.4, 0.5, 0.2, 0.2, 0.2]
    ingest(store, fence, attempt, [{"type": "problems", "digest": "two", "names": ["a", "b"], "time": START}])
    ingest(store, fence, attempt, [one | {"problems": few} for one in evaluations(values)])
    assert looked_at(store, fence, sweep, trial.id, AttemptEnd(Ending.SUCCEEDED, None)).ending is Ending.SUCCEEDED
    many = [one | {"problems": few | {"judged": 500}, "step": one["step"] + 1} for one in evaluations(values)]
    ingest(store, fence, attempt, many[-1:])
    assert store.judged_samples(trial.id) == 8


def test_at_its_end_a_trial_has_the_signs_of_its_whole_curves(store: Store) -> None:
    sweep, fence, watch, _ = begun(store)
    trial = contender(store, sweep)
    attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
    clipped = [event | {"metrics": {"clip_fraction/low": 0.9}} for event in steps(1, 20, 0.0)]
    ingest(store, fence, attempt, clipped)
    watch.note_events(trial, clipped)
    watch.look()
    assert warnings(store, trial) == {"CLIP_DOMINATED": 20}
    rest = [event | {"metrics": {"clip_fraction/low": 0.0}} for event in steps(21, 64, 0.0)]
    ingest(store, fence, attempt, [*rest, *evaluations(LOST)])
    for ending in (Ending.CRASHED, Ending.PAUSED):
        assert looked_at(store, fence, sweep, trial.id, AttemptEnd(ending, None)).ending is ending
        assert warnings(store, trial) == {"CLIP_DOMINATED": 20}, "it goes on"
    assert looked_at(store, fence, sweep, trial.id, AttemptEnd(Ending.SUCCEEDED, None)).ending is Ending.SUCCEEDED
    assert warnings(store, trial) == {"ANSWERS_LOST": 64}
    assert told(store, sweep) == ["CLIP_DOMINATED", "ANSWERS_LOST"]


@pytest.mark.parametrize(
    ("values", "outcome", "ending"),
    [
        ([*LOST[:6], 0.6], "SUCCEEDED", Ending.RUINED),
        (LOST[:5], "SUCCEEDED", Ending.SUCCEEDED),
        (LOST, "DIVERGED", Ending.DIVERGED),
    ],
    ids=str,
)
def test_a_run_that_ended_while_nobody_looked_is_ruined_all_the_same(
    store: Store, tmp_path: Path, values: list[float], outcome: str, ending: Ending
) -> None:
    sweep, fence, _, _ = begun(store, health={"answers_lost": "stop"})
    trial = contender(store, sweep)
    store.start_attempt(fence, trial.id, str(tmp_path))
    finished = {"type": "finished", "step": 60, "time": START, "outcome": outcome, "message": None, "summary": {}}
    lines = [json.dumps(event) + "\n" for event in (*evaluations(values), finished)]
    (tmp_path / "events.jsonl").write_text("".join(lines))
    recover(store, fence, sweep)
    assert store.get_trial(trial.id).ending is ending
