"""What a whole `sweeps serve` lacks for a while: a disk with room, or MLflow from a sweep's beginning to its end."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from sweep_service.client import Client
from sweep_service.processes.child_processes import start_kept, stop
from sweep_service.sweep.records import SweepState, TrialState
from tests.chaos.faults import full
from tests.chaos.installation import Installation, installed
from tests.chaos.references import comparable_report, curves_of, make_references
from tests.chaos.specs import spec_of
from tests.sweep_stack import unused_port
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(3600)

FULL_DISK_S = float(os.environ.get("FULL_DISK_S", "3"))
"""Seconds for which the disk is full. Set the variable to have more."""


def client_of(installation: Installation) -> Client:
    installation.start()
    installation.wait_until_ready()
    return installation.client(patience_s=120, timeout_s=30)


@pytest.mark.hunt
def test_a_full_disk_costs_no_trial_and_no_number() -> None:
    with installed(disk=True) as installation, client_of(installation) as client:
        if not installation.disk:
            pytest.skip("ONLY ROOT MAY MOUNT A SMALL DISK: a full one under a whole service was not tested")
        (reference,) = make_references(client, lambda _: None, ["grid"]).values()
        sweep = client.submit(spec_of("grid", "full-disk"))
        wait_until("a trial trains", lambda: any(trial.step for trial in client.trials(sweep.id)))
        with full(installation.home / "filler"):
            time.sleep(FULL_DISK_S)
        assert client.wait(sweep.id, 600).state is SweepState.SUCCEEDED
        assert {trial.state for trial in client.trials(sweep.id)} == {TrialState.SUCCEEDED}
        curves = dict(curves_of(client, sweep.id))
        assert curves
        assert curves == {point: reference.curves[point] for point in curves}
        assert comparable_report(client, sweep.id) == reference.report


@contextmanager
def mlflow(home: Path, port: int) -> Iterator[httpx.Client]:
    """Run an MLflow server; yield a client of it."""
    command = [sys.executable, "-m", "mlflow", "server", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}", "--artifacts-destination", str(home)]
    environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    keeper = start_kept(command, environment, home / "mlflow.log")
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}/api/2.0/mlflow/", trust_env=False, timeout=30) as client:
            yield client
    finally:
        stop(keeper, 5)


def shown(server: httpx.Client) -> dict[str, list[tuple[int, float]]]:
    """Return the points of the entropy that MLflow has, by trial; none while it does not answer."""
    try:
        found = server.post("experiments/search", json={"max_results": 50}).json()["experiments"]
        ids = [experiment["experiment_id"] for experiment in found]
        runs = server.post("runs/search", json={"experiment_ids": ids, "max_results": 100}).json().get("runs", [])
    except httpx.TransportError:
        return {}
    points = dict[str, list[tuple[int, float]]]()
    for run in runs:
        tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
        query: dict[str, Any] = {"run_id": run["info"]["run_id"], "metric_key": "entropy", "max_results": 1000}
        history = server.get("metrics/get-history", params=query).json().get("metrics", [])
        if "trial_id" in tags:
            points[tags["trial_id"]] = sorted((point["step"], point["value"]) for point in history)
    return points


@pytest.mark.long
@pytest.mark.usefixtures("forked_sweeps")
def test_a_sweep_ends_without_mlflow_which_has_everything_once_it_comes(tmp_path: Path) -> None:
    port = unused_port()
    with installed(disk=False) as installation:
        installation.environment["SWEEPS_MLFLOW_URL"] = f"http://127.0.0.1:{port}"
        with client_of(installation) as client:
            sweep = client.submit(spec_of("grid", "alone"))
            assert client.wait(sweep.id, 600).state is SweepState.SUCCEEDED
            assert client.report(sweep.id, "html", timeout_s=60)
            stored = {
                curve.trial_id: [(s, v) for s, v in zip(curve.steps, curve.values, strict=True) if v is not None]
                for curve in client.curves(sweep.id, ["entropy"])
            }
            assert len(stored) == sum(client.get(sweep.id).trials.values())
            with mlflow(tmp_path, port) as server:
                wait_until("MLflow has every point", lambda: shown(server) == stored)
