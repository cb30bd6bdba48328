"""What version 0.1.0 at commit 70f352f wrote is still read: a database with a finished sweep, and the folder of a run.

`sweep.sql.xz` is the dump of its SQLite database: schema 0006, of the report's formats JSON, Markdown and YAML.
`run.tar.xz` holds the whole record of a run of 16 updates, and its checkpoint after 8.
"""

import json
import lzma
import sqlite3
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sweep_service.report import report_json
from sweep_service.report.build import build
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.records import SweepState, TrialState
from sweep_service.worker.reports import gather
from tests.integration.trainers.trainer_runs import Run, run, run_so_far
from trainers.config import TrainingConfig
from trainers.process.events import read_events

KEPT = Path(__file__).with_name("earlier_version")
MLFLOW = "http://127.0.0.1:18124"
"""Where the MLflow of that installation was; the report's links name it."""


LATER_METRICS = {
    "critic/explained_variance",
    "critic/return_mean",
    "critic/value_mean",
    "kl/reference",
    "kl/reference_k3",
    "loss/kl",
    "loss/value",
    "schedule/positive_weight",
}
"""Metrics of a step that that version did not record."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The database as it was, brought to the present schema."""
    path = tmp_path_factory.mktemp("earlier") / "sweeps.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(lzma.decompress((KEPT / "sweep.sql.xz").read_bytes()).decode())
    connection.close()
    store = open_store(f"sqlite:///{path}")
    yield store
    store.close()


@pytest.fixture
def earlier_run(tmp_path: Path) -> Run:
    """The run's folder as it was."""
    with tarfile.open(KEPT / "run.tar.xz") as archive:
        archive.extractall(tmp_path / "run", filter="data")
    return run_so_far(tmp_path / "run")


def test_a_stored_sweep_is_read_with_all_its_rows(store: Store) -> None:
    (sweep,) = store.list_sweeps(10)
    trials = store.list_trials(sweep.id)
    assert (sweep.name, sweep.state) == ("betas", SweepState.SUCCEEDED)
    assert {trial.state for trial in trials} == {TrialState.SUCCEEDED}
    assert (len(store.list_configs(sweep.id)), len(trials)) == (7, 26)
    assert all(trial.step == trial.total_steps == 64 for trial in trials)
    assert len(store.list_attempts(sweep.id)) == 26


def test_its_report_is_served_and_built_anew_with_the_same_values(store: Store) -> None:
    (sweep,) = store.list_sweeps(10)
    kept = json.loads(store.get_report(sweep.id, "json"))
    anew = json.loads(report_json(build(gather(store, sweep.id, Settings(mlflow_url=MLFLOW)))))
    assert (kept["verdict"]["outcome"], anew["verdict"]["outcome"]) == ("TIED", "EQUIVALENT")  # today's word for it
    assert [row["confirm"] for row in kept["configs"]] == [row["confirm"] for row in anew["configs"]]
    said = {caution["code"]: caution["text"] for caution in anew["cautions"]}
    assert "26 of 26 trials were run by an earlier version" in said["EARLIER_VERSION"]
    assert "not all of these trials counted right samples problem by problem" in anew["verdict"]["basis"]
    if anew["report_version"] == kept["report_version"]:
        assert without_build(anew) == without_build(kept)


@pytest.mark.long
def test_a_run_goes_on_from_its_checkpoint_as_it_did(earlier_run: Run, tmp_path: Path) -> None:
    """Kinds of processors add in other orders: another one than that run's was seen to differ by 2e-6 of a value."""
    (started,) = earlier_run.of("started")
    config = TrainingConfig.model_validate(started["config"])
    resumed = run(config, tmp_path / "resumed", tmp_path / "cache", resume_from=earlier_run.output / "step-8")
    assert resumed.outcome == "SUCCEEDED"
    steps, steps_then = resumed.metrics(after=8), earlier_run.metrics(after=8)
    assert len(steps) == len(steps_then) == 8
    pairs = list(zip(steps, steps_then, strict=True))
    assert [close({name: now[name] for name in then}) for now, then in pairs] == steps_then
    assert {name for now, then in pairs for name in now.keys() - then.keys()} == LATER_METRICS
    assert {step: close(now) for step, now in evaluations(resumed.output).items()} == evaluations(earlier_run.output)


def close(metrics: dict[str, float | None]) -> dict[str, Any]:
    """Return metrics that equal others of nearly the same values; what has no value equals only that."""
    return {name: None if value is None else pytest.approx(value, rel=1e-4) for name, value in metrics.items()}


def without_build(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report without what says when, and with which code and packages, it was built."""
    sweep = {name: value for name, value in report["sweep"].items() if name != "state"}
    best = {name: value for name, value in report["best"].items() if name != "provenance"}
    rest = {name: part for name, part in report.items() if name not in ("inputs_digest", "versions")}
    return rest | {"sweep": sweep, "best": best}


def evaluations(output: Path) -> dict[int, dict[str, float]]:
    """Return what each evaluation after the checkpoint measured, under the names that both versions have."""
    renamed = {"eval/reward_mean", "eval/reward_mean_se", "eval/correct_share"}
    return {
        event["step"]: {
            name: value
            for name, value in event["metrics"].items()
            if not name.startswith(("time/", "eval/tune_part/", "eval/confirm_part/")) and name not in renamed
        }
        for event in read_events(output / "events.jsonl")
        if event["type"] == "evaluation" and event["step"] > 8
    }
