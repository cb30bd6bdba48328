"""Deleting sweeps over REST, by the client, the command line and the status page."""

import json
import threading
from pathlib import Path

import httpx
import pytest

from sweep_service.client import Client
from sweep_service.errors import Conflict, NotFound, NotReady, SweepDeleted
from sweep_service.pages.live_sweeps import LiveSweep
from sweep_service.processes.disk_use import DiskUse
from sweep_service.service import verb_rules
from sweep_service.worker.deleter import Deleter
from tests.integration.api.conftest import Served, Sweeps
from tests.integration.api.played_sweep import REPORT, SPEC, finish, play


def ended(served: Served, key: str | None = None, **changes: object) -> str:
    """Store a sweep that has ended, with a file."""
    sweep_id = served.service.submit(SPEC | changes, key)[0].id
    fence = play(served.store, sweep_id)
    finish(served.store, fence)
    served.store.release_lease(fence)
    folder = served.service.settings.storage / sweep_id
    folder.mkdir(parents=True)
    (folder / "runner.log").write_text("x" * 10_000)
    return sweep_id


def carry_out(served: Served) -> None:
    """Do a worker's part."""
    Deleter(served.store, served.service.settings).go_on(threading.Event())


def test_a_deleted_sweep_is_gone_and_asking_again_is_no_error(served: Served, client: Client) -> None:
    sweep_id = ended(served, key="again")
    client.delete(sweep_id)
    assert served.get("/sweeps")["items"][0]["deletion"] == "ASKED"
    with pytest.raises(Conflict, match="is being deleted"):
        client.cancel(sweep_id)
    carry_out(served)
    with pytest.raises(NotFound):
        client.get(sweep_id)
    done = served.http.delete(f"/v1/sweeps/{sweep_id}")
    assert (done.status_code, done.json()["state"], done.json()["frees"]) == (200, "DELETED", None)
    assert client.deletion(sweep_id).state == "DELETED"
    with pytest.raises(SweepDeleted, match=sweep_id):
        client.submit(SPEC, idempotency_key="again")
    assert list(client.sweeps()) == []


def test_an_archived_sweep_can_still_be_read(served: Served, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_service.pages.live_sweeps.READ_EVERY_S", -1.0)
    sweep_id = ended(served)

    def results() -> list[float | None]:
        return [row.objective for row in client.trials(sweep_id)] + [
            row.tune_objective for row in client.configs(sweep_id)
        ]

    before = results()
    assert len(set(before)) > 4
    watched = LiveSweep(served.service, sweep_id)
    watched.page()
    assert "entropy" in {line["key"] for line in json.loads(watched.curves())["lines"]}
    assert client.delete(sweep_id, keep_report=True).keep_report
    carry_out(served)
    assert results() == before
    watched.page()
    for page in (watched, LiveSweep(served.service, sweep_id)):
        assert {line["key"] for line in json.loads(page.curves())["lines"]} == {"eval/avg_at_k"}
    view = client.get(sweep_id)
    assert (view.deletion, view.state, sum(view.trials.values())) == ("ARCHIVED", "SUCCEEDED", 8)
    assert view.verdict is not None
    assert client.report(sweep_id) == REPORT["html"]
    assert client.best(sweep_id).objective > 0
    other = ended(served, name="other")
    with pytest.raises(Conflict, match=f"{sweep_id} has no curves any more"):
        client.compare([other, sweep_id])
    done = served.http.delete(f"/v1/sweeps/{sweep_id}", params={"keep_report": True})
    assert (done.status_code, done.json()["state"]) == (200, "ARCHIVED")


def test_the_page_names_the_best_config_where_the_api_does(served: Served, client: Client) -> None:
    sweep_id = ended(served)
    best = LiveSweep(served.service, sweep_id)._read().best
    assert best is not None
    assert best.model_dump(exclude={"label"}) == client.best(sweep_id).model_dump(exclude={"label"})
    client.delete(sweep_id)
    with pytest.raises(NotReady):
        client.best(sweep_id)
    assert LiveSweep(served.service, sweep_id)._read().best is None


def test_the_command_says_what_it_frees_and_asks(served: Served, sweeps: Sweeps) -> None:
    first, second = ended(served, name="first"), ended(served, name="second")
    dry = sweeps("delete", "first", "second", "--dry-run")
    assert (dry.code, first in dry.out, "in 1 file" in dry.out) == (0, True, True)
    assert served.store.open_deletions() == []
    assert "stay" not in dry.err
    kept = sweeps("delete", "first", "--dry-run", "--keep-report")
    assert "these go; spec, configs, trials with their evaluations, events and report stay" in kept.err
    assert f"  {served.store.count_rows(first, keep_report=True)}  " in kept.out
    nobody = sweeps("delete", "first")
    assert (nobody.code, "--yes" in nobody.err) == (2, True)
    assert served.store.open_deletions() == []
    asked = sweeps("delete", "first", second, "--yes")
    assert asked.code == 0
    assert f"first {first} is being deleted" in asked.err
    assert "being deleted" in sweeps("delete", first, "--yes").out
    assert "files and curves go" in sweeps("ls").out
    late = sweeps("delete", first, "--yes", "--wait", "--timeout", "0")
    assert (late.code, "it goes on" in late.err) == (9, True)
    carry_out(served)
    done = sweeps("delete", first, "--yes", "--wait", "--json")
    assert (done.code, json.loads(done.out)[0]["state"]) == (0, "DELETED")
    assert f"first {first} is deleted" in done.err
    running = served.submit(name="running")
    refused = sweeps("delete", "running", "--yes")
    assert (refused.code, f"sweeps cancel {running}" in refused.err) == (6, True)


def test_a_deletion_says_first_what_it_frees(served: Served) -> None:
    sweep_id = ended(served)
    told = served.get(f"/sweeps/{sweep_id}/deletion")
    assert (told["state"], told["blocked"], told["frees"]["files"]) == (None, None, 1)
    assert told["frees"]["bytes"] >= 10_000
    assert told["frees"]["rows"] == served.store.count_rows(sweep_id) > 30
    assert 0 < told["frees"]["rows_if_archived"] < told["frees"]["rows"]
    assert served.get(f"/sweeps/{sweep_id}")["deletion"] is None


def test_a_folder_that_cannot_be_looked_at_takes_nobody_knows_how_much(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep_id = ended(served)

    def locked(folder: Path) -> DiskUse:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(verb_rules, "disk_use", locked)
    frees = served.get(f"/sweeps/{sweep_id}/deletion")["frees"]
    assert (frees["bytes"], frees["files"], frees["rows"] > 30) == (None, None, True)


def test_the_page_says_what_a_deletion_frees_and_how_far_it_is(served: Served, visitor: httpx.Client) -> None:
    sweep_id = ended(served)
    url = f"/sweeps/{sweep_id}/delete"
    assert "in 1 file" in visitor.get(url).text
    visitor.post(url, data={"what": "all_but_report"})
    assert visitor.get(url).headers["Refresh"] == "2"
    carry_out(served)
    assert "played is archived" in visitor.get(url).text
    assert "ARCHIVED" in visitor.get("/").text
    visitor.post(url, data={"what": "everything"})
    carry_out(served)
    assert "played is deleted" in visitor.get(url).text
    assert visitor.get(f"/sweeps/{sweep_id}").status_code == 404
    assert "cannot be deleted yet" in visitor.get(f"/sweeps/{served.submit()}/delete").text
    assert visitor.get("/sweeps/swp_none/delete").status_code == 404
