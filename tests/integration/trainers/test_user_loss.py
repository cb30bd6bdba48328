"""The loss package of docs/losses.md, installed as a user would: its test passes, and a policy trains on it."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from sweep_service.intake.spec_check import parse_spec
from tests.integration.trainers.trainer_runs import run, small_config
from tests.loss_packages import documented_package, package_site, pip_install
from tests.waiting import PATIENT_S
from trainers.config import TrainingConfig
from trainers.losses import LOSS_NAMES
from trainers.process.events import read_events
from trainers.yaml_text import read_yaml_file

EVALUATION = {"every_steps": 8, "samples_per_problem": 1, "pass_k": 1, "probe_completions": 0}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return documented_package(tmp_path_factory.mktemp("author"))


@pytest.fixture(scope="module")
def site(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    site = tmp_path_factory.mktemp("site")
    pip_install(package, site)
    return site


@pytest.fixture
def installed(site: Path) -> Iterator[Path]:
    with package_site(site):
        yield site


def small(**loss: object) -> TrainingConfig:
    return small_config(loss={"name": "tempered", **loss}, evaluation=EVALUATION, steps=8)


def test_the_documented_test_passes_in_the_authors_folder(package: Path) -> None:
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(words, cwd=package, capture_output=True, text=True, timeout=PATIENT_S, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


def test_the_documented_test_fails_for_a_wrong_loss(package: Path, tmp_path: Path) -> None:
    for path in package.rglob("*.py"):
        text = path.read_text().replace("* batch.advantages_BT", "* batch.advantages_BT * ratio_BT")
        (tmp_path / path.name).write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ran = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENT_S, check=False)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert "weight_is_as_stated: the gradient is not -A x weight" in ran.stdout


@pytest.mark.usefixtures("installed")
def test_the_documented_sweep_passes_every_check(package: Path) -> None:
    spec = parse_spec(read_yaml_file(package / "sweep.yaml"))
    assert [spec.bind(point).loss.model_dump()["alpha"] for point in spec.space.grid()] == [0, 0.5, 1]


@pytest.mark.usefixtures("installed")
def test_a_policy_trains_on_the_documented_loss_and_its_code_is_recorded(cache: Path, tmp_path: Path) -> None:
    trained = {alpha: run(small(alpha=alpha), tmp_path / str(alpha), cache) for alpha in (0.0, 1.0)}
    assert {one.outcome for one in trained.values()} == {"SUCCEEDED"}
    started = trained[0.0].of("started")[0]
    assert started["config"]["loss"]["alpha"] == 0
    assert started["versions"]["tempered-loss"] == LOSS_NAMES.versions("tempered")["tempered-loss"]
    assert started["versions"]["tempered-loss"].startswith("1 (")
    losses = [[step["metrics"]["loss/policy"] for step in one.of("step")] for one in trained.values()]
    assert losses[0] != losses[1]


def test_a_node_without_the_package_ends_the_run_naming_both(package: Path, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("loss: {name: tempered}\n")
    words = [sys.executable, "-m", "trainers", str(tmp_path / "run.yaml"), "--output", str(tmp_path / "run")]
    ran = subprocess.run(
        [*words, "--needs", "tempered-loss==1"], capture_output=True, text=True, timeout=PATIENT_S, check=False
    )
    assert ran.returncode == 2
    (event,) = read_events(tmp_path / "run" / "events.jsonl")
    assert event["code"] == "BAD_CONFIG"
    assert (
        f"the package tempered-loss 1, which this configuration needs, is not installed on {os.uname().nodename}"
        in (json.dumps(event["message"]))
    )
