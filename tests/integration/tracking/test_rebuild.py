"""`sweeps mlflow rebuild` against a real MLflow: whatever its database has lost, the picture is the first one again."""

import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow.entities import Run

from sweep_service.cli.mlflow_command import rebuild
from sweep_service.errors import NotFound
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.records import SweepState
from sweep_service.tracking.mlflow_api import MlflowApi
from sweep_service.tracking.projector import Projector
from sweep_service.worker.reports.contents import build_report
from tests import stored_sweeps as sweeps
from tests.integration.tracking.test_projector import carry_all, is_up, mlflow_server, runs
from tests.sweep_stack import unused_port
from tests.waiting import PATIENT_S, wait_until

OF_RUNS = ("mlflow.parentRunId", "mlflow.note.content")
"""Tags that name other runs by their ids."""


@pytest.mark.long
def test_a_rebuilt_mlflow_shows_what_the_first_one_showed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url, store = f"http://127.0.0.1:{unused_port()}", open_store(f"sqlite:///{tmp_path}/store.db")
    monkeypatch.setenv("SWEEPS_DATABASE_URL", f"sqlite:///{tmp_path}/store.db")
    monkeypatch.setenv("SWEEPS_MLFLOW_URL", url)
    sweep_id, client = finished_sweep(store, url), MlflowClient(url)
    with server(tmp_path / "first", url):
        projector = Projector(store, MlflowApi(url))
        carry_all(projector, store)
        projector.close()
        first = picture(client, sweep_id)
        assert {kind for kind, _ in first} == {"sweep", "trial", "config"}
        damage(client, sweep_id, tmp_path / "first")
        assert picture(client, sweep_id) != first
        ids = {run.info.run_id for run in runs(client, sweep_id)}
        with worker(store, url):
            rebuild(None, wait=True, timeout=PATIENT_S)
        assert picture(client, sweep_id) == first
        assert {run.info.run_id for run in runs(client, sweep_id)} == ids
    with server(tmp_path / "second", url), worker(store, url):
        rebuild(["betas"], wait=True, timeout=PATIENT_S)
        assert picture(client, sweep_id) == first
        assert {run.info.run_id for run in runs(client, sweep_id)}.isdisjoint(ids)
        with pytest.raises(NotFound, match="swp_unknown"):
            rebuild(["betas", "swp_unknown"], wait=False, timeout=None)
    store.close()


def finished_sweep(store: Store, url: str) -> str:
    """Store a sweep whose trials have curves, and whose models have scores, with its final report."""
    sweep, fence = sweeps.start(store, benchmarks={"names": ["arithmetic"], "of": "all"})
    for trial in store.list_trials(sweep.id):
        sweeps.run_trial(store, fence, trial)
    for number, evaluation in enumerate(sweeps.add_missing_evaluations(store, fence)):
        sweeps.measure(store, fence, evaluation, {"arithmetic": number % 4})
    store.set_sweep_state(fence, SweepState.FINALIZING)
    digest, contents, _ = build_report(store, sweep.id, Settings(mlflow_url=url))
    store.put_report(sweep.id, digest, contents)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)
    return sweep.id


def damage(client: MlflowClient, sweep_id: str, folder: Path) -> None:
    """Leave the runs, as an old copy of the database does, with wrong tags and without their files."""
    for run in runs(client, sweep_id):
        if run.data.tags["kind"] != "config":
            client.set_tag(run.info.run_id, "state", "RUNNING")
            client.update_run(run.info.run_id, "RUNNING")
        if run.data.tags["kind"] == "trial":
            client.set_tag(run.info.run_id, "mlflow.parentRunId", "0" * 32)
    shutil.rmtree(folder / "files")


@contextmanager
def server(folder: Path, url: str) -> Iterator[None]:
    folder.mkdir()
    with mlflow_server(folder, url):
        wait_until("MLflow answers", lambda: is_up(url))
        yield


@contextmanager
def worker(store: Store, url: str) -> Iterator[None]:
    """Project in a thread, as a worker does."""
    stop = threading.Event()
    thread = threading.Thread(target=Projector(store, MlflowApi(url)).run, args=[stop])
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(PATIENT_S)
    assert not thread.is_alive()


def picture(client: MlflowClient, sweep_id: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return all that MLflow shows of a sweep but ids: by kind and name of each run."""
    found = runs(client, sweep_id)
    names = {run.info.run_id: (run.data.tags["kind"], run.info.run_name or "") for run in found}
    assert len(set(names.values())) == len(found)
    return {names[run.info.run_id]: _shown(client, run, names) for run in found}


def _shown(client: MlflowClient, run: Run, names: dict[str, tuple[str, str]]) -> dict[str, Any]:
    tags = dict(run.data.tags)
    for tag in OF_RUNS:
        for run_id, name in names.items():
            tags[tag] = tags.get(tag, "").replace(run_id, str(name))
    histories = {
        key: sorted((one.step, one.timestamp, one.value) for one in client.get_metric_history(run.info.run_id, key))
        for key in run.data.metrics
    }
    files = [item.path for item in client.list_artifacts(run.info.run_id)]
    files += [item.path for folder in files for item in client.list_artifacts(run.info.run_id, folder)]
    times = (run.info.start_time, run.info.end_time)
    return {
        "status": run.info.status,
        "times": times,
        "params": run.data.params,
        "tags": tags,
        "metrics": histories,
        "files": sorted(files),
    }
