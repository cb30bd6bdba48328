"""Keeps another program and all that it starts on the owner's lifeline. `python -m trainers.process.keeper COMMAND …`

At the end of file on standard input everything below this process is killed, also what has left its session or lost
its parent. SIGTERM is passed on. When the program ends, what it left behind is killed and its exit code returned.

A keeper is two processes, so that it can be killed itself: the lower one, in a session of its own, has its lifeline
from the upper one, and if the lower one ends, the upper one gets its orphans.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from typing import Final

import psutil

from trainers.process.lifeline import ORPHANED_EXIT_CODE, die_with_parent
from trainers.process.signals import STOP_SIGNALS, signal_pipe

_LIFELINE: Final = 0
_PR_SET_CHILD_SUBREAPER: Final = 36
_ROUND_S: Final = 0.01


def main(command: list[str]) -> int:
    """Run the command; return its exit code, 128 + the signal that ended it, or 5 if the owner has ended."""
    keeper = Keeper()
    reading, writing = os.pipe()
    if lower := os.fork():
        os.close(reading)
        code = keeper.keep(lower, _LIFELINE)
    else:
        os.close(writing)
        os.setsid()  # so that what kills the upper one's process group leaves this lower one
        keeper = Keeper()
        program = subprocess.Popen(command, stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)  # no threads yet
        program.returncode = 0  # Popen waits for nothing: the keeper does
        code = keeper.keep(program.pid, reading)
    return ORPHANED_EXIT_CODE if code is None else code


class Keeper:
    """This process as the keeper of a child. Make it in the main thread before the child: orphans below come to it."""

    def __init__(self) -> None:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
        self._signals = signal_pipe(signal.SIGCHLD, *STOP_SIGNALS)
        self.stopped_by: int | None = None
        """The SIGTERM or SIGINT that came last."""

    def await_input(self, source: int) -> bool:
        """Wait, while there is no child, until `source` can be read; return whether no SIGTERM or SIGINT has come."""
        while self.stopped_by is None:
            ready, _, _ = select.select([source, self._signals], [], [])
            if self._signals in ready:
                self._hear()
            else:
                return True
        return False

    def keep(self, child: int, lifeline: int) -> int | None:
        """Wait until the child or the lifeline ends, pass SIGTERM and SIGINT on, then kill every process left below.

        Args:
            child: pid of a child that nobody else waits for.
            lifeline: file descriptor whose end of file means that the owner has ended.
        Returns: the child's exit code, or 128 + the signal that ended it; None if the owner has ended first.
        """
        try:
            while (status := _reap(child)) is None:
                ready, _, _ = select.select([lifeline, self._signals], [], [])
                for number in self._hear() if self._signals in ready else ():
                    os.kill(child, number)
                if lifeline in ready and not os.read(lifeline, 512):
                    return None
            return status if status >= 0 else 128 - status
        finally:
            _kill_all_below()

    def _hear(self) -> list[int]:
        """Return the stop signals that have come; a child's end is seen by who reaps it."""
        heard: list[int] = [number for number in os.read(self._signals, 512) if number in STOP_SIGNALS]
        self.stopped_by = heard[-1] if heard else self.stopped_by
        return heard


def _reap(child: int) -> int | None:
    """Collect children that have ended, orphans among them; return the exit code of `child` if it is one of them."""
    try:
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            if ended[0] == child:
                return os.waitstatus_to_exitcode(ended[1])
    except ChildProcessError:
        pass
    return None


def _kill_all_below() -> None:
    """Kill every process below this one until none is left; a killed one's children come here and are next.

    One that was forked while the others were killed is found in the next round, so no round waits for an end.
    """
    while below := psutil.Process().children(recursive=True):
        for process in below:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            continue
        time.sleep(_ROUND_S)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
