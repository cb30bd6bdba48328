"""Who may see the pages: a cookie that follows from the token, without the token in it, until the browser closes."""

from typing import Final

from sweep_service.auth import derived, same, sign_in_key

MAX_AGE_S: Final = 30 * 86400
"""After so long a browser that was never closed must sign in again."""


def may_sign_in(given: str, token: str) -> bool:
    """Whether somebody gave the token, or the key of the printed link. Takes the same time whichever is wrong."""
    as_token, as_key = same(given, token), same(given, sign_in_key(token))
    return as_token or as_key


def cookie_name(port: int | None) -> str:
    """Name the cookie by the port: browsers share cookies between all servers of one host."""
    return f"sweeps_{port or 80}"


def new_cookie(token: str, now: float) -> str:
    """Return the value of a cookie issued now."""
    issued = str(int(now))
    return f"{issued}.{_signature(token, issued)}"


def is_valid(cookie: str, token: str, now: float) -> bool:
    """Whether the cookie was made with this token, not too long ago."""
    issued, _, signature = cookie.partition(".")
    genuine = same(signature, _signature(token, issued))
    return genuine and -60 <= now - int(issued) <= MAX_AGE_S  # what is genuine is a number


def _signature(token: str, issued: str) -> str:
    return derived(token, f"cookie of the status page, issued {issued}")
