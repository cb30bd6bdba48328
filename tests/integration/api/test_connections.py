"""Connections on which nothing comes keep nobody out."""

import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack

import httpx
import pytest

from sweep_service.api import connections
from tests.integration.api.conftest import Served
from tests.waiting import PATIENT_S

LIMIT = 8
BEGUN = {
    "nothing": b"",
    "half a head": b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
    "half a body": b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99\r\n\r\nx",
    "a request, then nothing": b"GET /livez HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
}


@pytest.fixture(autouse=True)
def _few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "most_connections", lambda: LIMIT)


@pytest.fixture
def opened() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def begin(served: Served, stack: ExitStack, sent: bytes) -> socket.socket:
    host, port = served.url.removeprefix("http://").split(":")
    connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENT_S))
    connection.sendall(sent)
    if sent == BEGUN["a request, then nothing"]:
        connection.recv(1)  # only who has its answer waits
    return connection


@pytest.mark.parametrize("sent", BEGUN.values(), ids=BEGUN.keys())
def test_who_waits_longest_makes_room(served: Served, opened: ExitStack, sent: bytes) -> None:
    waiting = [begin(served, opened, sent) for _ in range(5 * LIMIT)]
    assert httpx.get(f"{served.url}/livez", timeout=PATIENT_S).status_code == 200
    assert ended(waiting[0])


@pytest.mark.parametrize("sent", BEGUN.values(), ids=BEGUN.keys())
def test_a_request_comes_in_time_or_not_at_all(
    served: Served, opened: ExitStack, sent: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 0.3)
    uvicorns_own = property(lambda _: 2 * PATIENT_S, lambda *_: None)  # between two requests
    monkeypatch.setattr(connections.TimedConnection, "timeout_keep_alive", uvicorns_own, raising=False)
    assert ended(begin(served, opened, sent))


def test_an_answer_may_take_longer(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_S", 1.0)
    sweep_id = served.submit()
    with served.http.stream("GET", f"/v1/sweeps/{sweep_id}/events", headers={"Accept": "text/event-stream"}) as answer:
        lines = answer.iter_lines()
        next(lines)
        time.sleep(1.5)
        served.store.request_cancel(sweep_id)
        assert any("CANCELLED" in line for line in lines)


def ended(connection: socket.socket) -> bool:
    """Tell whether the other end closes the connection, whatever came before."""
    try:
        while connection.recv(4096):
            pass
    except ConnectionResetError:
        pass
    return True
