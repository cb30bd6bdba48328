"""Signals, as an ordinary thread hears them."""

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from multiprocessing.synchronize import Event
from types import FrameType

import pytest

from tests.kept_signals import kept_signals
from tests.waiting import PATIENT_S, wait_until
from trainers.process.lifeline import StopSignal
from trainers.process.signals import hear_stop_signals, signal_pipe


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    with kept_signals():
        yield


def test_a_signal_is_heard_while_the_main_thread_holds_the_lock_of_what_it_sets() -> None:
    stopped = threading.Event()
    hear_stop_signals(lambda _: stopped.set())
    with stopped._cond:  # pyright: ignore[reportAttributeAccessIssue]  # as inside Event.wait
        signal.raise_signal(signal.SIGTERM)
    assert stopped.wait(PATIENT_S)


def test_every_signal_is_heard_by_its_number_and_no_other() -> None:
    heard, all_there = list[int](), threading.Event()

    def note(number: int) -> None:
        heard.append(number)
        if len(heard) == 200:
            all_there.set()

    hear_stop_signals(note)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    for _ in range(100):
        for number in (signal.SIGTERM, signal.SIGCHLD, signal.SIGINT):
            signal.raise_signal(number)
    assert all_there.wait(PATIENT_S)
    assert heard == [signal.SIGTERM, signal.SIGINT] * 100


def test_a_signal_is_heard_though_a_library_has_put_its_own_handler_there() -> None:
    heard, called = threading.Event(), list[int]()
    hear_stop_signals(lambda _: heard.set())

    def librarys(number: int, _frame: FrameType | None) -> None:
        called.append(number)

    signal.signal(signal.SIGTERM, librarys)
    signal.raise_signal(signal.SIGTERM)
    assert heard.wait(PATIENT_S)
    assert called == [signal.SIGTERM]


def test_more_signals_than_a_pipe_holds_do_no_harm() -> None:
    pipe = signal_pipe(signal.SIGTERM)
    for _ in range(70_000):
        signal.raise_signal(signal.SIGTERM)
    assert set(os.read(pipe, 1 << 20)) == {signal.SIGTERM}


def test_signals_ask_a_training_to_stop() -> None:
    stop = StopSignal()
    assert not stop.requested
    for _ in range(3):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    while not stop.requested:
        pass


def forever(started: Event) -> None:
    started.set()
    end = time.monotonic() + PATIENT_S
    while time.monotonic() < end:
        time.sleep(0.01)  # and no longer: a signal just before a sleep does not end it


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_fork_has_signals_of_its_own(number: signal.Signals) -> None:
    heard = list[int]()
    hear_stop_signals(heard.append)
    forking = multiprocessing.get_context("fork")
    for _ in range(20):  # as a reward does that forks a helper at each step
        started = forking.Event()
        fork = forking.Process(target=forever, args=(started,), daemon=True)
        fork.start()
        assert started.wait(PATIENT_S)
        assert fork.pid is not None
        os.kill(fork.pid, number)
        fork.join(PATIENT_S)
        assert fork.exitcode == (-number if number == signal.SIGTERM else 1)
    with forking.Pool(2) as pool:  # which ends its processes by SIGTERM
        assert pool.map(abs, [-1, -2]) == [1, 2]
    assert heard == []
    signal.raise_signal(number)
    wait_until("the parent hears its own", lambda: heard == [number])


def test_a_second_interrupt_ends_a_training_at_once_wherever_it_is() -> None:
    code = "import sys; from trainers.process.lifeline import StopSignal; StopSignal(); print(flush=True)"
    code += "; sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    process.stdout.readline()
    process.send_signal(signal.SIGINT)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.3)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENT_S) == 128 + signal.SIGINT
    assert process.communicate()[1] == b"\ninterrupted\n"
