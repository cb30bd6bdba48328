"""The calls of a tracking server by the projection, written down and compared with the rows of a real store."""

import threading
from collections.abc import Collection, Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sweep_service.schemas import MEDIA_TYPES
from sweep_service.settings import Settings
from sweep_service.store import Store
from sweep_service.sweep.records import SweepState
from sweep_service.tracking import mlflow_words
from sweep_service.tracking.projector import EXPERIMENT, Projector
from sweep_service.tracking.tracker import MetricPoint, RunStatus, TrackerAway, TrackerRefused
from sweep_service.worker.reports.contents import build_report
from tests import stored_sweeps as sweeps


class Recorder:
    """A tracking server that keeps what it is handed."""

    def __init__(self) -> None:
        self.calls, self.refuses, self.cannot_show = 0, False, ""
        self.runs, self.experiment_tags = dict[str, dict[str, Any]](), dict[str, str]()

    def close(self) -> None: ...

    def experiment(self, name: str) -> str:
        return f"id of {name}"

    def set_experiment_tag(self, experiment_id: str, key: str, value: str) -> None:
        assert experiment_id == f"id of {EXPERIMENT}"
        self.experiment_tags[key] = value

    def find_runs(self, experiment_id: str, tags: Mapping[str, str], *, deleted: bool = True) -> Iterator[str]:
        yield from (id_ for id_, run in self.runs.items() if tags.items() <= run["tags"].items())

    def ensure_run(
        self,
        experiment_id: str,
        name: str,
        start_time: int,
        tags: Mapping[str, str],
        identity: Collection[str],
        *,
        deleted: bool = True,
    ) -> str:
        assert experiment_id == f"id of {EXPERIMENT}"
        if self.refuses:
            raise TrackerRefused("no such tag")
        if tags["sweep_id"] == self.cannot_show:
            raise OverflowError("intermediate overflow in fsum")
        run_id = "run of " + " ".join(tags[key] for key in identity)
        new = {"name": name, "start": start_time, "tags": dict(tags), "params": {}, "points": [], "files": {}}
        self.runs.setdefault(run_id, new)
        return run_id

    def log(
        self,
        run_id: str,
        points: Sequence[MetricPoint] = (),
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
    ) -> None:
        self.calls += 1
        self.runs[run_id]["points"] += points
        self.runs[run_id]["params"] |= params or {}
        self.runs[run_id]["tags"] |= tags or {}

    def update_run(self, run_id: str, status: RunStatus, end_time: int | None = None) -> None:
        self.runs[run_id] |= {"status": status, "end": end_time}

    def delete_run(self, run_id: str) -> None:
        del self.runs[run_id]

    def put_artifact(self, run_id: str, name: str, content: bytes, media_type: str) -> None:
        self.runs[run_id]["files"][name] = content, media_type


def test_a_sweep_and_its_begun_trials_are_handed_over_once_with_all_that_is_stored(store: Store) -> None:
    sweep, fence = sweeps.start(store)
    begun = store.list_trials(sweep.id)[1]
    sweeps.run_trial(store, fence, begun)
    sweeps.finish(store, fence)
    store.put_report(sweep.id, "digest", {"md": b"the answer"})
    recorder = Recorder()
    projector = Projector(store, recorder)
    assert not projector.carry()
    calls = recorder.calls
    assert not projector.carry()
    assert recorder.calls == calls

    sweep, trial = store.get_sweep(sweep.id), store.get_trial(begun.id)
    config = next(config for config in store.list_configs(sweep.id) if config.id == trial.config_id)
    of_sweep, of_trial = f"run of sweep {sweep.id}", f"run of trial {trial.id}"
    assert recorder.runs.keys() == {of_sweep, of_trial}
    assert (sweep.mlflow_run_id, trial.mlflow_run_id) == (of_sweep, of_trial)
    shown = recorder.runs[of_sweep]
    assert (shown["name"], shown["start"]) == (sweep.name, 1000 * sweeps.START)
    assert shown["tags"].items() >= mlflow_words.sweep_tags(sweep).items()
    assert shown["params"] == mlflow_words.flat(sweep.spec.model_dump(mode="json", exclude={"labels"}))
    assert shown["files"] == {"report.md": (b"the answer", MEDIA_TYPES["md"])}
    assert (shown["status"], shown["end"]) == ("FINISHED", round(1000 * (sweep.ended_at or 0)))
    shown = recorder.runs[of_trial]
    assert shown["name"] == mlflow_words.trial_name(sweep, trial, config)
    assert shown["start"] == round(1000 * (trial.started_at or 0))
    assert shown["tags"] == mlflow_words.trial_tags(sweep, trial, config)
    assert shown["tags"]["mlflow.parentRunId"] == of_sweep
    assert shown["params"] == mlflow_words.flat({**config.settings, "seed": trial.seed, "threads": trial.threads})
    assert (shown["status"], shown["end"]) == ("FINISHED", round(1000 * (trial.ended_at or 0)))
    points = {(point.key, point.step): (point.value, point.timestamp) for point in shown["points"]}
    assert len(points) == len(shown["points"])
    assert {step: points["entropy", step] for step in range(1, 17)} == {
        step: (1.0 - step / 100, 1000 * (sweeps.START + step)) for step in range(1, 17)
    }
    assert {step: points["eval/avg_at_k", step][0] for step in (4, 8, 12, 16)} == {4: 0.1, 8: 0.2, 12: 0.3, 16: 0.4}
    assert points["final/objective", 0][0] == pytest.approx(0.3)  # the mean of the last three
    assert points["final/avg_at_k", 0][0] == 0.4


def test_a_new_report_has_runs_of_its_own_for_its_configs(store: Store) -> None:
    sweep, fence = sweeps.start(store, benchmarks={"names": ["arithmetic"], "of": "all"})
    for trial in store.list_trials(sweep.id):
        sweeps.run_trial(store, fence, trial)
    for number, evaluation in enumerate(sweeps.add_missing_evaluations(store, fence)):
        sweeps.measure(store, fence, evaluation, {"arithmetic": number % 5})
    store.set_sweep_state(fence, SweepState.FINALIZING)
    recorder = Recorder()
    projector = Projector(store, recorder)
    for public in ("http://one", "http://two"):  # another address is another report
        digest, contents, _ = build_report(store, sweep.id, Settings(mlflow_url=public))
        store.put_report(sweep.id, digest, contents)
        while projector.carry():
            pass
        shown = [run for run in recorder.runs.values() if run["tags"]["kind"] == "config"]
        assert {run["tags"]["report"] for run in shown} == {digest}
        assert len(shown) == len(store.list_configs(sweep.id))
        assert all("benchmark/arithmetic/avg_at_k" in {point.key for point in run["points"]} for run in shown)
        for points in (run["points"] for run in shown):
            assert len({(point.key, point.step) for point in points}) == len(points) > 0


def test_what_is_left_is_handed_over_when_the_worker_stops_unless_the_server_is_away(store: Store) -> None:
    sweep, _ = sweeps.start(store)
    stop = threading.Event()
    stop.set()
    recorder = Recorder()
    Projector(store, recorder).run(stop)
    assert recorder.runs.keys() == {f"run of sweep {sweep.id}"}

    away, tries = threading.Event(), list[str]()

    def experiment(name: str) -> str:
        tries.append(name)
        away.set()
        raise TrackerAway("connection refused")

    gone = Recorder()
    gone.experiment = experiment
    sweeps.start(store, name="another")
    Projector(store, gone).run(away)
    assert len(tries) == 1


class Stop(threading.Event):
    """An event that is set by who waits for it."""

    def __init__(self) -> None:
        super().__init__()
        self.waits = list[float | None]()

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        self.set()
        return True


def test_a_long_pass_is_followed_by_a_longer_pause(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    pauses, passed = list[float](), [0.0]
    monkeypatch.setattr("sweep_service.tracking.projector.time", SimpleNamespace(monotonic=lambda: sum(passed)))
    for pass_s in (0.0, 0.1, 0.6):
        recorder, stop = Recorder(), Stop()
        recorder.experiment = lambda name, pass_s=pass_s: passed.append(pass_s) or f"id of {name}"
        Projector(store, recorder).run(stop)
        pauses += filter(None, stop.waits[:1])
    assert 1 <= pauses[0] < 3 <= pauses[1] < pauses[2] == 10


def test_a_sweep_that_cannot_be_shown_holds_up_no_other(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    odd, other = sweeps.start(store)[0], sweeps.start(store)[0]
    recorder = Recorder()
    recorder.cannot_show = odd.id
    projector = Projector(store, recorder)
    for _ in range(2):
        projector.carry()
    assert {run["tags"]["sweep_id"] for run in recorder.runs.values()} == {other.id}
    assert caplog.text.count(f"{odd.id} cannot be shown in MLflow") == 1


def test_what_the_server_refused_or_lost_is_handed_over_again_once_somebody_asks(store: Store) -> None:
    sweep, _ = sweeps.start(store)
    recorder = Recorder()
    recorder.refuses = True
    projector = Projector(store, recorder)
    projector.carry()
    recorder.refuses = False
    projector.carry()
    assert recorder.runs == {}
    store.request_projection([sweep.id])
    projector.carry()
    (run,) = recorder.runs.values()
    shown = dict(run["params"])
    run["params"].clear()
    store.request_projection([sweep.id])
    projector.carry()
    (run,) = recorder.runs.values()
    assert run["params"] == shown != {}
    assert store.projections_requested() == []
