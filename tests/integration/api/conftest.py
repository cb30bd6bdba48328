"""A real API on loopback, with a real store in a temporary folder."""

import json
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest
import yaml

from sweep_service.api.server import listen, make_server
from sweep_service.auth import ensure_token
from sweep_service.cli import main
from sweep_service.client import Client
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from tests.integration.api.played_sweep import SPEC, finish, play
from tests.migrated import migrated
from tests.waiting import PATIENT_S

_described: dict[str, dict[str, Any] | None] = {}
"""The API's description: the first request to each app would take a second to make the same one."""


@dataclass
class Served:
    """An API that answers at `url`, and what is behind it."""

    url: str
    token: str
    service: SweepService
    http: httpx.Client
    """Sends the token."""

    @property
    def store(self) -> Store:
        return self.service.store

    def get(self, path: str, **params: object) -> Any:
        """Return what the API answers at a path below /v1."""
        return self.http.get(f"/v1{path}", params=dict[str, Any](params)).json()

    def submit(self, **changes: object) -> str:
        """Store a sweep of `SPEC` with these changes; return its id."""
        return self.service.submit(SPEC | changes)[0].id

    def succeeded(self, **changes: object) -> str:
        """Store a sweep whose trials have ended and that has its report; return its id."""
        sweep_id = self.submit(**changes)
        finish(self.store, play(self.store, sweep_id))
        return sweep_id

    def browser(self) -> httpx.Client:
        """Return a browser that has no cookie, and shows pages of this server."""
        return http_client(self.url, {"Origin": self.url})


def http_client(url: str, headers: dict[str, str]) -> httpx.Client:
    """Return a client that loads no certificates, which takes longer than most tests."""
    return httpx.Client(base_url=url, headers=headers, timeout=PATIENT_S, trust_env=False, verify=False)


@contextmanager
def serving(home: Path, port: int = 0, **changes: str) -> Generator[Served]:
    """Serve a home folder's store until the block ends."""
    settings = Settings.model_validate({"home": home, **changes})
    token = ensure_token(settings.token_file)
    listener = listen("127.0.0.1", port)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    store = open_store(migrated(settings.database_url))
    service = SweepService(store, settings)
    server = make_server(service, token)
    app: Any = server.config.app
    app.openapi_schema = _described.get("by an app before")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    with http_client(url, {"Authorization": f"Bearer {token}"}) as http:
        yield Served(url, token, service, http)
    server.stop()
    thread.join(PATIENT_S)
    assert not thread.is_alive(), "the server did not stop"
    _described["by an app before"] = app.openapi_schema
    store.close()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """The data folder of one installation."""
    return tmp_path / "home"


@pytest.fixture
def served(home: Path) -> Iterator[Served]:
    """A running API."""
    with serving(home) as running:
        yield running


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A running API for tests that change nothing; it has one sweep whose trials have all ended."""
    with serving(tmp_path_factory.mktemp("shared")) as running:
        running.succeeded()
        yield running


@pytest.fixture
def played(shared: Served) -> str:
    """The path of the sweep of `shared`, below /v1."""
    (sweep,) = shared.get("/sweeps")["items"]
    return f"/sweeps/{sweep['id']}"


@pytest.fixture
def client(served: Served) -> Iterator[Client]:
    """A client of it."""
    with Client(served.url, served.token, patience_s=5) as client:
        yield client


@pytest.fixture
def visitor(served: Served) -> Iterator[httpx.Client]:
    """A browser that is signed in."""
    with served.browser() as http:
        assert http.post("/login", data={"token": served.token}).status_code == 303
        yield http


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Sweeps:
    """Runs `sweeps …` in this process, against one server."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.capsys, self.monkeypatch = capsys, monkeypatch

    def __call__(self, *arguments: str) -> Ran:
        self.monkeypatch.setattr(sys, "argv", ["sweeps", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        out, err = self.capsys.readouterr()
        return Ran(int(ended.value.code or 0), out, err)


@pytest.fixture
def sweeps(served: Served, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Sweeps:
    (home / "address.json").write_text(json.dumps({"url": served.url}))
    monkeypatch.setenv("SWEEPS_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.chdir(home)
    return Sweeps(capsys, monkeypatch)


@pytest.fixture
def spec(home: Path, served: Served) -> str:
    (home / "spec.yaml").write_text(yaml.safe_dump(SPEC))
    return str(home / "spec.yaml")
