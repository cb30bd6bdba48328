"""Signals, one way for all processes: the interpreter writes their numbers to a pipe, which an ordinary thread reads.

A handler in Python runs in the main thread, between any two of its instructions. Whatever it does there, such as taking
a lock, starting a process or raising an exception, can meet the main thread in the middle of just that. So ours do
nothing. The pipe is written in C, at once, even if a library puts a handler of its own in the place of ours.

A fork, as `multiprocessing` makes them in rewards and data loaders, has signals of its own: what it is sent would else
go to its parent's pipe, and its own SIGTERM would do nothing.
"""

import os
import signal
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_piped: set[signal.Signals] = set()
"""Signals that this process has written to its pipe."""
_before_fork = threading.local()


@contextmanager
def interruptible_imports() -> Generator[None]:
    """Let SIGINT end the process without a word while a command imports what it needs, which takes a second.

    Python's own handler would print a traceback. It is back afterwards, when the command can handle KeyboardInterrupt.
    A SIGINT that is ignored, as in a script's background, stays ignored.
    """
    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def signal_pipe(*numbers: signal.Signals) -> int:
    """Have these signals written to a pipe, one byte each with the signal's number; return its reading end.

    Call it in the main thread, once in a process: a process has one such pipe.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    _piped.update(numbers)
    for number in numbers:
        signal.signal(number, _do_nothing)
    return reading


def _do_nothing(*_: object) -> None:
    """Be a handler: the pipe has the signal already."""


def _hold_back() -> None:
    """Block the signals, so that none reaches a fork while it still has its parent's pipe."""
    _before_fork.mask = signal.pthread_sigmask(signal.SIG_BLOCK, _piped)


def _let_through() -> None:
    signal.pthread_sigmask(signal.SIG_SETMASK, _before_fork.mask)


def _have_own_signals() -> None:
    if _piped:  # else this is a fork of a fork, whose pipe, if it has one, is not ours
        signal.set_wakeup_fd(-1)
    for number in _piped:
        if signal.getsignal(number) is _do_nothing:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    _piped.clear()
    _let_through()


def hear_stop_signals(heard: Callable[[int], None]) -> None:
    """Call `heard` with the number of every SIGTERM and SIGINT, in a thread of its own. Call it in the main thread."""
    pipe = signal_pipe(*STOP_SIGNALS)

    def listen() -> None:
        while True:
            for number in os.read(pipe, 512):
                if number in STOP_SIGNALS:
                    heard(number)

    threading.Thread(target=listen, name="signals", daemon=True).start()


os.register_at_fork(before=_hold_back, after_in_parent=_let_through, after_in_child=_have_own_signals)
