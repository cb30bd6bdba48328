"""Keeps another program and all that it starts on the owner's lifeline. `python -m trainers.process.keeper COMMAND …`

At the end of file on standard input everything below this process is killed, also what has left its session or lost
its parent. SIGTERM is passed on. When the program ends, what it left behind is killed and its exit code returned.
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

from trainers.process.lifeline import ORPHANED_EXIT_CODE
from trainers.process.signals import STOP_SIGNALS, signal_pipe

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_ROUND_S: Final = 0.01


def main(command: list[str]) -> int:
    """Run the command; return its exit code, 128 + the signal that ended it, or 5 if the owner has ended."""
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)  # orphans below come to this process, not to init
    signals = signal_pipe(signal.SIGCHLD, *STOP_SIGNALS)
    program = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0),  # no threads here
    )
    while program.poll() is None:
        ready, _, _ = select.select([0, signals], [], [])
        for number in os.read(signals, 512) if signals in ready else b"":
            if number in STOP_SIGNALS:
                program.send_signal(number)
        if 0 in ready and not os.read(0, 512):
            _kill_all_below()
            return ORPHANED_EXIT_CODE
        _reap_orphans(program.pid)
    _kill_all_below()
    return program.returncode if program.returncode >= 0 else 128 - program.returncode


def _reap_orphans(program_pid: int) -> None:
    """Collect ended orphans, and nothing of the program itself: Popen does that."""
    for child in psutil.Process().children():
        if child.pid != program_pid:
            try:
                os.waitpid(child.pid, os.WNOHANG)
            except ChildProcessError:
                continue


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
