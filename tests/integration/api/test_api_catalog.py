"""The catalog over REST, by the client and on the command line; and specs that name what it has not."""

import sys
from pathlib import Path

import pytest

from sweep_service.client import Client
from sweep_service.errors import InvalidSpec, NotFound
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import SPEC
from tests.model_folders import write_model
from tests.terminal import Terminal
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


def test_a_cache_that_cannot_be_written_is_named(sweeps: Sweeps, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (home / "rows.jsonl").write_text('{"a": 1}\n')
    monkeypatch.setenv("SWEEPS_CACHE", str(home / "rows.jsonl"))
    ran = sweeps("datasets", "add", "./rows.jsonl", "--name", "x")
    assert (ran.code, ran.err) == (1, f"error: {home / 'rows.jsonl' / 'datasets'}: Not a directory\n")


def test_an_entry_that_a_sweep_needs_is_not_removed_unasked(
    served: Served, sweeps: Sweeps, model: ModelEntry, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep, _ = served.service.submit(SPEC | {"training": {"model": {"name": "pretrained", "model": "mine"}}})
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
