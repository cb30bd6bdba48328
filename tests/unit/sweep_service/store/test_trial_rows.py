"""What every store keeps of trials: attempts, curves, samples, checkpoints, and how far MLflow is."""

import time
from typing import Any

import pytest
from sqlalchemy.exc import IntegrityError

from sweep_service.errors import Conflict, NotFound
from sweep_service.store import Fence, Store
from sweep_service.sweep.budget import WorkTime
from sweep_service.sweep.endings import Ending, TrialState, state_after
from sweep_service.sweep.records import Attempt, AttemptOutcome, Role, Stage, SweepState, Trial, new_id
from sweep_service.sweep.shares import Part
from sweep_service.sweep.spec import Resources
from tests import stored_sweeps as sweeps


def begin(store: Store) -> tuple[Fence, Trial, Attempt]:
    """Return the first trial of a new sweep, with its first attempt under way."""
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    return fence, trial, store.start_attempt(fence, trial.id, "/data/{attempt}")


def steps_of(store: Store, trial: Trial, key: str) -> dict[int, tuple[float, float | None]]:
    (curve,) = store.curves(trial.sweep_id, [key], [trial.id])
    assert curve.steps == sorted(curve.steps)
    return dict(zip(curve.steps, zip(curve.times, curve.values, strict=True), strict=True))


# Attempts


@pytest.mark.parametrize(
    ("endings", "crashes", "max_crashes", "state"),
    [
        ("SUCCEEDED", 0, 3, "SUCCEEDED"),
        ("SUCCEEDED", 3, 3, "SUCCEEDED"),
        ("DIVERGED", 0, 3, "DIVERGED"),
        ("FAILED TIMED_OUT", 0, 3, "FAILED"),
        ("CANCELLED", 0, 3, "CANCELLED"),
        ("CRASHED KILLED HUNG", 3, 3, "PENDING"),
        ("CRASHED KILLED HUNG", 4, 3, "FAILED"),
        ("CRASHED", 1, 0, "FAILED"),
        ("LOST", 0, 0, "PENDING"),
        ("LOST", 99, 3, "PENDING"),
    ],
)
def test_where_a_trial_goes_when_an_attempt_ends(endings: str, crashes: int, max_crashes: int, state: str) -> None:
    for ending in endings.split():
        assert state_after(Ending(ending), crashes, max_crashes) == state, ending


def test_a_trial_is_tried_again_until_it_has_crashed_too_often(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    endings = [Ending.LOST, Ending.CRASHED, Ending.CRASHED]
    states = [sweeps.one_attempt(store, fence, trial.id, one, max_crashes=1, message="killed") for one in endings]
    assert states == [TrialState.PENDING, TrialState.PENDING, TrialState.FAILED]
    found = store.get_trial(trial.id)
    assert (found.state, found.attempts) == (TrialState.FAILED, 3)
    assert (found.message or "").startswith("killed\nThis was crash 2 in a row")
    assert found.ending is Ending.CRASHED
    assert found.ended_at is not None
    assert [(a.number, a.directory, a.outcome) for a in store.list_attempts(sweep.id)] == [
        (1, "/data/1", "LOST"),
        (2, "/data/2", "CRASHED"),
        (3, "/data/3", "CRASHED"),
    ]


def test_crashes_before_a_new_checkpoint_count_no_more(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    written = [[], [], [checkpoint_event(8)], [], []]
    states = [sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, events, max_crashes=2) for events in written]
    assert states == [TrialState.PENDING] * 4 + [TrialState.FAILED]


def test_what_is_saved_again_after_a_checkpoint_was_missing_is_no_progress(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    written = [[checkpoint_event(8)], [checkpoint_event(4), checkpoint_event(8)], [checkpoint_event(6)]]
    states = [sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, events, max_crashes=2) for events in written]
    assert states == [TrialState.PENDING] * 2 + [TrialState.FAILED]


def test_an_attempt_ends_once(store: Store) -> None:
    fence, trial, attempt = begin(store)
    store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, max_crashes=3)
    events = store.list_events(fence.sweep_id)
    again = store.finish_attempt(fence, attempt, Ending.CRASHED, "late news", max_crashes=0)
    assert again is TrialState.SUCCEEDED
    assert store.list_events(fence.sweep_id) == events
    assert store.get_trial(trial.id).message is None


@pytest.mark.both_databases
def test_attempts_come_in_the_order_in_which_they_were_started(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trials = [trial.id for trial in store.list_trials(sweep.id)][::-1]
    first, *_ = [store.start_attempt(fence, trial, "/data/{attempt}") for trial in trials]
    store.finish_attempt(fence, first, Ending.SUCCEEDED, None, max_crashes=3)
    assert [attempt.trial_id for attempt in store.list_attempts(sweep.id)] == trials


@pytest.mark.both_databases
def test_a_running_attempt_names_its_process(store: Store) -> None:
    fence, trial, attempt = begin(store)
    store.set_process(fence, attempt, "node-1", 4321, 77.5)
    (running,) = store.list_attempts(fence.sweep_id, running_only=True)
    assert (running.host, running.pid, running.pid_started_at, running.epoch) == ("node-1", 4321, 77.5, fence.epoch)
    assert store.get_trial(trial.id).state is TrialState.RUNNING
    store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, max_crashes=3)
    assert store.list_attempts(fence.sweep_id, running_only=True) == []


@pytest.mark.both_databases
def test_any_text_can_be_kept(store: Store) -> None:
    fence, trial, attempt = begin(store)
    text = "\0 '; DROP TABLE sweeps; -- \U0001f600 \r\n"
    sweeps.ingest(store, fence, attempt, [samples_event(0, text)])
    store.finish_attempt(fence, attempt, Ending.TIMED_OUT, text, max_crashes=3)
    store.set_sweep_state(fence, SweepState.FAILED, text)
    assert store.list_samples(fence.sweep_id)[0].completion == text
    kept = text.replace("\0", "\N{REPLACEMENT CHARACTER}")  # PostgreSQL has no NUL in texts
    assert store.get_trial(trial.id).message == kept
    assert store.get_sweep(fence.sweep_id).message == kept


def test_a_trial_keeps_its_first_start_and_its_furthest_step(store: Store) -> None:
    fence, trial, attempt = begin(store)
    started = store.get_trial(trial.id).started_at
    sweeps.ingest(store, fence, attempt, [*sweeps.training_events(1, 8)])
    store.finish_attempt(fence, attempt, Ending.LOST, None, max_crashes=3)
    sweeps.one_attempt(store, fence, trial.id, Ending.LOST, [*sweeps.training_events(1, 4)])  # it began anew
    found = store.get_trial(trial.id)
    assert (found.started_at, found.attempts, found.ended_at, found.step) == (started, 2, None, 8)


# Configs and trials


@pytest.mark.both_databases
def test_a_config_that_is_there_already_gets_the_new_role(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    known = store.list_configs(sweep.id)
    again = known[1].model_copy(update={"roles": (Role.MATCHED, Role.SPACE)})
    new = known[1].model_copy(update={"id": "cfg_new", "number": len(known)})
    *_, last = store.list_trials(sweep.id)
    other = {"id": new_id("trl"), "config_id": new.id, "seed": 7, "stage": Stage.CONFIRM, "number": last.number + 1}
    trial = last.model_copy(update=other)
    store.add_configs(fence, [again, new], [trial])
    found = store.list_configs(sweep.id)
    assert [config.id for config in found] == [*(config.id for config in known), "cfg_new"]
    assert found[1].roles == (Role.SPACE, Role.MATCHED)
    assert found[1].params == known[1].params
    assert store.list_trials(sweep.id)[-1] == trial
    added = [event.data for event in store.list_events(sweep.id) if event.type in ("config.added", "trials.added")]
    assert added[0]["config_id"] == "cfg_new"
    assert added[1] == {"trials": 1, "stages": ["confirm"]}

    events = store.list_events(sweep.id)
    more = new.model_copy(update={"id": "cfg_more", "number": len(found)})
    with pytest.raises(IntegrityError):
        store.add_configs(fence, [more], [trial.model_copy(update={"id": new_id("trl")})])
    assert store.list_configs(sweep.id) == found
    assert store.list_events(sweep.id) == events


@pytest.mark.both_databases
def test_trials_and_configs_come_in_pages(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trials, configs = store.list_trials(sweep.id), store.list_configs(sweep.id)
    assert [trial.number for trial in trials] == [0, 1, 2, 3, 4, 5]
    assert store.list_trials(sweep.id, after=1, limit=2) == trials[2:4]
    assert store.list_trials(sweep.id, after=5) == []
    assert store.list_configs(sweep.id, after=0, limit=1) == configs[1:2]
    sweeps.run_trial(store, fence, trials[3])
    assert [trial.number for trial in store.list_trials(sweep.id, states=[TrialState.SUCCEEDED])] == [3]
    assert store.count_trials([sweep.id, "swp_no"]) == {
        sweep.id: {(Stage.TUNE, TrialState.PENDING): 5, (Stage.TUNE, TrialState.SUCCEEDED): 1},
        "swp_no": {},
    }


# What trainers report


@pytest.mark.both_databases
def test_the_same_events_again_change_nothing(store: Store) -> None:
    fence, trial, attempt = begin(store)
    events = [*sweeps.training_events(1, 8)]
    store.ingest(fence, attempt, 0, 100, events[:5])
    store.ingest(fence, attempt, 0, 100, events[:5])
    store.ingest(fence, attempt, 0, 60, events[:3])
    store.ingest(fence, attempt, 100, 180, events[5:])
    store.ingest(fence, attempt, 100, 180, events[5:])
    assert list(steps_of(store, trial, "loss")) == list(range(1, 9))
    assert list(steps_of(store, trial, "eval/avg_at_k")) == [4, 8]
    (stored,) = store.list_attempts(fence.sweep_id)
    assert stored.events_offset == 180
    assert store.get_trial(trial.id).step == 8
    assert len([event for event in store.list_events(fence.sweep_id) if event.type == "trial.evaluated"]) == 2


@pytest.mark.parametrize(("start", "end"), [(101, 180), (60, 180)])
def test_a_gap_or_an_overlap_is_refused(store: Store, start: int, end: int) -> None:
    fence, trial, attempt = begin(store)
    store.ingest(fence, attempt, 0, 100, [*sweeps.training_events(1, 3)])
    with pytest.raises(ValueError, match=rf"/data/1: events from byte {start} came, but the store ends at 100"):
        store.ingest(fence, attempt, start, end, [*sweeps.training_events(4, 8)])
    assert store.get_trial(trial.id).step == 3


@pytest.mark.both_databases
def test_a_step_without_a_value_has_none(store: Store) -> None:
    fence, trial, attempt = begin(store)
    sweeps.ingest(store, fence, attempt, [*sweeps.training_events(1, 4)])
    assert [value for _, value in steps_of(store, trial, "entropy/na_lp").values()] == [1.5, 1.5, None, 1.5]
    assert store.curves(fence.sweep_id, ["never recorded"]) == []


def test_a_repeated_step_keeps_its_first_time_and_has_its_newest_value(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    for number, (first, last) in enumerate([(1, 8), (5, 10), (3, 12)]):
        events = [*sweeps.training_events(first, last, time=sweeps.START + 1000 * number)]
        for event in events:
            event["metrics"] = {**event["metrics"], "attempt": float(number + 1)}
        sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, events)
    found = steps_of(store, trial, "attempt")
    # An evaluation of the same step shares its key only in this test; it comes half a second after the step.
    assert [found[step][1] for step in range(1, 13)] == [1, 1] + [3] * 10
    begun = [0] * 8 + [1000] * 2 + [2000] * 2
    assert [at - sweeps.START for at, _ in steps_of(store, trial, "loss").values()] == [
        at + step for step, at in enumerate(begun, 1)
    ]
    assert [at - sweeps.START for at, _ in steps_of(store, trial, "eval/avg_at_k").values()] == [4.5, 8.5, 2012.5]


@pytest.mark.both_databases
def test_curves_come_by_trial_number_then_key(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trials = store.list_trials(sweep.id)
    for trial in (trials[2], trials[0]):
        sweeps.run_trial(store, fence, trial)
    found = store.curves(sweep.id, ["reward/mean", "loss"])
    assert [(curve.trial_id, curve.key) for curve in found] == [
        (trials[0].id, "reward/mean"),
        (trials[0].id, "loss"),
        (trials[2].id, "reward/mean"),
        (trials[2].id, "loss"),
    ]
    assert (found[2].config_id, found[2].seed, found[2].stage) == (trials[2].config_id, trials[2].seed, Stage.TUNE)
    assert store.curves(sweep.id, ["loss"], [trials[2].id]) == found[3:]
    assert store.curves(sweep.id, ["loss"], []) == []


def test_closing_figures_are_kept(store: Store) -> None:
    fence, trial, attempt = begin(store)
    sweeps.ingest(store, fence, attempt, [sweeps.finished_event({"eval/avg_at_k": 0.5, "time/train_s": None})])
    assert store.get_trial(trial.id).summary == {"eval/avg_at_k": 0.5, "time/train_s": None}


def test_a_warning_is_an_event_and_kept_with_its_trial_the_newest_of_each_code(store: Store) -> None:
    fence, trial, attempt = begin(store)
    store.set_projected(trial.id, state=TrialState.RUNNING)
    assert store.behind() == []
    said = [("BETAS_NEARLY_INERT", 24, "first"), ("OTHER", 30, "other"), ("BETAS_NEARLY_INERT", 25, "again")]
    sweeps.ingest(store, fence, attempt, [sweeps.warning_event(*warning) for warning in said])
    kept = store.get_trial(trial.id).warnings
    assert [(found.code, found.step, found.message) for found in kept] == said[1:]
    assert kept[0].evidence == {"share": 0.0002, "limit": 0.001}
    told = [event.data for event in store.list_events(fence.sweep_id) if event.type == "trial.warned"]
    assert [(data["trial_id"], data["code"], data["message"]) for data in told] == [
        (trial.id, code, message) for code, _, message in said
    ]
    assert [found.id for found, _ in store.behind()] == [trial.id]  # MLflow has to show it


def test_samples_come_in_pages_and_a_resumed_attempt_replaces_its_own(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trials = sorted(store.list_trials(sweep.id)[:2], key=lambda trial: trial.id)
    for trial in trials:
        sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, [samples_event(step, "old") for step in (0, 8)])
    sweeps.one_attempt(store, fence, trials[1].id, Ending.CRASHED, [samples_event(8, "new")])
    everything = store.list_samples(sweep.id)
    assert [(s.trial_id, s.step, s.completion) for s in everything[::2]] == [
        (trials[0].id, 0, "old"),
        (trials[0].id, 8, "old"),
        (trials[1].id, 0, "old"),
        (trials[1].id, 8, "new"),
    ]
    assert store.list_samples(sweep.id, after=(trials[0].id, 0), limit=2) == everything[2:6]
    assert store.list_samples(sweep.id, after=(trials[1].id, 8)) == []


def samples_event(step: int, completion: str) -> dict[str, object]:
    sample = {"prompt": "7=", "completion": completion, "reward": 1.0}
    return {"type": "samples", "time": sweeps.START, "step": step, "samples": [sample, sample]}


def test_the_newest_checkpoint_is_the_furthest_of_the_newest_attempt_that_has_any(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    assert store.newest_checkpoint(trial.id) is None
    for steps in ((8, 16), (16,), (8,)):  # the last one began anew, and has not got as far
        sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, [checkpoint_event(step) for step in steps])
    found = store.newest_checkpoint(trial.id)
    assert found is not None
    assert (found.step, found.attempt, found.path) == (16, 2, "/data/step-16")
    assert store.newest_checkpoints(sweep.id) == [found]


@pytest.mark.both_databases
def test_the_newest_checkpoints_of_a_sweep_are_those_of_its_trials(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    first, second, *_ = store.list_trials(sweep.id)
    for trial, steps in ((second, (8, 24, 16)), (first, (8,)), (second, (24,))):
        sweeps.one_attempt(store, fence, trial.id, Ending.CRASHED, [checkpoint_event(step) for step in steps])
    found = store.newest_checkpoints(sweep.id)
    assert found == [store.newest_checkpoint(first.id), store.newest_checkpoint(second.id)]
    assert [(checkpoint.step, checkpoint.attempt) for checkpoint in found] == [(8, 1), (24, 2)]


@pytest.mark.both_databases
def test_last_samples_are_those_of_each_trials_last_evaluation(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    first, second, third, *_ = store.list_trials(sweep.id)
    for trial, steps in ((second, (0, 8)), (first, (0, 8, 16)), (third, ())):
        attempt = store.start_attempt(fence, trial.id, "/data/{attempt}")
        sweeps.ingest(store, fence, attempt, [samples_event(step, f"at {step}") for step in steps])
    found = store.last_samples(sweep.id, [third.id, second.id, first.id])
    assert [(sample.trial_id, sample.step, sample.completion) for sample in found] == [
        (first.id, 16, "at 16"),
        (first.id, 16, "at 16"),
        (second.id, 8, "at 8"),
        (second.id, 8, "at 8"),
    ]
    assert store.last_samples(sweep.id, [second.id]) == found[2:]
    assert store.last_samples(sweep.id, []) == []


def checkpoint_event(step: int) -> dict[str, object]:
    return {"type": "checkpoint", "time": sweeps.START, "step": step, "path": f"/data/step-{step}"}


@pytest.mark.both_databases
def test_time_held_is_a_trials_over_all_its_attempts_and_added_once(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    first = store.start_attempt(fence, trial.id, "/data/{attempt}")
    for seconds in (10.0, 30.0, 30.0):
        store.set_held(fence, first, seconds)
    for _ in range(2):
        store.finish_attempt(fence, first, Ending.CRASHED, "signal 9", 3, more_held_s=2.5)
    assert store.get_trial(trial.id).held_s == 32.5
    second = store.start_attempt(fence, trial.id, "/data/{attempt}")
    store.finish_attempt(fence, second, Ending.SUCCEEDED, None, 3, more_held_s=7.5)
    attempts = store.attempts_of(trial.id)
    assert [one.held_s for one in attempts] == [32.5, 7.5]
    assert [time.time() - (one.held_from or 0) for one in attempts] == [pytest.approx(s, abs=5) for s in (10, 7.5)]
    running = store.list_trials(sweep.id)[1]
    store.start_attempt(fence, running.id, "/data/{attempt}")
    assert sorted(store.spent(sweep.id).begun) == [
        WorkTime(TrialState.RUNNING, 0.0),
        WorkTime(TrialState.SUCCEEDED, 40.0),
    ]


@pytest.mark.both_databases
def test_an_attempt_keeps_the_versions_with_which_it_trains(store: Store) -> None:
    fence, trial, attempt = begin(store)
    assert store.versions(fence.sweep_id) == {}
    versions = {"python": "3.11.9", "torch": "2.13.0"}
    store.ingest(fence, attempt, 0, 10, [{"type": "started", "time": 1.0, "versions": versions}])
    (stored,) = store.attempts_of(trial.id)
    assert stored.versions == versions
    assert store.versions(fence.sweep_id) == {trial.id: [versions]}


def test_a_pending_trial_can_be_failed_and_a_running_one_not(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    waiting, running = store.list_trials(sweep.id)[:2]
    store.start_attempt(fence, running.id, "/data/{attempt}")
    for trial in (waiting, running):
        store.end_waiting(fence, Ending.TIMED_OUT, "no time left", trial.id)
    ended, other = store.list_trials(sweep.id)[:2]
    assert (ended.state, ended.ending, ended.message) == (TrialState.FAILED, Ending.TIMED_OUT, "no time left")
    assert (other.state, other.ending) == (TrialState.RUNNING, None)


@pytest.mark.both_databases
def test_speed_is_that_of_earlier_trials_of_the_same_shape(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    config = store.list_configs(sweep.id)[0]
    resources = sweep.spec.resources
    assert store.seconds_per_step(config.training, resources) is None
    trial, other = store.list_trials(sweep.id)[:2]
    sweeps.run_trial(store, fence, trial)
    store.set_held(fence, store.attempts_of(trial.id)[0], 20.0)
    sweeps.run_trial(store, fence, other)  # nobody knows for how long this one held its resources
    assert store.seconds_per_step(config.training, resources) == 20.0 / 16
    shaping = {"task", "model", "rollout", "compute", "evaluation", "device_batch"}
    for name in config.training:
        found = store.seconds_per_step({**config.training, name: "another"}, resources)
        assert (found is None) == (name in shaping), name
    others: dict[str, Any] = {"cpus": 2.0, "gpus": 8.0, "processes": 2, "max_parallel": 3}
    assert others.keys() == Resources.model_fields.keys()
    for field, value in others.items():
        found = store.seconds_per_step(config.training, resources.model_copy(update={field: value}))
        assert (found is None) == (field != "max_parallel"), field


# How far MLflow is


@pytest.mark.both_databases
def test_what_mlflow_lacks_is_behind_until_it_is_marked(store: Store) -> None:
    fence, trial, attempt = begin(store)
    assert [(found.id, shown) for found, shown in store.behind()] == [(trial.id, None)]
    store.set_projected(trial.id, state="RUNNING")
    assert store.behind() == []
    events = [*sweeps.training_events(1, 8)]
    sweeps.ingest(store, fence, attempt, events)
    assert [(found.id, shown) for found, shown in store.behind()] == [(trial.id, "RUNNING")]
    chunks = store.chunks_behind(trial.id, 100)
    assert sorted({step for chunk in chunks for step in chunk.steps}) == list(range(1, 9))
    assert [chunk.id for chunk in chunks] == sorted(chunk.id for chunk in chunks)
    store.set_projected(trial.id, curve_id=chunks[0].id)
    assert store.chunks_behind(trial.id, 100) == chunks[1:]
    assert store.chunks_behind(trial.id, 1) == chunks[1:2]
    store.set_projected(trial.id, curve_id=chunks[-1].id)
    assert store.behind() == []
    store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, max_crashes=3)
    assert [(found.state, shown) for found, shown in store.behind()] == [(TrialState.SUCCEEDED, "RUNNING")]


def test_a_sweep_is_behind_until_its_state_and_report_are_shown(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    assert [found.id for found in store.sweeps_behind()] == [sweep.id]
    store.set_sweep_run(sweep.id, "7", "run")
    store.set_sweep_projected(sweep.id, "RUNNING", None)
    assert store.sweeps_behind() == []
    assert store.sweep_runs() == {sweep.id: "run"}
    store.put_report(sweep.id, "digest", {"html": b""})
    assert [found.mlflow_run_id for found in store.sweeps_behind()] == ["run"]
    store.set_sweep_projected(sweep.id, "RUNNING", "digest")
    assert store.sweeps_behind() == []
    store.set_sweep_state(fence, SweepState.FINALIZING)
    assert len(store.sweeps_behind()) == 1


@pytest.mark.both_databases
def test_one_process_at_a_time_carries_over(store: Store) -> None:
    for _ in range(2):
        with store.projecting() as mine, store.projecting() as other:
            assert mine
            assert other == (store.engine.dialect.name == "sqlite")


@pytest.mark.both_databases
def test_what_is_to_be_carried_over_anew_is_left_until_all_of_it_is(store: Store) -> None:
    fence, trial, attempt = begin(store)
    id_ = fence.sweep_id
    sweeps.ingest(store, fence, attempt, [*sweeps.training_events(1, 4)])
    store.set_sweep_run(id_, "7", "parent")
    store.set_sweep_projected(id_, "RUNNING", None)
    store.set_trial_run(trial.id, "run")
    chunks = store.chunks_behind(trial.id, 100)
    store.set_projected(trial.id, curve_id=chunks[-1].id, state="RUNNING")
    newest = store.request_projection([id_, "swp_unknown"])
    assert store.projections_requested() == [id_]
    assert store.sweep_runs() == {id_: "parent"}  # the worker forgets, not who asks
    assert store.get_trial(trial.id).mlflow_run_id == "run"
    assert store.projection_left([id_], newest) == 2
    store.forget_projection(id_)
    assert (store.sweep_runs(), store.get_trial(trial.id).mlflow_run_id) == ({}, None)
    assert (store.chunks_behind(trial.id, 100), [shown for _, shown in store.behind()]) == (chunks, [None])
    assert store.projections_requested() == []
    assert store.projection_left([id_], newest) == 2
    store.set_sweep_run(id_, "7", "parent")
    store.set_sweep_projected(id_, "RUNNING", None)
    assert store.projection_left([id_], newest) == 1
    store.set_trial_run(trial.id, "run")
    store.set_projected(trial.id, curve_id=newest - 1, state="RUNNING")
    assert store.projection_left([id_], newest) == 1
    store.set_projected(trial.id, curve_id=newest, state="RUNNING")
    sweeps.ingest(store, fence, attempt, [*sweeps.training_events(5, 8)])
    assert store.projection_left([id_], newest) == 0  # what has come since counts no more


# Stops by hand


def requests(store: Store, sweep_id: str) -> list[dict[str, object]]:
    return [event.data for event in store.list_events(sweep_id) if event.type == "trial.stop_requested"]


@pytest.mark.both_databases
@pytest.mark.parametrize(("counts", "state"), [(True, TrialState.STOPPED), (False, TrialState.DISCARDED)])
def test_a_waiting_trial_is_stopped_at_once(store: Store, counts: bool, state: TrialState) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    for _ in range(2):
        stopped = store.request_stop(trial.id, counts=counts, by="ab12")
        assert (stopped.state, stopped.ending, stopped.attempts) == (state, Ending(state.value), 0)
    assert requests(store, sweep.id) == [{"trial_id": trial.id, "counts": counts, "by": "ab12"}]
    assert store.stops(sweep.id) == {trial.id: counts}
    with pytest.raises(Conflict, match=f"already ended as {state}"):
        store.request_stop(trial.id, counts=not counts)
    turn = store.start_in_turn(fence, trial.id, "/data/{attempt}", Part(1, 0), 1, lambda _: True)
    assert turn is None  # its runner had read it while it still waited


@pytest.mark.parametrize("ending", [Ending.LOST, Ending.PAUSED, Ending.CRASHED, Ending.STOPPED])
def test_a_wish_to_stop_outlives_its_runner_and_the_last_one_holds(store: Store, ending: Ending) -> None:
    fence, trial, attempt = begin(store)
    for counts in (True, False):
        assert store.request_stop(trial.id, counts=counts).state is TrialState.RUNNING
    state = store.finish_attempt(fence, attempt, ending, "its runner has gone", max_crashes=3)
    stopped = store.get_trial(trial.id)
    assert (state, stopped.state, stopped.ending) == (TrialState.DISCARDED,) * 2 + (Ending.DISCARDED,)
    assert stopped.message == "stopped by hand; its result does not count"
    assert store.attempts_of(trial.id)[0].outcome is AttemptOutcome.STOPPED
    assert [data["counts"] for data in requests(store, trial.sweep_id)] == [True, False]


@pytest.mark.parametrize("ending", [Ending.SUCCEEDED, Ending.FAILED])
def test_a_trial_that_ends_by_itself_first_is_not_stopped(store: Store, ending: Ending) -> None:
    fence, trial, attempt = begin(store)
    store.request_stop(trial.id, counts=True)
    assert store.finish_attempt(fence, attempt, ending, None, max_crashes=3) == ending.value
    with pytest.raises(Conflict, match="nothing to stop"):
        store.request_stop(trial.id, counts=True)


@pytest.mark.both_databases
def test_what_cannot_be_stopped(store: Store) -> None:
    fence, trial, _ = begin(store)
    evaluation = sweeps.start(store, benchmarks={"names": ["expressions"], "of": "all"})
    (initial, *_) = sweeps.add_missing_evaluations(store, evaluation[1])
    for unknown in (initial.id, "trl_unknown"):
        with pytest.raises(NotFound):
            store.request_stop(unknown, counts=True)
    store.request_cancel(fence.sweep_id)
    with pytest.raises(Conflict, match="being cancelled"):
        store.request_stop(trial.id, counts=True)
