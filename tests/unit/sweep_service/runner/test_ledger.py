"""Handing out trials, storing what they report, ending them, and going on after a crash: no Ray, a real store."""

import json
from pathlib import Path
from typing import Any

import pytest

from sweep_service.errors import StaleEpoch
from sweep_service.runner.ledger import Ledger, Nothing
from sweep_service.runner.recovery import recover
from sweep_service.runner.trainer_process import Job
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.records import AttemptOutcome, SweepState, TrialState
from tests.stored_sweeps import start, training_events


def ledger_of(store: Store, fence: Fence, home: Path, slots: int = 2) -> Ledger:
    return Ledger(store, fence, Settings(home=home), lambda: slots, Wishes(store, fence.sweep_id))


def lines_of(events: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(event) + "\n" for event in events)


def result_of(lines: str, **more: Any) -> dict[str, Any]:
    return {"events": lines, "start": 0, "end": len(lines), "process": json.dumps(["elsewhere", 7, 1.5])} | more


def given(job: Job | Nothing) -> Job:
    assert isinstance(job, Job)
    return job


def test_trials_are_handed_out_in_order_up_to_the_slots(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store)
    ledger = ledger_of(store, fence, tmp_path)
    jobs = [given(ledger.next_job(name)) for name in ("a", "b")]
    assert ledger.next_job("c") is Nothing.NOW
    trials = store.list_trials(sweep.id)
    assert [job.trial_id for job in jobs] == [trial.id for trial in trials[:2]]
    assert [trial.state for trial in trials[:3]] == [TrialState.RUNNING, TrialState.RUNNING, TrialState.PENDING]
    assert [job.config["seed"] for job in jobs] == [0, 0]
    assert [Path(job.directory) for job in jobs] == [tmp_path / "storage" / sweep.id / t.id / "1" for t in trials[:2]]


def test_a_sweep_ends_when_no_trial_runs_and_none_is_left(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store, seeds={"tune": [0]})
    ledger = ledger_of(store, fence, tmp_path, slots=9)
    names = [trial.id for trial in store.list_trials(sweep.id)]
    for name in names:
        given(ledger.next_job(name))
    assert ledger.next_job("more") is Nothing.NOW
    for name in names:
        ledger.complete(name, {"ending": "SUCCEEDED", "message": None})
    assert ledger.next_job("more") is Nothing.EVER
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.SUCCEEDED}


def test_results_are_stored_and_taken_out(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store)
    ledger = ledger_of(store, fence, tmp_path)
    given(ledger.next_job("a"))
    result = result_of(lines_of(list(training_events(1, 4))))
    ledger.report("a", result)
    assert "events" not in result
    assert store.list_trials(sweep.id)[0].step == 4
    (attempt,) = store.list_attempts(sweep.id)
    assert (attempt.host, attempt.pid, attempt.pid_started_at, attempt.events_offset) == (
        "elsewhere",
        7,
        1.5,
        result["end"],
    )


def test_a_crashed_trial_comes_again_from_its_checkpoint_until_it_has_crashed_too_often(
    store: Store, tmp_path: Path
) -> None:
    sweep, fence = start(store, retries={"max_crashes": 1})
    ledger = ledger_of(store, fence, tmp_path, slots=1)
    first = given(ledger.next_job("a"))
    checkpoint = tmp_path / "step-4"
    checkpoint.mkdir()
    saved = {"type": "checkpoint", "time": 1.0, "step": 4, "path": str(checkpoint)}
    ledger.report("a", result_of(lines_of([*training_events(1, 4), saved])))
    ledger.complete("a", {"ending": "CRASHED", "message": "signal 9"})
    second = given(ledger.next_job("b"))
    assert (second.trial_id, second.attempt, second.resume_from) == (first.trial_id, 2, str(checkpoint))
    ledger.complete("b", {"ending": "CRASHED", "message": "signal 9"})
    assert store.list_trials(sweep.id)[0].state is TrialState.FAILED
    assert given(ledger.next_job("c")).trial_id != first.trial_id


def test_a_checkpoint_that_is_gone_is_not_resumed_from(store: Store, tmp_path: Path) -> None:
    _, fence = start(store)
    ledger = ledger_of(store, fence, tmp_path, slots=1)
    given(ledger.next_job("a"))
    saved = {"type": "checkpoint", "time": 1.0, "step": 4, "path": str(tmp_path / "gone")}
    ledger.report("a", result_of(lines_of([saved])))
    ledger.complete("a", {"ending": "LOST", "message": None})
    assert given(ledger.next_job("b")).resume_from is None


@pytest.mark.parametrize(
    ("last", "state"),
    [
        ({"type": "finished", "time": 1.0, "outcome": "SUCCEEDED", "step": 4, "summary": {}}, TrialState.SUCCEEDED),
        ({"type": "progress", "time": 1.0, "phase": "p", "done": 1, "total": 2}, TrialState.PENDING),
    ],
)
def test_a_dead_actors_last_events_are_read_from_the_disk(
    store: Store, tmp_path: Path, last: dict[str, Any], state: TrialState
) -> None:
    sweep, fence = start(store)
    ledger = ledger_of(store, fence, tmp_path)
    job = given(ledger.next_job("a"))
    written = lines_of([*training_events(1, 4), last])
    Path(job.directory).mkdir(parents=True)
    (Path(job.directory) / "events.jsonl").write_text(written + '{"torn')
    ledger.complete("a", None)
    trial, (attempt,) = store.list_trials(sweep.id)[0], store.list_attempts(sweep.id)
    assert (trial.state, trial.step, attempt.events_offset) == (state, 4, len(written))
    assert attempt.outcome is (AttemptOutcome.SUCCEEDED if state is TrialState.SUCCEEDED else AttemptOutcome.CRASHED)


def test_what_a_power_cut_left_of_the_events_does_no_harm(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store)
    job = given(ledger_of(store, fence, tmp_path).next_job("a"))
    Path(job.directory).mkdir(parents=True)
    (Path(job.directory) / "events.jsonl").write_bytes(lines_of(list(training_events(1, 4))).encode() + b"\0\xff\0\n")
    recover(store, fence, sweep)
    assert store.list_trials(sweep.id)[0].state is TrialState.PENDING


def test_ending_twice_changes_nothing(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store)
    ledger = ledger_of(store, fence, tmp_path)
    given(ledger.next_job("a"))
    ledger.complete("a", {"ending": "SUCCEEDED", "message": None})
    ledger.complete("a", None)
    assert store.list_trials(sweep.id)[0].state is TrialState.SUCCEEDED


def test_a_cancelled_sweep_hands_out_nothing_and_its_trials_are_cancelled(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store)
    first = ledger_of(store, fence, tmp_path)
    first.next_job("a")
    store.request_cancel(sweep.id)
    later = ledger_of(store, fence, tmp_path)
    assert later.next_job("b") is Nothing.EVER
    recover(store, fence, sweep)
    store.set_sweep_state(fence, SweepState.CANCELLED)
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.CANCELLED}


def test_recovery_keeps_finished_trials_and_hands_the_others_out_again(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store)
    ledger = ledger_of(store, fence, tmp_path)
    done, torn = (given(ledger.next_job(name)) for name in ("a", "b"))
    finished = {"type": "finished", "time": 9.0, "outcome": "SUCCEEDED", "step": 16, "summary": {"loss": 1.0}}
    for job, events in ((done, [*training_events(1, 16), finished]), (torn, list(training_events(1, 3)))):
        Path(job.directory).mkdir(parents=True)
        (Path(job.directory) / "events.jsonl").write_text(lines_of(events))
    store.release_lease(fence)
    taken_over = store.claim("second", 60)
    assert taken_over is not None
    successor = Fence(sweep.id, taken_over.epoch)
    recover(store, successor, taken_over)
    states = {trial.id: (trial.state, trial.step) for trial in store.list_trials(sweep.id)}
    assert states[done.trial_id] == (TrialState.SUCCEEDED, 16)
    assert states[torn.trial_id] == (TrialState.PENDING, 3)
    assert given(ledger_of(store, successor, tmp_path).next_job("c")).trial_id == torn.trial_id
    with pytest.raises(StaleEpoch):
        ledger.complete("b", {"ending": "SUCCEEDED", "message": None})


def test_an_interrupted_attempt_ends_as_its_interruption_says(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.runner.wishes.READ_EVERY_S", 0.0)
    sweep, fence = start(store, seeds={"tune": [0]})
    ledger = ledger_of(store, fence, tmp_path)
    job = given(ledger.next_job("a"))
    store.request_cancel(sweep.id)
    ledger.complete("a", None)
    (attempt,) = [attempt for attempt in store.list_attempts(sweep.id) if attempt.trial_id == job.trial_id]
    assert attempt.outcome is AttemptOutcome.CANCELLED
    assert store.get_trial(job.trial_id).state is TrialState.CANCELLED
