from base64 import b64encode
from pathlib import Path

import httpx
import pytest

from sweep_service.auth import ensure_token
from sweep_service.processes.port_owners import StrangerListens
from sweep_service.settings import Settings
from sweep_service.tracking.credentials import sign_in


def test_a_name_without_a_password_is_sent_as_it_is(tmp_path: Path) -> None:
    auth = sign_in(Settings(home=tmp_path), {"MLFLOW_TRACKING_USERNAME": "ada"})
    assert auth is not None
    request = next(auth.auth_flow(httpx.Request("GET", "http://mlflow.example")))
    assert request.headers["Authorization"] == "Basic " + b64encode(b"ada:").decode()


def test_the_secret_of_our_door_is_not_sent_to_a_stranger(tmp_path: Path, strangers_port: int) -> None:
    url = f"http://127.0.0.1:{strangers_port}"
    settings = Settings(home=tmp_path, mlflow_url=url, mlflow_token_file=tmp_path / "mlflow-token")
    ensure_token(tmp_path / "mlflow-token")
    with httpx.Client(auth=sign_in(settings), timeout=1, trust_env=False) as client, pytest.raises(StrangerListens):
        client.get(url)
