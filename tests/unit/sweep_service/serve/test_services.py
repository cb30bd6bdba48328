from pathlib import Path

import pytest

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
