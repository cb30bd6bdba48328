"""`sweeps serve` with an MLflow that asks for a password, a Ray cluster and a PostgreSQL that were there before."""

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.processes.child_processes import start_kept, stop
from sweep_service.settings import Settings
from sweep_service.sweep.records import SweepState
from tests.postgres import AVAILABLE, postgres
from tests.sweep_stack import command_of, processes_of, ray_head, serving, small_sweep, unused_port
from tests.waiting import PATIENT_S, wait_until

SIGN_IN = ("admin", f"hush-{secrets.token_hex(8)}")


@contextmanager
def mlflow_with_passwords(home: Path) -> Iterator[str]:
    """Run an MLflow whose users sign in by name and password; yield its URL."""
    port, log = unused_port(), home / "mlflow.log"
    config = home / "auth.ini"
    config.write_text(
        "[mlflow]\ndefault_permission = NO_PERMISSIONS\nadmin_username = admin\n"
        f"admin_password = {SIGN_IN[1]}\ndatabase_uri = sqlite:///{home / 'users.db'}\n"
        "authorization_function = mlflow.server.auth:authenticate_request_basic_auth\n"
    )
    environment = os.environ | {
        "MLFLOW_AUTH_CONFIG_PATH": str(config),
        "MLFLOW_FLASK_SERVER_SECRET_KEY": secrets.token_hex(16),
        "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
    }
    command = [sys.executable, "-m", "mlflow", "server", "--app-name", "basic-auth", "--port", str(port)]
    command += ["--workers", "1", "--backend-store-uri", f"sqlite:///{home / 'mlflow.db'}"]
    keeper = start_kept([*command, "--artifacts-destination", str(home / "artifacts")], environment, log)

    def answers() -> bool:
        try:
            return httpx.get(f"http://127.0.0.1:{port}/health", timeout=1).is_success or keeper.poll() is not None
        except httpx.TransportError:
            return keeper.poll() is not None

    try:
        wait_until("MLflow answers", answers)
        assert keeper.poll() is None, log.read_text()[-3000:]
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(keeper, 5)


@pytest.mark.parametrize(
    "way", [pytest.param("variables", marks=pytest.mark.hunt), pytest.param("url", marks=pytest.mark.long)]
)
@pytest.mark.usefixtures("forked_sweeps")
def test_serve_uses_the_servers_that_were_there(settings: Settings, monkeypatch: pytest.MonkeyPatch, way: str) -> None:
    if not AVAILABLE:
        pytest.skip("NO POSTGRESQL IS INSTALLED HERE: a database that was there before was not tested")
    home = settings.home.parent
    user, password = SIGN_IN
    monkeypatch.delenv("SWEEPS_HOME")  # by which the stack's own processes are known
    with mlflow_with_passwords(home) as mlflow, ray_head(home, 2, 0) as ray, postgres() as database:
        monkeypatch.setenv("SWEEPS_HOME", str(settings.home))
        for name, value in ray.items():
            monkeypatch.setenv(name, value)
        (home / "database").write_text(database)
        monkeypatch.delenv("SWEEPS_DATABASE_URL")
        monkeypatch.setenv("SWEEPS_DATABASE_URL_FILE", str(home / "database"))
        if way == "variables":
            (home / "password").write_text(f"{password}\n")
            monkeypatch.setenv("SWEEPS_MLFLOW_URL", mlflow)
            monkeypatch.setenv("MLFLOW_TRACKING_USERNAME", user)
            monkeypatch.setenv("MLFLOW_TRACKING_PASSWORD_FILE", str(home / "password"))
        else:
            monkeypatch.setenv("SWEEPS_MLFLOW_URL", mlflow.replace("//", f"//{user}:{password}@"))
        settings = Settings()
        with serving(settings), Client(settings.url, read_token(settings.token_file)) as client:
            names = {name for process in processes_of(settings.home) for name in command_of(process)}
            assert not [name for name in names if ("ray" in name and "start" in name) or name == "mlflow"]
            sweep = client.submit(small_sweep("theirs", resources={"max_parallel": 1}))
            assert client.wait(sweep.id, 150).state is SweepState.SUCCEEDED
            doctor = _run("doctor", "--json")
            verdicts = {finding["name"]: finding["verdict"] for finding in json.loads(doctor)}
            report = client.report(sweep.id, "html", timeout_s=PATIENT_S)
            search, query = f"{mlflow}/api/2.0/mlflow/experiments/search", {"max_results": 10}
            experiments = []

            def copied() -> bool:
                experiments[:] = httpx.post(search, json=query, auth=SIGN_IN).json()["experiments"]
                return len(experiments) > 1

            wait_until("MLflow shows the sweep", copied)
            assert httpx.post(search, json=query).status_code == 401
            arguments = [word for process in psutil.process_iter() for word in command_of(process)]
            seen = {
                "doctor": doctor,
                "show": _run("show", sweep.id),
                "show as JSON": _run("show", sweep.id, "--json"),
                "events": json.dumps([event.model_dump(mode="json") for event in client.events(sweep.id)]),
                "report": report.decode(),
                "report as JSON": client.report(sweep.id, "json", timeout_s=PATIENT_S).decode(),
                "processes": "\n".join(arguments),
            }
            headers = {"Authorization": f"Bearer {read_token(settings.token_file)}"}
            for page in ("/", f"/sweeps/{sweep.id}", f"/v1/sweeps/{sweep.id}"):
                seen[page] = httpx.get(f"{settings.url}{page}", headers=headers, follow_redirects=True).text
        seen |= {path.name: path.read_text(errors="replace") for path in (settings.home / "logs").iterdir()}
        seen |= {
            str(path): path.read_text(errors="replace")
            for path in settings.storage.rglob("*")
            if path.is_file() and path.suffix in (".log", ".jsonl", ".json", ".yaml")
        }
        seen["serve.log"] = (home / "serve.log").read_text()
    assert (verdicts["mlflow server"], verdicts["ray head"]) == ("ok", "ok"), doctor
    told = [password, urlsplit(database).password, (home / "ray-token").read_text()]
    assert [(place, secret) for place, text in seen.items() for secret in told if secret and secret in text] == []


def _run(*arguments: str) -> str:
    ran = subprocess.run([sys.executable, "-m", "sweep_service", *arguments], capture_output=True, text=True)
    return ran.stdout + ran.stderr if "--json" not in arguments else ran.stdout
