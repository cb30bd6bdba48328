"""Owner of the program behind a port: on a shared machine a neighbour may have taken the port of a server of ours.

No secret is sent to a server on this machine unless it belongs to our own user, to root, or to a user whom the settings
trust. The kernel says whose a socket is (/proc/net/tcp). Both are looked at once a connection stands: the socket that
listens on the port, for a connection waits there until somebody takes it, and the other end of the connection, for who
takes it may stop to listen. Servers elsewhere are left to TLS.
"""

import ipaddress
import os
import pwd
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from sweep_service.errors import ServiceError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS: Final = "0A"


class StrangerListens(ServiceError):
    """Another user's program is at an address where a server of ours should be."""


class _Socket(NamedTuple):
    address: Address
    port: int
    other_port: int
    listens: bool
    uid: int


def check_connection(connection: socket.socket, trusted: Sequence[str] = ()) -> None:
    """Check that the other end of a connection to this machine belongs to us, to root or to a trusted user.

    Args:
        trusted: names or numbers of further users.
    Raises: StrangerListens.
    """
    names = (connection.getpeername()[0], connection.getsockname()[0])
    peer, own = (_unmapped(ipaddress.ip_address(name.partition("%")[0])) for name in names)
    port, own_port = connection.getpeername()[1], connection.getsockname()[1]
    if peer != own and not peer.is_loopback:  # what this machine sends to an address of its own has that at both ends
        return
    sockets = [one for one in _sockets() if one.port == port]
    ends = [one for one in sockets if not one.listens and one.address == peer and one.other_port == own_port]
    # A connection that nobody has taken yet is shown as root's; the socket that listens says whose it will be.
    uids = {one.uid for one in [*ends, *_listeners(sockets, peer)]}
    if strangers := uids - _uids(trusted):
        names = ", ".join(sorted(map(_name, strangers)))
        raise StrangerListens(
            f"{names} listens on {peer}:{port}, where our server should be, so nothing was sent there; set another "
            f"port, or SWEEPS_TRUSTED_USERS={names} if you trust that user with this server"
        )


def check_port(host: str, port: int, trusted: Sequence[str] = ()) -> None:
    """Connect to a server, check whose it is, and leave it.

    Raises: StrangerListens; OSError, if nobody listens there.
    """
    with socket.create_connection((host, port), timeout=5) as connection:
        check_connection(connection, trusted)


def checked_connections(trusted: Sequence[str] = ()) -> Callable[[Any], None]:
    """Return a hook for requests of `httpx.Client` that checks each new connection before anything is sent."""

    def trace(event: str, details: dict[str, Any]) -> None:
        if event != "connection.connect_tcp.complete":
            return
        stream = details["return_value"]
        try:
            check_connection(stream.get_extra_info("socket"), trusted)
        except StrangerListens:
            stream.close()
            raise

    def hook(request: Any) -> None:
        request.extensions["trace"] = trace

    return hook


def _listeners(sockets: Sequence[_Socket], peer: Address) -> list[_Socket]:
    """Return a port's sockets that may get a connection to `peer`: the kernel prefers the most exact address.

    A socket on `::` comes last for IPv4, and may not take IPv4 at all.
    """
    any_of_family = ipaddress.ip_address("0.0.0.0" if peer.version == 4 else "::")
    for address in (peer, any_of_family, ipaddress.IPv6Address("::")):
        if listeners := [one for one in sockets if one.listens and one.address == address]:
            return listeners
    return []


def _sockets() -> Iterator[_Socket]:
    for table in _TABLES:
        try:
            lines = table.read_text().splitlines()[1:]
        except OSError:  # no IPv6, or not Linux
            continue
        for line in lines:
            _, local, other, state, *rest = line.split()
            address, port = _parsed(local)
            yield _Socket(address, port, _parsed(other)[1], state == _LISTENS, int(rest[3]))


def _parsed(text: str) -> tuple[Address, int]:
    """Read an address as the kernel writes it: words of four bytes, each in the order of this machine."""
    words, port = text.split(":")
    raw = b"".join(bytes.fromhex(words[start : start + 8])[::-1] for start in range(0, len(words), 8))
    return _unmapped(ipaddress.ip_address(raw)), int(port, 16)


def _unmapped(address: Address) -> Address:
    """Return the IPv4 address that stands in an IPv6 one."""
    return (address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None) or address


def _uids(trusted: Sequence[str]) -> set[int]:
    uids = {0, os.getuid()}
    for name in trusted:
        try:
            uids.add(int(name) if name.isdecimal() else pwd.getpwnam(name).pw_uid)
        except KeyError:
            raise StrangerListens(f"SWEEPS_TRUSTED_USERS names {name!r}, who is no user of this machine") from None
    return uids


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
