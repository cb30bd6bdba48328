"""Ends a run before it is done: when its owner has died, or when a signal asks it to stop."""

import ctypes
import os
import signal
import sys
import threading
from typing import Final

from trainers.process.signals import hear_stop_signals

ORPHANED_EXIT_CODE: Final = 5
_PR_SET_PDEATHSIG: Final = 1


def die_with_parent() -> None:
    """Have Linux kill this process when the thread that has started it ends; at once if its process has ended."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it died between the two calls
        os._exit(ORPHANED_EXIT_CODE)


def follow_parent(pipe: int) -> None:
    """End this process with its owner: when the inherited `pipe` reaches its end, and on Linux by the kernel's SIGKILL.

    The owner keeps the pipe's writing end open and writes nothing. The kernel's death signal comes when the *thread*
    that started this process ends, so that thread must live as long as the owner.

    Raises: OSError, if `pipe` is not open.
    """
    os.fstat(pipe)
    if sys.platform == "linux":
        die_with_parent()

    def end_with_pipe() -> None:
        while os.read(pipe, 1):
            pass
        os._exit(ORPHANED_EXIT_CODE)

    threading.Thread(target=end_with_pipe, name="lifeline", daemon=True).start()


class StopSignal:
    """Turns SIGTERM and SIGINT into a flag that training reads between updates; a second SIGINT ends it at once.

    It takes over both signals of this process. Make it in the main thread.
    """

    def __init__(self) -> None:
        self.requested = False
        self._interrupts = 0
        hear_stop_signals(self._hear)

    def _hear(self, number: int) -> None:
        self.requested = True
        self._interrupts += number == signal.SIGINT
        if self._interrupts > 1:  # as by SIGKILL: what is saved is whole, and what this process started ends with it
            os.write(2, b"\ninterrupted\n")
            os._exit(128 + signal.SIGINT)
