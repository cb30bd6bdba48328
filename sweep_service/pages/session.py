"""The cookie of those who may see the pages. It follows from the token but does not contain it."""

from typing import Final

from sweep_service.auth import derived, same, sign_in_key

MAX_AGE_S: Final = 30 * 86400
"""A browser that stays open must sign in again after this many seconds."""


def may_sign_in(secret: str, token: str) -> bool:
    """Say whether a secret is the token or the printed link's key, in a time that does not tell which part is wrong."""
    as_token, as_key = same(secret, token), same(secret, sign_in_key(token))
    return as_token or as_key


def cookie_name(port: int | None) -> str:
    """Name the cookie by the port: browsers share cookies between all servers of one host."""
    return f"sweeps_{port or 80}"


def new_cookie(token: str, now: float) -> str:
    """Return the value of a cookie issued now."""
    issued = str(int(now))
    return f"{issued}.{_signature(token, issued)}"


def is_valid(cookie: str, token: str, now: float) -> bool:
    """Say whether the cookie was made with this token and is not too old."""
    issued, _, signature = cookie.partition(".")
    genuine = same(signature, _signature(token, issued))
    return genuine and -60 <= now - int(issued) <= MAX_AGE_S  # a genuine one is a number


def _signature(token: str, issued: str) -> str:
    return derived(token, f"cookie of the status page, issued {issued}")
