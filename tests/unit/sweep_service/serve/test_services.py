import json
import socket
import subprocess
from pathlib import Path

import pytest

from sweep_service.processes.port_owners import StrangerListens
from sweep_service.serve.services import services
from sweep_service.settings import Settings

SECRETS = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    mlflow = {"mlflow_url": "http://127.0.0.1:5123", "mlflow_token_file": tmp_path / "mlflow-token"}
    return Settings(home=tmp_path, ray_address="127.0.0.1:6123", **mlflow)


def test_every_service_listens_on_loopback_and_gets_no_token_for_the_hub(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in SECRETS:
        monkeypatch.setenv(name, "secret")
    started = {service.name: service for service in services(settings, tmp_path / "ray", True, 1, 0)}
    assert started.keys() == {"ray", "mlflow", "api", "worker"}
    assert not [service.name for service in started.values() if "secret" in service.environment.values()]
    mlflow = list(started["mlflow"].command)
    assert mlflow[mlflow.index("--host") + 1] == "127.0.0.1"
    assert "--node-ip-address=127.0.0.1" in started["ray"].command


def test_each_head_of_ray_has_a_token_of_its_own(settings: Settings, tmp_path: Path) -> None:
    (ray, *_) = services(settings, tmp_path / "ray", False, 1, 0)
    tokens = set[str]()
    for _ in range(3):
        ray.prepare()
        tokens.add((tmp_path / "ray-token").read_text())
    assert len(tokens) == 3
    assert (tmp_path / "ray-token").stat().st_mode & 0o777 == 0o600


def test_a_head_whose_port_was_taken_meanwhile_gets_another_one_which_is_noted(
    settings: Settings, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        taken = server.getsockname()[1]
        settings = settings.model_copy(update={"ray_address": f"127.0.0.1:{taken}"})
        (ray, *_) = services(settings, tmp_path / "ray", False, 1, 0)
        ray.prepare()
        assert f"--port={taken}" in ray.command  # it was free a moment ago, and a head that fails says why
        with subprocess.Popen(["true"]) as ray.process:
            ray.prepare()
    (port,) = [word for word in ray.command if word.startswith("--port=")]
    assert port != f"--port={taken}"
    noted = json.loads((tmp_path / "address.json").read_text())
    assert noted["ray_address"] == f"127.0.0.1:{port.removeprefix('--port=')}"
    assert noted["url"] == settings.url


def test_a_head_is_not_ready_while_a_stranger_has_its_port(
    settings: Settings, tmp_path: Path, strangers_port: int
) -> None:
    settings = settings.model_copy(update={"ray_address": f"127.0.0.1:{strangers_port}"})
    (ray, *_) = services(settings, tmp_path / "ray", False, 1, 0)
    ray.log.parent.mkdir()
    ray.log.write_text("Ray runtime started.")
    with pytest.raises(StrangerListens):
        ray.is_ready()


def test_no_variable_of_the_user_opens_ray_or_lets_mlflow_run_jobs(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "true")
    started = {service.name: service.environment for service in services(settings, tmp_path / "ray", True, 1, 0)}
    assert {environment["RAY_AUTH_MODE"] for environment in started.values()} == {"token"}
    assert started["mlflow"]["MLFLOW_SERVER_ENABLE_JOB_EXECUTION"] == "false"
