"""Evaluations on benchmarks between trials: when they are made, handed out, and given up."""

import json
from pathlib import Path
from typing import Any

from sweep_service.runner.ledger import Ledger, Nothing
from sweep_service.runner.trainer_process import Job
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import Evaluation, SweepState
from tests.stored_sweeps import start, training_events

MEASURED: dict[str, Any] = {
    "space": {"loss.beta1": [0.0, 0.5], "loss.beta2": 1.0},
    "seeds": {"tune": [0], "confirm": {"top_k": 1, "seeds": [7, 8]}},
    "baselines": {"dapo": False, "matched": False},
    "benchmarks": {"names": ["arithmetic", "expressions"], "samples": 3},
}
"""Tune: two points and the baseline on one seed. Confirm: the best one and the baseline on two seeds."""


class Run:
    """A sweep and its ledger."""

    def __init__(self, store: Store, home: Path, slots: int = 9, **changes: Any) -> None:
        self.store, self.home = store, home
        self.sweep, self.fence = start(store, **MEASURED | changes)
        wishes = Wishes(store, self.sweep.id)
        self.ledger = Ledger(store, self.fence, Settings(home=home), lambda: slots, wishes)
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
        lines = "".join(json.dumps(event) + "\n" for event in [*training_events(1, 15), evaluation, saved])
        self.ledger.report(name, {"events": lines, "start": 0, "end": len(lines)})
        self.ledger.complete(name, {"ending": ending, "message": None})

    def train(self) -> None:
        """Run all trials of the present stage."""
        self.fill()
        for name, job in list(self.live.items()):
            if job.measure is None and self.store.get_work(job.trial_id).state is TrialState.RUNNING:
                self.end(name)

    @property
    def evaluations(self) -> list[Evaluation]:
        return self.store.list_evaluations(self.sweep.id)


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


def test_the_numbers_of_benchmarks_are_kept_out_of_every_configs_training(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path)
    for config in store.list_configs(run.sweep.id):
        assert config.training["task"]["apart_from"] == ["arithmetic", "expressions"]


def test_a_waiting_trial_goes_before_an_evaluation(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, slots=1, benchmarks={"names": ["arithmetic"], "of": "all"})
    run.fill()
    run.end("0")
    run.fill()
    run.end("1")
    run.fill()  # the confirm stage's first trial
    assert [job.measure for job in run.live.values()] == [None, None, None]


def test_evaluations_begin_while_trials_run_that_leave_a_slot(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, slots=9, benchmarks={"names": ["arithmetic"], "of": "all"})
    assert run.fill() is Nothing.NOW
    assert [evaluation.trial_id for evaluation in run.evaluations] == [None]
    first = store.list_trials(run.sweep.id)[0]
    run.end(next(name for name, job in run.live.items() if job.trial_id == first.id))
    run.fill()
    assert [evaluation.trial_id for evaluation in run.evaluations] == [None, first.id]
    assert len(measuring(run)) == 2


def test_configs_that_start_from_different_models_each_have_their_initial_one_measured(
    store: Store, tmp_path: Path
) -> None:
    space = {"model.hidden_size": [32, 64], "loss.beta1": [0.0, 0.5]}
    run = Run(store, tmp_path, space=space, benchmarks={"names": ["arithmetic"], "of": "all"})
    run.fill()
    configs = {config.id: config for config in store.list_configs(run.sweep.id)}
    sizes = [configs[initial.config_id].training["model"]["hidden_size"] for initial in run.evaluations]
    assert sorted(sizes) == sorted({config.training["model"]["hidden_size"] for config in configs.values()})
    assert len(sizes) == 2


def test_weights_that_are_gone_end_an_evaluation_with_the_reason(store: Store, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    run = Run(store, home, slots=4)
    run.train()
    run.train()
    home.rmdir()
    assert run.fill() is Nothing.NOW
    gone = [evaluation for evaluation in run.evaluations if evaluation.trial_id]
    assert {(one.state, one.message) for one in gone} == {(TrialState.FAILED, "the weights of its trial are gone")}
    assert [job.measure["model"] for job in measuring(run) if job.measure] == [None]


def test_a_trial_that_failed_or_diverged_leaves_no_model_to_measure(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path)
    run.train()
    run.fill()
    for name, job in list(run.live.items()):
        if store.get_work(job.trial_id).state is TrialState.RUNNING and job.measure is None:
            run.end(name, Ending.DIVERGED)
    run.fill()
    assert [evaluation.trial_id for evaluation in run.evaluations] == [None]


def test_an_evaluation_that_crashes_is_tried_again_and_cancelled_with_its_sweep(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path)
    run.train()
    run.train()
    run.fill()
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
    run.train()
    run.train()
    run.fill()
    name, job = next((name, job) for name, job in run.live.items() if job.measure is not None)
    content = {"scores": {"avg_at_k": {"k": 3, "mean": 0.25}}, "problems": [{"id": "a", "judged": 3, "right": 1}]}
    measured = {"type": "benchmark", "time": 5.0, "name": "arithmetic", "model_sha256": "ab", "shown": []}
    progress = {"type": "progress", "time": 4.0, "phase": "arithmetic", "done": 1, "total": 6}
    events = [progress, measured | {"result": {"scores": {"avg_at_k": {"mean": 0.0}}}}, measured | {"result": content}]
    lines = "".join(json.dumps(event) + "\n" for event in events)
    run.ledger.report(name, {"events": lines, "start": 0, "end": len(lines)})
    (result,) = store.benchmark_results(run.sweep.id)
    assert (result.evaluation_id, result.benchmark, result.content) == (job.trial_id, "arithmetic", content)
    evaluation = next(one for one in run.evaluations if one.id == job.trial_id)
    assert (evaluation.step, evaluation.total_steps) == (1, 2)
    told = [event for event in store.list_events(run.sweep.id) if event.data.get("evaluation_id") == job.trial_id]
    assert [event.type for event in told] == [
        "evaluation.started",
        "evaluation.progress",
        "evaluation.measured",
        "evaluation.measured",
    ]
    assert store.curves(run.sweep.id, ["loss"], [job.trial_id]) == []


def test_trials_do_not_count_evaluations_among_them(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path)
    run.train()
    run.train()
    run.fill()
    sweep_id, numbers = run.sweep.id, [trial.number for trial in store.list_trials(run.sweep.id)]
    assert numbers == list(range(len(numbers)))
    assert sum(store.count_trials([sweep_id])[sweep_id].values()) == len(numbers)
    assert {series.trial_id for series in store.series(sweep_id, ["loss"])} <= {
        t.id for t in store.list_trials(sweep_id)
    }
    assert all(trial.id in {t.id for t in store.list_trials(sweep_id)} for trial, _ in store.behind())


def test_models_of_given_steps_are_measured_as_soon_as_they_are_kept_and_then_removed(
    store: Store, tmp_path: Path
) -> None:
    run = Run(store, tmp_path, benchmarks={"names": ["arithmetic"], "at": [8, 16]})
    run.train()
    run.fill()
    (name, job), *others = [(name, job) for name, job in run.live.items() if job.keep_models]
    assert {job.keep_models for _, job in others} == {(8,)} == {job.keep_models}
    (model := tmp_path / "model-8").mkdir()
    saved = {"type": "checkpoint", "time": 1.0, "step": 8, "path": str(model), "model_only": True}
    lines = json.dumps(saved) + "\n"
    run.ledger.report(name, {"events": lines, "start": 0, "end": len(lines)})
    assert store.newest_checkpoint(job.trial_id) is None  # no run goes on from a model alone
    run.fill()
    at_8 = next(one for one in measuring(run) if one.measure and one.measure["model"])
    assert at_8.measure is not None
    assert at_8.measure["model"] == str(model)
    run.ledger.complete(next(n for n, j in run.live.items() if j is at_8), {"ending": "SUCCEEDED", "message": None})
    assert not model.exists()
    (evaluation,) = (one for one in run.evaluations if one.model_step == 8)
    assert (evaluation.trial_id, evaluation.state) == (job.trial_id, TrialState.SUCCEEDED)
    late = run.ledger
    lines_then = "".join(json.dumps(event) + "\n" for event in [{**saved, "step": 16, "model_only": False}])
    late.report(name, {"events": lines_then, "start": len(lines), "end": len(lines) + len(lines_then)})
    late.complete(name, {"ending": "SUCCEEDED", "message": None})
    run.fill()
    assert {one.model_step for one in run.evaluations if one.trial_id == job.trial_id} == {8, 16}


def test_without_its_last_step_a_trial_is_measured_at_the_named_ones_alone(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, benchmarks={"names": ["arithmetic"], "at": [8]})
    run.train()
    run.train()
    run.fill()
    assert [evaluation.trial_id for evaluation in run.evaluations] == [None]


def test_a_sweep_without_benchmarks_has_no_evaluations(store: Store, tmp_path: Path) -> None:
    run = Run(store, tmp_path, benchmarks=None)
    run.train()
    run.train()
    assert run.fill() is Nothing.EVER
    assert run.evaluations == []
