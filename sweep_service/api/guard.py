"""The guard before all routes: it checks a request's host and origin, and adds headers against misuse to every answer.

A page in a browser can reach 127.0.0.1, and by DNS rebinding under any name; so a request must name a host of ours.
The probes tell nothing that is worth guarding, and who sends them names an address of his own choice.
"""

import re
from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sweep_service.api.problems import HEADERS, Refusal

_OWN_COOKIE: Final = re.compile(rb"sweeps_\d{1,5}=[\w.]{1,200}")
PROBES: Final = ("/livez", "/readyz")
"""Paths that are answered under every name."""


class Guard:
    """ASGI middleware that refuses foreign hosts and origins, and adds security headers."""

    def __init__(self, app: ASGIApp, hosts: Collection[str]) -> None:
        self.app, self.hosts = app, frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        scope["headers"] = [
            (name, _own_cookies(value) if name == b"cookie" else value) for name, value in scope["headers"]
        ]
        headers = Headers(scope=scope)
        unread = "transfer-encoding" in headers or headers.get("content-length", "0") != "0"

        async def read() -> Message:
            nonlocal unread
            message = await receive()
            unread = unread and message["type"] == "http.request" and message.get("more_body", False)
            return message

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                sent = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    sent.setdefault(name, value)
                if unread:  # or the server would go on to read what nobody wants, for as long as it comes
                    sent["Connection"] = "close"
            await send(message)

        if scope["path"] in PROBES:
            await self.app(scope, read, send_with_headers)
        elif (host := _name(f"//{headers.get('host', '')}")) not in self.hosts:
            detail = f"this is not the server {host[:100]!r}; if it should be, add that name to SWEEPS_PUBLIC_HOSTS"
            await Refusal(400, "UNKNOWN_HOST", detail).response()(scope, read, send_with_headers)
        elif (origin := headers.get("origin")) and _name(origin) not in self.hosts:
            detail = f"requests of web pages from {origin[:100]!r} are not answered"
            await Refusal(403, "FOREIGN_ORIGIN", detail).response()(scope, read, send_with_headers)
        else:
            await self.app(scope, read, send_with_headers)


def _own_cookies(header: bytes) -> bytes:
    """Keep our own cookies. FastAPI parses all of them, for every route, in quadratic time if some are quoted oddly."""
    pairs = (pair.strip() for pair in header.split(b";"))
    return b"; ".join(pair for pair in pairs if _OWN_COOKIE.fullmatch(pair))


def _name(url: str) -> str:
    try:
        return (urlsplit(url).hostname or "").rstrip(".")
    except ValueError:
        return ""


def known_hosts(host: str, url: str, further: str = "") -> frozenset[str]:
    """Return the host names that requests may use: loopback, the address listened on, and the public ones.

    Args:
        host: address listened on.
        url: public address of the API.
        further: further public names, with commas between.
    """
    names = {host.lower(), _name(url), *(name.strip().lower().rstrip(".") for name in further.split(","))}
    return frozenset({"localhost", "127.0.0.1", "::1"} | names - {"", "0.0.0.0", "::"})
