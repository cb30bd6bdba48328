"""Acceptance: a neighbour on the same machine who takes a port before our server does is sent no secret."""

import os
import pwd
import re
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from sweep_service.auth import ensure_token, read_token
from sweep_service.client import Client
from sweep_service.processes.port_owners import StrangerListens
from sweep_service.settings import Settings
from tests.sweep_stack import listens, serving
from tests.waiting import wait_until

pytestmark = pytest.mark.long


@contextmanager
def squatting(ports: Callable[[], set[int]], came: Path) -> Iterator[None]:
    """Listen as `nobody` on each of the ports as soon as it is known, and write what comes into a file."""
    if os.geteuid() != 0:
        pytest.skip("ONLY ROOT CAN BECOME ANOTHER USER: what neighbours can do was not tested")
    writing = os.open(came, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
    child = os.fork()
    if not child:
        os.setgroups([])
        os.setgid(pwd.getpwnam("nobody").pw_gid)
        os.setuid(pwd.getpwnam("nobody").pw_uid)
        squat(ports, writing)
    os.close(writing)
    try:
        yield
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


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


def announced_ports(home: Path) -> set[int]:
    """Ports in the command lines of all processes whose command line names the installation, too."""
    found = set[int]()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if bytes(home) in (line := path.read_bytes()):
                found |= {int(port) for port in re.findall(rb"--port[=\0](\d+)", line)}
    return found


def test_a_neighbour_at_our_port_gets_no_token(settings: Settings, tmp_path: Path) -> None:
    token, came = ensure_token(settings.token_file), tmp_path / "came"
    with squatting(lambda: {settings.port}, came):
        wait_until("the neighbour listens", lambda: listens(settings.port))
        with (
            Client(settings.url, token, patience_s=0) as client,
            pytest.raises(StrangerListens, match="nobody listens"),
        ):
            client.check_ready()
        trusting = Client(settings.url, token, timeout_s=1, patience_s=0, trusted_users=["nobody"])
        with trusting as client, suppress(Exception):
            client.check_ready()
        wait_until("the client that trusts is heard", lambda: token in came.read_text("latin-1"))
    assert came.read_text("latin-1").count(token) == 1


def serve_for_a_while(ray_token: Path) -> str:
    """Start the service, give it 40 s from the moment that its head of Ray has a token, and return what it says."""
    before = read_or_nothing(ray_token)
    serve = subprocess.Popen([sys.executable, "-m", "sweep_service", "serve"], stderr=subprocess.PIPE, text=True)
    wait_until("a new token", lambda: serve.poll() is not None or read_or_nothing(ray_token) not in {"", before})
    try:
        serve.wait(40)
    except subprocess.TimeoutExpired:
        serve.send_signal(signal.SIGINT)
    return serve.communicate()[1]


def read_or_nothing(path: Path) -> str:
    """Return what is in a file that may be replaced just now."""
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""


@pytest.mark.timeout(3600)
def test_a_neighbour_who_takes_ports_as_soon_as_they_are_announced_gets_no_secret(
    settings: Settings, tmp_path: Path
) -> None:
    came = tmp_path / "came"
    mlflow_token, ray_token = settings.home / "mlflow-token", settings.home / "ray-token"
    seen = set[str]()
    with squatting(lambda: announced_ports(settings.home), came):
        for _ in range(2):
            said = serve_for_a_while(ray_token)
            seen.add(ray_token.read_text())
    assert read_token(mlflow_token).encode() not in came.read_bytes()
    assert len(seen) == 2  # a token that was sent to a stranger opens nothing: each head has its own
    with serving(settings):
        assert ray_token.read_bytes() not in came.read_bytes()
        assert read_token(mlflow_token).encode() not in came.read_bytes(), said
