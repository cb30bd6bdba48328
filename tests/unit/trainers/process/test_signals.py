"""Signals, as an ordinary thread hears them."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from types import FrameType

import pytest

from tests.kept_signals import kept_signals
from tests.waiting import PATIENT_S
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
    stop.install()
    assert not stop.requested
    for _ in range(3):
        signal.raise_signal(signal.SIGTERM)
    signal.raise_signal(signal.SIGINT)
    while not stop.requested:
        pass


def test_a_second_interrupt_ends_a_training_at_once_wherever_it_is() -> None:
    code = "import sys; from trainers.process.lifeline import StopSignal; StopSignal().install(); print(flush=True)"
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
