"""Deletions carried out on real files and rows, also over a kill in the middle."""

import logging
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from sweep_service.errors import NotFound
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store
from sweep_service.sweep.deletion import DeletionState
from sweep_service.worker import deleter
from sweep_service.worker.deleter import Deleter, remove_folder
from tests.stored_sweeps import finish, run_trial, start
from tests.waiting import wait_until

DIES_IN_THE_MIDDLE = """
import os, shutil, sys, threading, time
from sweep_service.settings import Settings
from sweep_service.store import open_store
from sweep_service.worker.deleter import Deleter

removed, unlink = 0, os.unlink
def slowly(*given, **named):
    global removed
    removed += 1
    if removed == 5:
        print("in the middle", flush=True)
        time.sleep(3600)
    unlink(*given, **named)

os.unlink = slowly
settings = Settings()
Deleter(open_store(settings.database_url), settings).run(threading.Event())
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.model_validate({"home": tmp_path / "home"})


@pytest.fixture
def store(settings: Settings) -> Store:
    return open_store(settings.database_url)


def ended(store: Store, settings: Settings) -> str:
    """Store a sweep that has ended, with ten files."""
    sweep, fence = start(store)
    for trial in store.list_trials(sweep.id):
        run_trial(store, fence, trial)
    finish(store, fence)
    store.release_lease(fence)
    for number in range(10):
        path = settings.storage / sweep.id / f"trl_{number}" / "1" / "events.jsonl"
        path.parent.mkdir(parents=True)
        path.write_text("{}")
    return sweep.id


def test_files_and_rows_go_and_others_stay(store: Store, settings: Settings, tmp_path: Path) -> None:
    deleted, other = ended(store, settings), ended(store, settings)
    exported = tmp_path / "exported"
    exported.mkdir()
    (exported / "model.safetensors").touch()
    (settings.storage / deleted / "link").symlink_to(exported)
    store.request_deletion(deleted, keep_report=False)
    Deleter(store, settings).go_on(threading.Event())
    assert [path.name for path in settings.storage.iterdir()] == [other]
    assert (exported / "model.safetensors").exists()
    with pytest.raises(NotFound):
        store.get_sweep(deleted)
    assert store.curves(other, ["entropy"])
    assert store.deletions_in_mlflow() == []  # there is no MLflow


def test_an_archived_sweep_loses_its_files_alone(store: Store, settings: Settings) -> None:
    sweep_id = ended(store, settings)
    store.request_deletion(sweep_id, keep_report=True)
    Deleter(store, settings).go_on(threading.Event())
    assert list(settings.storage.iterdir()) == []
    assert store.get_sweep(sweep_id).name == "betas"
    assert store.deletions([sweep_id])[sweep_id].state is DeletionState.ARCHIVED


def test_a_sweep_that_is_still_held_waits(store: Store, settings: Settings) -> None:
    sweep, fence = start(store)
    finish(store, fence)
    store.request_deletion(sweep.id, keep_report=False)
    Deleter(store, settings).go_on(threading.Event())
    assert store.get_sweep(sweep.id)
    store.release_lease(fence)
    Deleter(store, settings).go_on(threading.Event())
    assert store.open_deletions() == []


def test_mlflow_goes_first_and_holds_up_nothing_when_it_is_away(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    with_mlflow = settings.model_copy(update={"mlflow_url": "http://mlflow:5000"})
    sweep_id = ended(store, settings)
    store.request_deletion(sweep_id, keep_report=False)
    Deleter(store, with_mlflow).go_on(threading.Event())
    assert store.open_deletions()
    monkeypatch.setattr(deleter, "MLFLOW_FIRST_S", 0.0)
    Deleter(store, with_mlflow).go_on(threading.Event())
    assert store.open_deletions() == []
    assert [one.sweep_id for one in store.deletions_in_mlflow()] == [sweep_id]


def test_folders_in_folders_are_deleted_however_deep(store: Store, settings: Settings, deep: Path) -> None:
    sweep_id = ended(store, settings)
    deep.rename(settings.storage / sweep_id / "deep")
    store.request_deletion(sweep_id, keep_report=False)
    Deleter(store, settings).go_on(threading.Event())
    assert not (settings.storage / sweep_id).exists()
    assert store.open_deletions() == []


@pytest.mark.parametrize("error", [PermissionError(13, "Permission denied", "/storage/x"), RuntimeError("odd")])
def test_what_hinders_a_deletion_is_said_and_holds_up_no_other(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    stuck, other = ended(store, settings), ended(store, settings)

    def refuse(storage: Path, sweep_id: str) -> None:
        if sweep_id == stuck:
            raise error
        remove_folder(storage, sweep_id)

    for sweep_id in (stuck, other):
        store.request_deletion(sweep_id, keep_report=False)
    with monkeypatch.context() as patch:
        patch.setattr(deleter, "remove_folder", refuse)
        with pytest.raises(type(error)):
            Deleter(store, settings).go_on(threading.Event())
    (left,) = store.open_deletions()
    told = "/storage/x cannot be removed: Permission denied"
    if isinstance(error, RuntimeError):
        told = f"{stuck} cannot be removed: RuntimeError('odd')"
    assert (left.sweep_id, left.message) == (stuck, told)
    Deleter(store, settings).go_on(threading.Event())
    assert store.deletions([stuck])[stuck].message is None
    assert store.open_deletions() == []


def test_a_kill_in_the_middle_is_made_good(
    store: Store, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sweep_id = ended(store, settings)
    store.request_deletion(sweep_id, keep_report=False)
    monkeypatch.setenv("SWEEPS_HOME", str(settings.home))
    command = [sys.executable, "-c", DIES_IN_THE_MIDDLE]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "in the middle\n"
        process.send_signal(signal.SIGKILL)
    assert 0 < len(list((settings.storage / sweep_id).rglob("*.jsonl"))) < 10
    assert store.get_sweep(sweep_id)
    stopped = threading.Event()
    caplog.set_level(logging.ERROR)
    thread = threading.Thread(target=Deleter(store, settings).run, args=[stopped])
    thread.start()
    wait_until("it is deleted", lambda: not store.open_deletions())
    stopped.set()
    thread.join()
    assert not (settings.storage / sweep_id).exists()
    assert caplog.records == []
