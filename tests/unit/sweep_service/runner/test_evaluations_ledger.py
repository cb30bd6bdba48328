"""Evaluations on benchmarks between trials: when they are made, handed out, and given up."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sweep_service.runner.ledger import Nothing
from sweep_service.runner.trainer_process import Job
from sweep_service.store import Store
from sweep_service.sweep.budget import Spent, gpu_hours
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Evaluation, Stage, SweepState
from sweep_service.sweep.shares import Part
from tests.stored_sweeps import start, training_events
from tests.unit.sweep_service.runner.ledgers import ledger_of, lines_of

MEASURED: dict[str, Any] = {
    "space": {"loss.beta1": [0.0, 0.5], "loss.beta2": 1.0},
    "seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": [7, 8]}},
    "baselines": {"dapo": False, "matched": False},
    "benchmarks": {"names": ["arithmetic", "expressions"], "samples": 3},
}
"""Tune: two points and the baseline on one seed. Confirm: the best one and the baseline on two seeds."""


class Run:
    """A sweep and its ledger."""

    def __init__(
        self, store: Store, home: Path, slots: int = 9, fits: Callable[[int, int], bool] | None = None, **changes: Any
    ) -> None:
        self.store, self.home = store, home
        self.sweep, self.fence = start(store, **MEASURED | changes)
        self.ledger = ledger_of(store, self.fence, home, slots, fits)
        self.live: dict[str, Job] = {}

    def fill(self) -> Nothing:
        """Hand out until nothing more is."""
        while isinstance(job := self.ledger.next_job(name := str(len(self.live))), Job):
            self.live[name] = job
        return job

    def end(self, name: str, ending: Ending = Ending.SUCCEEDED) -> None:
        """End what runs under a name, after it has written a checkpoint."""
        saved = {"type": "checkpoint", "time": 1.0, "step": 16, "path": str(self.home)}
        beta = self.live[name].config["loss"].get("beta1", 0.0)
        evaluation = {"type": "evaluation", "time": 1.0, "step": 16, "metrics": {"eval/avg_at_k": beta / 2}}
        self.tell(name, *training_events(1, 15), evaluation, saved)
        self.ledger.complete(name, {"ending": ending, "message": None})

    def tell(self, name: str, *events: dict[str, Any]) -> None:
        """Report what is written under a name after all that was written before."""
        job, lines = self.live[name], lines_of(events)
        attempts = {(a.trial_id, a.number): a for a in self.store.list_attempts(self.sweep.id)}
        start = attempts[job.trial_id, job.attempt].events_offset
        self.ledger.report(name, {"events": lines, "start": start, "end": start + len(lines)})

    def keep(self, name: str, step: int = 8) -> Path:
        """Keep the model of a step, as the trainer that runs under a name does; return its folder."""
        model = Path(self.live[name].directory) / f"model-{step}"
        model.mkdir(parents=True)
        (model / "model.safetensors").write_bytes(b"weights")
        self.tell(name, {"type": "checkpoint", "time": 1.0, "step": step, "path": str(model), "model_only": True})
        return model

    def name_of(self, work_id: str) -> str:
        """Return the name under which the newest attempt of a trial or evaluation was handed out."""
        return [name for name, job in self.live.items() if job.trial_id == work_id][-1]

    def train(self, ending: Ending = Ending.SUCCEEDED) -> None:
        """Run all trials of the present stage."""
        self.fill()
        for name, job in list(self.live.items()):
            if job.measure is None and self.store.get_work(job.trial_id).state is TrialState.RUNNING:
                self.end(name, ending)

    def train_all(self) -> None:
        """Run all trials of both stages, and hand out what follows."""
        self.train()
        self.train()
        self.fill()

    @property
    def at_work(self) -> tuple[int, int]:
        """Numbers of trials and of evaluations that run."""
        trials = self.store.list_trials(self.sweep.id, states=[TrialState.RUNNING])
        return len(trials), len(self.store.list_evaluations(self.sweep.id, states=[TrialState.RUNNING]))

    def end_one(self, *, measures: bool) -> None:
        """End the first trial, or the first evaluation, that runs."""
        listed = self.store.list_evaluations if measures else self.store.list_trials
        name = self.name_of(listed(self.sweep.id, states=[TrialState.RUNNING])[0].id)
        if measures:
            self.ledger.complete(name, {"ending": "SUCCEEDED", "message": None})
        else:
            self.end(name)
        self.fill()

    @property
    def evaluations(self) -> list[Evaluation]:
        return self.store.list_evaluations(self.sweep.id)


ALL: dict[str, Any] = {"benchmarks": {"names": ["arithmetic"], "of": "all"}}


def measuring(run: Run) -> list[Job]:
    return [job for job in run.live.values() if job.measure is not None]


def test_models_of_the_confirm_stage_are_measured_and_the_initial_one_once(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path)
    run.train()
    assert run.evaluations == []
    run.train()
    assert run.fill() is Nothing.NOW
    confirmed = [trial.id for trial in store.list_trials(run.sweep.id) if trial.stage == "confirm"]
    assert [evaluation.trial_id for evaluation in run.evaluations] == [None, *confirmed]
    assert [evaluation.model_step for evaluation in run.evaluations] == [0, 16, 16, 16, 16]
    initial, *trained = measuring(run)
    settings = {"samples": 3, "longest": None, "temperature": None, "top_p": None}
    benchmarks = [{"name": name, **settings} for name in ("arithmetic", "expressions")]
    assert initial.measure == {"model": None, "results": None, "benchmarks": benchmarks}
    storage = tmp_path / "storage" / run.sweep.id
    assert [job.measure for job in trained] == [
        {"model": str(tmp_path), "results": str(storage / job.trial_id / "results"), "benchmarks": benchmarks}
        for job in trained
    ]
    for name, job in run.live.items():
        if job.measure is not None:
            run.ledger.complete(name, {"ending": "SUCCEEDED", "message": None})
    assert run.fill() is Nothing.EVER
    assert {evaluation.state for evaluation in run.evaluations} == {TrialState.SUCCEEDED}


@pytest.mark.parametrize(
    ("benchmarks", "ending", "nothing", "measured"),
    [
        (None, Ending.SUCCEEDED, Nothing.EVER, []),
        ({"names": ["arithmetic"], "at": [8]}, Ending.SUCCEEDED, Nothing.NOW, [None]),  # the last step is not named
        ({"names": ["arithmetic"]}, Ending.DIVERGED, Nothing.NOW, [None]),
    ],
)
def test_a_model_that_nobody_asks_for_or_that_is_not_there_is_not_measured(
    store: Store, tmp_path: Path, benchmarks: Any, ending: Ending, nothing: Nothing, measured: list[None]
) -> None:
    run = Run(store, tmp_path, benchmarks=benchmarks)
    run.train()
    run.train(ending)
    assert run.fill() is nothing
    assert [evaluation.trial_id for evaluation in run.evaluations] == measured


def test_no_trial_waits_for_evaluations_that_need_none_of_its_resources(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, fits=lambda trials, evaluations: trials <= 1 and evaluations <= 2, **ALL)
    run.fill()
    assert run.at_work == (1, 1)
    run.end_one(measures=False)
    assert run.at_work == (1, 2)
    run.end_one(measures=False)
    assert run.at_work == (1, 2)


def test_a_trial_that_needs_more_waits_only_for_evaluations_that_had_begun(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, fits=lambda trials, evaluations: 2 * trials + evaluations <= 4, **ALL)
    run.fill()
    assert run.at_work == (2, 0)
    run.end_one(measures=False)
    assert run.at_work == (2, 0)
    run.end_one(measures=False)
    assert run.at_work == (1, 2)  # the last tune trial, beside it evaluations of others and of the initial model
    run.end_one(measures=False)
    assert run.at_work == (1, 2)  # the first confirm trial
    assert TrialState.PENDING in {evaluation.state for evaluation in run.evaluations}
    run.end_one(measures=True)
    assert run.at_work == (1, 1)
    run.end_one(measures=True)
    assert run.at_work == (2, 0)


@pytest.mark.parametrize(
    ("own", "resources", "held"),
    [
        ({"cpus": 3, "gpus": 0.5}, {"cpus": 2, "gpus": 2}, (3, 0.5, 3)),
        ({"cpus": 3}, {"cpus": 2, "gpus": 2}, (3, 2, 3)),
        ({"gpus": 1}, {"cpus": 2, "gpus": 2}, (2, 1, 2)),
        ({"cpus": 0.5}, {"cpus": 2, "gpus": 2}, (0.5, 2, 1)),
    ],
)
def test_an_evaluation_gets_resources_of_its_own_and_is_one_process(
    store: Store, tmp_path: Path, own: dict[str, float], resources: dict[str, float], held: tuple[float, float, int]
) -> None:
    benchmarks = {"names": ["arithmetic"], "of": "all", "resources": own}
    run = Run(store, tmp_path, benchmarks=benchmarks, resources=resources, training={"steps": 16, "device_batch": 32})
    run.fill()
    trial, (evaluation,) = run.live["0"], measuring(run)
    assert (trial.cpus, trial.gpus, trial.threads, trial.processes) == (2, 2, 2, 2)
    assert (evaluation.cpus, evaluation.gpus, evaluation.threads, evaluation.processes) == (*held, 1)


@pytest.mark.parametrize(("hours", "tuned"), [(14, 2), (15, 3)])
def test_each_evaluation_keeps_its_hours_from_new_trials_once(
    hours: float, tuned: int, store: Store, tmp_path: Path
) -> None:
    """Four confirm trials and eight evaluations may take an hour each; one of these begins before the last trial."""
    budget = {"max_gpu_hours": hours, "max_trial_hours": 1}
    fits: Callable[[int, int], bool] = lambda trials, evaluations: trials <= 2 and evaluations <= 1  # noqa: E731
    run = Run(store, tmp_path, fits=fits, budget=budget, resources={"gpus": 1}, probe="off", **ALL)
    run.fill()
    assert run.at_work == (2, 1)
    for name in "01":
        run.ledger.report(name, {"held_s": 3600.0})
        run.end(name)
        run.fill()
    tune = [trial for trial in store.list_trials(run.sweep.id) if trial.stage is Stage.TUNE]
    assert sum(trial.attempts for trial in tune) == tuned


@pytest.mark.parametrize(("used", "begin"), [(11, 0), (10, 1)])
def test_evaluations_leave_hours_for_the_confirm_stage(
    used: float, begin: int, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The four confirm trials may take an hour each of fifteen."""
    slots, budget = [3], {"max_gpu_hours": 15, "max_trial_hours": 1}
    hours = {"budget": budget, "resources": {"gpus": 1}, "probe": "off"}
    run = Run(store, tmp_path, fits=lambda *running: sum(running) <= slots[0], **hours, **ALL)
    run.fill()
    assert run.at_work == (3, 0)
    slots[0] = 4
    monkeypatch.setattr(store, "spent", lambda _: Spent((), probe_gpu_hours=used))
    run.fill()
    assert run.at_work == (3, begin)


def test_hours_of_evaluations_count_in_the_budget_with_their_own_gpus(store: Store, tmp_path: Path) -> None:
    benchmarks = {"names": ["arithmetic"], "of": "all", "resources": {"gpus": 1}}
    budget = {"max_gpu_hours": 100, "max_trial_hours": 1}
    training = {"steps": 16, "device_batch": 32}
    run = Run(store, tmp_path, benchmarks=benchmarks, budget=budget, resources={"gpus": 2}, training=training)
    run.fill()
    (initial,) = measuring(run)
    assert (initial.limit_s, run.live["0"].limit_s) == (3600, 3600)
    begun = len(store.list_trials(run.sweep.id))
    run.ledger.report(run.name_of(initial.trial_id), {"held_s": 1800.0})
    found = gpu_hours(run.sweep.spec, store.spent(run.sweep.id))
    assert (found.used, found.reserved) == (0.5, 0.5 + 2 * begun)
    run.ledger.complete(run.name_of(initial.trial_id), {"ending": "CRASHED", "message": "signal 9"})
    run.fill()
    assert measuring(run)[-1].limit_s == 1800
    run.ledger.report("0", {"held_s": 900.0})
    assert gpu_hours(run.sweep.spec, store.spent(run.sweep.id)).used == 0.5 + 0.5


def test_weights_that_are_gone_end_an_evaluation_with_the_reason(store: Store, tmp_path: Path) -> None:
    run = Run(store, home := tmp_path / "home", slots=4)
    run.train()
    run.train()
    shutil.rmtree(home)
    assert run.fill() is Nothing.NOW
    gone = [evaluation for evaluation in run.evaluations if evaluation.trial_id]
    assert {(one.state, one.message) for one in gone} == {(TrialState.FAILED, "the weights of its trial are gone")}
    assert [job.measure["model"] for job in measuring(run) if job.measure] == [None]


def test_an_evaluation_that_crashes_is_tried_again_and_cancelled_with_its_sweep(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path)
    run.train_all()
    name, job = next((name, job) for name, job in run.live.items() if job.measure is not None)
    run.ledger.complete(name, {"ending": "CRASHED", "message": "signal 9"})
    run.fill()
    again = measuring(run)[-1]
    assert (again.trial_id, again.attempt, again.measure) == (job.trial_id, 2, job.measure)
    assert again.directory != job.directory
    store.set_sweep_state(run.fence, SweepState.CANCELLED)
    assert TrialState.PENDING not in {evaluation.state for evaluation in run.evaluations}


def test_a_measured_benchmark_is_stored_once_and_told(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path)
    run.train_all()
    name, job = next((name, job) for name, job in run.live.items() if job.measure is not None)
    content = {"scores": {"avg_at_k": {"k": 3, "mean": 0.25}}, "problems": [{"id": "a", "judged": 3, "right": 1}]}
    measured = {"type": "benchmark", "time": 5.0, "name": "arithmetic", "model_sha256": "ab", "shown": []}
    progress = {"type": "progress", "time": 4.0, "phase": "arithmetic", "done": 1, "total": 6}
    first = measured | {"result": {"scores": {"avg_at_k": {"mean": 0.0}}}}
    run.tell(name, progress, first, measured | {"result": content})
    run.tell(name, measured | {"result": content, "time": 9.0})  # as a later attempt says what it found complete
    (result,) = store.benchmark_results(run.sweep.id)
    assert (result.evaluation_id, result.benchmark, result.content) == (job.trial_id, "arithmetic", content)
    evaluation = next(one for one in run.evaluations if one.id == job.trial_id)
    assert (evaluation.step, evaluation.total_steps) == (1, 2)
    told = [event.type for event in store.list_events(run.sweep.id) if event.data.get("evaluation_id") == job.trial_id]
    assert told == [f"evaluation.{what}" for what in ("started", "progress", "measured", "measured")]
    assert store.curves(run.sweep.id, ["loss"], [job.trial_id]) == []


def test_trials_do_not_count_evaluations_among_them(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path)
    run.train_all()
    sweep_id, numbers = run.sweep.id, [trial.number for trial in store.list_trials(run.sweep.id)]
    assert numbers == list(range(len(numbers)))
    assert sum(store.count_trials([sweep_id])[sweep_id].values()) == len(numbers)
    trained = [trial.id for trial in store.list_trials(sweep_id)]
    assert [series.trial_id for series in store.series(sweep_id, ["loss"])] == trained
    assert [trial.id for trial, _ in store.behind()] == trained


def test_models_of_given_steps_are_measured_as_soon_as_they_are_kept_and_then_removed(
    store: Store, tmp_path: Path
) -> None:
    run = Run(store, tmp_path, benchmarks={"names": ["arithmetic"], "at": [8, 16]})
    run.train()
    run.fill()
    (name, job), *others = [(name, job) for name, job in run.live.items() if job.keep_models]
    assert {job.keep_models for _, job in others} == {(8,)} == {job.keep_models}
    model = run.keep(name)
    assert store.newest_checkpoint(job.trial_id) is None  # no run goes on from a model alone
    run.fill()
    at_8 = next(one for one in measuring(run) if one.measure and one.measure["model"])
    assert at_8.measure is not None
    assert at_8.measure["model"] == str(model)
    run.ledger.complete(run.name_of(at_8.trial_id), {"ending": "SUCCEEDED", "message": None})
    assert not model.exists()
    (evaluation,) = (one for one in run.evaluations if one.model_step == 8)
    assert (evaluation.trial_id, evaluation.state) == (job.trial_id, TrialState.SUCCEEDED)
    run.tell(name, {"type": "checkpoint", "time": 1.0, "step": 16, "path": str(model)})
    run.ledger.complete(name, {"ending": "SUCCEEDED", "message": None})
    run.fill()
    assert {one.model_step for one in run.evaluations if one.trial_id == job.trial_id} == {8, 16}


def test_each_kept_model_is_measured_from_its_own_folder(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, benchmarks={"names": ["arithmetic"], "at": [12, 4, 8]})
    run.train()
    run.fill()
    name, job = next((name, job) for name, job in run.live.items() if job.keep_models)
    assert job.keep_models == (4, 8, 12)
    folders = {step: str(run.keep(name, step)) for step in job.keep_models}
    run.fill()
    step_of = {one.id: one.model_step for one in run.evaluations if one.trial_id}
    asked = {step_of[job.trial_id]: job.measure for job in measuring(run) if job.trial_id in step_of}
    assert {step: measure and measure["model"] for step, measure in asked.items()} == folders


def test_another_steps_checkpoint_does_not_stand_for_the_last_model(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, **ALL)
    run.fill()
    run.tell("0", {"type": "checkpoint", "time": 1.0, "step": 12, "path": str(tmp_path)})
    run.ledger.complete("0", {"ending": "SUCCEEDED", "message": None})
    run.fill()
    (evaluation,) = (one for one in run.evaluations if one.trial_id)
    assert (evaluation.state, evaluation.message) == (TrialState.FAILED, "the weights of its trial are gone")


def kept_and_measured(run: Run) -> tuple[str, Path, Evaluation]:
    """Have the first confirm trial keep its model of step 8, and hand out its evaluation; return all three."""
    run.train()
    run.fill()
    name = next(name for name, job in run.live.items() if job.keep_models)
    model = run.keep(name)
    run.fill()
    (evaluation,) = (one for one in run.evaluations if one.model_step == 8)
    return name, model, evaluation


def test_weights_stay_while_their_evaluation_is_tried_again_and_go_alone_when_it_is_given_up(
    store: Store, tmp_path: Path
) -> None:
    run = Run(store, tmp_path, benchmarks={"names": ["arithmetic"], "at": [8]}, retries={"max_crashes": 1})
    name, model, evaluation = kept_and_measured(run)
    waiting = {other: run.keep(other) for other, job in run.live.items() if job.keep_models and other != name}
    run.ledger.complete(run.name_of(evaluation.id), {"ending": "CRASHED", "message": "signal 9"})
    assert model.exists()
    run.fill()
    run.ledger.complete(run.name_of(evaluation.id), {"ending": "CRASHED", "message": "signal 9"})
    assert store.get_work(evaluation.id).state is TrialState.FAILED
    assert not model.exists()
    for other in waiting:
        run.ledger.complete(other, {"ending": "CRASHED", "message": None})
    assert [model.exists() for model in waiting.values()] == [True] * 3


def test_weights_go_when_their_evaluation_has_no_time_left(store: Store, tmp_path: Path) -> None:
    benchmarks, budget = {"names": ["arithmetic"], "at": [8]}, {"max_trial_hours": 1}
    run = Run(store, tmp_path, benchmarks=benchmarks, budget=budget)
    _, model, evaluation = kept_and_measured(run)
    name = run.name_of(evaluation.id)
    run.ledger.report(name, {"held_s": 3600.0})
    run.ledger.complete(name, {"ending": "CRASHED", "message": "signal 9"})
    assert model.exists()
    run.fill()
    (given_up,) = (one for one in run.evaluations if one.id == evaluation.id)
    assert (given_up.state, given_up.ending, given_up.attempts) == (TrialState.FAILED, Ending.TIMED_OUT, 1)
    assert not model.exists()


def test_weights_that_a_trial_keeps_again_after_they_were_measured_go_with_its_attempt(
    store: Store, tmp_path: Path
) -> None:
    run = Run(store, tmp_path, benchmarks={"names": ["arithmetic"], "at": [8, 12]})
    name, first, evaluation = kept_and_measured(run)
    run.ledger.complete(name, {"ending": "CRASHED", "message": "signal 9"})
    run.fill()
    again = run.name_of(run.live[name].trial_id)
    second = run.keep(again)
    assert second != first
    run.ledger.complete(run.name_of(evaluation.id), {"ending": "SUCCEEDED", "message": None})
    assert not first.exists()
    assert not second.exists()
    third, waiting = run.keep(again), run.keep(again, 12)
    run.ledger.complete(again, {"ending": "SUCCEEDED", "message": None})
    assert not third.exists()
    assert waiting.exists()  # the model of step 12 is still to be measured


def test_an_evaluation_that_has_run_for_long_keeps_its_slot(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = Run(store, tmp_path, **ALL)
    run.train_all()
    running = measuring(run)
    assert running
    for job in running:
        run.ledger.report(run.name_of(job.trial_id), {"start": 0, "end": 0, "held_s": 1e6})
    waiting, _ = start(store, name="another")
    share = next(share for share in store.shares() if share.sweep_id == waiting.id)
    monkeypatch.setattr(run.ledger._turns, "comes_first", lambda _: share)
    run.ledger.yield_slots()
    assert all(run.ledger.is_wanted(run.name_of(job.trial_id)) for job in running)


def test_a_sweep_that_may_run_no_more_at_a_time_waits_for_no_slot(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, resources={"max_parallel": 1})
    run.fill()
    store.wait_in_turn(run.fence, Part(1, 0))
    run.ledger._turns._since = 0.0  # it has asked in vain
    assert run.fill() is Nothing.NOW
    assert [share.waits_for for share in store.shares()] == [None]
