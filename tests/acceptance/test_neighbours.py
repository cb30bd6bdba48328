"""Another user of the same machine: what they can read, reach and replace while we serve. Needs root, to become one."""

import http.client
import ipaddress
import json
import os
import pwd
import re
import selectors
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from sweep_service.auth import ensure_token, read_token
from sweep_service.client import Client
from sweep_service.processes.port_owners import StrangerListens
from sweep_service.settings import Settings
from tests.sweep_stack import command_of, one_of, processes_of, serving, small_sweep, unused_port, wait_until

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


@contextmanager
def squatting(ports: Callable[[], set[int]]) -> Iterator[bytearray]:
    """Listen as `nobody` on each of the ports as soon as it is known; afterwards the yielded bytes are what came."""
    if os.geteuid() != 0:
        pytest.skip("ONLY ROOT CAN BECOME ANOTHER USER: what neighbours can do was not tested")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(pwd.getpwnam("nobody").pw_gid)
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        squat(ports, writing)
    os.close(writing)
    came = bytearray()
    try:
        yield came
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        with os.fdopen(reading, "rb") as pipe:
            came += pipe.read()


def squat(ports: Callable[[], set[int]], writing: int) -> None:
    """Pass on what comes to these ports, for ever; to who speaks HTTP/2 say hello as gRPC servers do."""
    sockets, taken = selectors.DefaultSelector(), set[int]()
    while True:
        for port in ports() - taken:
            listener = socket.socket()
            try:
                listener.bind(("127.0.0.1", port))
                listener.listen()
                taken.add(port)
                sockets.register(listener, selectors.EVENT_READ, "listener")
            except OSError:
                listener.close()
        for key, _ in sockets.select(0.001):
            connection: Any = key.fileobj
            if key.data == "listener":
                accepted, _ = connection.accept()
                accepted.sendall(bytes(3) + b"\x04" + bytes(5))  # an empty SETTINGS frame
                sockets.register(accepted, selectors.EVENT_READ, "connection")
                continue
            try:
                data = connection.recv(65536)
            except OSError:
                data = b""
            os.write(writing, data)
            if not data:
                sockets.unregister(connection)
                connection.close()


def announced_ports() -> set[int]:
    """Ports in the command lines of all processes of this machine."""
    found = set[int]()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found |= {int(port) for port in re.findall(rb"--port[=\0](\d+)", path.read_bytes())}
    return found


def asked(port: int, method: str, path: str, body: str | None = None, headers: dict[str, str] | None = None) -> int:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=20)) as connection:
        connection.request(method, path, body, headers or {})
        return connection.getresponse().status


def mlflow_port(settings: Settings) -> int:
    return int(json.loads((settings.home / "address.json").read_text())["mlflow_url"].rpartition(":")[2])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


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
        wait_until("it trains", lambda: any(trial.step for trial in client.trials(sweep.id)), 120)
        trainers = [process for process in processes_of(served.home) if "trainers" in command_of(process)]
        assert len(trainers) >= 3
        addresses = listening_addresses(trainers)
        client.cancel(sweep.id)
        client.wait(sweep.id, 60)
    assert reached_from_outside(addresses) == []


def test_every_port_of_ours_is_on_loopback(served: Settings) -> None:
    assert one_of(served.home, "sweep_service", "api")
    assert reached_from_outside(listening_addresses(processes_of(served.home))) == []


def test_a_neighbour_at_our_port_gets_no_token(settings: Settings) -> None:
    token = ensure_token(settings.token_file)
    with squatting(lambda: {settings.port}) as came:
        wait_until("the neighbour listens", lambda: listens(settings.port))
        with (
            Client(settings.url, token, patience_s=0) as client,
            pytest.raises(StrangerListens, match="nobody listens"),
        ):
            client.check_ready()
        trusting = Client(settings.url, token, timeout_s=1, patience_s=0, trusted_users=["nobody"])
        with trusting as client, suppress(Exception):
            client.check_ready()
    assert came.count(token.encode()) == 1  # of the client that trusts


@pytest.mark.timeout(600)
def test_a_neighbour_who_takes_ports_as_soon_as_they_are_announced_gets_no_secret(settings: Settings) -> None:
    mlflow_token, ray_token = settings.home / "mlflow-token", settings.home / "ray-token"
    seen = set[str]()
    with squatting(announced_ports) as came:
        for _ in range(3):
            serve = subprocess.Popen(
                [sys.executable, "-m", "sweep_service", "serve"], stderr=subprocess.PIPE, text=True
            )
            try:
                serve.wait(40)
            except subprocess.TimeoutExpired:
                serve.send_signal(signal.SIGINT)
            said = serve.communicate()[1]
            seen.add(ray_token.read_text())
    assert read_token(mlflow_token).encode() not in came
    assert len(seen) == 3  # a token that was sent to a stranger opens nothing: each head has its own
    with serving(settings):
        assert ray_token.read_bytes() not in came
        assert read_token(mlflow_token).encode() not in came, said
