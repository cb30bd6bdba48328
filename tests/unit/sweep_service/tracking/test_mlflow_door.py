"""The door before MLflow: who gets in, and what nobody may ask for."""

import json
import re
import time
from collections.abc import AsyncIterator, Mapping
from importlib.metadata import distribution
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.types import Receive, Scope, Send

from sweep_service.tracking.mlflow_door import COOKIE_S, TICKET_S, Door, Tickets, new_ticket

SECRET = "sweeps_" + "s" * 43
SIGNED = {"Authorization": f"Bearer {SECRET}"}
CREATE = "/api/2.0/mlflow/experiments/create"


async def echo(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer like a server behind the door: with what it received."""
    request = Request(scope, receive)
    content = {"path": request.url.path, "body": (await request.body()).decode()}
    await JSONResponse(content)(scope, receive, send)


class Browser:
    """Asks the door as programs and browsers do."""

    def __init__(self, scheme: str = "http") -> None:
        self.door = Door(echo, SECRET, "http://127.0.0.1:8080")
        self.url = f"{scheme}://127.0.0.1:5000"
        self.cookies = dict[str, str]()

    async def ask(
        self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None, **sent: Any
    ) -> httpx.Response:
        cookies = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        carried = {"Cookie": cookies} if cookies else {}
        transport = httpx.ASGITransport(app=self.door)
        async with httpx.AsyncClient(transport=transport, base_url=self.url) as client:
            answer = await client.request(method, path, headers={**carried, **(headers or {})}, **sent)
        self.cookies |= dict(answer.cookies)
        return answer

    async def sign_in(self, ticket: str, to: str = "#/") -> httpx.Response:
        return await self.ask("/sign-in", "POST", data={"ticket": ticket, "to": to})


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("path", ["/", "/health", "/version", "/api/2.0/mlflow/experiments/search", "/sign-in", "/x"])
@pytest.mark.parametrize("method", ["GET", "POST", "HEAD", "OPTIONS", "DELETE"])
async def test_without_the_secret_every_path_answers_401(path: str, method: str) -> None:
    assert (await Browser().ask(path, method)).status_code == 401


@pytest.mark.parametrize(
    "value",
    ["", "Bearer", "Bearer ", "Bearer x", f"Basic {SECRET}", f"Bearer {SECRET}x", f"Bearer {SECRET[:-1]}", SECRET],
)
async def test_a_wrong_secret_is_none(value: str) -> None:
    assert (await Browser().ask("/health", headers={"Authorization": value})).status_code == 401


async def test_programs_get_in_with_the_secret() -> None:
    answer = await Browser().ask(CREATE, "POST", SIGNED, json={"name": "x"})
    assert json.loads(answer.json()["body"]) == {"name": "x"}


async def test_a_browser_gets_in_with_a_ticket_once_and_goes_to_its_place() -> None:
    browser, ticket = Browser(), new_ticket(SECRET, time.time())
    answer = await browser.sign_in(ticket, "#/experiments/1/runs?compareRunsMode=CHART")
    assert answer.status_code == 200
    assert "url=/#/experiments/1/runs?compareRunsMode=CHART" in answer.text
    assert {"httponly", "samesite=strict"} <= set(answer.headers["set-cookie"].lower().split("; "))
    assert (await browser.ask("/")).status_code == 200
    other = Browser()
    other.door = browser.door
    assert (await other.sign_in(ticket)).status_code == 401
    assert (await other.ask("/")).status_code == 401


async def test_a_browser_that_gets_in_keeps_settings_that_the_installed_mlflow_knows() -> None:
    answer = await Browser().sign_in(new_ticket(SECRET, time.time()))
    assert answer.text.index("<script>") < answer.text.index("refresh")
    names = re.findall(r'"(mlflow\.[\w.-]+)_v1"', answer.text)
    assert {"mlflow.assistant.fab.autoOpenedOnFirstLoad", "mlflow.assistant.panelOpen"} <= {*names}
    build = Path(str(distribution("mlflow").locate_file("mlflow/server/js/build/static/js")))
    scripts = [path.read_text() for path in build.glob("*.js")]
    assert [name for name in names if not any(f'"{name}"' in script for script in scripts)] == []


async def page_in_parts(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer like MLflow at `/`: with a page, or 304 if the browser has it."""
    status = 304 if b"if-none-match" in dict(scope["headers"]) else 200
    headers = [(b"content-type", b"text/html"), (b"content-length", b"26"), (b"etag", b"x")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    for part in (b"<head>", b"</he", b"ad>"):
        await send({"type": "http.response.body", "body": part, "more_body": True})
    await send({"type": "http.response.body", "body": b"<body></body>"})


@pytest.mark.parametrize(("path", "is_styled"), [("/", True), ("/static-files/x", False)])
async def test_mlflows_page_gets_our_style_sheet_even_if_the_browser_has_the_page(path: str, is_styled: bool) -> None:
    browser = Browser()
    browser.door = Door(page_in_parts, SECRET, "")
    answer = await browser.ask(path, headers={**SIGNED, "If-None-Match": "x"})
    assert answer.status_code == (200 if is_styled else 304)
    if is_styled:
        assert answer.headers["content-length"] == str(len(answer.content))
        assert re.fullmatch("<head><style>.*</style></head><body></body>", answer.text, re.DOTALL)


@pytest.mark.parametrize(
    "to", ["//evil.example", "https://evil.example", '#/"><script>', "javascript:alert(1)", "", "/x", "#/a\nb"]
)
async def test_a_ticket_leads_nowhere_else(to: str) -> None:
    answer = await Browser().sign_in(new_ticket(SECRET, time.time()), to)
    assert 'content="0;url=/#/"' in answer.text


async def test_tickets_that_are_old_forged_or_cut_are_refused() -> None:
    now = time.time()
    good = new_ticket(SECRET, now)
    until, number, signed = good.split(".")
    old, of_another = new_ticket(SECRET, now - TICKET_S - 1), new_ticket("another", now)
    changed, cut = f"{int(until) + 9}.{number}.{signed}", (f"{until}.{number}", good[:-1], "", "..")
    for ticket in (old, of_another, changed, *cut, "\u1234"):
        assert (await Browser().sign_in(ticket)).status_code == 401, ticket


async def test_a_ticket_is_good_once_and_for_a_minute() -> None:
    now = time.time()
    ticket, tickets = new_ticket(SECRET, now), Tickets(SECRET, now)
    assert not tickets.take(ticket, now + 61)
    assert [tickets.take(ticket, at) for at in (now + 55, now + 55, now + 2 * TICKET_S)] == [True, False, False]
    assert not Tickets(SECRET, now + 1).take(ticket, now + 1)  # it may have been used before this process began


async def test_a_cookie_wears_out_and_cannot_be_made_without_the_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    browser = Browser()
    await browser.sign_in(new_ticket(SECRET, time.time()))
    (name, value), now = next(iter(browser.cookies.items())), time.time()
    assert name == "mlflow_5000"
    for changed in ("", "x", "1.x", f"{int(value.partition('.')[0]) + 1}.{value.partition('.')[2]}", f"x.{value}"):
        browser.cookies[name] = changed
        assert (await browser.ask("/")).status_code == 401, changed
    browser.cookies[name] = value
    later = SimpleNamespace(time=lambda: now + COOKIE_S + 61)
    monkeypatch.setattr("sweep_service.tracking.mlflow_door.time", later)
    assert (await browser.ask("/")).status_code == 401


@pytest.mark.parametrize(
    ("method", "headers", "status"),
    [
        ("POST", {"Origin": "http://127.0.0.1:5000", "Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ("GET", {"Sec-Fetch-Site": "none", "Sec-Fetch-Mode": "navigate"}, 200),
        ("POST", {"Origin": "http://127.0.0.1:9000"}, 401),
        ("GET", {"Origin": "http://localhost:5000"}, 401),
        ("GET", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 401),
        ("POST", {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}, 401),
        ("POST", {"Origin": "null"}, 401),
    ],
)
async def test_the_cookie_counts_for_mlflows_own_pages_only(method: str, headers: dict[str, str], status: int) -> None:
    browser = Browser()
    await browser.sign_in(new_ticket(SECRET, time.time()))
    assert (await browser.ask("/ajax-api/2.0/mlflow/runs/search", method, headers)).status_code == status


@pytest.mark.parametrize(
    "content",
    [
        {"name": "x", "artifact_location": "file:///etc"},
        {"name": "x", "artifact_location": "/etc"},
        {"name": "x", "artifact_location": " FILE:/etc"},
        {"name": "x", "artifact_location": "c:/../../etc"},
        {"name": "x", "artifact_location": "file://["},
        {"name": "x", "artifact_location": "unheard-of://x"},
        {"name": "x", "artifactLocation": "/etc"},
        '{"name": "x", "artifact_location": "/etc"}',
        {"name": "x", "source": "/etc"},
        {"artifact_uri": "/etc"},
        {"default_artifact_root": "/etc"},
        {"key": "mlflow.artifactLocation", "value": "file:///etc"},
        {"trace": {"tags": [{"key": "mlflow.artifactLocation", "value": "/etc"}]}},
        {"trace": {"trace_info": {"tags": {"mlflow.artifactLocation": "etc"}}}},
    ],
)
async def test_nobody_makes_mlflow_keep_or_read_files_elsewhere(content: Any) -> None:
    # MLflow reads JSON whatever it is called
    methods = [(method, "application/json") for method in ("POST", "PATCH", "PUT", "DELETE")]
    for method, kind in (*methods, ("POST", "text/plain")):
        headers = SIGNED | {"Content-Type": kind}
        answer = await Browser().ask(CREATE, method, headers, content=json.dumps(content))
        assert answer.status_code == 400
        assert "own disk" in answer.json()["message"]


@pytest.mark.parametrize(
    "content",
    [
        {"artifact_location": ""},
        {"artifact_location": "mlflow-artifacts:/1"},
        {"artifact_location": "s3://bucket/x"},
        {"source": "runs:/1/model"},
        {"tags": [{"key": "mlflow.source.name", "value": "/usr/bin/python"}]},
        {"params": [{"key": "source", "value": "/x"}]},
        [],
        None,
    ],
)
async def test_what_names_no_place_on_disk_passes(content: Any) -> None:
    answer = await Browser().ask(CREATE, "POST", SIGNED, json=content)
    assert answer.status_code == 200


async def test_people_without_a_cookie_are_led_to_the_status_page() -> None:
    answer = await Browser().ask("/", headers={"Accept": "text/html,*/*"})
    assert answer.status_code == 401
    assert 'href="http://127.0.0.1:8080/mlflow/"' in answer.text


async def test_a_body_that_the_door_reads_is_bounded() -> None:
    async def endless() -> AsyncIterator[bytes]:
        for _ in range(65):
            yield bytes(1 << 20)

    answer = await Browser().ask(CREATE, "POST", SIGNED, content=endless())
    assert answer.status_code == 413


async def sent(scope: Mapping[str, Any], body: bytes = b"") -> list[Any]:
    """Ask the door below httpx, which makes methods capital; return the messages of its answer."""
    answer = list[Any]()

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        answer.append(message)

    headers = [(b"host", b"127.0.0.1:5000"), (b"authorization", f"Bearer {SECRET}".encode())]
    common = {"type": "http", "scheme": "http", "path": CREATE, "query_string": b"", "headers": headers}
    await Browser().door({**common, **scope}, receive, send)
    return answer


@pytest.mark.parametrize("method", ["post", "Patch", "PROPFIND", ""])
async def test_methods_that_mlflow_may_read_otherwise_are_refused(method: str) -> None:
    assert (await sent({"method": method}, b'{"artifact_location": "/etc"}'))[0]["status"] == 405


async def test_web_sockets_are_closed_unasked() -> None:
    assert await sent({"type": "websocket"}) == [{"type": "websocket.close", "code": 1008}]


async def test_a_body_that_the_door_cannot_read_is_refused() -> None:
    deep = '{"artifact_location": "/etc", "z": ' + "[" * 5000 + "]" * 5000 + "}"
    for body in (deep, b"\x0a\x10mlflow.artifactLocation\x12\x04/etc"):
        assert (await Browser().ask(CREATE, "POST", SIGNED, content=body)).status_code == 400


@pytest.mark.parametrize("path", ["/ajax-api/3.0/mlflow/assistant/config", "/x/mlflow/assistant"])
@pytest.mark.parametrize("method", ["GET", "PUT", "POST"])
async def test_mlflows_assistant_is_not_served(path: str, method: str) -> None:
    assert (await Browser().ask(path, method, SIGNED)).status_code == 404


async def test_files_come_by_put_and_are_not_looked_into() -> None:
    path = "/api/2.0/mlflow-artifacts/artifacts/1/2/artifacts/model.json"
    answer = await Browser().ask(path, "PUT", SIGNED, json={"artifact_uri": "/etc"})
    assert answer.status_code == 200


@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_cookie_of_https_travels_by_https_alone(scheme: str) -> None:
    answer = await Browser(scheme).sign_in(new_ticket(SECRET, time.time()))
    assert ("secure" in answer.headers["set-cookie"].lower().split("; ")) == (scheme == "https")
