"""The door before MLflow, which has none of its own: whoever lacks the secret gets 401, on every path.

Programs send the secret as a bearer token (MLflow's client takes it from MLFLOW_TRACKING_TOKEN). A browser comes from
our status page with a ticket, good once and for seconds, and gets a cookie in exchange that opens MLflow alone.

`mlflow server --app-name sweeps` starts MLflow behind the door: `pyproject.toml` names `create_app` for that.
"""

import json
import os
import re
import secrets
import time
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sweep_service.auth import cookie, derived, read_token, same
from sweep_service.tracking.mlflow_page import SCRIPT, styled, whole
from trainers.process.imports import keep_imports

SIGN_IN: Final = "/sign-in"
"""Path at which the door takes tickets."""
TICKET_S: Final = 60
"""Seconds for which a ticket is good."""
COOKIE_S: Final = 30 * 86400
"""Seconds after which a browser must come from the status page again."""
_MAX_FORM_BYTES: Final = 4096
_MAX_BODY_BYTES: Final = 64 << 20
_PLACE: Final = re.compile(r"#/[\w/?=&%.,:@+~-]{0,1000}")
_LOCATIONS: Final = ("artifactlocation", "artifacturi", "defaultartifactroot")
"""Fields that name a place, without underscores and capitals: MLflow also takes `artifactLocation`."""
_LOCATION_TAG: Final = "mlflow.artifactLocation"
_METHODS: Final = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
"""In capitals alone: MLflow reads `post` as POST."""
_FILE: Final = re.compile(r"/(api|ajax-api)/2\.0/mlflow-artifacts/artifacts/")
"""Paths to which files come by PUT."""
_ASSISTANT: Final = re.compile(r"/assistant(/|$)")
_REMOTE: Final = (
    *("mlflow-artifacts", "runs", "models", "http", "https", "ftp", "sftp", "hdfs", "viewfs", "dbfs"),
    *("s3", "gs", "r2", "b2", "oss", "wasb", "wasbs", "abfs", "abfss"),
)
"""Schemes of places that are on no disk of this machine."""


def create_app() -> ASGIApp:
    """Return MLflow's own app behind the door.

    Raises: TokenError, if the secret's file, which SWEEPS_MLFLOW_TOKEN_FILE names, cannot be used.
    """
    from mlflow.server.fastapi_app import app  # takes seconds, and only this process needs it

    keep_imports()
    secret = read_token(Path(os.environ.get("SWEEPS_MLFLOW_TOKEN_FILE", "")))
    return Door(app, secret, os.environ.get("SWEEPS_URL", ""))


class Door:
    """ASGI middleware that lets those in who have the secret, or a cookie made from it.

    Args:
        app: MLflow.
        secret: the bearer token of programs.
        status_page: address of the status page, at which browsers get a ticket.
    """

    def __init__(self, app: ASGIApp, secret: str, status_page: str) -> None:
        self._app, self._secret, self._status_page = app, secret, status_page.rstrip("/")
        self._tickets = Tickets(secret, time.time())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            answer = await self._answer(Request(scope, receive))
            if isinstance(answer, Response):
                await answer(scope, receive, send)
            elif (scope["method"], scope["path"]) == ("GET", "/"):
                await self._app(whole(scope), answer, styled(send))
            else:
                await self._app(scope, answer, send)

    async def _answer(self, request: Request) -> Response | Receive:
        """Return the refusal of a request, the answer to a ticket, or the request's body for MLflow to receive."""
        if request.url.path == SIGN_IN and request.method == "POST":
            return await self._sign_in(request)
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        has_token = scheme.lower() == "bearer" and same(token.strip(), self._secret)
        if not has_token and not self._has_cookie(request):
            return self._unauthenticated(request)
        if request.method not in _METHODS:
            return PlainTextResponse(f"there is no method {request.method[:20]}", 405, {"Allow": ", ".join(_METHODS)})
        if _ASSISTANT.search(request.url.path):
            return PlainTextResponse("MLflow's assistant, which works on the server's own disk, is not served", 404)
        is_file = request.method == "PUT" and _FILE.match(request.url.path)
        if request.method in ("GET", "HEAD", "OPTIONS") or is_file:
            return request.receive
        body = await _body(request, _MAX_BODY_BYTES)
        if body is None:
            return PlainTextResponse("the body is too large", 413)
        if complaint := _complaint(body):
            return Response(json.dumps({"error_code": "INVALID_PARAMETER_VALUE", "message": complaint}), 400)
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:
            return messages.pop() if messages else await request.receive()

        return replay

    def _has_cookie(self, request: Request) -> bool:
        """True if the request carries our cookie, and no other page than MLflow's own sent it."""
        shown = cookie(request.headers.getlist("cookie"), _cookie_name(request))
        issued, _, signed = shown.partition(".")
        if not same(signed, signature(self._secret, f"cookie {issued}")):
            return False
        if not 0 <= time.time() - int(issued) + 60 <= COOKIE_S:
            return False
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
            return False
        site, mode = request.headers.get("sec-fetch-site", "none"), request.headers.get("sec-fetch-mode", "navigate")
        return site in ("none", "same-origin") or (request.method == "GET" and mode == "navigate")

    async def _sign_in(self, request: Request) -> Response:
        body = await _body(request, _MAX_FORM_BYTES) or b""
        form = {name: values[0] for name, values in parse_qs(body.decode("utf-8", "replace")).items()}
        if not self._tickets.take(form.get("ticket", ""), time.time()):
            return self._unauthenticated(request)
        place = form.get("to", "") if _PLACE.fullmatch(form.get("to", "")) else "#/"
        issued = str(int(time.time()))
        # A redirect would count as coming from the status page, and a strict cookie would not travel with it.
        onward = f'<meta http-equiv="refresh" content="0;url=/{escape(place)}">'
        page = f"<!doctype html><title>MLflow</title>{SCRIPT}{onward}"
        answer = HTMLResponse(page, headers={"Cache-Control": "no-store", "Referrer-Policy": "no-referrer"})
        value = f"{issued}.{signature(self._secret, f'cookie {issued}')}"
        secure = request.url.scheme == "https"
        answer.set_cookie(_cookie_name(request), value, httponly=True, samesite="strict", secure=secure)
        return answer

    def _unauthenticated(self, request: Request) -> Response:
        """Return 401; for people a page that leads to the status page."""
        headers = {"WWW-Authenticate": "Bearer", "Cache-Control": "no-store"}
        if "text/html" not in request.headers.get("accept", ""):
            return PlainTextResponse("this MLflow wants a bearer token\n", 401, headers)
        link = escape(f"{self._status_page}/mlflow/") if self._status_page.startswith("http") else ""
        way = f'Come through <a href="{link}">the status page</a>.' if link else "Come through the status page."
        page = f"<!doctype html><title>Sign in</title><h1>This MLflow wants to know you</h1><p>{way}</p>"
        headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
        return HTMLResponse(page, 401, headers)


def signature(secret: str, content: str) -> str:
    """Sign a ticket or a cookie; the secret cannot be computed from the signature."""
    return derived(secret, f"MLflow: {content}")


def new_ticket(secret: str, now: float) -> str:
    """Return a ticket: the end of its validity, a random number, and a signature."""
    content = f"{int(now) + TICKET_S}.{secrets.token_hex(16)}"
    return f"{content}.{signature(secret, f'ticket {content}')}"


class Tickets:
    """Remembers the tickets that were used, as long as they are good. One process must take all tickets.

    It takes no ticket that was made before its start, because an earlier process may have taken it.
    """

    def __init__(self, secret: str, now: float) -> None:
        self._secret, self._begun = secret, now
        self._used: dict[str, float] = {}

    def take(self, ticket: str, now: float) -> bool:
        """True if a ticket is genuine, in time, and used for the first time."""
        content, _, signed = ticket.rpartition(".")
        if not same(signed, signature(self._secret, f"ticket {content}")):
            return False
        self._used = {content: until for content, until in self._used.items() if until > now}
        until = float(content.partition(".")[0])
        if until <= now or until - TICKET_S < int(self._begun) or content in self._used:
            return False
        self._used[content] = until
        return True


def _cookie_name(request: Request) -> str:
    """Name the cookie by the port: browsers share cookies between all servers of one host."""
    return f"mlflow_{request.url.port or 80}"


async def _body(request: Request, most: int) -> bytes | None:
    """Return a request's body; None if it has more bytes than `most`."""
    parts, size = list[bytes](), 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size > most:
            return None
    return b"".join(parts)


def _complaint(body: bytes) -> str | None:
    """Return the refusal of a request for files on this machine's disk; None if it asks for none.

    MLflow reads and writes wherever it is told to, with its owner's rights.
    """
    try:
        content = json.loads(body)
        while isinstance(content, str):  # old clients encode it twice, and MLflow takes that
            content = json.loads(content)
    except RecursionError:
        return "the body is too deep"
    except ValueError:  # it is no JSON for MLflow either, but may be a trace in another form
        return f"the body names a place, {_LOCATION_TAG}" if _LOCATION_TAG.encode() in body else None
    source = [content.get("source")] if isinstance(content, dict) else []  # of a model's version
    location = next((place for place in [*source, *_locations(content)] if _is_local(place)), None)
    if location is None:
        return None
    return f"{location[:200]!r} is a place on the server's own disk; leave it out, and MLflow keeps the files"


def _locations(content: Any) -> Iterator[Any]:
    """Yield every value in a document that MLflow takes as the place of files."""
    waiting = [content]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            waiting += value.values()
            yield from (item for name, item in value.items() if name.replace("_", "").lower() in _LOCATIONS)
            yield value.get(_LOCATION_TAG)
            if value.get("key") == _LOCATION_TAG:
                yield value.get("value")


def _is_local(place: Any) -> bool:
    """True if a place is, or may be, on this machine's disk: `c:/x` is, although it looks like a scheme."""
    if not isinstance(place, str) or not place.strip():
        return False
    try:
        return urlsplit(place.strip()).scheme.lower() not in _REMOTE
    except ValueError:
        return True
