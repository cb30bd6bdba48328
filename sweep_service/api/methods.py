"""Methods of every route: HEAD is answered wherever GET is, and OPTIONS says which methods a path takes."""

from typing import Final

from starlette.requests import Request
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_METHODS: Final = ("DELETE", "GET", "PATCH", "POST", "PUT")
_ASKED_BY_HEAD: Final = "sweeps.head"


class HeadAsGet:
    """ASGI middleware that answers HEAD as GET, without the body."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "http" or scope["method"] != "HEAD":
            await self.app(scope, receive, send)
            return

        async def send_head(message: Message) -> None:
            if message["type"] == "http.response.start":
                await send(message)
                await send({"type": "http.response.body", "body": b""})

        await self.app({**scope, "method": "GET", _ASKED_BY_HEAD: True}, receive, send_head)


def is_head(request: Request) -> bool:
    """True if nobody waits for the body, which matters where making it takes long."""
    return bool(request.scope.get(_ASKED_BY_HEAD))


def allowed_methods(request: Request) -> str:
    """Return the methods that the request's path takes, for the header `Allow`."""
    path = {name: request.scope[name] for name in ("type", "path", "root_path")} | {"headers": []}
    taken = [
        method
        for method in _METHODS
        if any(route.matches({**path, "method": method})[0] is Match.FULL for route in request.app.routes)
    ]
    return ", ".join(sorted({*taken, "OPTIONS", *(["HEAD"] if "GET" in taken else [])}))
