"""Processes that end with their owner, and their identity: a pid with its start time names a process for good.

A child's standard input is its lifeline: a pipe that the owner keeps open and writes nothing to. Our own programs end
at its end of file (`trainers.process.lifeline.follow_parent(0)`); other people's run below `trainers.process.keeper`,
which does it for them and for all that they start.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

LIFELINE: Final = 0
"""The file descriptor of a child's lifeline."""

_KILLS_WITHIN_S: Final = 5.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def start(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    cwd: Path | None = None,
    answer: Path | None = None,
) -> subprocess.Popen[bytes]:
    """Start a child in a session of its own, its lifeline on standard input, its output appended to `log`.

    Args:
        answer: file to which its standard output is appended; None: the log as well.

    Programs that ask for the kernel's death signal must be started by a thread that lives as long as this process.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as errors, (answer or log).open("ab") as output:
        return subprocess.Popen(
            command,
            env=dict(environment),
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            cwd=cwd,
            start_new_session=True,
        )


def start_kept(
    command: Sequence[str], environment: Mapping[str, str], log: Path, **options: Path
) -> subprocess.Popen[bytes]:
    """Start a program that knows nothing of lifelines, as `start` does; the process returned is its keeper."""
    return start([sys.executable, "-m", "trainers.process.keeper", *command], environment, log, **options)


def run_to_end(
    command: Sequence[str], environment: Mapping[str, str], *, timeout_s: float | None = None, stderr: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a child that knows lifelines to its end, with its lifeline on standard input; return its output.

    Raises: subprocess.TimeoutExpired, once the child has been killed.
    """
    lifeline, end = os.pipe()
    try:
        return subprocess.run(
            command,
            env=dict(environment),
            stdin=lifeline,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            timeout=timeout_s,
            check=False,
        )
    finally:
        os.close(lifeline)
        os.close(end)


def end_in_words(code: int) -> str:
    """Return a process's end in words, from its exit code, which is negative for a signal."""
    if code >= 0:
        return f"with exit code {code}"
    if code == -signal.SIGKILL:
        return "by signal 9 (SIGKILL), as Linux does when memory runs out"
    names = {number.value: f" ({number.name})" for number in signal.Signals}
    return f"by signal {-code}{names.get(-code, '')}"


def log_tail(path: Path) -> str:
    """Return the end of a child's log, for people to read."""
    return path.read_bytes()[-1500:].decode(errors="replace").strip() if path.exists() else "(no log)"


def stop(process: subprocess.Popen[bytes], grace_s: float) -> None:
    """End a child: SIGTERM, and after `grace_s` seconds its lifeline is cut and its process group killed."""
    if process.poll() is None:
        with suppress(ProcessLookupError):
            process.terminate()
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    if process.stdin is not None:
        process.stdin.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(1)  # a keeper kills what is below it, then ends
    if process.poll() is None:
        _kill_below(process.pid)
    kill(process)
    process.wait()


def kill(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and its process group; whoever wants to know when it is gone polls it."""
    if process.poll() is None:  # so the pid is still its own
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


def this_host() -> str:
    """Return the name of the host to which this process's pids belong."""
    return socket.gethostname()


def started_at(pid: int) -> float | None:
    """Return when a process started, in seconds since this machine booted; None if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
    return None if fields[0] in (b"Z", b"X") else int(fields[19]) / _TICKS_PER_S


def is_alive(host: str | None, pid: int | None, started: float | None) -> bool:
    """True if exactly that process lives on this host."""
    return host == this_host() and pid is not None and started is not None and started_at(pid) == started


def terminate(host: str | None, pid: int | None, started: float | None, grace_s: float = 0) -> None:
    """End exactly that process, not a later one with its pid, and its process group if it leads one.

    Args:
        grace_s: seconds between SIGTERM and SIGKILL; 0: SIGKILL at once.
    """
    if pid is None or not is_alive(host, pid, started):
        return
    if grace_s:
        _signal(pid, signal.SIGTERM)
        _wait_until_gone(pid, started, grace_s)
    if started_at(pid) == started:
        _kill_below(pid)
        _signal(pid, signal.SIGKILL)
        _wait_until_gone(pid, started, 10)


def _kill_below(pid: int) -> None:
    """Kill all that a process has started, for a keeper that has been stopped itself does not."""
    deadline = time.monotonic() + _KILLS_WITHIN_S
    with suppress(psutil.NoSuchProcess):
        while time.monotonic() < deadline:
            below = list[psutil.Process]()
            for process in psutil.Process(pid).children(recursive=True):
                with suppress(psutil.NoSuchProcess):
                    if process.status() != psutil.STATUS_ZOMBIE:  # else it only waits for its parent to notice its end
                        below.append(process)
            if not below:
                return
            for process in below:
                with suppress(psutil.Error):
                    process.kill()
            time.sleep(0.01)


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        if number == signal.SIGKILL and os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _wait_until_gone(pid: int, started: float | None, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while started_at(pid) == started and time.monotonic() < deadline:
        time.sleep(0.02)
