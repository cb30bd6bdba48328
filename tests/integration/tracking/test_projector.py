"""The projection against a real MLflow server; MLflow's own client says what arrived."""

import csv
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import httpx
import pytest
from mlflow import MlflowClient
from mlflow.entities import Run
from sqlalchemy import Engine

from sweep_service.report import Report
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.links import curves_link
from sweep_service.sweep.records import SweepState
from sweep_service.tracking import mlflow_words
from sweep_service.tracking.charts_page import TAG
from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.projector import EXPERIMENT, Projector
from sweep_service.tracking.tracker import MetricPoint, TrackerAway, TrackerGone, TrackerRefused
from sweep_service.worker.reports.contents import build_report
from tests import stored_sweeps as sweeps
from tests.sweep_stack import unused_port
from tests.waiting import PATIENT_S, wait_until

MakeProjector = Callable[[Store, str], Projector]
KEYS = ["loss", "entropy", "entropy/na_lp", "reward/mean", "eval/avg_at_k", "eval/pass_at_k"]


@pytest.fixture(scope="module")
def starting_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server that is being started."""
    url = f"http://127.0.0.1:{unused_port()}"
    with mlflow_server(tmp_path_factory.mktemp("mlflow"), url):
        yield url


@contextmanager
def mlflow_server(folder: Path, url: str, *options: str, **environment: str) -> Iterator[None]:
    """Start a server that keeps its database and its files in a folder; end it afterwards."""
    server = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", url.rpartition(":")[2]]
    places = ["--backend-store-uri", f"sqlite:///{folder}/mlflow.db", "--artifacts-destination", str(folder / "files")]
    with (folder / "log").open("w") as log:
        process = subprocess.Popen(
            [*server, *places, "--workers", "1", *options],
            env=os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"} | environment,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield
        finally:
            os.killpg(process.pid, 15)
            process.wait(PATIENT_S)


@pytest.fixture(scope="module")
def url(starting_server: str) -> str:
    wait_until("MLflow answers", lambda: is_up(starting_server))
    return starting_server


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(f"sqlite:///{tmp_path}/store.db")
    yield store
    store.close()


@pytest.fixture
def projector() -> Iterator[MakeProjector]:
    """Makes projectors and closes them in the end."""
    with ExitStack() as made:
        yield lambda store, url: made.enter_context(closing(Projector(store, MlflowApi(url))))


@pytest.fixture
def client(url: str) -> MlflowClient:
    return MlflowClient(url)


@pytest.mark.long
def test_waits_for_a_server_that_comes_later(projector: MakeProjector, store: Store, starting_server: str) -> None:
    sweep, fence = sweeps.start(store)
    stop = threading.Event()
    thread = threading.Thread(target=projector(store, starting_server).run, args=[stop])
    thread.start()
    sweeps.run_trial(store, fence, store.list_trials(sweep.id)[0])
    wait_until("all has arrived", lambda: not store.behind())
    stop.set()
    thread.join(PATIENT_S)
    assert not thread.is_alive()
    client = MlflowClient(starting_server)
    (run,) = trial_runs(client, sweep.id)
    assert len(curves_of(client, run)) == 16 * 3 - 5 + 2 + 4 * 2  # five steps have no entropy/na_lp; two rollouts


def test_every_point_arrives_once(projector: MakeProjector, store: Store, url: str, client: MlflowClient) -> None:
    sweep, fence = sweeps.start(store)
    for trial in store.list_trials(sweep.id):
        sweeps.run_trial(store, fence, trial)
    sweeps.finish(store, fence)
    carry_all(projector(store, url), store)
    arrived = arrived_points(client, sweep.id)
    assert {trial_id: set(points) for trial_id, points in arrived.items()} == stored_points(store, sweep.id)
    assert all(len(points) == len(set(points)) for points in arrived.values())

    store.forget_projection(sweep.id)
    carry_all(projector(store, url), store)
    assert arrived_points(client, sweep.id) == arrived


@pytest.mark.parametrize("mark", ["set_sweep_run", "set_trial_run", "set_projected", "set_sweep_projected"])
def test_a_crash_before_a_mark_repeats_nothing(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient, mark: str
) -> None:
    sweep, fence = sweeps.start(store)
    sweeps.run_trial(store, fence, store.list_trials(sweep.id)[0])
    dying = DyingStore(store.engine, mark)
    with pytest.raises(Died):
        carry_all(projector(dying, url), dying)
    carry_all(projector(store, url), store)
    assert len(runs(client, sweep.id)) == 2
    (points,) = arrived_points(client, sweep.id).values()
    assert points == sorted(*stored_points(store, sweep.id).values())


def test_curves_grow_while_a_trial_runs_and_a_resumed_one_repeats_no_point(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient
) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    carry = projector(store, url)
    first = store.start_attempt(fence, trial.id, "/data/{attempt}")
    sweeps.ingest(store, fence, first, [*sweeps.training_events(1, 8)])
    carry_all(carry, store)
    (run,) = trial_runs(client, sweep.id)
    assert (run.info.status, run.data.tags["state"], run.data.metrics["loss"]) == ("RUNNING", "RUNNING", 1 / 8)

    sweeps.ingest(store, fence, first, [sweeps.warning_event("BETAS_NEARLY_INERT", 8)])
    carry_all(carry, store)
    (run,) = trial_runs(client, sweep.id)
    assert run.data.tags["warnings"] == "BETAS_NEARLY_INERT"

    store.finish_attempt(fence, first, Ending.CRASHED, "killed", max_crashes=3)
    carry_all(carry, store)
    (run,) = trial_runs(client, sweep.id)
    assert run.info.status == "SCHEDULED"
    assert run.data.tags["mlflow.note.content"].splitlines()[0] == "killed"

    second = store.start_attempt(fence, trial.id, "/data/{attempt}")
    sweeps.ingest(store, fence, second, [*sweeps.training_events(5, 16, time=sweeps.START + 60)])
    store.finish_attempt(fence, second, Ending.SUCCEEDED, None, max_crashes=3)
    carry_all(carry, store)
    (run,) = trial_runs(client, sweep.id)
    assert (run.info.status, run.data.tags["attempt"]) == ("FINISHED", "2")
    assert run.data.tags["mlflow.note.content"].startswith(r"BETAS\_NEARLY\_INERT: ")
    assert arrived_points(client, sweep.id) == {trial.id: sorted(stored_points(store, sweep.id)[trial.id])}
    assert [m.step for m in client.get_metric_history(run.info.run_id, "loss")] == list(range(1, 17))


def test_runs_say_what_they_are(projector: MakeProjector, store: Store, url: str, client: MlflowClient) -> None:
    sweep, fence = sweeps.start(store)
    outcomes = [Ending.SUCCEEDED, Ending.DIVERGED, Ending.FAILED, Ending.CANCELLED]
    trials = store.list_trials(sweep.id)
    for trial, outcome in zip(trials, outcomes, strict=False):
        sweeps.run_trial(store, fence, trial, outcome)
    sweeps.finish(store, fence)
    carry_all(projector(store, url), store)

    parent = next(run for run in runs(client, sweep.id) if run.data.tags["kind"] == "sweep")
    assert (parent.info.run_name, parent.info.status, parent.data.tags["state"]) == ("betas", "FINISHED", "SUCCEEDED")
    assert parent.data.params["space.loss.beta1.choices"] == "[0.0, 0.5]"
    assert parent.data.tags["label.team"] == "rl"
    assert parent.info.start_time == mlflow_words.milliseconds(sweeps.START)

    children = {run.data.tags["trial_id"]: run for run in trial_runs(client, sweep.id)}
    shown = [children[trial.id] for trial in trials[:4]]
    assert [run.info.status for run in shown] == ["FINISHED", "FAILED", "FAILED", "KILLED"]
    assert [run.data.metrics.get("final/objective") for run in shown] == [pytest.approx(0.3), 0, None, None]
    first = shown[0]
    assert first.info.run_name == "s0 baseline β1=0 β2=0 tune"
    assert first.data.params["loss.beta1"] == "0.0"
    assert first.data.params["rollout.prompts_per_rollout"] == "32"
    assert first.data.params["seed"] == "0"
    assert first.data.metrics["final/avg_at_k"] == 0.4
    assert first.data.metrics["final/tokens_total"] == 1000
    wanted = {"mlflow.parentRunId": parent.info.run_id, "loss": "ce_gppo", "seed": "0", "stage": "tune", "attempt": "1"}
    assert wanted.items() <= first.data.tags.items()
    assert first.info.end_time == mlflow_words.milliseconds(store.list_trials(sweep.id)[0].ended_at or 0)


@pytest.mark.long
def test_reports_are_files_of_the_sweep(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient, tmp_path: Path
) -> None:
    sweep, fence = sweeps.start(store)
    carry = projector(store, url)
    for trial in store.list_trials(sweep.id)[:2]:
        sweeps.run_trial(store, fence, trial)
        digest, report, _ = build_report(store, sweep.id, Settings(mlflow_url=url))
        store.put_report(sweep.id, digest, report)
        carry_all(carry, store)
        parent = sweep_run(client, sweep.id)
        found = client.download_artifacts(parent.info.run_id, "report.html", str(tmp_path))
        assert Path(found).read_bytes() == report["html"]
        assert "interim" in parent.data.tags["mlflow.note.content"]
        assert not config_runs(client, sweep.id)


@pytest.mark.long
def test_a_final_report_makes_a_run_for_each_config(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient
) -> None:
    sweep, fence = sweeps.start(store)
    carry = projector(store, url)
    for trial in store.list_trials(sweep.id):
        sweeps.run_trial(store, fence, trial)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    for public in (url, "http://elsewhere"):  # another address is another report
        digest, contents, _ = build_report(store, sweep.id, Settings(mlflow_url=public))
        store.put_report(sweep.id, digest, contents)
        carry_all(carry, store)
        report = Report.model_validate_json(contents["json"])
        shown = config_runs(client, sweep.id)
        assert {run.data.tags["report"] for run in shown} == {digest}
        assert sorted(run.data.tags["config_id"] for run in shown) == sorted(row.id for row in report.configs)
    carry_all(carry, store)
    first = min(shown, key=lambda run: run.data.tags["number"])
    row = next(row for row in report.configs if row.id == first.data.tags["config_id"])
    assert first.info.run_name == row.label
    entropy = next(found for found in report.curves if found.key == "entropy")
    mean = next(curve for curve in entropy.configs if curve.config_id == row.id)
    history = client.get_metric_history(first.info.run_id, "entropy")
    assert [(point.step, point.value) for point in history] == list(zip(mean.steps, mean.mean, strict=True))
    files = {item.path for item in client.list_artifacts(sweep_run(client, sweep.id).info.run_id)}
    assert {"report.html", "report.json", "report.md", "report.csv", "report.png", "report.svg"} <= files
    assert row.tune is not None
    assert first.data.metrics["final/tune_mean"] == row.tune.mean
    parent = sweep_run(client, sweep.id)
    assert first.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert parent.data.tags["verdict"] == report.verdict.sentence
    assert parent.data.tags["outcome"] == "EXPLORATORY"
    assert {f"warning.{caution.code}" for caution in report.cautions} <= parent.data.tags.keys()
    assert parent.data.tags["mlflow.note.content"].startswith(f"**{report.verdict.sentence}**")
    view = client.get_experiment(parent.info.experiment_id).tags[TAG + sweep.id]
    assert json.loads(view)["searchFilter"] == f"tags.kind = 'config' AND tags.sweep_id = '{sweep.id}'"


BENCHMARKS = {"names": ["arithmetic", "expressions"], "of": "all"}


def test_scores_are_on_the_runs_of_their_trials_once(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient, tmp_path: Path
) -> None:
    sweep, fence = sweeps.start(store, benchmarks=BENCHMARKS)
    carry = projector(store, url)
    (initial,) = sweeps.add_missing_evaluations(store, fence)
    sweeps.measure(store, fence, initial, {"arithmetic": 0, "expressions": 1})
    first, second, third = store.list_trials(sweep.id)[:3]
    sweeps.run_trial(store, fence, first)
    carry_all(carry, store)
    assert scores_of(client, sweep.id) == {first.id: []}  # none of its own
    before = arrived_points(client, sweep.id)

    (trained,) = sweeps.add_missing_evaluations(store, fence)
    attempt = store.start_attempt(fence, trained.id, "/data/{attempt}")
    store.ingest(fence, attempt, 0, 1, [sweeps.benchmark_event("arithmetic", 2, sweeps.START + 300)])
    carry_all(carry, store)
    at_0 = [("arithmetic/avg_at_k", 0.0, 0), ("expressions/avg_at_k", 1 / 8, 0), ("mean", 1 / 16, 0)]
    half = [("arithmetic/avg_at_k", 2 / 8, 16)]
    assert scores_of(client, sweep.id) == {first.id: sorted(at_0 + half)}

    store.ingest(fence, attempt, 1, 2, [sweeps.benchmark_event("expressions", 4, sweeps.START + 301)])
    store.finish_attempt(fence, attempt, Ending.SUCCEEDED, None, max_crashes=0)
    for trial in (second, third):
        sweeps.run_trial(store, fence, trial)
    for evaluation in sweeps.add_missing_evaluations(store, fence):
        if evaluation.trial_id == second.id:
            sweeps.measure(store, fence, evaluation, {"arithmetic": 4, "expressions": 4})
    with pytest.raises(TrackerAway):
        projector(store, f"http://127.0.0.1:{unused_port()}").carry()
    carry_all(carry, store)
    wanted = {
        first.id: sorted([*at_0, *half, ("expressions/avg_at_k", 4 / 8, 16), ("mean", 3 / 8, 16)]),
        second.id: sorted(
            [*at_0, ("arithmetic/avg_at_k", 4 / 8, 16), ("expressions/avg_at_k", 4 / 8, 16), ("mean", 4 / 8, 16)]
        ),
        third.id: [],
    }
    assert scores_of(client, sweep.id) == wanted
    assert [point for point in arrived_points(client, sweep.id)[first.id] if "benchmark" not in point[0]] == before[
        first.id
    ]
    run = next(run for run in trial_runs(client, sweep.id) if run.data.tags["trial_id"] == first.id)
    table = Path(client.download_artifacts(run.info.run_id, "benchmarks/expressions.csv", str(tmp_path))).read_text()
    rows = [(row["model_step"], row["problem"], row["right"]) for row in csv.DictReader(table.splitlines())]
    assert rows == [("0", "one", "1"), ("0", "two", "0"), ("16", "one", "4"), ("16", "two", "0")]

    store.forget_projection(sweep.id)
    assert not store.evaluations_behind()  # they wait for the sweep's run
    carry_all(carry, store)
    assert scores_of(client, sweep.id) == wanted


def test_a_crash_before_the_mark_of_scores_repeats_none(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient
) -> None:
    sweep, fence = sweeps.start(store, benchmarks=BENCHMARKS)
    trial = store.list_trials(sweep.id)[0]
    sweeps.run_trial(store, fence, trial)
    for evaluation in sweeps.add_missing_evaluations(store, fence):
        sweeps.measure(store, fence, evaluation, {"arithmetic": 1})
    dying = DyingStore(store.engine, "set_results_projected")
    with pytest.raises(Died):
        carry_all(projector(dying, url), dying)
    carry_all(projector(store, url), store)
    wanted = [("arithmetic/avg_at_k", 1 / 8, 0), ("arithmetic/avg_at_k", 1 / 8, 16)]
    assert scores_of(client, sweep.id) == {trial.id: wanted}


def test_scores_of_a_run_deleted_in_mlflow_hold_up_no_others(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient, caplog: pytest.LogCaptureFixture
) -> None:
    sweep, fence = sweeps.start(store, benchmarks=BENCHMARKS)
    deleted, other = store.list_trials(sweep.id)[:2]
    for trial in (deleted, other):
        sweeps.run_trial(store, fence, trial)
    carry = projector(store, url)
    carry_all(carry, store)
    run = next(run for run in trial_runs(client, sweep.id) if run.data.tags["trial_id"] == deleted.id)
    client.delete_run(run.info.run_id)
    for evaluation in sweeps.add_missing_evaluations(store, fence):
        sweeps.measure(store, fence, evaluation, {"arithmetic": 1})
    for _ in range(3):
        carry.carry()
    assert list(scores_of(client, sweep.id)) == [other.id]
    assert len(scores_of(client, sweep.id)[other.id]) == 2
    assert len([record for record in caplog.records if deleted.id in record.getMessage()]) == 1
    assert [evaluation.trial_id for evaluation, _ in store.evaluations_behind()] == [deleted.id]


@pytest.mark.long
def test_a_config_s_run_has_the_mean_scores_of_its_trials(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient
) -> None:
    sweep, fence = sweeps.start(store, benchmarks=BENCHMARKS)
    trials = store.list_trials(sweep.id)
    for trial in trials:
        sweeps.run_trial(store, fence, trial)
    for right, evaluation in enumerate(sweeps.add_missing_evaluations(store, fence)):
        sweeps.measure(store, fence, evaluation, {"arithmetic": right % 5, "expressions": 0})
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.put_report(sweep.id, *build_report(store, sweep.id, Settings(mlflow_url=url))[:2])
    carry_all(projector(store, url), store)
    right_of = {one.trial_id: right % 5 for right, one in enumerate(store.list_evaluations(sweep.id))}
    for run in config_runs(client, sweep.id):
        own = [right_of[trial.id] / 8 for trial in trials if trial.config_id == run.data.tags["config_id"]]
        history = client.get_metric_history(run.info.run_id, "benchmark/arithmetic/avg_at_k")
        assert [(point.step, point.value) for point in history] == [(0, 0), (16, pytest.approx(sum(own) / len(own)))]
        assert run.data.metrics["benchmark/mean"] == pytest.approx(sum(own) / len(own) / 2)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    charts = json.loads(experiment.tags[TAG + sweep.id])["compareRunCharts"]
    assert [chart["metricKey"] for chart in charts][:2] == ["entropy", "benchmark/mean"]


@pytest.mark.parametrize("keep_report", [False, True])
def test_runs_of_a_deleted_sweep_go_to_the_bin(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient, keep_report: bool
) -> None:
    deleted, other = (sweeps.start(store) for _ in range(2))
    for sweep, fence in (deleted, other):
        for trial in store.list_trials(sweep.id):
            sweeps.run_trial(store, fence, trial)
        sweeps.finish(store, fence)
        store.put_report(sweep.id, *build_report(store, sweep.id, Settings(mlflow_url=url))[:2])
    carry_all(projector(store, url), store)
    shown = {sweep.id: len(active_runs(client, sweep.id)) for sweep, _ in (deleted, other)}
    assert (
        shown[deleted[0].id] == shown[other[0].id] > 1 + len(store.list_trials(other[0].id))
    )  # configs have runs, too
    asked = store.request_deletion(deleted[0].id, keep_report=keep_report)
    store.remove_rows(asked)  # as if MLflow had been away
    carry_all(projector(store, url), store)
    assert active_runs(client, deleted[0].id) == []
    assert len(active_runs(client, other[0].id)) == shown[other[0].id]
    assert store.deletions_in_mlflow() == []
    assert store.count_runs(deleted[0].id) == 0


def active_runs(client: MlflowClient, sweep_id: str) -> list[Run]:
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], f"tags.sweep_id = '{sweep_id}'"))


def test_a_sweep_leads_to_its_charts(projector: MakeProjector, store: Store, url: str, client: MlflowClient) -> None:
    sweep, _ = sweeps.start(store)
    carry_all(projector(store, url), store)
    (run,) = runs(client, sweep.id)
    page = curves_link(".", store.get_sweep(sweep.id))
    assert page is not None
    assert page in run.data.tags["mlflow.note.content"]
    assert f"/experiments/{run.info.experiment_id}/" in page
    view = client.get_experiment(run.info.experiment_id).tags[TAG + page.rpartition("=")[2]]
    assert sweep.id in json.loads(view)["searchFilter"]


def test_a_run_deleted_in_mlflow_stays_deleted_and_holds_up_nothing(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient, caplog: pytest.LogCaptureFixture
) -> None:
    sweep, fence = sweeps.start(store)
    deleted, other = store.list_trials(sweep.id)[:2]
    carry = projector(store, url)
    attempt = store.start_attempt(fence, deleted.id, "/data/{attempt}")
    carry_all(carry, store)
    (run,) = trial_runs(client, sweep.id)
    client.delete_run(run.info.run_id)
    sweeps.ingest(store, fence, attempt, [*sweeps.training_events(1, 4)])
    sweeps.run_trial(store, fence, other)
    for _ in range(3):
        carry.carry()
    assert [run.data.tags["trial_id"] for run in trial_runs(client, sweep.id)] == [other.id]
    assert len([record for record in caplog.records if deleted.id in record.getMessage()]) == 1


def test_a_server_that_lost_its_data_gets_everything_again(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient
) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    sweeps.run_trial(store, fence, trial)
    store.set_sweep_run(sweep.id, "99", "0" * 32)  # of a server that is no more
    store.set_trial_run(trial.id, "1" * 32)
    store.set_projected(trial.id, curve_id=1_000_000, state="SUCCEEDED")
    store.set_sweep_projected(sweep.id, sweep.state, None)
    carry_all(projector(store, url), store)
    assert arrived_points(client, sweep.id) == {trial.id: sorted(stored_points(store, sweep.id)[trial.id])}


def test_an_experiment_that_vanishes_in_between_is_made_again(
    projector: MakeProjector, store: Store, url: str, client: MlflowClient
) -> None:
    sweep, fence = sweeps.start(store)
    trial = store.list_trials(sweep.id)[0]
    carry = projector(store, url)
    carry_all(carry, store)
    carry._experiment_id = "12345"  # as if the server had been replaced by another one between two passes
    store.set_sweep_run(sweep.id, "12345", "0" * 32)
    sweeps.run_trial(store, fence, trial)
    carry_all(carry, store)
    assert arrived_points(client, sweep.id) == {trial.id: sorted(stored_points(store, sweep.id)[trial.id])}


def test_a_server_that_is_away_is_said_once_and_stops_nothing(
    projector: MakeProjector, store: Store, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweeps.start(store)
    stop, tried = threading.Event(), list[object]()
    carrying = projector(store, f"http://127.0.0.1:{unused_port()}")
    carry = carrying.carry

    def counted(ends: Callable[[], bool]) -> bool:
        tried.append(ends)
        return carry(ends)

    monkeypatch.setattr("sweep_service.tracking.projector.PERIOD_S", 0.01)
    monkeypatch.setattr(carrying, "carry", counted)
    thread = threading.Thread(target=carrying.run, args=[stop])
    thread.start()
    wait_until("it warns", lambda: warnings_of(caplog))
    wait_until("it tries again and again", lambda: len(tried) > 3)
    stop.set()
    thread.join(PATIENT_S)
    assert not thread.is_alive()
    assert len(warnings_of(caplog)) == 1


def test_more_than_one_call_takes(url: str, client: MlflowClient) -> None:
    api = MlflowApi(url)
    run_id = api.ensure_run(api.experiment(EXPERIMENT), "many", 1, {"kind": "test"}, ["kind"])
    points = [MetricPoint("many", float(step), 1, step) for step in range(2500)]
    api.log(run_id, points, {f"p{n}": "x" for n in range(250)}, {f"t{n}": "x" for n in range(120)})
    api.close()
    run = client.get_run(run_id)
    assert len(client.get_metric_history(run_id, "many")) == 2500
    assert (len(run.data.params), len([tag for tag in run.data.tags if tag.startswith("t")])) == (250, 120)


def test_repeating_a_call_changes_nothing(url: str, client: MlflowClient) -> None:
    with closing(MlflowApi(url)) as tracker:
        experiment_id = tracker.experiment(EXPERIMENT)
        tags = {"kind": "test", "name": "repeated"}
        run_ids: set[str] = set()
        for _ in range(2):
            assert tracker.experiment(EXPERIMENT) == experiment_id
            tracker.set_experiment_tag(experiment_id, "repeated", "yes")
            run_id = tracker.ensure_run(experiment_id, "repeated", 1, tags, ["kind", "name"])
            tracker.log(run_id, [MetricPoint("loss", 0.5, 1, 1)], {"seed": "0"}, {"state": "RUNNING"})
            tracker.update_run(run_id, "FINISHED", 2)
            tracker.put_artifact(run_id, "report.md", b"text", "text/markdown")
            run_ids.add(run_id)
        (run_id,) = tracker.find_runs(experiment_id, tags)
        assert run_ids == {run_id}
        assert len(client.get_metric_history(run_id, "loss")) == 1
        tracker.delete_run(run_id)
        tracker.delete_run(run_id)
        assert list(tracker.find_runs(experiment_id, tags, deleted=False)) == []
        assert tracker.ensure_run(experiment_id, "repeated", 1, tags, ["kind", "name"]) == run_id
        with pytest.raises(TrackerRefused):
            tracker.log(run_id, tags={"state": "FINISHED"})
        with pytest.raises(TrackerGone):
            tracker.update_run("0" * 32, "FINISHED")


class Died(BaseException):
    """Stands for SIGKILL: nothing catches it."""


class DyingStore(Store):
    """A store whose process dies before a mark is written."""

    def __init__(self, engine: Engine, mark: str) -> None:
        super().__init__(engine)
        setattr(self, mark, self._die)

    def _die(self, *_: object, **__: object) -> None:
        raise Died


def carry_all(carry: Projector, store: Store) -> None:
    for _ in range(20):
        carry.carry()
        if not store.behind() and not store.sweeps_behind() and not store.evaluations_behind():
            return
    raise AssertionError(f"still behind: {store.behind()} {store.sweeps_behind()} {store.evaluations_behind()}")


def runs(client: MlflowClient, sweep_id: str) -> list[Run]:
    experiment = client.get_experiment_by_name(EXPERIMENT)
    assert experiment is not None
    return list(client.search_runs([experiment.experiment_id], f"tags.sweep_id = '{sweep_id}'"))


def trial_runs(client: MlflowClient, sweep_id: str) -> list[Run]:
    return [run for run in runs(client, sweep_id) if run.data.tags["kind"] == "trial"]


def sweep_run(client: MlflowClient, sweep_id: str) -> Run:
    return next(run for run in runs(client, sweep_id) if run.data.tags["kind"] == "sweep")


def config_runs(client: MlflowClient, sweep_id: str) -> list[Run]:
    return [run for run in runs(client, sweep_id) if run.data.tags["kind"] == "config"]


Points = list[tuple[str, float, int, int]]


def curves_of(client: MlflowClient, run: Run) -> Points:
    keys = sorted(key for key in run.data.metrics if not key.startswith("final/"))
    history = [metric for key in keys for metric in client.get_metric_history(run.info.run_id, key)]
    return sorted((metric.key, metric.value, metric.timestamp, metric.step) for metric in history)


def arrived_points(client: MlflowClient, sweep_id: str) -> dict[str, Points]:
    """By trial id; sorted, repeats kept."""
    return {run.data.tags["trial_id"]: curves_of(client, run) for run in trial_runs(client, sweep_id)}


def scores_of(client: MlflowClient, sweep_id: str) -> dict[str, list[tuple[str, float, int]]]:
    """Name, value and step of what trials' runs show of benchmarks, by trial id; sorted, repeats kept."""
    return {
        trial_id: [
            (key.removeprefix("benchmark/"), value, step)
            for key, value, _, step in points
            if key.startswith("benchmark/")
        ]
        for trial_id, points in arrived_points(client, sweep_id).items()
    }


def stored_points(store: Store, sweep_id: str) -> dict[str, set[tuple[str, float, int, int]]]:
    found: dict[str, set[tuple[str, float, int, int]]] = {}
    for curve in store.curves(sweep_id, KEYS):
        for step, at, value in zip(curve.steps, curve.times, curve.values, strict=True):
            if value is not None and (curve.key != "reward/mean" or step % 8 == 1):  # 8 updates a rollout
                found.setdefault(curve.trial_id, set()).add((curve.key, value, mlflow_words.milliseconds(at), step))
    return found


def warnings_of(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "sweep_service.tracking.projector"]


def is_up(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", trust_env=False).is_success
    except httpx.TransportError:
        return False
