"""Another user of the same machine: what they can read, reach and replace while we serve. Needs root, to become one."""

import http.client
import ipaddress
import json
import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweep_service.auth import read_token
from sweep_service.client import Client
from sweep_service.settings import Settings
from tests.sweep_stack import command_of, listens, one_of, processes_of, serving, small_sweep, unused_port
from tests.waiting import PATIENT_S, wait_until

pytestmark = pytest.mark.long

MLFLOW_PATHS = (
    "/",
    "/health",
    "/version",
    "/graphql",
    "/static-files/index.html",
    "/get-artifact?path=token&run_uuid=1",
)
TWO_PROCESSES = {"cpus": 1, "processes": 2}


def as_nobody(look: Callable[[], Any]) -> Any:
    """Return what `look` returns in a process of the user `nobody`."""
    if os.geteuid() != 0:
        pytest.skip("ONLY ROOT CAN BECOME ANOTHER USER: what neighbours can do was not tested")
    nobody = pwd.getpwnam("nobody")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.setgroups([])
            os.setgid(nobody.pw_gid)
            os.setuid(nobody.pw_uid)
            answer = look()
        except BaseException as error:  # noqa: BLE001  the parent tells
            answer = f"{type(error).__name__}: {error}"
        with os.fdopen(writing, "w") as file:
            json.dump(answer, file)
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        answer = json.load(file)
    os.waitpid(child, 0)
    return answer


def asked(port: int, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENT_S)) as connection:
        connection.request(method, path, body, headers or {})
        return connection.getresponse().status


def mlflow_port(settings: Settings) -> int:
    return int(json.loads((settings.home / "address.json").read_text())["mlflow_url"].rpartition(":")[2])


def listening_addresses(processes: Iterable[psutil.Process]) -> set[tuple[str, str]]:
    addresses = set[tuple[str, str]]()
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # Ray ends and starts workers at any moment
            addresses |= {
                (process.name(), connection.laddr.ip)
                for connection in process.net_connections()
                if connection.status == psutil.CONN_LISTEN
            }
    return addresses


def reached_from_outside(listening: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    def is_loopback(text: str) -> bool:
        address = ipaddress.ip_address(text)
        return (getattr(address, "ipv4_mapped", None) or address).is_loopback

    return [(name, address) for name, address in listening if not is_loopback(address)]


def readable(folder: Path) -> list[str]:
    """Return what this process may list, read or write at or below a folder."""
    able = [str(folder)] if os.access(folder, os.R_OK) or os.access(folder, os.W_OK) else []
    for place, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(place, name)
            if os.access(path, os.R_OK) or os.access(path, os.W_OK):
                able.append(str(path))
    return able


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A data folder that a command made before the first `serve`, as long as makes Ray's sockets lie elsewhere."""
    top = tmp_path_factory.getbasetemp()
    opened = [folder for folder in (top, *top.parents) if folder.stat().st_uid == os.geteuid() and folder != Path("/")]
    modes = {folder: folder.stat().st_mode for folder in opened}
    for folder in opened:  # pytest's own folders are shut, which would hide that ours is not
        folder.chmod(stat.S_IMODE(modes[folder]) | 0o055)
    home = tmp_path_factory.mktemp("neighbours") / ("long" * 12)
    home.parent.chmod(0o755)
    yield home
    for folder, mode in modes.items():
        folder.chmod(stat.S_IMODE(mode))


@pytest.fixture(scope="module")
def served(home: Path) -> Iterator[Settings]:
    settings = Settings(home=home, port=unused_port())
    rows = home.parent / "rows.jsonl"
    rows.write_text('{"question": "1+1?", "answer": "2"}\n' * 20)
    add = [sys.executable, "-m", "sweep_service", "datasets", "add", str(rows), "--name", "sums"]
    old = os.umask(0o022)
    try:
        with pytest.MonkeyPatch.context() as patched:
            for name, value in settings.environment().items():
                patched.setenv(name, value)
            subprocess.run(add, check=True, capture_output=True)
            with serving(settings):
                wait_until("MLflow listens", lambda: listens(mlflow_port(settings)))
                yield settings
    finally:
        os.umask(old)


def test_nobody_else_gets_into_mlflow(served: Settings) -> None:
    port = mlflow_port(served)
    body = json.dumps({"name": "evil", "artifact_location": f"file://{served.home}"})

    def look() -> list[int]:
        statuses = [asked(port, "GET", path) for path in MLFLOW_PATHS]
        statuses.append(asked(port, "POST", "/api/2.0/mlflow/experiments/create", body))
        return [
            *statuses,
            asked(port, "GET", "/", headers={"Authorization": "Bearer x", "Cookie": f"mlflow_{port}=1.x"}),
        ]

    assert set(as_nobody(look)) == {401}
    secret = read_token(served.home / "mlflow-token")
    headers = {"Authorization": f"Bearer {secret}"}
    assert asked(port, "GET", "/health", headers=headers) == 200
    assert asked(port, "POST", "/api/2.0/mlflow/experiments/create", body, headers) == 400


def test_nobody_else_reads_or_writes_a_file_of_ours(served: Settings) -> None:
    assert as_nobody(lambda: readable(served.home)) == []
    ray = Path((served.home / "ray-folder").read_text())
    assert not ray.is_relative_to(served.home)  # the path of the data folder is too long
    assert as_nobody(lambda: readable(ray.parent)) == []


def test_no_secret_stands_where_others_look(served: Settings) -> None:
    secrets = [(served.home / name).read_text().strip() for name in ("token", "mlflow-token", "ray-token")]

    def look() -> str:
        return "\n".join(word for process in psutil.process_iter() for word in command_of(process))

    processes = as_nobody(look)
    assert not [secret for secret in secrets if secret in processes]
    logs = "".join(path.read_text(errors="replace") for path in (served.home / "logs").iterdir())
    assert not [secret for secret in secrets if secret in logs]


def test_processes_of_one_trial_listen_for_nobody_else(served: Settings) -> None:
    training = {**small_sweep("x")["training"], "steps": 960_000, "device_batch": 4}
    with Client(served.url, read_token(served.token_file)) as client:
        sweep = client.submit(small_sweep("two", training=training, resources=TWO_PROCESSES, probe="off"))
        wait_until("it trains", lambda: any(trial.step for trial in client.trials(sweep.id)))
        trainers = [process for process in processes_of(served.home) if "trainers" in command_of(process)]
        assert len(trainers) >= 3
        addresses = listening_addresses(trainers)
        client.cancel(sweep.id)
        client.wait(sweep.id, 60)
    assert reached_from_outside(addresses) == []


def test_every_port_of_ours_is_on_loopback(served: Settings) -> None:
    assert one_of(served.home, "sweep_service", "api")
    assert reached_from_outside(listening_addresses(processes_of(served.home))) == []
