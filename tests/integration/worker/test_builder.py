"""Reports in child processes: whatever becomes of one, the worker goes on, and the next one is built."""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from sweep_service.processes.child_processes import start as start_child
from sweep_service.processes.child_processes import stop
from sweep_service.report.model import REPORT_VERSION
from sweep_service.runner.lease import LEASE_S
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store, tables
from sweep_service.sweep.added_benchmarks import AddedBenchmarks
from sweep_service.sweep.records import Sweep, SweepState
from sweep_service.worker.reports.builder import ReportBuilder, ReportChild
from tests.stored_sweeps import run_trial, start, submit
from tests.sweep_stack import one_of, processes_of
from tests.waiting import wait_until

BUILDER = ReportBuilder.__module__

Begin = Callable[..., ReportBuilder]
TROUBLES = {
    "ends": ("sys.exit(3)", "ended with exit code 3"),
    "is killed": ("os.kill(os.getpid(), 9)", "by signal 9 (SIGKILL), as Linux does when memory runs out"),
    "breaks": ("os.kill(os.getpid(), signal.SIGSEGV)", "ended by signal 11 (SIGSEGV)"),
    "hangs": ("signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)", "it was not done after 1 s"),
}
"""Ends of the process that builds a report: its code, and the note on it."""
STAND_IN = """
import json, os, pathlib, signal, sys, time
for line in sys.stdin:
    request = json.loads(line)
    sweep_id = request["sweep_id"]
    {code}
    pathlib.Path({folder!r}, sweep_id + (" interim" if request["interim"] else "")).touch()
    print(json.dumps({{"kept": True}}), flush=True)
"""
"""A process that builds nothing, and says which reports it was asked for; its code may do something else."""


@pytest.fixture
def begin(settings: Settings, store: Store) -> Iterator[Begin]:
    """Makes builders, with the real process or a stand-in that runs some code; they are stopped after the test."""
    builders: list[ReportBuilder] = []

    def begin(code: str | None = None) -> ReportBuilder:
        builder = ReportBuilder(store, settings)
        if code is not None:
            (settings.home / "asked").mkdir(exist_ok=True)
            script = STAND_IN.format(code=code, folder=str(settings.home / "asked"))
            builder.command = (sys.executable, "-c", script)
        builders.append(builder)
        return builder

    yield begin
    for builder in builders:
        builder.stop()
    assert processes_of(settings.home) == []


def work(builder: ReportBuilder, done: Callable[[], bool]) -> None:
    """Let the builder work until something is so."""

    def look() -> bool:
        builder.go_on()
        return done()

    wait_until("the builder is done", look)


def finalizing(store: Store) -> tuple[Sweep, Fence]:
    """Store a sweep that waits for its final report."""
    sweep, fence = start(store)
    for trial in store.list_trials(sweep.id):
        run_trial(store, fence, trial)
    store.set_sweep_state(fence, SweepState.FINALIZING)
    store.release_lease(fence)
    return sweep, fence


def asked(settings: Settings) -> set[str]:
    """Return the reports that a stand-in was asked for, and answered for."""
    return {path.name for path in (settings.home / "asked").iterdir()}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_a_report_that_cannot_be_built_is_noted_and_the_next_one_is_built(
    settings: Settings, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    monkeypatch.setattr(f"{BUILDER}.LONGEST_S", 1.0)
    code, noted = TROUBLES[trouble]
    ended = [submit(store) for _ in range(2)]
    for sweep in ended:
        store.request_cancel(sweep.id)
    builder = begin(f"if sweep_id == {ended[1].id!r}: {code}")  # the last that ended comes first
    work(builder, lambda: store.report_failure(ended[1].id) is not None)
    assert noted in (store.report_failure(ended[1].id) or "")
    work(builder, lambda: asked(settings) == {ended[0].id})


def test_the_real_process_tells_what_went_wrong_and_goes_on(store: Store, begin: Begin) -> None:
    for _ in range(2):
        start(store)
    with store.engine.begin() as connection:
        connection.execute(tables.configs.update().values(training={}))
    for sweep in store.list_sweeps(9):
        store.set_sweep_state(Fence(sweep.id, 1), SweepState.FAILED)
    builder = begin()
    work(builder, lambda: all(store.report_failure(sweep.id) for sweep in store.list_sweeps(9)))
    assert {store.report_failure(sweep.id) for sweep in store.list_sweeps(9)} == {"KeyError: 'rollout'"}
    assert builder._child is not None
    assert builder._child.num_requests == 2


def test_a_sweep_whose_final_report_cannot_be_built_has_failed(settings: Settings, store: Store, begin: Begin) -> None:
    sweep, _ = finalizing(store)
    builder = begin("print(json.dumps({'failure': 'KeyError'}), flush=True); continue")
    work(builder, lambda: store.get_sweep(sweep.id).state.is_over)
    failed = store.get_sweep(sweep.id)
    assert failed.state is SweepState.FAILED
    assert failed.message == "the trials are done, but the report could not be built: KeyError"
    assert store.report_failure(sweep.id) == "KeyError"
    builder.go_on()
    assert builder._build is None  # it is not tried again and again
    again = begin("")  # another worker, perhaps with other code, tries it once more
    work(again, lambda: asked(settings) == {sweep.id})


def test_a_report_that_somebody_asks_for_is_built_anew_by_the_real_process(store: Store, begin: Begin) -> None:
    """The present version's is the one with which the sweep ended, as long as nothing has changed."""
    sweep, _ = finalizing(store)
    store.put_report(sweep.id, "earlier", {"json": b'{"report_version":4}'})
    builder = begin()
    work(builder, lambda: store.get_sweep(sweep.id).state is SweepState.SUCCEEDED)
    standing = store.report_digest(sweep.id)
    for _ in range(2):
        store.request_report(sweep.id)
        work(builder, lambda: not store.report_requested(sweep.id))
        versions = [stored.report_version for stored in store.stored_reports(sweep.id)]
        assert (store.report_digest(sweep.id), versions) == (standing, [REPORT_VERSION, 4])
    assert store.get_sweep(sweep.id).state is SweepState.SUCCEEDED


def test_a_new_report_that_cannot_be_built_leaves_the_one_before(
    settings: Settings, store: Store, begin: Begin
) -> None:
    sweep, fence = finalizing(store)
    store.put_report(sweep.id, "earlier", {"json": b"{}"})
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    builder = begin("print(json.dumps({'failure': 'KeyError'}), flush=True); continue")
    for _ in range(2):  # who asks again has it tried again
        store.request_report(sweep.id)
        work(builder, lambda: store.report_failure(sweep.id) == "KeyError")
        assert (store.report_digest(sweep.id), store.report_requested(sweep.id)) == ("earlier", False)


def test_a_sweep_whose_added_benchmarks_were_cancelled_ends_as_before(store: Store, begin: Begin) -> None:
    sweep, fence = finalizing(store)
    store.set_sweep_state(fence, SweepState.SUCCEEDED)
    store.release_lease(fence)
    added = AddedBenchmarks(names=("arithmetic",), trials=())
    store.open_again(store.get_sweep(sweep.id), added, {})
    store.request_cancel(sweep.id)
    assert store.get_sweep(sweep.id).state is SweepState.FINALIZING
    work(begin(""), lambda: store.get_sweep(sweep.id).state.is_over)
    assert store.get_sweep(sweep.id).state is SweepState.SUCCEEDED


def test_a_database_that_is_away_while_the_report_is_built_costs_no_sweep(
    settings: Settings, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BUILDER}.TROUBLE_PAUSE_S", 0.2)
    sweep, _ = finalizing(store)
    builder = begin("time.sleep(0.1); print(json.dumps({'away': 'gone'}), flush=True); continue")
    work(builder, lambda: builder._paused_until > 0)
    assert store.get_sweep(sweep.id).state is SweepState.FINALIZING
    builder = begin("")
    work(builder, lambda: store.get_sweep(sweep.id).state is SweepState.SUCCEEDED)
    assert asked(settings) == {sweep.id}


def test_a_process_without_a_database_says_so(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path, database_url="postgresql+psycopg://nobody@127.0.0.1:9/none")
    child = ReportChild(ReportBuilder.command, {**os.environ, **settings.environment()})
    child.ask("swp_x", interim=False, patient=False)
    answers: list[Any] = []
    wait_until("an answer", lambda: answers.append(child.answer()) or answers[-1] is not None)
    assert list(answers[-1]) == ["away"]
    child.stop()


def test_a_process_that_cannot_be_started_costs_no_sweep(
    store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BUILDER}.TROUBLE_PAUSE_S", 0.2)
    sweep, _ = finalizing(store)
    builder = begin("")
    working, builder.command = builder.command, ("/does/not/exist",)
    builder.go_on()
    assert store.get_sweep(sweep.id).state is SweepState.FINALIZING
    builder.command = working
    work(builder, lambda: store.get_sweep(sweep.id).state is SweepState.SUCCEEDED)


def test_the_lease_is_renewed_while_a_final_report_is_built(
    store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BUILDER}.LEASE_S", 1.0)
    monkeypatch.setattr(f"{BUILDER}.RENEW_EVERY_S", 0.2)
    sweep, _ = finalizing(store)
    builder, end = begin("time.sleep(600)"), time.monotonic() + 3
    work(builder, lambda: time.monotonic() > end)
    assert store.claim_final_report("another", 60) is None
    builder.stop()
    taken = store.claim_final_report("another", 60)
    assert taken is not None
    assert taken.id == sweep.id


def test_a_builder_whose_sweep_was_taken_over_drops_its_report(
    store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BUILDER}.LEASE_S", 0.0)
    monkeypatch.setattr(f"{BUILDER}.RENEW_EVERY_S", 0.2)
    sweep, _ = finalizing(store)
    builder = begin("time.sleep(600)")
    builder.go_on()
    assert store.claim_final_report("another", 60) is not None
    work(builder, lambda: builder._build is None)
    assert store.get_sweep(sweep.id).state is SweepState.FINALIZING


def test_a_final_report_takes_the_place_of_one_that_takes_long(
    settings: Settings, store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BUILDER}.FINAL_WAITS_S", 0.5)
    running, _ = start(store)
    store.want_report(running.id)
    builder = begin("while request['interim'] and not pathlib.Path(sys.prefix, 'never').exists(): time.sleep(0.1)")
    builder.go_on()
    ending, _ = finalizing(store)
    work(builder, lambda: store.get_sweep(ending.id).state is SweepState.SUCCEEDED)
    assert asked(settings) == {ending.id}
    work(builder, lambda: builder._build is not None and builder._build.sweep_id == running.id)  # wanted still


def test_a_final_report_that_was_to_be_next_is_free_once_the_builder_stops(
    store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BUILDER}.FINAL_WAITS_S", 0.0)
    running, _ = start(store)
    store.want_report(running.id)
    builder = begin("time.sleep(3600)")
    builder.go_on()
    ending, _ = finalizing(store)
    work(builder, lambda: builder._claimed is not None)
    assert store.claim_final_report("another", 60) is None
    builder.stop()
    claimed = store.claim_final_report("another", 60)
    assert claimed is not None
    assert claimed.id == ending.id


def test_late_and_interim_reports_take_turns(store: Store, begin: Begin) -> None:
    running, late = [start(store)[0] for _ in range(2)], [submit(store) for _ in range(2)]
    for sweep in running:
        store.want_report(sweep.id)
    for sweep in late:
        store.request_cancel(sweep.id)
    builder, kinds = begin("print(json.dumps({'failure': 'no'}), flush=True); continue"), list[str]()

    def note() -> bool:
        if builder._build is not None:
            kinds.append(builder._build.kind.value)
        return len(store.list_sweeps(9)) == 4 and all(store.report_failure(sweep.id) for sweep in [*running, *late])

    work(builder, note)
    assert [kind for kind, _ in groupby(kinds)] == ["late", "interim", "late", "interim"]


def test_one_process_builds_several_reports_and_ends_when_none_is_wanted(
    store: Store, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"{BUILDER}.MOST", 2)
    monkeypatch.setattr(f"{BUILDER}.IDLE_S", 0.5)
    for sweep in [submit(store) for _ in range(3)]:
        store.request_cancel(sweep.id)
    builder = begin("print(json.dumps({'failure': str(os.getpid())}), flush=True); continue")
    work(builder, lambda: all(store.report_failure(sweep.id) for sweep in store.list_sweeps(9)))
    by_process = Counter(store.report_failure(sweep.id) for sweep in store.list_sweeps(9))
    assert sorted(by_process.values()) == [1, 2]
    work(builder, lambda: builder._child is None and not builder._leaving)


def test_an_interim_report_that_cannot_be_built_costs_nothing_else(
    store: Store, begin: Begin, caplog: pytest.LogCaptureFixture
) -> None:
    sweep, _ = start(store)
    store.want_report(sweep.id)
    builder = begin("print(json.dumps({'failure': 'KeyError'}), flush=True); continue")
    work(builder, lambda: store.report_failure(sweep.id) is not None)
    assert f"no interim report of {sweep.id}: KeyError" in caplog.text
    assert store.get_sweep(sweep.id).state is SweepState.RUNNING


@pytest.mark.long
def test_a_report_that_is_being_built_ends_with_its_worker_and_the_next_one_builds_it(
    settings: Settings, store: Store, tmp_path: Path
) -> None:
    sweep, _ = finalizing(store)
    environment = {**os.environ, **settings.environment()}
    command = [sys.executable, "-m", "sweep_service", "worker"]
    worker = start_child(command, environment, tmp_path / "worker.log")
    one_of(settings.home, "sweep_service.worker.reports.process")
    worker.kill()
    worker.wait()
    assert worker.stdin is not None
    worker.stdin.close()
    wait_until("nothing is left", lambda: processes_of(settings.home) == [], 20)
    assert store.get_sweep(sweep.id).state is SweepState.FINALIZING
    with store.engine.connect() as connection:
        lease_until, _ = connection.exec_driver_sql("SELECT lease_until, id FROM sweeps").one()
    assert lease_until - time.clock_gettime(time.CLOCK_BOOTTIME) <= LEASE_S  # so long the next worker waits
    worker = start_child(command, environment, tmp_path / "worker.log")
    try:
        wait_until("the next worker has built it", lambda: store.get_sweep(sweep.id).state.is_over)
    finally:
        stop(worker, 10)
    assert store.report_digest(sweep.id) is not None
