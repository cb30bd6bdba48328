"""The bearer token: a file that only its owner can read, made by the first `sweeps serve`."""

import hashlib
import hmac
import ipaddress
import os
import secrets
import socket
import stat
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from sweep_service.errors import ServiceError


class TokenError(ServiceError):
    """There is no token where one is needed, or its file cannot be used."""


def ensure_token(path: Path) -> str:
    """Return the token in the file; make the file (mode 0600, its directory 0700) if it does not exist."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(f"sweeps_{secrets.token_urlsafe(32)}\n")
        try:
            os.link(temporary, path)  # whole or not at all, also when two processes start at once
        except FileExistsError:
            pass
        finally:
            temporary.unlink()
    return read_token(path)


def read_token(path: Path) -> str:
    """Return the token in the file.

    Raises: TokenError, if there is none.
    """
    try:
        token = path.read_text().strip()
    except FileNotFoundError:
        raise TokenError(
            f"there is no token at {path}; start `sweeps serve` on this machine, or point SWEEPS_TOKEN_FILE at a copy"
        ) from None
    except OSError as error:
        raise TokenError(f"the token at {path} cannot be read: {error.strerror}") from error
    if not token:
        raise TokenError(f"the token file {path} is empty; remove it, and the next `sweeps serve` makes a new one")
    return token


def server_token(path: Path, host: str) -> str:
    """Return the token that an API on `host` demands; on a loopback address it is made if it is missing.

    Raises: TokenError, if others could reach the address and there is no token file.
    """
    if is_loopback(host):
        return ensure_token(path)
    if not path.exists():
        raise TokenError(
            f"refusing to listen on {host} without a token: other machines can reach it. "
            f"Put a secret of at least 32 characters into {path} (SWEEPS_TOKEN_FILE), or listen on 127.0.0.1"
        )
    token = read_token(path)
    if len(token) < 32:
        raise TokenError(
            f"the token in {path} has {len(token)} characters; other machines reach {host}: use 32 or more"
        )
    return token


def is_loopback(host: str) -> bool:
    """True if only this machine reaches that address."""
    name = host.lower().rstrip(".")
    if name in ("localhost", "ip6-localhost", "ip6-loopback"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        with suppress(OSError):  # 127.1 and 2130706433 are addresses too
            return ipaddress.IPv4Address(socket.inet_aton(name)).is_loopback
        return False
    return (getattr(address, "ipv4_mapped", None) or address).is_loopback


def same(secret: str, token: str) -> bool:
    """Compare two secrets in a time that does not depend on where they differ."""
    return hmac.compare_digest(secret.encode(), token.encode())


def cookie(headers: Sequence[str], name: str) -> str:
    """Return the value of one of our cookies as it stands, or an empty string.

    Python's own parser, which undoes quoting, takes quadratic time for some headers.

    Args:
        headers: the values of the request's Cookie headers.
    """
    pairs = (pair.strip().partition("=") for header in headers for pair in header.split(";"))
    return next((value for key, _, value in pairs if key == name), "")


def sign_in_key(token: str) -> str:
    """Return the key of the printed link. It opens the status page alone and reveals nothing of the token."""
    return f"signin_{derived(token, 'link to the status page')}"


def derived(token: str, purpose: str) -> str:
    """Derive a secret for one purpose from the token; the token cannot be computed from it."""
    return hmac.new(token.encode(), purpose.encode(), hashlib.sha256).hexdigest()


def fingerprint(token: str) -> str:
    """Return a short name of a token, which tells it from others and does not reveal it."""
    return derived(token, "fingerprint in the record of requests")[:8]


def open_to_others(path: Path) -> bool:
    """True if a file's group or others have any right on it."""
    return bool(stat.S_IMODE(path.stat().st_mode) & 0o077)
