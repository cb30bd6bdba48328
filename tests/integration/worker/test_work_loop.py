"""The worker with real runners."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sqlalchemy.exc import OperationalError

from sweep_service.errors import NotReady
from sweep_service.report import Report
from sweep_service.report.model import Outcome
from sweep_service.service import SweepService
from sweep_service.settings import Settings
from sweep_service.store import Store, open_store, tables
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.records import SweepState
from sweep_service.worker.reports import build_report
from sweep_service.worker.work_loop import Worker, event_set_by_signals
from tests.stored_sweeps import run_trial, start, submit


def test_a_signal_is_heard_while_the_main_thread_holds_the_lock_of_the_event(restored_signals: None) -> None:
    stopped = event_set_by_signals()
    with stopped._cond:  # pyright: ignore[reportAttributeAccessIssue]  # as inside Event.wait
        signal.raise_signal(signal.SIGTERM)
    assert stopped.wait(10)


@pytest.fixture
def restored_signals() -> Iterator[None]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in handlers.items():
        signal.signal(number, handler)


@pytest.mark.long
def test_a_sweep_whose_runner_fails_again_and_again_is_given_up(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)  # names no Ray
    store = open_store(settings.database_url)
    sweep = submit(store)
    stopped = _stop_when_ended(settings, sweep.id)
    Worker(store, settings).run(stopped)
    failed = store.get_sweep(sweep.id)
    assert failed.state is SweepState.FAILED
    assert "its runner failed 3 times in a row" in (failed.message or "")
    assert "SWEEPS_RAY_ADDRESS must be host:port" in (failed.message or "")
    assert {trial.state for trial in store.list_trials(sweep.id)} == {TrialState.CANCELLED}
    assert Report.model_validate_json(store.get_report(sweep.id, "json")).verdict.outcome is Outcome.INSUFFICIENT
    store.close()


def test_a_sweep_waits_while_there_is_no_ray_and_can_be_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.worker.work_loop.MAX_FAILURES", 1)
    settings = Settings(home=tmp_path, ray_address="127.0.0.1:9")
    store = open_store(settings.database_url)
    sweep = submit(store)
    stopped = _stop_when_ended(settings, sweep.id, cancel_at_epoch=2)
    Worker(store, settings).run(stopped)
    assert store.get_sweep(sweep.id).state is SweepState.CANCELLED
    assert b"CANCELLED" in store.get_report(sweep.id, "md")
    store.close()


def test_a_waiting_sweep_is_cancelled_though_the_worker_has_no_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sweep_service.worker.work_loop.MAX_RUNNERS", 0)
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    submit(store)
    sweep = submit(store)
    store.request_cancel(sweep.id)
    Worker(store, settings).run(_stop_when_ended(settings, sweep.id))
    assert [sweep.state for sweep in store.list_sweeps(9)] == [SweepState.CANCELLED, SweepState.QUEUED]
    store.close()


def test_a_database_that_fails_while_the_report_is_built_costs_no_sweep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    sweep, fence = start(store)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.release_lease(fence)
    tries: list[str] = []

    def fails_once(store: Store, sweep_id: str, settings: Settings) -> tuple[str, dict[str, bytes]]:
        tries.append(sweep_id)
        if len(tries) == 1:
            raise OperationalError("select", None, Exception("the server closed the connection"))
        return build_report(store, sweep_id, settings)

    monkeypatch.setattr("sweep_service.worker.work_loop.build_report", fails_once)
    Worker(store, settings).run(_stop_when_ended(settings, sweep.id))
    assert (store.get_sweep(sweep.id).state, len(tries)) == (SweepState.SUCCEEDED, 2)
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
    number = len(store.list_trials(sweep.id))
    assert ended.message == f"no trial has a result; {number} failed, the first: it ended as FAILED"
    assert Report.model_validate_json(store.get_report(sweep.id, "json")).verdict.outcome is Outcome.INSUFFICIENT
    store.close()


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


def test_a_final_report_goes_before_an_interim_one(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    running, _ = start(store)
    store.want_report(running.id)
    worker = Worker(store, settings)
    worker._interim.go_on()  # begins to build
    begun = worker._interim._build
    assert begun is not None
    ending, fence = start(store)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.release_lease(fence)
    worker.run(_stop_when(lambda: store.find_report(running.id, "md") is not None))
    assert begun.process.returncode == -signal.SIGTERM
    assert store.get_sweep(ending.id).state is SweepState.SUCCEEDED
    store.close()


def test_an_interim_report_that_cannot_be_built_costs_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings(home=tmp_path)
    store = open_store(settings.database_url)
    sweep, _ = start(store)
    with store.engine.begin() as connection:
        connection.execute(tables.configs.update().values(training={}))
    store.want_report(sweep.id)
    Worker(store, settings).run(_stop_when(lambda: "no interim report" in caplog.text))
    assert f"no interim report of {sweep.id}" in caplog.text
    assert "KeyError" in caplog.text
    assert store.get_sweep(sweep.id).state is SweepState.RUNNING
    store.close()


def _stop_when(done: Callable[[], bool]) -> threading.Event:
    """Return an event that is set once something is so, or after a minute."""
    stopped = threading.Event()

    def watch() -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not done():
            time.sleep(0.1)
        stopped.set()

    threading.Thread(target=watch, daemon=True).start()
    return stopped


def _stop_when_ended(settings: Settings, sweep_id: str, cancel_at_epoch: int | None = None) -> threading.Event:
    """Return an event that is set once the sweep has ended and has its report, or after a minute."""
    stopped = threading.Event()

    def watch() -> None:
        store, deadline = open_store(settings.database_url), time.monotonic() + 60
        while time.monotonic() < deadline:
            sweep = store.get_sweep(sweep_id)
            if sweep.state.is_over and store.report_digest(sweep_id) is not None:
                break
            if sweep.epoch == cancel_at_epoch:
                store.request_cancel(sweep_id)
            time.sleep(0.1)
        stopped.set()
        store.close()

    threading.Thread(target=watch, daemon=True).start()
    return stopped
