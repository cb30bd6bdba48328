"""Starts and ends several processes that train one policy on this machine, with one exit code.

torchrun does this for many machines, but ends with 1 whatever its processes ended with, and answers the death of one by
asking the others to stop, which here would mean: save and end well.
"""

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NoReturn

from trainers.process.environment import EXIT_CODES, RENDEZVOUS
from trainers.process.signals import STOP_SIGNALS, signal_pipe

GRACE_S: Final = 60.0
"""Seconds that the others may take to end after the first one; none if the first was killed or failed."""
_FAILURES: Final = {EXIT_CODES["FAILED"], EXIT_CODES["MACHINE_FAULT"]}


def launch(arguments: Sequence[str], processes: int) -> int:
    """Run `python -m trainers ARGUMENTS` as several processes and return one exit code for the run.

    It is 0 if the run ended well, else the code of the process that ended first, 128 + N if signal N ended it. SIGTERM
    and SIGINT are passed on. However this process ends, they end with it.
    """
    lifeline, _writing_end = os.pipe()  # no other process has the writing end
    children: list[subprocess.Popen[bytes]] = []
    signals = signal_pipe(signal.SIGCHLD, *STOP_SIGNALS)
    command = [sys.executable, "-m", "trainers", *arguments, "--processes", "1", "--parent-fd", str(lifeline)]
    with meeting_place() as place:
        for rank in range(processes):
            environment = os.environ | process_environment(rank, processes, place)
            children.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, pass_fds=[lifeline]))
        codes, stop_requested = _codes(children, signals)
    code = exit_code(codes)
    if code == 128 + signal.SIGTERM and stop_requested:  # it came before a process had its handler
        return EXIT_CODES["STOPPED"]
    return code


def end_process(code: int) -> NoReturn:
    """End this process, one of several that train a policy, without taking the interpreter apart.

    Threads of gloo still hold tensors then, and one that lets go of them meanwhile aborts the process: 1 in 40 pairs on
    busy cores, with or without `destroy_process_group`.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


@contextmanager
def reserved_port() -> Generator[int]:
    """Reserve a free port: the kernel gives it to nobody meanwhile, but a process may listen on it by its number."""
    with socket.socket() as reserved:
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        reserved.bind(("127.0.0.1", 0))
        yield reserved.getsockname()[1]


@contextmanager
def meeting_place() -> Generator[dict[str, str]]:
    """Make a place where processes find each other, for as long as they run; yield the variables that name it.

    It is a file that all of them write, in a folder that nobody else may enter; the first one makes it. The port is
    for libraries that want one named. Torch would listen on it, at all addresses, without the file.
    """
    with reserved_port() as port, tempfile.TemporaryDirectory() as folder:
        yield {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), RENDEZVOUS: str(Path(folder) / "rendezvous")}


def process_environment(rank: int, processes: int, place: Mapping[str, str]) -> dict[str, str]:
    """Return the variables by which processes find each other, as torchrun names them; `rank` is also its GPU."""
    return {
        "RANK": str(rank),
        "LOCAL_RANK": str(rank),
        "WORLD_SIZE": str(processes),
        "LOCAL_WORLD_SIZE": str(processes),
        "GLOO_SOCKET_IFNAME": "lo",  # needs no name of this host, and is not reached from outside
        **place,
    }


def _codes(children: Sequence["subprocess.Popen[bytes]"], signals: int) -> tuple[list[int], bool]:
    """Wait for all children, and pass on what comes through the pipe `signals`, which also tells of their ends.

    Returns: exit codes of those that ended by themselves, the first to end first; whether they were asked to stop.
    """
    asked = False
    while not (first := [child for child in children if child.poll() is not None]):
        asked |= _pass_on(children, signals, None)
    codes = sorted(child.returncode for child in first)
    deadline = time.monotonic() + (0 if codes[0] < 0 or _FAILURES & {*codes} else GRACE_S)
    others = [child for child in children if child not in first]
    while any(child.poll() is None for child in others) and time.monotonic() < deadline:
        asked |= _pass_on(children, signals, deadline - time.monotonic())
    codes += [child.returncode for child in others if child.poll() is not None]
    for child in (child for child in others if child.poll() is None):  # it is waiting for a process that is gone
        child.kill()
        child.wait()
    return codes, asked


def _pass_on(children: Sequence["subprocess.Popen[bytes]"], signals: int, timeout_s: float | None) -> bool:
    """Wait for the next signals; on SIGTERM or SIGINT send every child SIGTERM, and return True."""
    ready, _, _ = select.select([signals], [], [], timeout_s)
    asked = bool(ready) and any(number in STOP_SIGNALS for number in os.read(signals, 512))
    for child in children if asked else ():
        child.terminate()
    return asked


def exit_code(codes: Sequence[int]) -> int:
    """Return one exit code for all processes.

    Args:
        codes: exit codes in the order of the ends, negative for a signal. The first end usually caused the others,
        but a SIGKILL is always a cause, even if it is seen late because a large process takes long to end.
    """
    if -signal.SIGKILL in codes:
        return 128 + signal.SIGKILL
    code = next(filter(None, codes), 0)
    return 128 - code if code < 0 else code
