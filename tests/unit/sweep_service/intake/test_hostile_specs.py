"""Whatever is sent as a spec, the API answers with little work, in few bytes, and never with an error of its own."""

import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel
from starlette.testclient import TestClient

from sweep_service.api.app import create_app
from sweep_service.intake import space_check
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import open_store
from sweep_service.sweep import plan
from sweep_service.sweep.spec import SweepSpec
from tests.hostile_specs import hostile_bodies
from trainers.config import TrainingConfig, complaints
from trainers.losses import LOSSES

TOKEN = "t" * 40
MOST = {"trainings": 3500, "configs": 600, "trials": 3000, "schemas": 0, "similar": 2000, "points": 3500}
"""Work that one request may cost, counted."""


class Work:
    """Work done since the last question."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.done = Counter[str]()
        self._count(monkeypatch, TrainingConfig, "model_validate", "trainings")
        self._count(monkeypatch, BaseModel, "model_json_schema", "schemas")
        self._count(monkeypatch, plan, "Config", "configs")
        self._count(monkeypatch, plan, "Trial", "trials")
        self._count(monkeypatch, complaints.difflib, "get_close_matches", "similar")
        self._count(monkeypatch, space_check, "_tried", "points")

    def _count(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, kind: str) -> None:
        original = getattr(owner, name)
        of_class = inspect.ismethod(original)
        function = original.__func__ if of_class else original

        def counting(*given: Any, **named: Any) -> Any:
            self.done[kind] += 1
            return function(*given, **named)

        monkeypatch.setattr(owner, name, classmethod(counting) if of_class else counting)

    def taken(self) -> Counter[str]:
        done, self.done = self.done, Counter()
        return done


@pytest.fixture
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    """A client of an app in this process, whose errors are answers."""
    settings = Settings.model_validate({"home": tmp_path_factory.mktemp("hostile")})
    store = open_store(settings.database_url)
    app = create_app(SweepService(store, settings), TOKEN)
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    with TestClient(app, "http://127.0.0.1", headers=headers, raise_server_exceptions=False) as client:
        for model in (SweepSpec, TrainingConfig, *(entry.params for entry in LOSSES.values())):
            complaints.settings_of(model)  # once in a process
        client.get("/v1/sweeps")
        yield client
    store.close()


def send(client: TestClient, work: Work, seed: int, number: int) -> Counter[int]:
    """Send bodies, check what each costs, and count the statuses."""
    statuses = Counter[int]()
    for index, (what, body) in enumerate(hostile_bodies(seed, number)):
        work.taken()
        answer = client.post("/v1/sweeps", content=body, params={"validate_only": index % 2 == 0})
        statuses[answer.status_code] += 1
        done = work.taken()
        assert answer.status_code in (200, 201, 400, 413, 422), (what, answer.text)
        assert not {kind: amount for kind, amount in done.items() if amount > MOST[kind]}, what
        assert len(answer.content) < (20_000 if answer.status_code >= 400 else 200_000), what
    return statuses


def test_hostile_specs_cost_little(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    statuses = send(client, Work(monkeypatch), seed=1, number=100)
    assert {201, 400, 413, 422} <= statuses.keys()
    assert statuses[422] > 50


@pytest.mark.hunt
@pytest.mark.parametrize("seed", range(2, 6))
def test_more_hostile_specs_cost_little(client: TestClient, monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    send(client, Work(monkeypatch), seed, number=1000)
