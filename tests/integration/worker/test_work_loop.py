"""The worker with real runners."""

import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event, select

from sweep_service.errors import NotReady
from sweep_service.processes.child_processes import start as start_child
from sweep_service.processes.child_processes import started_at, stop
from sweep_service.report import Report
from sweep_service.report.model import Outcome
from sweep_service.runner.driver import run_sweep
from sweep_service.runner.lease import Lease
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store, open_store, tables
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import SweepState
from sweep_service.worker.work_loop import Worker, progress_of
from tests.stored_sweeps import add_missing_evaluations, benchmark_event, run_trial, start, submit
from tests.sweep_stack import one_of, processes_of
from tests.waiting import PATIENT_S, wait_until


@pytest.mark.long
def test_a_sweep_whose_runner_fails_again_and_again_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.worker.work_loop.PATIENCE_S", 0)
    settings = Settings(home=tmp_path)  # names no Ray
    store = open_store(settings.database_url)
    sweep, fence = start(store)
    attempt = store.start_attempt(fence, store.list_trials(sweep.id)[0].id, str(tmp_path / "{attempt}"))
    (model := Path(attempt.directory) / "model-8").mkdir(parents=True)  # kept for an evaluation
    store.release_lease(fence)
    stopped = _stop_when_ended(settings, sweep.id)
    Worker(store, settings).run(stopped)
    assert not model.exists()
    failed = store.get_sweep(sweep.id)
    assert failed.state is SweepState.FAILED
    assert "its runner failed 3 times in a row without progress, the last with exit code 1" in (failed.message or "")
    assert "SWEEPS_RAY_ADDRESS must be host:port" in (failed.message or "")
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.CANCELLED}
    assert Report.model_validate_json(store.get_report(sweep.id, "json")).verdict.outcome is Outcome.INSUFFICIENT
    store.close()


def test_a_sweep_progresses_with_its_updates_its_measured_benchmarks_and_whatever_ends(tmp_path: Path) -> None:
    store = open_store(Settings(home=tmp_path).database_url)
    sweep, fence = start(store, benchmarks={"names": ["arithmetic", "expressions"], "of": "all"})
    before = progress_of(store, sweep.id)
    run_trial(store, fence, store.list_trials(sweep.id)[0])
    trained = progress_of(store, sweep.id)
    assert trained == before + 16 + 1
    initial, *_ = add_missing_evaluations(store, fence)
    attempt = store.start_attempt(fence, initial.id, "/data/{attempt}")
    store.ingest(fence, attempt, 0, 1, [benchmark_event("arithmetic", 1)])
    assert progress_of(store, sweep.id) == trained + 1
    store.finish_attempt(fence, attempt, Ending.FAILED, "a reason", max_crashes=0)
    assert progress_of(store, sweep.id) == trained + 2
    store.close()


@pytest.mark.long
def test_three_failures_within_seconds_do_not_end_a_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sweep_service.worker.work_loop.LONGEST_BACKOFF_S", 0.1)
    settings = Settings(home=tmp_path)  # names no Ray
    store = open_store(settings.database_url)
    sweep = submit(store)
    Worker(store, settings).run(_stop_when(lambda: store.get_sweep(sweep.id).epoch > 4))
    assert not store.get_sweep(sweep.id).state.is_over
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.PENDING}
    store.close()


def test_a_sweep_waits_while_there_is_no_ray_and_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.worker.work_loop.MAX_RUNNERS", 1)
    settings = Settings(home=tmp_path, ray_address="127.0.0.1:9")
    store = open_store(settings.database_url)
    sweep, next_one = submit(store), submit(store)
    looks, held = list[float](), list[int]()

    def ended() -> bool:
        if store.get_sweep(sweep.id).message:
            looks.append(time.monotonic())
        if looks and looks[-1] - looks[0] > 4:  # long enough for another look, and for a claim of what nobody held
            if not held:
                held.append(store.get_sweep(next_one.id).epoch)
            store.request_cancel(sweep.id)
        return store.get_sweep(sweep.id).state.is_over and store.report_digest(sweep.id) is not None

    Worker(store, settings).run(_stop_when(ended))
    assert held == [0], "a sweep that waits takes a runner's room"
    assert store.get_sweep(sweep.id).state is SweepState.CANCELLED
    assert b"CANCELLED" in store.get_report(sweep.id, "md")
    events = store.list_events(sweep.id)
    (said,) = [event.data["message"] for event in events if event.type == "sweep.delayed"]
    assert said == "Ray at 127.0.0.1:9 does not answer; the sweep waits for it, and then goes on by itself"
    before_cancel = [event.type for event in events[: [e.type for e in events].index("sweep.cancel_requested")]]
    assert before_cancel.count("sweep.claimed") == 1
    assert not (settings.storage / sweep.id / "runner.log").exists()  # no runner has started in vain
    store.close()


def test_a_sweep_that_waits_for_ray_is_paused_when_the_user_wishes_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, ray_address="127.0.0.1:9")
    store = open_store(settings.database_url)
    sweep = submit(store)

    def paused() -> bool:
        if store.get_sweep(sweep.id).message:
            store.request_pause(sweep.id)
        return store.get_sweep(sweep.id).state is SweepState.PAUSED

    Worker(store, settings).run(_stop_when(paused))
    assert store.get_sweep(sweep.id).message is None
    store.close()


def standin_ray(folder: Path, code: str) -> str:
    """Write a package `ray` that runners import, which does what the code says; return a `PYTHONPATH` that leads there.

    `marks` is the folder in which it may leave files.
    """
    (folder / "standin").mkdir()
    (folder / "standin" / "ray.py").write_text(
        f"import os, pathlib, time\nmarks = pathlib.Path({str(folder)!r})\n{code}\ntime.sleep(60)"
    )
    return f"{folder / 'standin'}:{os.environ.get('PYTHONPATH', '')}"


def test_a_ray_that_comes_back_on_another_port_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    note = "(marks / 'new').write_text(os.environ['SWEEPS_RAY_ADDRESS']); (marks / 'new').rename(marks / 'address')"
    monkeypatch.setenv("PYTHONPATH", standin_ray(tmp_path, note))
    settings = Settings(home=tmp_path, ray_address="127.0.0.1:9")
    store = open_store(settings.database_url)
    sweep = submit(store)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"

        def found() -> bool:
            if store.get_sweep(sweep.id).message:
                (tmp_path / "address.json").write_text(json.dumps({"ray_address": address}))
            return (tmp_path / "address").exists()

        Worker(store, settings).run(_stop_when(found))
    assert (tmp_path / "address").read_text() == address
    assert store.get_sweep(sweep.id).epoch == 1
    store.close()


@pytest.mark.long
def test_a_runner_that_hangs_is_killed_before_the_next_one_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The runner imports for as long as it lives, renewing its lease meanwhile; then it is stopped."""
    monkeypatch.setenv("PYTHONPATH", standin_ray(tmp_path, "(marks / f'runner-{os.getpid()}').touch()"))
    monkeypatch.setattr("sweep_service.worker.work_loop.STARTS_S", 0)
    server = socket.create_server(("127.0.0.1", 0))
    settings = Settings(home=tmp_path, ray_address=f"127.0.0.1:{server.getsockname()[1]}")
    store = open_store(settings.database_url)
    sweep = submit(store)
    lives_beside = list[bool]()

    def second_runs() -> bool:
        runners = sorted(tmp_path.glob("runner-*"), key=lambda file: file.stat().st_mtime_ns)
        first = int(runners[0].name.partition("-")[2]) if runners else None
        if first is None or len(runners) == 1:
            if first is not None and not lives_beside:
                os.kill(first, signal.SIGSTOP)
                lives_beside.append(True)
            return False
        lives_beside[:] = [started_at(first) is not None]
        return True

    Worker(store, settings).run(_stop_when(second_runs))
    assert lives_beside == [False]
    assert store.get_sweep(sweep.id).epoch == 2
    store.close()
    server.close()


def test_a_runner_that_stands_still_in_a_transaction_is_killed_and_holds_nobody_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It holds SQLite's lock, so that nobody can ask whether its lease has run out."""
    stops = """
if not (marks / "stopped").exists():
    import sqlite3
    connection = sqlite3.connect(marks / "sweeps.db", isolation_level=None, timeout=30)
    connection.execute("BEGIN IMMEDIATE")
    (marks / "stopped").write_text(str(os.getpid()))
    os.kill(os.getpid(), 19)
"""
    monkeypatch.setenv("PYTHONPATH", standin_ray(tmp_path, stops))
    monkeypatch.setattr("sweep_service.worker.work_loop.UNANSWERED_S", 3)
    server = socket.create_server(("127.0.0.1", 0))
    settings = Settings(home=tmp_path, ray_address=f"127.0.0.1:{server.getsockname()[1]}")
    store = open_store(settings.database_url)
    event.listen(store.engine, "connect", lambda connection, _: connection.execute("PRAGMA busy_timeout=500"))
    store.engine.dispose()
    sweep = submit(store)
    Worker(store, settings).run(_stop_when(lambda: store.get_sweep(sweep.id).epoch > 1))
    assert started_at(int((tmp_path / "stopped").read_text())) is None
    store.close()
    server.close()


def test_an_error_that_nobody_foresaw_keeps_the_worker_from_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    sweep, fence = start(store)
    for trial in store.list_trials(sweep.id):
        run_trial(store, fence, trial)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.release_lease(fence)
    tries = list[int]()

    def claim(*_: object, **__: object) -> None:
        tries.append(1)
        raise KeyError("a row that no code foresaw")

    monkeypatch.setattr(store, "claim", claim)
    Worker(store, settings).run(_stop_when_ended(settings, sweep.id))
    assert store.get_sweep(sweep.id).state is SweepState.SUCCEEDED
    assert len(tries) > 1
    assert sum("something went wrong" in record.message for record in caplog.records) == 1
    store.close()


def test_a_waiting_sweep_is_cancelled_though_the_worker_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.worker.work_loop.MAX_RUNNERS", 0)
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    submit(store)
    sweep = submit(store)
    held = [store.claim("another", 60) for _ in range(2)]
    store.request_cancel(sweep.id)
    for found in held:
        assert found is not None
        store.release_lease(Fence(found.id, found.epoch))
    Worker(store, settings).run(_stop_when(lambda: store.get_sweep(sweep.id).state.is_over))
    assert [sweep.state for sweep in store.list_sweeps(9)] == [SweepState.CANCELLED, SweepState.QUEUED]
    store.close()


def test_a_sweep_whose_trials_all_failed_has_failed_and_says_why(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    sweep, fence = start(store)
    for trial in store.list_trials(sweep.id):
        run_trial(store, fence, trial, Ending.FAILED)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.release_lease(fence)
    Worker(store, settings).run(_stop_when_ended(settings, sweep.id))
    ended = store.get_sweep(sweep.id)
    assert ended.state is SweepState.FAILED
    first, *others = store.list_trials(sweep.id)
    said = f"no trial has a result; {1 + len(others)} failed, the first: it ended as FAILED"
    assert ended.message == f"{said}\nIts log: sweeps logs {first.id}"
    assert Report.model_validate_json(store.get_report(sweep.id, "json")).verdict.outcome is Outcome.INSUFFICIENT
    store.close()


@pytest.mark.long
def test_an_interim_report_is_built_when_somebody_asks_and_the_final_one_replaces_it(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    sweep, fence = start(store)
    trials = store.list_trials(sweep.id)
    run_trial(store, fence, trials[0])
    ask = SweepService(store, settings).report
    with pytest.raises(NotReady):
        ask(sweep.id, "json", interim=True)
    Worker(store, settings).run(_stop_when(lambda: store.find_report(sweep.id, "json") is not None))
    kept = ask(sweep.id, "json", interim=True)
    report = Report.model_validate_json(kept.content)
    assert (kept.interim, report.interim) == (True, True)
    assert [trial.state for trial in report.trials] == ["SUCCEEDED"] + ["PENDING"] * (len(trials) - 1)
    assert b"nterim" in ask(sweep.id, "md", interim=True).content
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.release_lease(fence)
    Worker(store, settings).run(_stop_when_ended(settings, sweep.id))
    final = ask(sweep.id, "json", interim=True)
    assert (final.interim, Report.model_validate_json(final.content).interim) == (False, False)
    store.close()


def test_cancelling_in_the_request_leaves_the_rows_that_a_runner_leaves(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    by_runner = submit(store)
    claimed = store.claim("worker", 60)
    assert claimed is not None
    store.request_cancel(by_runner.id)
    fence = Fence(by_runner.id, claimed.epoch)
    run_sweep(store, settings, fence, Lease(store, fence))
    store.release_lease(fence)
    in_request = submit(store)
    store.request_cancel(in_request.id)
    assert _rows(store, in_request.id) == _rows(store, by_runner.id)
    store.close()


def _rows(store: Store, sweep_id: str) -> dict[str, list[dict[str, Any]]]:
    """Return all rows of a sweep in the order of their keys: without their ids and times, and without the claim.

    Nobody holds the sweep any more; who did is for people to read.
    """
    names = {sweep_id: "sweep"} | {trial.id: f"trial {trial.number}" for trial in store.list_trials(sweep_id)}
    rows: dict[str, list[dict[str, Any]]] = {}
    with store.engine.connect() as connection:
        for table in tables.metadata.sorted_tables:
            key = table.c.get("sweep_id", table.c.get("trial_id", table.c.get("id")))
            if key is not None:
                mine = select(table).where(key.in_(names)).order_by(table.c.get("number", key), *table.primary_key)
                rows[table.name] = [dict(row) for row in connection.execute(mine).mappings()]
    rows["events"] = [row for row in rows["events"] if row["type"] != "sweep.claimed"]
    for row in rows["events"]:
        del row["seq"]
    (sweep,) = rows["sweeps"]
    assert sweep["lease_until"] is None
    for name in ("last_seq", "lease_clock", "lease_holder"):
        del sweep[name]
    times = ("time", "created_at", "ended_at")
    text = json.dumps({table: [_without(row, times) for row in found] for table, found in rows.items()}, default=str)
    for id_, name in names.items():
        text = text.replace(id_, name)
    return json.loads(text)


def _without(row: dict[str, Any], times: Sequence[str]) -> dict[str, Any]:
    """Leave out when something happened, not whether it did."""
    return row | {name: row[name] is not None for name in times if name in row}


def test_a_wish_from_before_a_claim_ends_a_waiting_sweep_without_a_runner(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    sweeps = [submit(store) for _ in range(3)]
    held = [store.claim("gone", 60) for _ in sweeps]
    for sweep in held:
        assert sweep is not None
        store.request_cancel(sweep.id)
        store.release_lease(Fence(sweep.id, sweep.epoch))
    worker = Worker(store, settings)
    worker._claim()
    assert [store.get_sweep(sweep.id).state for sweep in sweeps] == [SweepState.CANCELLED] * 3
    assert worker._runners == {}
    store.close()


@pytest.mark.long
def test_a_new_sweep_is_claimed_within_seconds_whatever_else_there_is_to_do(tmp_path: Path) -> None:
    reports, cancelled = 200, 50
    settings = Settings(home=tmp_path, ray_address="127.0.0.1:9")  # no Ray: a runner is started, and ends
    store = open_store(settings.database_url)
    for _ in range(reports):
        store.set_sweep_state(start(store)[1], SweepState.FAILED, "its report is missing")
    command = [sys.executable, "-m", "sweep_service", "worker"]
    process = start_child(command, {**os.environ, **settings.environment()}, tmp_path / "worker.log")
    try:
        one_of(settings.home, "sweep_service.worker.reports.process")
        unwanted = [store.request_cancel(submit(store).id).id for _ in range(cancelled)]
        asked = time.time()
        new = submit(store)
        wait_until("it is claimed", lambda: _claimed_at(store, new.id) is not None)
        waited = (_claimed_at(store, new.id) or 0.0) - asked
        print(f"{reports} reports missing, {cancelled} cancelled: the new sweep was claimed after {waited:.2f} s")
        assert waited < 60  # it was five minutes when reports came first
        wait_until("all are cancelled", lambda: _states(store, unwanted) == {SweepState.CANCELLED})
        wait_until("a report is kept", lambda: _reported(store) > 0)
    finally:
        stop(process, 15)
    assert process.returncode == 0, (tmp_path / "worker.log").read_text()
    assert processes_of(settings.home) == []
    store.close()


def _claimed_at(store: Store, sweep_id: str) -> float | None:
    return next((event.time for event in store.list_events(sweep_id) if event.type == "sweep.claimed"), None)


def _states(store: Store, sweep_ids: Sequence[str]) -> set[SweepState]:
    return {store.get_sweep(sweep_id).state for sweep_id in sweep_ids}


def _reported(store: Store) -> int:
    return sum(store.report_digest(sweep.id) is not None for sweep in store.list_sweeps(1000))


def _stop_when(done: Callable[[], bool]) -> threading.Event:
    """Return an event that is set once something is so, or when it hangs."""
    stopped = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + PATIENT_S
        while time.monotonic() < deadline and not done():
            time.sleep(0.1)
        stopped.set()

    threading.Thread(target=watch, daemon=True).start()
    return stopped


def _stop_when_ended(settings: Settings, sweep_id: str) -> threading.Event:
    """Return an event that is set once the sweep has ended and has its report, or when it hangs."""
    stopped = threading.Event()

    def watch() -> None:
        store, deadline = open_store(settings.database_url), time.monotonic() + PATIENT_S
        while time.monotonic() < deadline:
            sweep = store.get_sweep(sweep_id)
            if sweep.state.is_over and store.report_digest(sweep_id) is not None:
                break
            time.sleep(0.1)
        stopped.set()
        store.close()

    threading.Thread(target=watch, daemon=True).start()
    return stopped
