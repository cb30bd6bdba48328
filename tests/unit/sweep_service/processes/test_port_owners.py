import ipaddress
import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from sweep_service.processes import port_owners
from sweep_service.processes.port_owners import StrangerListens, check_connection, check_port, checked_connections

pytestmark = pytest.mark.skipif(sys.byteorder != "little", reason="the tables below are of such a machine")
HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


class Connection(socket.socket):
    """A connection with these addresses at its ends, to port 80."""

    def __init__(self, peer: str, own: str) -> None:
        super().__init__()
        self.peer, self.own = peer, own

    def getpeername(self) -> tuple[str, int]:
        return self.peer, 80

    def getsockname(self) -> tuple[str, int]:
        return self.own, 50000


def row(local: str, other: str, state: str, uid: int) -> str:
    return f"   0: {local} {other} {state} 00000000:00000000 00:00000000 00000000 {uid} 0 1 1 0 100 0 0 10 0"


def place(port: int, address: str = "0100007F") -> str:
    return f"{address}:{port:04X}"


def shown(monkeypatch: pytest.MonkeyPatch, folder: Path, *rows: str) -> None:
    (folder / "tcp").write_text("\n".join([HEAD, *rows]) + "\n")
    monkeypatch.setattr(port_owners, "_TABLES", (folder / "tcp", folder / "tcp6"))


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("0100007F:1F90", "127.0.0.1"),
        ("00000000000000000000000001000000:1F90", "::1"),
        ("0000000000000000FFFF00000100007F:1F90", "127.0.0.1"),
        ("00000000000000000000000000000000:1F90", "::"),
    ],
)
def test_the_kernels_addresses_are_read(text: str, address: str) -> None:
    assert port_owners._parsed(text) == (ipaddress.ip_address(address), 8080)


def test_a_server_of_our_own_is_trusted(listener: socket.socket) -> None:
    check_port("127.0.0.1", listener.getsockname()[1])


@pytest.mark.parametrize(
    ("rows", "stranger"),
    [
        ([("listen", "0100007F", 65534)], True),
        ([("listen", "00000000", 65534)], True),
        ([("listen", "00000000000000000000000000000000", 65534)], True),
        ([("listen", "0900007F", 65534), ("listen", "0100007F", os.getuid())], False),  # at another address
        ([("listen", "0100007F", 0)], False),
        ([("listen", "00000000000000000000000000000000", 65534), ("listen", "0100007F", os.getuid())], False),
        ([("listen", "00000000000000000000000000000000", 65534), ("listen", "00000000", os.getuid())], False),
        ([("listen", "00000000", 65534), ("listen", "00000000000000000000000000000000", os.getuid())], True),
        ([], False),  # forwarded by the kernel, as root has told it
        ([("taken", "0100007F", 65534)], True),  # by who has stopped to listen since
        ([("taken", "0100007F", 65534), ("listen", "0100007F", os.getuid())], True),
        ([("taken", "0000000000000000FFFF00000100007F", 65534)], True),
        ([("taken", "0100007F", 0), ("listen", "0100007F", 65534)], True),  # by nobody yet
    ],
)
def test_a_stranger_is_known_by_what_the_kernel_shows(
    listener: socket.socket,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[str, str, int]],
    stranger: bool,
) -> None:
    port = listener.getsockname()[1]
    with socket.create_connection(("127.0.0.1", port)) as connection:
        own = place(connection.getsockname()[1])
        others = {"listen": (place(0, "00000000"), "0A"), "taken": (own, "01")}
        table = [row(place(port, address), *others[kind], uid) for kind, address, uid in rows]
        shown(monkeypatch, tmp_path, *table, row(own, place(port), "01", 65533))  # our own end says nothing
        if stranger:
            with pytest.raises(StrangerListens, match=f"listens on 127.0.0.1:{port}, where our server should be"):
                check_connection(connection)
            check_connection(connection, ["65534"])
        else:
            check_connection(connection)


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("192.0.2.2", "020200C0"),
        ("::1", "00000000000000000000000001000000"),
        ("fe80::1%eth0", "000080FE000000000000000001000000"),
        ("::ffff:127.0.0.1", "0000000000000000FFFF00000100007F"),
    ],
)
def test_every_address_of_this_machine_is_checked(
    peer: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown(monkeypatch, tmp_path, row(place(80, address), place(0, "00000000"), "0A", 65534))
    with Connection(peer, peer) as connection, pytest.raises(StrangerListens):
        check_connection(connection)
    with Connection("192.0.2.9", "192.0.2.2") as connection:  # to another machine
        check_connection(connection)


def test_the_kernels_table_of_ipv6_is_read() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("this machine has no IPv6")
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as server:
        port = server.getsockname()[1]
        found = [one for one in port_owners._sockets() if one.port == port and one.listens]
    assert [(str(one.address), one.uid) for one in found] == [("::1", os.getuid())]


def test_a_trusted_user_that_does_not_exist_is_named(listener: socket.socket) -> None:
    with pytest.raises(StrangerListens, match="names 'no-such-user', who is no user"):
        check_port("127.0.0.1", listener.getsockname()[1], ["no-such-user"])


def test_nothing_is_sent_to_a_stranger(
    listener: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = listener.getsockname()[1]
    shown(monkeypatch, tmp_path, row(place(port), place(0, "00000000"), "0A", 65534))
    hooks = {"request": [checked_connections()]}
    with httpx.Client(event_hooks=hooks, trust_env=False) as client, pytest.raises(StrangerListens):
        client.get(f"http://127.0.0.1:{port}/", headers={"Authorization": "Bearer secret"})
    accepted, _ = listener.accept()
    with accepted:
        assert accepted.recv(100) == b""
