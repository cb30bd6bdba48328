import socket

import httpx
import pytest

from sweep_service.client.connection import Connection
from sweep_service.client.errors import Unreachable
from sweep_service.processes.port_owners import StrangerListens


def test_the_token_is_not_sent_to_a_stranger(strangers_port: int) -> None:
    connection = Connection(f"http://127.0.0.1:{strangers_port}", "token", timeout_s=1, patience_s=0)
    with pytest.raises(StrangerListens):
        connection.request("GET", "/v1/sweeps")
    connection.close()


def test_a_stream_that_is_silent_for_too_long_ends() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = Connection(f"http://127.0.0.1:{server.getsockname()[1]}", "token", timeout_s=60, patience_s=0)
        with pytest.raises(httpx.ReadTimeout), connection.stream("/v1/events", {}, silence_s=0.1):
            pass
        connection.close()


def test_no_proxy_gets_the_token_for_a_server_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as proxy:
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "http_proxy"):
            monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        connection = Connection(f"http://127.0.0.1:{server.getsockname()[1]}", "token", timeout_s=0.1, patience_s=0)
        with pytest.raises(Unreachable):  # nobody answers, so both only show who was asked
            connection.request("GET", "/v1/sweeps")
        connection.close()
        proxy.setblocking(False)
        with pytest.raises(BlockingIOError):
            proxy.accept()
        server.settimeout(5)
        asked, _ = server.accept()
        with asked:
            assert b"Authorization: Bearer token" in asked.recv(1000)
