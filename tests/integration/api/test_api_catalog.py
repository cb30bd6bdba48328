"""The catalog over REST, by the client and on the command line; and specs that name what it has not."""

import json
import sys
from pathlib import Path

import pytest

from sweep_service.client import Client
from sweep_service.errors import InvalidSpec, NotFound, SpecError, StillReading
from sweep_service.intake.preview import CheckedData
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import SPEC
from tests.model_folders import write_model
from tests.terminal import Terminal
from tests.unit.trainers.tasks.chats import add_dataset
from trainers.catalog.add_from_disk import add_local_dataset, add_local_model
from trainers.catalog.entries import ModelEntry, read_entry


@pytest.fixture
def model(served: Served, tmp_path: Path) -> ModelEntry:
    return add_local_model(write_model(tmp_path / "model"), served.service.settings.cache, "mine")


def test_the_catalog_is_listed_in_pages(served: Served, client: Client, model: ModelEntry, tmp_path: Path) -> None:
    assert list(client.models()) == [model]
    (tmp_path / "rows.jsonl").write_text('{"a": 1}\n')
    for name in ("a", "z"):
        add_local_dataset(tmp_path / "rows.jsonl", served.service.settings.cache, name)
    assert [entry.name for entry in client.datasets()] == ["a", "shop-sums", "z"]
    assert [(entry.name, entry.problems) for entry in client.benchmarks()] == [("arithmetic", 40), ("expressions", 24)]
    first = served.http.get("/v1/datasets", params={"page_size": 2}).json()
    assert [item["name"] for item in first["items"]] == ["a", "shop-sums"]
    rest = served.http.get("/v1/datasets", params={"page_size": 2, "page_token": first["next_page_token"]}).json()
    assert ([item["name"] for item in rest["items"]], rest["next_page_token"]) == (["z"], None)


def test_one_entry_is_told_and_an_unknown_one_is_not_found(served: Served, client: Client, model: ModelEntry) -> None:
    assert client.model("mine") == model
    assert client.dataset("shop-sums").splits == {"train": 400}
    assert client.benchmark("arithmetic").problems == 40
    for kind in ("model", "dataset", "benchmark"):
        with pytest.raises(NotFound, match=f"there is no {kind} 'nothing'"):
            getattr(client, kind)("nothing")
    for path in ("/v1/models/..%2Fx", "/v1/models/UPPER"):
        assert served.http.get(path).status_code == 404
    assert served.http.get("/v1/models", headers={"Authorization": ""}).status_code == 401
    assert served.http.get("/v1/models", params={"name": "x"}).status_code == 422


def test_a_spec_that_names_what_is_not_there_is_neither_planned_nor_stored(
    served: Served, client: Client, model: ModelEntry
) -> None:
    spec = SPEC | {"training": {"model": {"name": "pretrained", "model": "mien"}}}
    for ask in (client.plan, client.submit):
        with pytest.raises(InvalidSpec) as refused:
            ask(spec)
        assert [(error.pointer, error.detail) for error in refused.value.errors] == [
            (
                "/training/model/model",
                "mien is not in the catalog of models (`sweeps models add` adds it); did you mean 'mine'?",
            )
        ]
    assert list(client.sweeps()) == []


WORDS = SPEC | {"training": {"task": {"name": "word_problems", "data": {"ref": "rows"}, "reward": "number"}}}


def test_data_that_a_trainer_would_refuse_are_refused_by_plan_and_submit_alike(served: Served, client: Client) -> None:
    rows = [{"problem": f"{number}?", "answer": [number]} for number in range(20)]
    add_dataset(served.service.settings.cache, "rows", {"train": rows})
    said = list[list[SpecError]]()
    for ask in (client.plan, client.submit):
        with pytest.raises(InvalidSpec) as refused:
            ask(WORDS)
        said.append(refused.value.errors)
    ((error,), again) = said
    assert again == [error]
    assert error.pointer == "/training/task"
    assert error.detail.endswith(
        "line 1 and 19 more: answer is a list; it must be a text or a number, as answer.0 may be"
    )
    assert list(client.sweeps()) == []


def test_client_and_commands_wait_until_data_are_read_and_say_what_could_not_be(
    served: Served, client: Client, sweeps: Sweeps, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add_dataset(served.service.settings.cache, "rows", {"train": [{"problem": "1?", "answer": "1"}]})
    still, waits = StillReading("the server is still reading; ask again"), list[str]()
    answers = [still, CheckedData(None, ["too many rows"])] * 5

    def check(*_: object, **__: object) -> CheckedData:
        answer = answers.pop(0)
        if isinstance(answer, StillReading):
            raise answer
        return answer

    for module in ("service", "intake.added_check"):
        monkeypatch.setattr(f"sweep_service.{module}.check_data", check)
    monkeypatch.setattr(client, "patience_s", 0)
    assert client.plan(WORDS, waits.append).unchecked == ["too many rows"]
    sweep = client.submit(WORDS, None, waits.append)
    assert sweep.unchecked == ["too many rows"]
    assert client.extend(sweep.id, {"space": {"loss.beta1": [0, 0.5, 0.75, 1]}}).spec != sweep.spec
    assert waits == [str(still)] * 2
    (home / "sweep.yaml").write_text(json.dumps(WORDS))
    planned = sweeps("plan", "sweep.yaml")
    assert (planned.code, "not checked  too many rows" in planned.out) == (11, True)
    submitted = sweeps("submit", "sweep.yaml")
    assert (submitted.code, "not checked: too many rows" in submitted.err) == (0, True)
    assert answers == []


def test_a_request_that_must_wait_for_data_is_told_when_to_ask_again(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_: object) -> None:
        raise StillReading("the server is still reading; ask again")

    monkeypatch.setattr("sweep_service.service.check_data", busy)
    refused = served.http.post("/v1/sweeps", json=SPEC)
    assert (refused.status_code, refused.json()["code"], refused.headers["Retry-After"]) == (
        503,
        "DATA_BEING_READ",
        "2",
    )


def test_a_cache_that_cannot_be_written_is_named(sweeps: Sweeps, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "rows.jsonl").write_text('{"a": 1}\n')
    monkeypatch.setenv("SWEEPS_CACHE", str(home / "rows.jsonl"))
    ran = sweeps("datasets", "add", "./rows.jsonl", "--name", "x")
    assert (ran.code, ran.err) == (1, f"error: {home / 'rows.jsonl' / 'datasets'}: Not a directory\n")


def test_an_entry_that_a_sweep_needs_is_not_removed_unasked(
    served: Served, sweeps: Sweeps, model: ModelEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.service.check_data", lambda *_: CheckedData(None, []))  # it has no tokenizer
    sweep, _, _ = served.service.submit(SPEC | {"training": {"model": {"name": "pretrained", "model": "mine"}}})
    ran = sweeps("models", "rm", "mine", "--yes")
    assert ran.code == 6
    assert f"{sweep.id} needs mine; cancel it first, or give --force" in ran.err
    served.service.cancel(sweep.id)
    assert sweeps("models", "rm", "mine").err.startswith("error: removing mine cannot be undone; confirm it with --yes")
    assert read_entry(served.service.settings.cache, ModelEntry, "mine") == model
    for answer, code in (("n", 1), ("y", 0)):
        monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
        assert sweeps("models", "rm", "mine").code == code
    assert sweeps("models", "rm", "mine", "--yes").code == 1
