"""Handing out trials, storing what they report, ending them, and going on after a crash: no Ray, a real store."""

import json
import signal
import subprocess
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from sweep_service.errors import SpecError, StaleEpoch
from sweep_service.processes.child_processes import started_at, this_host
from sweep_service.runner import ledger as ledger_module
from sweep_service.runner import machine_wait, running_attempt, stages
from sweep_service.runner.ledger import Ledger, Nothing
from sweep_service.runner.own_trainer_process import OwnTrainerProcess, note_after_step
from sweep_service.runner.recovery import recover
from sweep_service.runner.trainer_launch import Running
from sweep_service.runner.trainer_process import STOP_FILE, Job
from sweep_service.runner.wishes import SAVE_WITHIN_S
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import AttemptOutcome, Sweep, SweepState, TrialState
from tests.stored_sweeps import claimed, start, training_events
from tests.unit.sweep_service.runner.ledgers import ledger_of, lines_of
from tests.waiting import wait_until


def at_work(store: Store, home: Path, slots: int = 2, **changes: Any) -> tuple[Sweep, Fence, Ledger]:
    """Store a sweep, and take it over with a ledger."""
    sweep, fence = start(store, **changes)
    return sweep, fence, ledger_of(store, fence, home, slots)


def result_of(lines: str, **more: Any) -> dict[str, Any]:
    return {"events": lines, "start": 0, "end": len(lines), "process": json.dumps(["elsewhere", 7, 1.5])} | more


def given(job: Job | Nothing) -> Job:
    assert isinstance(job, Job)
    return job


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The runner's time on the monotonic clock; wishes are read at every question."""
    now = [1000.0]
    monkeypatch.setattr("sweep_service.runner.wishes.READ_EVERY_S", -1.0)
    clock = SimpleNamespace(monotonic=lambda: now[0])  # the event loops of other threads keep the real one
    for module in (ledger_module, machine_wait):
        monkeypatch.setattr(module, "time", clock)
    return now


def test_trials_are_handed_out_in_order_up_to_the_slots(store: Store, tmp_path: Path) -> None:
    sweep, _, ledger = at_work(store, tmp_path)
    jobs = [given(ledger.next_job(name)) for name in ("a", "b")]
    assert ledger.next_job("c") is Nothing.NOW
    trials = store.list_trials(sweep.id)
    assert [job.trial_id for job in jobs] == [trial.id for trial in trials[:2]]
    assert [trial.state for trial in trials[:3]] == [TrialState.RUNNING, TrialState.RUNNING, TrialState.PENDING]
    assert [job.config["seed"] for job in jobs] == [0, 0]
    assert [Path(job.directory) for job in jobs] == [tmp_path / "storage" / sweep.id / t.id / "1" for t in trials[:2]]


def test_a_runner_parses_the_configs_of_its_sweep_once(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, _, ledger = at_work(store, tmp_path, slots=4)
    reads, list_configs = list[str](), store.list_configs

    def counted(sweep_id: str) -> Any:
        reads.append(sweep_id)
        return list_configs(sweep_id)

    monkeypatch.setattr(store, "list_configs", counted)
    jobs = [given(ledger.next_job(name)) for name in "abcd"]
    assert reads == [sweep.id]
    settings = {config.id: config.settings for config in list_configs(sweep.id)}
    trials = {trial.id: trial for trial in store.list_trials(sweep.id)}
    for job in jobs:
        trial = trials[job.trial_id]
        assert job.config == settings[trial.config_id] | {"seed": trial.seed}


OWN_TRAINER: dict[str, Any] = {
    "trainer": {"command": ["python3", "/trainer.py"], "steps": 10},
    "training": {},
    "space": {"beta": [1]},
    "seeds": {"tune": [0]},
    "baselines": {},
}


def test_a_job_of_a_trainer_of_ones_own_has_its_program_and_needs_no_package(store: Store, tmp_path: Path) -> None:
    _, _, ledger = at_work(store, tmp_path, **OWN_TRAINER)
    job = given(ledger.next_job("a"))
    assert job.own is not None
    assert (job.own.command, job.own.steps, job.own.after_step) == (("python3", "/trainer.py"), 10, 0)
    assert (job.needs, job.processes) == ((), 1)


@pytest.mark.parametrize("runner_died", [False, True])
@pytest.mark.parametrize("evaluates", [False, True])
def test_a_resumed_attempt_that_nobody_watched_is_judged_from_its_checkpoint_on(
    store: Store, tmp_path: Path, *, runner_died: bool, evaluates: bool
) -> None:
    """It may evaluate where it goes on, and need not evaluate again what the attempt before it has evaluated."""
    _, fence, ledger = at_work(store, tmp_path, **OWN_TRAINER)
    first = given(ledger.next_job("a"))
    evaluation = {"type": "evaluation", "time": 2.0, "step": 5, "metrics": {"eval/avg_at_k": 0.5}}
    (saved := tmp_path / "saved").mkdir()
    checkpoint = {"type": "checkpoint", "time": 3.0, "step": 5, "path": str(saved)}
    step = {"type": "step", "time": 1.0, "step": 5, "metrics": {}}
    ledger.report("a", result_of(lines_of([step, evaluation, checkpoint])))
    ledger.complete("a", {"ending": "CRASHED", "message": "signal 11"})
    job = given(ledger.next_job("b"))
    assert job.attempt == 2
    assert (job.trial_id, job.resume_from) == (first.trial_id, str(saved))
    assert job.own is not None
    assert job.own.after_step == 5
    OwnTrainerProcess(job, job.own, lambda *_: cast("Running", None))
    events = [evaluation] * evaluates + [step | {"step": 10}, {"type": "finished"}]
    (Path(job.directory) / "events.jsonl").write_text(lines_of(events))
    if runner_died:
        store.release_lease(fence)
        taken_over, successor = claimed(store)
        recover(store, successor, taken_over)
    else:
        ledger.complete("b", None)
    trial = store.get_trial(job.trial_id)
    assert (trial.state, trial.message) == (TrialState.SUCCEEDED, None)


def test_results_are_stored_and_taken_out(store: Store, tmp_path: Path) -> None:
    sweep, _, ledger = at_work(store, tmp_path)
    given(ledger.next_job("a"))
    result = result_of(lines_of(list(training_events(1, 4))))
    ledger.report("a", result)
    assert "events" not in result
    assert store.list_trials(sweep.id)[0].step == 4
    (attempt,) = store.list_attempts(sweep.id)
    process = (attempt.host, attempt.pid, attempt.pid_started_at)
    assert (process, attempt.events_offset) == (("elsewhere", 7, 1.5), result["end"])


def test_a_crashed_trial_comes_again_from_its_checkpoint_until_it_has_crashed_too_often(
    store: Store, tmp_path: Path
) -> None:
    sweep, _, ledger = at_work(store, tmp_path, slots=1, retries={"max_crashes": 1})
    first = given(ledger.next_job("a"))
    checkpoint = tmp_path / "step-4"
    checkpoint.mkdir()
    saved = {"type": "checkpoint", "time": 1.0, "step": 4, "path": str(checkpoint)}
    ledger.report("a", result_of(lines_of([*training_events(1, 4), saved])))
    ledger.complete("a", {"ending": "CRASHED", "message": "signal 9"})
    second = given(ledger.next_job("b"))
    assert (second.trial_id, second.attempt, second.resume_from) == (first.trial_id, 2, str(checkpoint))
    ledger.complete("b", {"ending": "CRASHED", "message": "signal 9"})
    failed = store.list_trials(sweep.id)[0]
    assert failed.state is TrialState.FAILED
    assert failed.message is not None
    assert failed.message.splitlines() == [
        "signal 9",
        "This was crash 2 in a row without getting further; 1 are forgiven.",
        f"Its log: sweeps logs {failed.id}",
    ]
    assert given(ledger.next_job("c")).trial_id != first.trial_id


def test_a_part_whose_events_were_all_thinned_out_counts_as_read(store: Store, tmp_path: Path) -> None:
    sweep, _, ledger = at_work(store, tmp_path, slots=1)
    given(ledger.next_job("a"))
    lines = lines_of([*training_events(1, 4)])
    ledger.report("a", {"events": "", "start": 0, "end": 500, "done": False})
    ledger.report("a", {"events": lines, "start": 500, "end": 900, "done": False})
    (attempt,) = store.list_attempts(sweep.id, running_only=True)
    assert (store.events_offset(attempt), store.get_trial(attempt.trial_id).step) == (900, 4)


def test_a_checkpoint_that_is_gone_is_not_resumed_from(store: Store, tmp_path: Path, clock: list[float]) -> None:
    _, _, ledger = at_work(store, tmp_path, slots=1)
    given(ledger.next_job("a"))
    saved = {"type": "checkpoint", "time": 1.0, "step": 4, "path": str(tmp_path / "gone")}
    ledger.report("a", result_of(lines_of([saved])))
    ledger.complete("a", {"ending": "LOST", "message": None})
    clock[0] += 1
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
    sweep, _, ledger = at_work(store, tmp_path)
    job = given(ledger.next_job("a"))
    written = lines_of([*training_events(1, 4), last])
    Path(job.directory).mkdir(parents=True)
    (Path(job.directory) / "events.jsonl").write_text(written + '{"torn')
    ledger.complete("a", None)
    trial, (attempt,) = store.list_trials(sweep.id)[0], store.list_attempts(sweep.id)
    assert (trial.state, trial.step, attempt.events_offset) == (state, 4, len(written))
    assert attempt.outcome is (AttemptOutcome.SUCCEEDED if state is TrialState.SUCCEEDED else AttemptOutcome.LOST)


def test_a_trial_whose_actors_die_is_tried_again_after_pauses_that_grow_but_not_for_ever(
    store: Store, tmp_path: Path, clock: list[float]
) -> None:
    sweep, _, ledger = at_work(store, tmp_path, slots=1, retries={"max_crashes": 0})
    pauses = list[int]()
    first = store.list_trials(sweep.id)[0]

    def lose(name: str) -> None:
        ledger.note_error(name, "The actor died unexpectedly.")
        ledger.complete(name, None)

    def next_attempt() -> str:
        pauses.append(0)
        while not isinstance(job := ledger.next_job("next"), Job):
            clock[0], pauses[-1] = clock[0] + 1, pauses[-1] + 1
        return job.trial_id

    for _ in range(4):
        assert next_attempt() == first.id
        lose("next")
    assert next_attempt() == first.id
    ledger.report("next", result_of(lines_of(list(training_events(1, 4)))))  # this one gets further
    lose("next")
    for _ in range(9):
        assert store.get_trial(first.id).state is TrialState.PENDING
        assert next_attempt() == first.id
        lose("next")
    assert pauses == [0, 1, 2, 4, 8, 1, 2, 4, 8, 16, 32, 60, 60, 60]
    ended = store.get_trial(first.id)
    assert ended.state is TrialState.FAILED
    said = "10 of its attempts in a row were lost before one got further, the last because The actor died unexpectedly."
    assert (ended.message or "").startswith(said)
    outcomes = [attempt.outcome for attempt in store.list_attempts(sweep.id)]
    assert outcomes == [AttemptOutcome.LOST] * 13 + [AttemptOutcome.FAILED]
    assert next_attempt() != first.id


def test_an_actor_that_reports_no_more_is_killed_and_one_that_waits_for_its_place_is_not(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running_attempt, "SILENT_S", 0.2)
    monkeypatch.setattr(running_attempt, "_LOOK_EVERY_S", 0.05)
    _, _, ledger = at_work(store, tmp_path, slots=2)
    with subprocess.Popen(["sleep", "600"]) as silent, subprocess.Popen(["sleep", "600"]) as speaking:
        actors = {"a": silent, "b": speaking}
        for name, process in actors.items():
            given(ledger.next_job(name))
            actor = json.dumps([this_host(), process.pid, started_at(process.pid)])
            ledger.report(name, result_of("", actor=actor))

        def killed() -> bool:
            ledger.report("b", result_of(""))
            ledger.kill_silent_actors()
            return silent.poll() is not None

        wait_until("the silent one has ended", killed)
        assert silent.returncode == -signal.SIGKILL
        assert speaking.poll() is None
        speaking.kill()


def test_a_dead_actor_has_held_its_resources_since_its_last_report(
    store: Store, tmp_path: Path, clock: list[float]
) -> None:
    _, _, ledger = at_work(store, tmp_path)
    job = given(ledger.next_job("a"))
    ledger.report("a", {"events": "", "start": 0, "end": 0, "held_s": 30.0})
    clock[0] += 45
    ledger.complete("a", None)
    assert store.get_trial(job.trial_id).held_s == 75


def test_what_a_power_cut_left_of_the_events_does_no_harm(store: Store, tmp_path: Path) -> None:
    sweep, fence = start(store)
    job = given(ledger_of(store, fence, tmp_path).next_job("a"))
    Path(job.directory).mkdir(parents=True)
    (Path(job.directory) / "events.jsonl").write_bytes(lines_of(list(training_events(1, 4))).encode() + b"\0\xff\0\n")
    recover(store, fence, sweep)
    assert store.list_trials(sweep.id)[0].state is TrialState.PENDING


def test_ending_twice_changes_nothing(store: Store, tmp_path: Path) -> None:
    sweep, _, ledger = at_work(store, tmp_path)
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
    sweep, fence, ledger = at_work(store, tmp_path)
    done, torn = (given(ledger.next_job(name)) for name in ("a", "b"))
    finished = {"type": "finished", "time": 9.0, "outcome": "SUCCEEDED", "step": 16, "summary": {"loss": 1.0}}
    for job, events in ((done, [*training_events(1, 16), finished]), (torn, list(training_events(1, 3)))):
        Path(job.directory).mkdir(parents=True)
        (Path(job.directory) / "events.jsonl").write_text(lines_of(events))
    store.release_lease(fence)
    taken_over, successor = claimed(store)
    recover(store, successor, taken_over)
    states = {trial.id: (trial.state, trial.step) for trial in store.list_trials(sweep.id)}
    assert states[done.trial_id] == (TrialState.SUCCEEDED, 16)
    assert states[torn.trial_id] == (TrialState.PENDING, 3)
    assert given(ledger_of(store, successor, tmp_path).next_job("c")).trial_id == torn.trial_id
    with pytest.raises(StaleEpoch):
        ledger.complete("b", {"ending": "SUCCEEDED", "message": None})


def test_a_fault_of_the_machine_delays_the_sweep_and_counts_against_no_trial(
    store: Store, tmp_path: Path, clock: list[float]
) -> None:
    sweep, _, ledger = at_work(store, tmp_path, seeds={"tune": [0]}, retries={"max_crashes": 0})
    for attempt in range(1, 6):
        job = given(ledger.next_job("a"))
        assert job.attempt == attempt
        assert store.get_sweep(sweep.id).message is None
        ledger.complete("a", {"ending": "MACHINE_FAULT", "message": "No space left on device"})
        assert ledger.next_job("a") is Nothing.LATER
        assert ledger.outlook() is Nothing.LATER
        assert "No space left on device" in (store.get_sweep(sweep.id).message or "")
        clock[0] += 100
    (first, *_) = store.list_trials(sweep.id)
    assert (first.state, first.attempts) == (TrialState.PENDING, 5)
    assert {one.outcome for one in store.list_attempts(sweep.id)} == {AttemptOutcome.LOST}
    told = [event.data["message"] for event in store.list_events(sweep.id) if event.type == "sweep.delayed"]
    assert [message is None for message in told] == [False, True] * 4 + [False]


def test_a_trial_that_meets_faults_of_the_machine_for_ever_fails(
    store: Store, tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger_module, "MOST_IN_A_ROW", {Ending.LOST: 2, Ending.MACHINE_FAULT: 3})
    sweep, _, ledger = at_work(store, tmp_path, seeds={"tune": [0]})
    for ending in ("MACHINE_FAULT", "LOST", "MACHINE_FAULT", "MACHINE_FAULT"):  # each kind is counted for itself
        clock[0] += 100
        (first, *_) = store.list_trials(sweep.id)
        assert first.state is TrialState.PENDING
        assert given(ledger.next_job("a")).trial_id == first.id
        ledger.complete("a", {"ending": ending, "message": "[Errno 24] Too many open files"})
    (first, *_) = store.list_trials(sweep.id)
    assert first.state is TrialState.FAILED
    assert "3 of its attempts in a row were lost" in (first.message or "")
    assert "Too many open files" in (first.message or "")


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("has_evaluated", [True, False])
def test_a_trial_of_ones_own_trainer_succeeds_only_with_an_evaluation(
    store: Store, tmp_path: Path, *, watched: bool, has_evaluated: bool
) -> None:
    sweep, _, ledger = at_work(store, tmp_path, **OWN_TRAINER)
    folder = Path(given(ledger.next_job("a")).directory)
    evaluation = {"type": "evaluation", "step": 10, "metrics": {"eval/avg_at_k": 0.5}, "time": 1.0}
    events = [{"type": "step", "step": 10, "metrics": {}, "time": 1.0}, *[evaluation] * has_evaluated]
    if watched:
        ledger.report("a", result_of(lines_of(events), held_s=1.0))
        ledger.complete("a", {"ending": "SUCCEEDED", "message": None})
    else:
        note_after_step(folder, 1)
        (folder / "events.jsonl").write_text(lines_of([*events, {"type": "finished"}]))
        ledger.complete("a", None)
    (trial,) = store.list_trials(sweep.id)
    assert (trial.state, trial.step) == (TrialState.SUCCEEDED if has_evaluated else TrialState.FAILED, 10)
    assert has_evaluated or "no attempt of it wrote an evaluation" in (trial.message or "")


def test_a_runner_that_comes_after_a_delay_says_nothing_of_it(store: Store) -> None:
    sweep, fence = start(store)
    for message in ("nothing begins", "nothing begins", None):
        store.say_what_delays(fence, message)
        assert store.get_sweep(sweep.id).message == message
    assert [event.type for event in store.list_events(sweep.id)].count("sweep.delayed") == 2


def test_a_paused_attempt_is_asked_to_save_and_goes_on_later(store: Store, tmp_path: Path, clock: list[float]) -> None:
    sweep, fence, ledger = at_work(store, tmp_path, seeds={"tune": [0]}, retries={"max_crashes": 0})
    begun, waiting = given(ledger.next_job("a")), given(ledger.next_job("b"))
    for job in (begun, waiting):
        Path(job.directory).mkdir(parents=True)
    ledger.report("a", {"events": "", "start": 0, "end": 0, "held_s": 1.0})
    assert not ledger.is_saving("a")
    store.request_pause(sweep.id)
    assert ledger.next_job("c") is Nothing.EVER
    assert [ledger.is_saving(name) for name in ("a", "b", "unknown")] == [True, False, False]
    assert (Path(begun.directory) / STOP_FILE).exists()
    assert not (Path(waiting.directory) / STOP_FILE).exists()
    clock[0] += SAVE_WITHIN_S - 1
    assert ledger.is_saving("a")
    clock[0] += 2
    assert not ledger.is_saving("a")
    ledger.complete("a", {"ending": "LOST", "message": "the trainer was told to stop"})
    ledger.complete("b", None)
    trials = {trial.id: trial for trial in store.list_trials(sweep.id)}
    assert [(trials[job.trial_id].state, trials[job.trial_id].message) for job in (begun, waiting)] == [
        (TrialState.PENDING, None)
    ] * 2
    assert {attempt.outcome for attempt in store.list_attempts(sweep.id)} == {AttemptOutcome.PAUSED}
    store.set_sweep_state(fence, SweepState.PAUSED)
    store.request_resume(sweep.id)
    store.set_sweep_state(fence, SweepState.RUNNING)
    assert given(ledger_of(store, fence, tmp_path).next_job("a")).trial_id == begun.trial_id


def test_one_trial_is_asked_to_save_and_the_others_go_on(store: Store, tmp_path: Path, clock: list[float]) -> None:
    sweep, _, ledger = at_work(store, tmp_path)
    stopped, kept = given(ledger.next_job("a")), given(ledger.next_job("b"))
    for job in (stopped, kept):
        Path(job.directory).mkdir(parents=True)
        ledger.report("a" if job is stopped else "b", {"events": "", "start": 0, "end": 0, "held_s": 1.0})
    store.request_stop(stopped.trial_id, counts=True)
    assert ledger.next_job("c") is Nothing.NOW
    assert [ledger.is_wanted(name) for name in ("a", "b", "unknown")] == [False, True, True]
    assert [ledger.is_saving(name) for name in ("a", "b", "unknown")] == [True, False, False]
    assert [(Path(job.directory) / STOP_FILE).exists() for job in (stopped, kept)] == [True, False]
    clock[0] += SAVE_WITHIN_S + 1
    assert not ledger.is_saving("a")
    ledger.complete("a", {"ending": "LOST", "message": "the trainer was told to stop"})
    assert store.get_trial(stopped.trial_id).state is TrialState.STOPPED
    third = given(ledger.next_job("c"))  # at once: nobody's fault delays it
    assert third.trial_id == store.list_trials(sweep.id)[2].id
    assert SweepService(store, Settings(home=tmp_path)).retry_trial(stopped.trial_id).id == sweep.id
    ledger.complete("b", {"ending": "SUCCEEDED", "message": None})
    again = given(ledger.next_job("d"))
    assert (again.trial_id, again.attempt, ledger.is_wanted("d")) == (stopped.trial_id, 2, True)


@pytest.mark.parametrize(
    ("ending", "state"),
    [("SUCCEEDED", TrialState.SUCCEEDED), ("DIVERGED", TrialState.DIVERGED), ("CRASHED", TrialState.FAILED)],
)
@pytest.mark.usefixtures("clock")
def test_an_attempt_that_ends_by_itself_in_a_pause_keeps_its_ending(
    store: Store, tmp_path: Path, ending: str, state: TrialState
) -> None:
    sweep, _, ledger = at_work(store, tmp_path, retries={"max_crashes": 0})
    job = given(ledger.next_job("a"))
    ledger.report("a", {"events": "", "start": 0, "end": 0})
    store.request_pause(sweep.id)
    ledger.is_saving("a")
    ledger.complete("a", {"ending": ending, "message": None})
    assert store.get_trial(job.trial_id).state is state


@pytest.mark.usefixtures("clock")
def test_a_cancel_leaves_no_time_to_save(store: Store, tmp_path: Path) -> None:
    sweep, _, ledger = at_work(store, tmp_path)
    job = given(ledger.next_job("a"))
    ledger.report("a", {"events": "", "start": 0, "end": 0})
    store.request_pause(sweep.id)
    assert ledger.is_saving("a")  # the folder is not there: what cannot be written is tried again
    store.request_cancel(sweep.id)
    assert not ledger.is_saving("a")
    ledger.complete("a", None)
    assert store.list_attempts(sweep.id)[0].outcome is AttemptOutcome.CANCELLED
    assert store.get_trial(job.trial_id).state is TrialState.CANCELLED


def test_a_sweep_waits_for_its_turn_and_others_wait_for_theirs(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, first_fence), (second, second_fence) = start(store, name="first"), start(store, name="second")
    ledgers = [ledger_of(store, fence, tmp_path, slots=9) for fence in (first_fence, second_fence)]
    for ledger in ledgers:
        monkeypatch.setattr(ledger._turns, "nodes", lambda: [{"CPU": 2.0}])
    one, other = ledgers
    assert one.outlook() is None
    jobs = [given(one.next_job(name)) for name in "ab"]
    assert one.next_job("c") is Nothing.NOW
    assert one.had_nothing
    assert [other.next_job("a"), other.outlook()] == [Nothing.LATER, Nothing.LATER]
    assert store.list_trials(second.id)[0].state is TrialState.PENDING
    one.complete("a", {"ending": "SUCCEEDED", "message": None})
    assert one.next_job("d") is Nothing.NOW  # it is the other one's turn
    assert other.outlook() is None
    assert given(other.next_job("b")).trial_id == store.list_trials(second.id)[0].id
    assert not other.had_nothing
    assert store.get_trial(jobs[1].trial_id).sweep_id == first.id


def test_a_trial_that_has_run_for_long_yields_its_slot_to_a_sweep_that_waits(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.runner.turns.YIELD_EVERY_S", -1.0)
    (_, long_fence), (new, new_fence) = start(store, name="long"), start(store, name="new")
    one, other = (ledger_of(store, fence, tmp_path, slots=9) for fence in (long_fence, new_fence))
    for ledger in (one, other):
        monkeypatch.setattr(ledger._turns, "nodes", lambda: [{"CPU": 2.0}])
    first, second = (given(one.next_job(name)) for name in "ab")

    def report(held_s: float) -> None:
        for name, job in [("a", first), ("b", second)]:
            Path(job.directory).mkdir(parents=True, exist_ok=True)
            one.report(name, {"held_s": held_s})

    def asked_to_save() -> list[bool]:
        one.yield_slots()
        return [one.is_saving("a"), one.is_saving("b")]

    report(held_s=1900)
    assert asked_to_save() == [False, False]  # nobody waits
    assert other.next_job("a") is Nothing.LATER
    report(held_s=1700)
    assert asked_to_save() == [False, False]  # less than half an hour
    report(held_s=1900)
    assert asked_to_save() == [False, True]  # the one that began last
    assert asked_to_save() == [False, True]  # and no other: one slot is enough
    assert (one.is_wanted("a"), one.is_wanted("b")) == (True, False)
    assert (Path(second.directory) / STOP_FILE).exists()
    one.complete("b", {"ending": "LOST", "message": None})
    paused = store.get_trial(second.trial_id)
    assert (paused.state, paused.attempts) == (TrialState.PENDING, 1)
    assert paused.message == "it has saved and waits, because it is the turn of sweep new"
    assert store.attempts_of(second.trial_id)[0].outcome is AttemptOutcome.PAUSED
    assert one.next_job("c") is Nothing.NOW
    monkeypatch.setattr("sweep_service.runner.turns.ASK_EVERY_S", -1.0)
    begun = given(other.next_job("a"))
    assert store.get_trial(begun.trial_id).sweep_id == new.id
    assert asked_to_save() == [False, False]
    other.complete("a", {"ending": "SUCCEEDED", "message": None})
    assert given(one.next_job("d")).trial_id == second.trial_id


def test_what_was_handed_out_to_a_node_that_went_away_waits_again(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.runner.turns.YIELD_EVERY_S", -1.0)
    _, _, ledger = at_work(store, tmp_path, slots=9)
    nodes: list[dict[str, float]] = [{"CPU": 2.0}]
    monkeypatch.setattr(ledger._turns, "nodes", lambda: nodes)
    jobs = {name: given(ledger.next_job(name)) for name in "ab"}
    nodes[:] = [{"CPU": 1.0}]
    ledger.yield_slots()
    assert ledger.is_wanted("b")  # it was handed out a moment ago
    monkeypatch.setattr(running_attempt, "PLACED_WITHIN_S", -1.0)
    nodes[:] = [{"CPU": 2.0}]
    ledger.yield_slots()
    assert ledger.is_wanted("b")  # there is room: an actor may be slow to start
    nodes[:] = [{"CPU": 1.0}]
    ledger.report("a", {"actor": json.dumps(["elsewhere", 7, 1.5])})
    ledger.yield_slots()
    assert (ledger.is_wanted("a"), ledger.is_wanted("b"), ledger.is_saving("b")) == (True, False, False)
    ledger.complete("b", None)
    trial, why = (
        store.get_trial(jobs["b"].trial_id),
        "it waits again, because the node for it went away before it began",
    )
    assert (trial.state, trial.message) == (TrialState.PENDING, why)
    ledger.yield_slots()
    assert ledger.is_wanted("a")


@pytest.mark.usefixtures("clock")
def test_an_extension_is_heard_while_the_sweep_runs(store: Store, tmp_path: Path) -> None:
    sweep, _, ledger = at_work(store, tmp_path, slots=9, resources={"max_parallel": 1}, seeds={"tune": [0]})
    given(ledger.next_job("a"))
    assert ledger.next_job("b") is Nothing.NOW
    extension = {"resources": {"max_parallel": 4}, "seeds": {"tune": [0, 1]}}
    SweepService(store, Settings(home=tmp_path)).extend(sweep.id, extension)
    others = [given(ledger.next_job(name)) for name in "bcd"]
    assert ledger.next_job("e") is Nothing.NOW
    assert ledger.waiting.sweep.generation == 1
    assert [store.get_trial(job.trial_id).seed for job in others] == [0, 0, 1]


def train_all(ledger: Ledger) -> list[Job]:
    """Train what the sweep needs, one trial after the other, and return it in this order."""
    jobs = list[Job]()
    while isinstance(job := ledger.next_job(str(len(jobs))), Job):
        evaluation = {"type": "evaluation", "time": 1.0, "step": 8, "metrics": {"eval/avg_at_k": 0.5}}
        ledger.report(str(len(jobs)), result_of(lines_of([evaluation])))
        ledger.complete(str(len(jobs)), {"ending": "SUCCEEDED", "message": None})
        jobs.append(job)
    assert job is Nothing.EVER
    return jobs


def extended_after_its_end(store: Store, fence: Fence, home: Path, extension: dict[str, Any]) -> Ledger:
    """Extend a sweep that has SUCCEEDED, and return the ledger of its next runner."""
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)
    assert SweepService(store, Settings(home=home)).extend(fence.sweep_id, extension).state is SweepState.QUEUED
    _, fence = claimed(store)
    store.set_sweep_state(fence, SweepState.RUNNING)
    return ledger_of(store, fence, home)


@pytest.mark.usefixtures("clock")
def test_a_sweep_that_has_ended_trains_the_points_of_its_new_values_once(store: Store, tmp_path: Path) -> None:
    """The baseline, of beta1 = beta2 = 0, becomes a point, and what was fixed is swept."""
    sweep, fence = start(store, seeds={"tune": [0, 1]})
    before = train_all(ledger_of(store, fence, tmp_path))
    old = store.list_configs(sweep.id)
    wider = {"space": {"loss.beta1": [0, 0.5, 0.75], "loss.beta2": [1, 0]}}
    jobs = train_all(extended_after_its_end(store, fence, tmp_path, wider))
    configs = store.list_configs(sweep.id)
    assert [(config.id, config.number, config.params) for config in configs[: len(old)]] == [
        (config.id, config.number, config.params) for config in old
    ]
    assert configs[0].roles == ("baseline", "space")
    points = [(config.params["loss.beta1"], config.params["loss.beta2"]) for config in configs]
    assert sorted(points) == [(beta1, beta2) for beta1 in (0, 0.5, 0.75) for beta2 in (0, 1)]
    trials = store.list_trials(sweep.id)
    assert [job.trial_id for job in jobs] == [trial.id for trial in trials[len(before) :]]
    assert {(trial.config_id, trial.seed) for trial in trials} == {(c.id, seed) for c in configs for seed in (0, 1)}
    assert len(trials) == 2 * len(configs)
    assert {trial.state for trial in trials} == {TrialState.SUCCEEDED}


def test_a_sweep_that_only_fails_begins_no_other_trial(store: Store, tmp_path: Path) -> None:
    sweep, fence, ledger = at_work(store, tmp_path, slots=3, retries={"max_failed_trials": 2})
    for name in ("a", "b", "c"):
        given(ledger.next_job(name))
    for name in ("a", "b"):
        ledger.complete(name, {"ending": "FAILED", "message": f"no reward {name}"})
    assert ledger.next_job("d") is Nothing.NOW  # the one that runs may still have a result
    assert ledger.waiting.given_up is not None
    assert "2 trials have FAILED and none has a result" in ledger.waiting.given_up
    assert f"no reward b\nOnce that is mended, sweeps retry {sweep.id}" in ledger.waiting.given_up
    assert f"sweeps extend {sweep.id} --max-failed-trials none" in ledger.waiting.given_up
    ledger.complete("c", {"ending": "FAILED", "message": "no reward c"})
    assert ledger.next_job("d") is Nothing.EVER
    assert ledger_of(store, fence, tmp_path).next_job("d") is Nothing.EVER  # the next runner knows it, too


def test_a_sweep_whose_next_point_cannot_run_ends_once_its_trials_have(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    space = {"loss.beta1": {"type": "float", "low": 0, "high": 1}, "loss.beta2": 1}
    drawn: dict[str, Any] = {"search": {"strategy": "random", "num_configs": 3}, "seeds": {"tune": [0]}}
    _, fence, ledger = at_work(store, tmp_path, slots=3, space=space, baselines={"dapo": False}, **drawn)
    given(ledger.next_job("a"))
    monkeypatch.setattr(stages, "point_error", lambda *_: SpecError("/space", "the point {…} cannot run: 9 steps"))
    assert ledger.next_job("b") is Nothing.NOW
    ledger.complete("a", {"ending": "SUCCEEDED"})
    assert ledger.outlook() is Nothing.EVER
    told = ledger.waiting.given_up
    assert told is not None
    assert told.startswith("random drew a point that training refuses: the point {…} cannot run: 9 steps; submit a")
    assert ledger_of(store, fence, tmp_path).next_job("c") is Nothing.EVER  # the next runner meets it, too


def test_a_result_gives_a_failing_sweep_hope(store: Store, tmp_path: Path) -> None:
    _, _, ledger = at_work(store, tmp_path, retries={"max_failed_trials": 1})
    for name in ("a", "b"):
        given(ledger.next_job(name))
    ledger.complete("a", {"ending": "FAILED", "message": "no reward"})
    assert ledger.next_job("c") is Nothing.NOW
    ledger.complete("b", {"ending": "DIVERGED", "message": None})
    assert ledger.waiting.given_up is None
    given(ledger.next_job("c"))


@pytest.mark.usefixtures("clock")
def test_a_sweep_that_gave_up_tries_the_others_once_it_is_extended(store: Store, tmp_path: Path) -> None:
    sweep, fence, ledger = at_work(store, tmp_path, slots=1, retries={"max_failed_trials": 1})
    failed = given(ledger.next_job("a")).trial_id
    ledger.complete("a", {"ending": "FAILED", "message": "no reward"})
    store.set_sweep_state(fence, SweepState.FAILED, ledger.waiting.given_up, ledger.waiting.sweep.generation)
    lifted: dict[str, Any] = {"retries": {"max_failed_trials": None}}
    SweepService(store, Settings(home=tmp_path)).extend(sweep.id, lifted)
    store.set_sweep_state(fence, SweepState.RUNNING)
    jobs = train_all(ledger_of(store, fence, tmp_path, slots=1))
    others = [trial.id for trial in store.list_trials(sweep.id) if trial.id != failed]
    assert [job.trial_id for job in jobs] == others


def test_failed_trials_that_are_tried_again_count_no_more(store: Store, tmp_path: Path) -> None:
    sweep, fence, ledger = at_work(store, tmp_path, slots=1, retries={"max_failed_trials": 1})
    job = given(ledger.next_job("a"))
    ledger.complete("a", {"ending": "FAILED", "message": "no reward"})
    assert ledger.next_job("b") is Nothing.EVER
    store.set_sweep_state(fence, SweepState.FAILED, ledger.waiting.given_up, ledger.waiting.sweep.generation)
    store.release_lease(fence)
    service = SweepService(store, Settings(home=tmp_path))
    assert service.retry_failed(sweep.id).message is None
    ledger = ledger_of(store, claimed(store)[1], tmp_path, slots=1)
    assert given(ledger.next_job("c")).trial_id == job.trial_id


@pytest.mark.parametrize(("heard", "wish"), [("yielding", "it yields"), ("stops", True)])
def test_a_trial_that_was_to_end_is_wanted_when_it_comes_again(
    store: Store, tmp_path: Path, clock: list[float], monkeypatch: pytest.MonkeyPatch, heard: str, wish: object
) -> None:
    _, _, ledger = at_work(store, tmp_path, slots=1)
    job = given(ledger.next_job("a"))
    monkeypatch.setattr("sweep_service.runner.wishes.READ_EVERY_S", 3600.0)
    getattr(ledger._wishes, heard)[job.trial_id] = wish  # as of the last reading, a moment ago
    ledger.complete("a", {"ending": "LOST", "message": None})
    assert store.get_trial(job.trial_id).state is TrialState.PENDING
    clock[0] += 1
    assert given(ledger.next_job("b")).trial_id == job.trial_id
    assert ledger.is_wanted("b")


@pytest.mark.usefixtures("clock")
def test_a_limit_that_is_raised_while_a_trial_runs_lets_it_go_on(store: Store, tmp_path: Path) -> None:
    sweep, _, ledger = at_work(store, tmp_path, slots=2, budget={"max_trial_hours": 1})
    first, second = (given(ledger.next_job(name)).trial_id for name in "ab")
    for name, held_s in (("a", 3600.5), ("b", 7201.0)):
        ledger.report(name, result_of("", held_s=held_s))
    SweepService(store, Settings(home=tmp_path)).extend(sweep.id, {"budget": {"max_trial_hours": 2}})
    assert ledger.is_wanted("a")  # it reads the wishes
    for name in "ab":
        ledger.complete(name, {"ending": "TIMED_OUT", "message": None})
    assert store.get_trial(first).state is TrialState.PENDING
    assert store.list_attempts(sweep.id)[0].message == "it goes on: its limit was raised while it ran"
    ended = store.get_trial(second)
    assert ended.state is TrialState.FAILED
    assert "max_trial_hours 2" in (ended.message or "")


def test_a_trial_that_times_out_a_moment_early_has_timed_out(store: Store, tmp_path: Path) -> None:
    _, _, ledger = at_work(store, tmp_path, slots=1, budget={"max_trial_hours": 1})
    trial_id = given(ledger.next_job("a")).trial_id
    ledger.report("a", result_of("", held_s=3599.9))
    ledger.complete("a", {"ending": "TIMED_OUT", "message": None})
    assert store.get_trial(trial_id).state is TrialState.FAILED
