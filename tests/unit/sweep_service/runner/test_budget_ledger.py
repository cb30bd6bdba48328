"""No trial begins that could pass the budget: the real ledger and store, with trials of invented lengths."""

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sweep_service.runner import machine_wait
from sweep_service.runner.ledger import MARK_EVERY_S, Nothing
from sweep_service.runner.recovery import UNSEEN_S, recover
from sweep_service.runner.trainer_launch import STOP_GRACE_S
from sweep_service.runner.trainer_process import Job
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.budget import gpu_hours
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Stage, Trial
from tests.stored_sweeps import claimed, finish, start
from tests.unit.sweep_service.runner.ledgers import ledger_of, lines_of

HOUR = 3600.0
SPEC: dict[str, Any] = {
    "training": {"device_batch": 32},
    "space": {"loss.beta1": [0, 0.5, 1], "loss.beta2": 1},
    "seeds": {"tune": [0, 1], "confirm": {"top_k": 1, "seeds": [7, 8]}},
    "resources": {"gpus": 2},
    "budget": {"max_trial_hours": 1},
    "probe": "off",
}
"""Tune: the baseline and 3 points on 2 seeds. Confirm: the best one and the baseline, 4 trials, 8 GPU-hours."""


DYING_S = 10.0
"""How long trainers may outlive their runner."""


class Run:
    """A sweep and the runner at work on it."""

    def __init__(self, store: Store, home: Path, slots: int = 9, **changes: Any) -> None:
        self.store, self.home, self.slots = store, home, slots
        self.sweep, self.fence = start(store, **SPEC | changes)
        self.names = iter(range(1_000_000))
        self.begin()

    def begin(self) -> None:
        """Be a new runner."""
        recover(self.store, self.fence, self.sweep)
        self.ledger = ledger_of(self.store, self.fence, self.home, fits=lambda *running: sum(running) <= self.slots)
        self.live: dict[str, Job] = {}

    def restart(self) -> None:
        """Die, and be another runner."""
        self.store.release_lease(self.fence)
        _, self.fence = claimed(self.store)
        self.begin()

    def extend(self, extension: dict[str, Any]) -> None:
        """Give the sweep more, as a user does while it runs."""
        SweepService(self.store, Settings(home=self.home)).extend(self.sweep.id, extension)
        self.sweep = self.store.get_sweep(self.sweep.id)
        self.begin()

    def fill(self) -> Job | Nothing:
        """Hand out until nothing more is; return what was said then."""
        while isinstance(given := self.ledger.next_job(name := str(next(self.names))), Job):
            self.live[name] = given
        return given

    def hold(self, name: str, seconds: float, events: list[dict[str, Any]] | None = None) -> None:
        """Report that a trial's actor has held its GPUs for so long."""
        lines = lines_of(events or [])
        self.ledger.report(name, {"held_s": seconds, "events": lines, "start": 0, "end": len(lines)})

    def end(self, name: str, hours: float, ending: str = "SUCCEEDED", **more: Any) -> None:
        """End a trial after so many hours."""
        metrics = {"eval/avg_at_k": self.live.pop(name).config["loss"].get("beta1", 0) / 2}
        evaluation = {"type": "evaluation", "time": 1.0, "step": 8, "metrics": metrics}
        saved = {"type": "checkpoint", "time": 1.0, "step": 480, "path": str(self.home)}
        self.hold(name, hours * HOUR, [evaluation, saved] if ending == "SUCCEEDED" else None)
        self.ledger.complete(name, {"ending": ending, "message": None} | more)

    def end_all(self, hours: float) -> None:
        """End all that run."""
        for name in list(self.live):
            self.end(name, hours)

    @property
    def trials(self) -> list[Trial]:
        return self.store.list_trials(self.sweep.id)

    def states(self, stage: Stage) -> list[str]:
        return [trial.state.value for trial in self.trials if trial.stage is stage]


def with_one_trial(store: Store, home: Path, **changes: Any) -> tuple[Run, str]:
    """Return a sweep of which one trial runs, and that trial's name."""
    run = Run(store, home, slots=1, **changes)
    run.fill()
    (name,) = run.live
    return run, name


def budget(gpu_hours: float) -> dict[str, Any]:
    return {"budget": {"max_trial_hours": 1, "max_gpu_hours": gpu_hours}}


def test_hours_that_a_trial_did_not_need_let_others_begin(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, **budget(8 + 3 * 2))
    run.fill()
    for name in list(run.live)[:2]:
        run.end(name, 0.5)
        assert run.fill() is Nothing.NOW
        assert len(run.live) == 2
    assert run.states(Stage.TUNE) == ["SUCCEEDED"] * 2 + ["RUNNING"] * 2 + ["PENDING"] * 4


def test_after_the_last_trial_whose_limit_fits_the_others_are_cancelled_and_the_sweep_is_confirmed(
    store: Store, tmp_path: Path
) -> None:
    run = Run(store, tmp_path, **budget(8 + 3 * 2))
    assert run.fill() is Nothing.NOW
    assert run.states(Stage.TUNE) == ["RUNNING"] * 3 + ["PENDING"] * 5
    assert [job.limit_s for job in run.live.values()] == [HOUR] * 3
    found = gpu_hours(run.sweep.spec, store.spent(run.sweep.id))
    assert (found.used, found.reserved, found.limit) == (0, 6, 14)
    run.end_all(0.9)
    assert run.fill() is Nothing.NOW
    assert run.states(Stage.TUNE) == ["SUCCEEDED"] * 3 + ["CANCELLED"] * 5
    assert run.states(Stage.CONFIRM) == ["RUNNING"] * 4
    messages = {trial.message for trial in run.trials if trial.state is TrialState.CANCELLED}
    text = "14: 5.4 are used, 8 are kept for the confirm stage, and a trial may take 2"
    assert messages == {f"not begun: budget.max_gpu_hours {text}"}
    run.end_all(1)
    assert run.fill() is Nothing.EVER
    assert gpu_hours(run.sweep.spec, store.spent(run.sweep.id)).used == pytest.approx(13.4)


def test_the_matched_baseline_of_every_chosen_config_is_kept_room_for(store: Store, tmp_path: Path) -> None:
    rates = {
        "space": {"loss.beta1": [0.5, 1], "optimizer.learning_rate": [1e-5, 2e-5]},
        "seeds": {"tune": [0, 1], "confirm": {"top_k": 2, "seeds": [7, 8]}},
    }
    confirm = (2 + 1 + 2) * 2 * 2  # chosen, baseline and matched ones, on two seeds, with 2 GPUs for an hour each
    run = Run(store, tmp_path, slots=99, **rates, **budget(confirm + 5 * 2))
    run.fill()
    assert run.states(Stage.TUNE).count("RUNNING") == 5
    run.end_all(1)
    run.fill()
    assert run.states(Stage.CONFIRM) == ["RUNNING"] * 10
    run.end_all(1)
    assert run.fill() is Nothing.EVER
    assert gpu_hours(run.sweep.spec, store.spent(run.sweep.id)).used == pytest.approx(confirm + 5 * 2)


def test_a_sampler_proposes_no_more_once_a_point_does_not_fit_on_all_seeds(store: Store, tmp_path: Path) -> None:
    search = {"strategy": "random", "num_configs": 9}
    run = Run(store, tmp_path, search=search, **budget(8 + 5 * 2))
    assert run.fill() is Nothing.NOW
    assert len(run.live) == 4  # the baseline and one point; the room that is left bears one seed of two
    run.end_all(0.9)
    assert run.fill() is Nothing.NOW
    assert run.states(Stage.TUNE) == ["SUCCEEDED"] * 4
    assert run.states(Stage.CONFIRM) == ["RUNNING"] * 4
    run.end_all(1)
    assert run.fill() is Nothing.EVER


@pytest.mark.parametrize("probe_hours", [0, 2])
def test_what_the_confirm_stage_did_not_need_proposes_nothing_but_more_hours_do(
    store: Store, tmp_path: Path, probe_hours: int
) -> None:
    search = {"strategy": "random", "num_configs": 4}
    run = Run(store, tmp_path, search=search, **budget(probe_hours + 8 + 5 * 2))
    if probe_hours:
        probe = store.start_probe(run.fence, "shape", "H100", {}, gpus=1)
        store.mark_probe(run.fence, probe, probe_hours * HOUR)
        store.lose_probe(run.fence, 0.0)
        assert store.spent(run.sweep.id).probe_gpu_hours == probe_hours
    run.fill()
    run.end_all(0.9)
    run.fill()
    run.end_all(0.01)
    assert run.fill() is Nothing.EVER
    assert run.states(Stage.TUNE) == ["SUCCEEDED"] * 4
    run.extend({"budget": {"max_gpu_hours": probe_hours + 8 + 10 * 2}})
    run.fill()
    run.end_all(0.9)
    while run.fill() is not Nothing.EVER:
        run.end_all(0.9)
    assert run.states(Stage.TUNE) == ["SUCCEEDED"] * 8


@pytest.mark.parametrize(
    ("more", "tuned", "confirmed"),
    [(2 * 2, ["SUCCEEDED", "SUCCEEDED"], 2), (2, ["SUCCEEDED", "CANCELLED"], 0)],  # on one seed it is not compared
)
def test_new_points_begin_where_there_is_room_for_them_and_for_another_confirm_stage(
    store: Store, tmp_path: Path, more: float, tuned: list[str], confirmed: int
) -> None:
    """The baseline has been confirmed for good; of the config that was, another one may take the place."""
    run = Run(store, tmp_path, **budget(8 + 8 * 2))
    for _ in range(2):
        run.fill()
        run.end_all(1)
    assert run.fill() is Nothing.EVER  # 12 trials have taken all hours
    run.extend({"space": {"loss.beta1": [0, 0.5, 1, 2]}, "budget": {"max_gpu_hours": 24 + more + 2 * 2}})
    assert run.fill() is Nothing.NOW
    while run.live:
        run.end_all(1)
        run.fill()
    assert run.states(Stage.TUNE)[8:] == tuned
    assert run.states(Stage.CONFIRM)[4:] == ["SUCCEEDED"] * confirmed
    assert gpu_hours(run.sweep.spec, store.spent(run.sweep.id)).used == pytest.approx(24 + more + 2 * confirmed)


def test_a_trial_that_began_keeps_its_place_through_crashes(store: Store, tmp_path: Path) -> None:
    run, name = with_one_trial(store, tmp_path, **budget(8 + 3 * 2))
    run.end(name, 0.75, "CRASHED")
    run.slots = 9
    run.fill()
    limits = sorted(job.limit_s or 0 for job in run.live.values())
    assert limits == pytest.approx([HOUR / 4, HOUR, HOUR])


def test_a_trial_that_is_stopped_failed_and_says_where_it_was(store: Store, tmp_path: Path) -> None:
    run, name = with_one_trial(store, tmp_path)
    step = {"type": "step", "time": 1.0, "step": 11, "metrics": {"loss": 0.5}}
    run.hold(name, HOUR, [step])
    run.ledger.complete(name, {"ending": "TIMED_OUT", "message": "told to stop"})
    first = run.trials[0]
    assert first.state is TrialState.FAILED
    said = "stopped after max_trial_hours 1: it was at step 11 of 480; raise budget.max_trial_hours or lower steps"
    assert first.message == said
    del run.live[name]
    run.fill()
    (job,) = run.live.values()
    assert job.trial_id != first.id


def test_a_trial_without_time_left_is_not_tried_again(store: Store, tmp_path: Path) -> None:
    run, name = with_one_trial(store, tmp_path)
    run.hold(name, HOUR - UNSEEN_S)
    run.restart()
    run.fill()
    first = run.trials[0]
    assert (first.state, first.attempts, first.held_s) == (TrialState.FAILED, 1, HOUR)
    assert "it was at step 0 of 480" in str(first.message)
    (job,) = run.live.values()
    assert job.trial_id != first.id


def test_what_a_dead_runner_saw_is_kept_and_what_it_did_not_see_is_added(store: Store, tmp_path: Path) -> None:
    run, name = with_one_trial(store, tmp_path)
    for seconds, noted_s in ((1.0, 1.0), (3.0, 1.0), (7.0, 7.0), (9.0, 7.0)):
        run.hold(name, seconds)
        assert run.trials[0].held_s == noted_s
    run.restart()
    assert run.trials[0].held_s == 7.0 + UNSEEN_S
    recover(store, run.fence, run.sweep)
    assert run.trials[0].held_s == 7.0 + UNSEEN_S
    run.fill()
    (job,) = run.live.values()
    assert job.limit_s == HOUR - 7.0 - UNSEEN_S


def test_a_trial_that_waits_for_its_gpus_uses_no_hours(store: Store, tmp_path: Path) -> None:
    run, name = with_one_trial(store, tmp_path)
    run.ledger.complete(name, None)
    assert (run.trials[0].state, run.trials[0].held_s) == (TrialState.PENDING, 0)


@pytest.fixture(autouse=True, scope="module")
def _no_pause_after_a_loss() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(machine_wait, "FIRST_WAIT_S", 0.0)
        yield


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Store, Path]]:
    home = tmp_path_factory.mktemp("budget")
    store = open_store(f"sqlite:///{home}/store.db")
    yield store, home
    store.close()


@settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(
    seed=st.integers(0, 2**32 - 1),
    hours=st.floats(12, 24),
    slots=st.integers(1, 5),
    sampled=st.booleans(),
    of=st.sampled_from([None, "confirmed", "all"]),
)
def test_whatever_happens_the_budget_holds_and_confirm_stage_and_benchmarks_have_their_share(
    shared: tuple[Store, Path], seed: int, hours: float, slots: int, sampled: bool, of: str | None
) -> None:
    store, home = shared
    search = {"strategy": "random", "num_configs": 4} if sampled else {}
    hours += 4 * sampled  # a proposal needs all seeds
    hours += {None: 0, "confirmed": 5, "all": 15}[of]  # evaluations take one GPU each
    benchmarks = {"names": ["arithmetic"], "of": of, "resources": {"gpus": 1}} if of else None
    changes = {"search": search, "benchmarks": benchmarks, "retries": {"max_crashes": 1}}
    run = Run(store, home, slots, **changes, **budget(hours))
    dice = random.Random(seed)
    truly_held: dict[str, float] = {}
    refused = False  # whether a trial was ended because it would not have fitted
    unseen_s = 0.0  # what no runner can see: the seconds in which trials are stopped, and die

    def spend(job: Job, seconds: float) -> None:
        truly_held[job.trial_id] = truly_held.get(job.trial_id, 0) + seconds * job.gpus

    for _ in range(10_000):
        nothing = run.fill()
        if not refused and (refused := any(trial.ending is Ending.OVER_BUDGET for trial in run.trials)):
            assert needed_for_one_more(run, of, sampled=sampled) > hours, "it would have fitted"
        if nothing is Nothing.EVER:
            break
        assert run.live, "nothing runs, and nothing will"
        name = dice.choice(list(run.live))
        job, limit_s = run.live[name], run.live[name].limit_s or 0
        match dice.choice(["ends"] * 6 + ["crashes"] * 2 + ["is stopped", "its actor dies", "the runner dies"]):
            case "ends":
                spend(job, seconds := limit_s * dice.random())
                run.end(name, seconds / HOUR, dice.choice(["SUCCEEDED", "SUCCEEDED", "DIVERGED", "FAILED"]))
            case "crashes":
                spend(job, seconds := limit_s * dice.random())
                run.end(name, seconds / HOUR, "CRASHED")
            case "is stopped":
                unseen_s += (late := STOP_GRACE_S * dice.random())
                spend(job, limit_s + late)
                run.end(name, (limit_s + late) / HOUR, "CRASHED", timed_out=True)
            case "its actor dies":
                unseen_s += 2
                seconds = (limit_s - 2) * dice.random() if limit_s > 2 else 0
                spend(job, seconds + 2)
                run.hold(name, seconds)
                run.ledger.complete(name, None)
                del run.live[name]
            case _:
                longest_s = MARK_EVERY_S + DYING_S
                for other, lost in run.live.items():
                    seen = max(0.0, (lost.limit_s or 0) - longest_s) * dice.random()
                    spend(lost, seen + min(longest_s, lost.limit_s or 0) * dice.random())
                    run.hold(other, seen)
                run.restart()
        truth = sum(truly_held.values()) / HOUR
        assert truth <= hours + unseen_s / HOUR * 2 + 1e-9
        found = gpu_hours(run.sweep.spec, store.spent(run.sweep.id))
        assert found.used + unseen_s / HOUR * 2 >= truth - 1e-9, "hours were lost"
    trials = run.trials
    assert all(trial.state.is_over for trial in trials)
    assert all((trial.state is TrialState.CANCELLED) == (trial.attempts == 0) for trial in trials)
    assert all(trial.ending is Ending.OVER_BUDGET for trial in trials if trial.attempts == 0)
    evaluations = store.list_evaluations(run.sweep.id)
    assert {work.id for work in [*trials, *evaluations] if work.attempts} >= truly_held.keys()
    confirm = [trial for trial in trials if trial.stage is Stage.CONFIRM]
    assert all(trial.attempts for trial in confirm), "the confirm stage had no room"
    assert confirm or not any(t.state.has_result for t in contenders(run))
    measured = trials if of == "all" else confirm if of else []
    trained = {trial.id for trial in measured if trial.state is TrialState.SUCCEEDED}
    assert {evaluation.trial_id for evaluation in evaluations} == trained | ({None} if measured else set())
    assert all(evaluation.attempts for evaluation in evaluations), "the benchmarks had no room"
    assert all(evaluation.state.is_over for evaluation in evaluations)
    finish(store, run.fence)


def needed_for_one_more(run: Run, of: str | None, *, sampled: bool) -> float:
    """Return the GPU-hours that all would take which has begun or is sure to follow, and one more tune trial."""
    evaluations = run.store.list_evaluations(run.sweep.id)
    of_tune = {None: 0, "confirmed": 0, "all": 10 if sampled else 8}[of]
    most = of_tune + 4 + 1 if of else 0  # and those of the confirm trials and of the initial model
    begun = [(work, 2) for work in run.trials] + [(work, 1) for work in evaluations]
    booked = sum(
        (min(work.held_s / HOUR, 1) if work.state.is_over else 1) * gpus for work, gpus in begun if work.attempts
    )
    confirmed = sum(trial.attempts > 0 for trial in run.trials if trial.stage is Stage.CONFIRM)
    return booked + 2 * (4 - confirmed) + most - sum(evaluation.attempts > 0 for evaluation in evaluations) + 2


def contenders(run: Run) -> list[Trial]:
    """Tune trials of configs that could be chosen, on the first seed."""
    baselines = {config.id for config in run.store.list_configs(run.sweep.id) if "baseline" in config.roles}
    return [trial for trial in run.trials if trial.config_id not in baselines and trial.seed == 0]
