"""One installation sweeps what users bring: the packages of docs/losses.md and docs/tasks.md, and a trainer."""

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sweep_service.auth import read_token
from sweep_service.cli.spec_file import read_spec
from sweep_service.client import Client
from sweep_service.errors import InvalidSpec, ServiceError
from sweep_service.report import Report
from sweep_service.settings import Settings
from sweep_service.store import open_store
from sweep_service.sweep.records import SweepState
from sweep_service.worker.work_loop import MAX_RUNNERS
from tests.loss_packages import documented_package, pip_install
from tests.sweep_stack import SMALL_TRAINING, serving, small_sweep, unused_port
from tests.waiting import PATIENT_S, wait_until
from trainers.config import with_params
from trainers.yaml_text import read_yaml_file

pytestmark = [pytest.mark.long, pytest.mark.timeout(3600)]

OWN_TRAINER = Path(__file__).parents[2] / "examples" / "own_trainer.yaml"


@pytest.fixture(scope="module")
def loss_package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return documented_package(tmp_path_factory.mktemp("losses"))


@pytest.fixture(scope="module")
def settings(
    tmp_path_factory: pytest.TempPathFactory, loss_package: Path, forks: Mapping[str, str]
) -> Iterator[Settings]:
    """The settings of an installation that has both packages and allows the example's trainer."""
    folder = tmp_path_factory.mktemp("own")
    for package in (loss_package, documented_package(folder, "tasks")):
        pip_install(package, folder / "site")
    settings = Settings(home=folder / "h", port=unused_port())
    variables = settings.environment() | {
        **forks,
        "PYTHONPATH": os.pathsep.join([str(folder / "site"), forks["PYTHONPATH"]]),
        "SWEEPS_TRAINER_COMMANDS": "/bin/true, python3 -m examples.own_trainer",
    }
    with pytest.MonkeyPatch.context() as patched:
        for name, value in variables.items():
            patched.setenv(name, value)
        with serving(settings):
            yield settings


@pytest.fixture
def client(settings: Settings) -> Iterator[Client]:
    with Client(settings.url, read_token(settings.token_file)) as client:
        yield client


def test_sweeps_that_wait_for_a_node_leave_their_runners_to_others(client: Client) -> None:
    """However many there are of them."""
    many = [client.submit(small_sweep(f"large-{n}", resources={"cpus": 512})) for n in range(MAX_RUNNERS + 1)]
    small = client.submit(small_sweep("small"))
    assert client.wait(small.id, PATIENT_S).state is SweepState.SUCCEEDED
    waiting = [client.get(one.id) for one in many]
    assert {one.state for one in waiting} <= {SweepState.QUEUED, SweepState.RUNNING}
    assert any("512 CPUs" in (one.message or "") for one in waiting)
    for one in many:
        client.cancel(one.id)
    assert {client.wait(one.id, PATIENT_S).state for one in many} == {SweepState.CANCELLED}


def test_a_sweep_over_a_packages_loss_ends_with_a_report(
    client: Client, settings: Settings, loss_package: Path
) -> None:
    raw = read_yaml_file(loss_package / "sweep.yaml")
    raw["training"] = {**SMALL_TRAINING, **raw["training"]}
    raw["seeds"], raw["resources"] = {"tune": [0], "confirm": {"top_k": 1, "seeds": [7, 8]}}, {"max_parallel": 1}
    assert client.plan(raw).first_labels[-1] == "alpha=1"
    report, report_json = report_of(client, raw)
    assert {trial.state for trial in report.trials} == {"SUCCEEDED"}
    assert {row["loss"] for row in report_json["configs"]} == {"tempered", "grpo", "dapo"}
    alphas = [row["params"]["loss.alpha"] for row in report_json["configs"] if row["loss"] == "tempered"]
    assert sorted(alphas) == [0, 0.5, 1]
    with closing(open_store(settings.database_url)) as store:
        versions = [noted for attempts in store.versions(report.sweep.id).values() for noted in attempts]
    assert len({noted.get("tempered-loss", "") for noted in versions}) == 2  # of its own trials, and of the baselines'
    assert "MIXED_VERSIONS" not in {caution.code for caution in report.cautions}
    assert report_json["verdict"]["comparison"]["differs_in"] == ["loss"]


def test_a_setting_of_a_packages_reward_is_swept_to_a_report(client: Client) -> None:
    name = "task.reward.length_weight"
    task = {"name": "word_problems", "data": {"suffix": "="}, "reward": {"name": "brief"}}
    training = with_params(SMALL_TRAINING, {"task": task, "model.num_heads": 2, "steps": 8})
    raw = small_sweep("brief", training=training, space={name: [0.1, 1]})
    with pytest.raises(InvalidSpec, match=r"-1: Input should be greater than or equal to 0"):
        client.submit(raw | {"space": {name: [0.1, -1]}})
    report, _ = report_of(client, raw)
    assert {config.params[name] for config in report.configs if config.params.get(name)} == {0.1, 1}


def report_of(client: Client, raw: dict[str, Any]) -> tuple[Report, dict[str, Any]]:
    """Have a sweep run to its end; return its report, and as JSON."""
    sweep_id = client.submit(raw).id
    sweep = client.wait(sweep_id, PATIENT_S)
    assert sweep.state is SweepState.SUCCEEDED, sweep.message
    content = client.report(sweep_id, "json", timeout_s=PATIENT_S)
    return Report.model_validate_json(content), json.loads(content)


def test_an_allowed_program_is_swept_from_submission_to_report_and_mlflow(client: Client, settings: Settings) -> None:
    raw: dict[str, Any] = read_spec(OWN_TRAINER)
    other = raw | {"trainer": raw["trainer"] | {"command": ["python3", "-c", "print()"]}}
    with pytest.raises(InvalidSpec, match="SWEEPS_TRAINER_COMMANDS"):
        client.submit(other)
    plan = client.plan(raw)
    assert (plan.baselines, plan.steps_per_trial, plan.trials) == (["baseline"], 200, {"tune": 6, "confirm": 12})
    sweep_id = client.submit(raw).id
    wait_until("it has ended", lambda: client.get(sweep_id).state.is_over)
    sweep = client.get(sweep_id)
    assert sweep.state is SweepState.SUCCEEDED, sweep.message
    assert sweep.verdict is not None
    assert sweep.verdict.outcome == "AHEAD IN SOUND RUNS"
    assert "beta=1 is ahead of the baseline (beta=0)" in sweep.verdict.sentence
    best = client.best(sweep_id)
    assert best.training == {"learning_rate": 0.3, "evaluate_every": 25, "beta": 1, "steps": 200, "seed": 10}
    assert json.loads(client.best_yaml(sweep_id)) == best.training  # what the program reads
    assert b"python3 -m examples.own_trainer --config best.yaml" in client.report(sweep_id, "html")
    with pytest.raises(ServiceError, match="benchmarks cannot measure"):
        client.add_benchmarks(sweep_id, {"names": ["expressions"]})
    database = settings.home / "mlflow" / "mlflow.db"
    wait_until("MLflow shows it whole", lambda: _finished(database, sweep_id) == 18 + 3 + 1)
    assert client.plan(raw).basis == "earlier trials of this command"


def _finished(database: Path, sweep_id: str) -> int:
    """Count the runs of a sweep that MLflow has as finished: of trials, of configs, and the sweep's."""
    of_the_sweep = "select run_uuid from tags where key = 'sweep_id' and value = ?"
    with closing(sqlite3.connect(database)) as connection:
        query = f"select count(*) from runs where status = 'FINISHED' and run_uuid in ({of_the_sweep})"
        (count,) = connection.execute(query, [sweep_id]).fetchone()
        return count
