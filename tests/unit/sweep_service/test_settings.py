"""Passwords that a setting holds are used and never shown."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from sweep_service.settings import Settings, as_served, misspelt, unused_by_client, without_secrets
from sweep_service.tracking.credentials import sign_in

URL = "https://ann:s3cr%40t@mlflow.example:5000/x"


def sent(settings: Settings, environment: dict[str, str] | None = None) -> str | None:
    """Return the header with which a request to MLflow signs in."""
    auth = sign_in(settings, environment or {})
    request = httpx.Request("GET", settings.mlflow_url)
    return next(auth.auth_flow(request)).headers.get("authorization") if auth else None


def test_a_password_in_the_url_signs_in_and_is_shown_nowhere(tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = Settings(home=tmp_path_factory.mktemp("h"), mlflow_url=URL, mlflow_public_url=URL)
    assert settings.mlflow_url == settings.mlflow_public_url == settings.mlflow_links == "https://mlflow.example:5000/x"
    for shown in (repr(settings), str(settings.model_dump()), settings.model_dump_json()):
        assert "s3cr" not in shown
    assert sent(settings) == "Basic " + "YW5uOnMzY3JAdA=="  # ann:s3cr@t


def test_child_processes_sign_in_too(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    settings = Settings(home=tmp_path_factory.mktemp("h"), mlflow_url=URL)
    for name, value in settings.environment().items():
        monkeypatch.setenv(name, value)
    assert sent(Settings()) == sent(settings)


def test_mlflows_own_variables_and_their_files_sign_in(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("h")
    settings = Settings(home=folder, mlflow_url="http://mlflow:5000")
    (folder / "secret").write_text("word\n")
    file = str(folder / "secret")
    basic = "Basic YW5uOndvcmQ="  # ann:word
    assert sent(settings) is None
    assert sent(settings, {"MLFLOW_TRACKING_TOKEN": "t"}) == "Bearer t"
    assert sent(settings, {"MLFLOW_TRACKING_TOKEN_FILE": file}) == "Bearer word"
    assert sent(settings, {"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD": "word"}) == basic
    assert sent(settings, {"MLFLOW_TRACKING_USERNAME": "ann", "MLFLOW_TRACKING_PASSWORD_FILE": file}) == basic


def test_behind_our_own_door_links_lead_through_the_status_page(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("h")
    (folder / "mlflow-token").write_text("word\n")
    settings = Settings(home=folder, mlflow_url="http://mlflow:5000", mlflow_token_file=folder / "mlflow-token")
    assert settings.mlflow_links == "http://127.0.0.1:8080/mlflow"
    assert sent(settings, {"MLFLOW_TRACKING_TOKEN": "another"}) == "Bearer word"


def test_open_addresses_are_those_of_the_running_service(tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("h")
    settings = Settings(home=folder, ray_address="head:6379")
    assert as_served(settings) == settings
    token_file = folder / "mlflow-token"
    served = {"url": "http://127.0.0.1:9", "ray_address": "127.0.0.1:1", "mlflow_token_file": str(token_file)}
    (folder / "address.json").write_text(json.dumps(served))
    seen = as_served(settings)
    assert (seen.url, seen.ray_address, seen.mlflow_token_file) == ("http://127.0.0.1:9", "head:6379", token_file)


def test_two_addresses_of_the_database_are_refused_and_a_child_reads_the_file_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "database"
    file.write_text("sqlite:////one.db\n")
    monkeypatch.setenv("SWEEPS_DATABASE_URL_FILE", str(file))
    monkeypatch.setenv("SWEEPS_DATABASE_URL", "sqlite:////other.db")
    with pytest.raises(ValueError, match=r"SWEEPS_DATABASE_URL is not what SWEEPS_DATABASE_URL_FILE has .*; unset one"):
        Settings()
    monkeypatch.setenv("SWEEPS_DATABASE_URL", "sqlite:////one.db")
    environment = Settings().environment()
    assert (Settings().database_url, environment["SWEEPS_DATABASE_URL_FILE"]) == ("sqlite:////one.db", str(file))
    assert "SWEEPS_DATABASE_URL" not in environment  # a password that is changed there later is the child's, too


def test_trainers_get_no_secret_of_the_service() -> None:
    secrets = ["SWEEPS_DATABASE_URL", "SWEEPS_MLFLOW_LOGIN", "MLFLOW_TRACKING_PASSWORD", "RAY_AUTH_TOKEN", "PGPASSWORD"]
    secrets += ["PGPASSFILE", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"]
    assert without_secrets(dict.fromkeys([*secrets, "PATH", "SWEEPS_HOME"], "x")) == {"PATH": "x", "SWEEPS_HOME": "x"}


@pytest.mark.parametrize(
    ("variables", "url", "said"),
    [
        ({"port": 9000}, "http://127.0.0.1:8080", "SWEEPS_PORT=9000 has no effect here: `sweeps serve` of /h is http"),
        (
            {"port": 9000, "url": "http://lab:1"},
            "http://lab:1",
            "SWEEPS_PORT=9000 has no effect here: SWEEPS_URL names",
        ),
        ({"host": "10.0.0.1"}, "http://127.0.0.1:8080", "SWEEPS_HOST=10.0.0.1 has no effect here"),
        ({"host": "0.0.0.0", "port": 9}, "http://127.0.0.1:9", None),
        ({"host": "::"}, "http://[::1]:8080", None),
        ({}, "http://127.0.0.1:9", None),
    ],
)
def test_an_address_that_a_client_does_not_use_is_told(variables: dict[str, Any], url: str, said: str | None) -> None:
    remarks = list(unused_by_client(Settings(home=Path("/h"), **variables), url))
    assert len(remarks) == (said is not None)
    assert not said or remarks[0].startswith(said)


def test_a_variable_that_is_nearly_a_setting_is_told() -> None:
    remarks = list(misspelt(["SWEEPS_PROT", "SWEEPS_PORT", "SWEEPS_GPU_MEMORY", "SWEEPS_TOKEN", "PORT"]))
    assert [remark.split()[0] for remark in remarks] == ["SWEEPS_PROT", "SWEEPS_TOKEN"]
    assert "SWEEPS_TOKEN_FILE may be meant" in remarks[1]
