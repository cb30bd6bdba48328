"""Two ways to start a trainer process: in a fresh interpreter, or as a fork of one that has done the imports."""

import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from sweep_service.processes.child_processes import start_kept, stop, this_host

STOP_GRACE_S: Final = 3.0


class KeptProgram:
    """A program that trains, below a keeper: whatever it starts ends with it.

    Args:
        command: the program and all its arguments; no shell reads them.
    Raises: FileNotFoundError, if this machine has no such program.
    """

    def __init__(self, command: Sequence[str], directory: Path, environment: Mapping[str, str]) -> None:
        program = shutil.which(command[0], path=environment.get("PATH"))
        if program is None:
            raise FileNotFoundError(f"{command[0]} is no program on {this_host()}; install it there, or name its path")
        self._asked = False
        self._keeper = start_kept([program, *command[1:]], environment, directory / "stderr.log", cwd=directory)
        self.pid: int | None = self._keeper.pid
        """Pid of the keeper, which passes SIGTERM on."""

    @property
    def exit_code(self) -> int | None:
        """Exit code of the program; None until it has ended; above 128, or negative: the signal that ended it."""
        return self._keeper.returncode

    def wait(self, timeout_s: float) -> None:
        """Wait until the program has ended, at most `timeout_s` seconds."""
        with suppress(subprocess.TimeoutExpired):
            self._keeper.wait(timeout_s)

    def ask_to_save(self) -> None:
        """Have the program save and end: one SIGTERM, however often it is asked."""
        if not self._asked:
            self._asked = True
            self._keeper.terminate()

    def stop(self) -> None:
        """End the program by SIGTERM, then all that is below its keeper by SIGKILL."""
        stop(self._keeper, STOP_GRACE_S)


def spawned(
    arguments: Sequence[str], directory: Path, environment: Mapping[str, str], processes: int = 1
) -> KeptProgram:
    """Start `python -m trainers` in an interpreter of its own: with a GPU, or several processes, always this.

    Of several processes that train the policy together, the one started here starts and ends the others.
    """
    command = [sys.executable, "-m", "trainers", *arguments, "--processes", str(processes)]
    return KeptProgram(command, directory, environment)


class Preloaded:
    """Owns a `sweep_service.runner.preloaded`, which forks one trainer at a time, each with the same variables."""

    def __init__(self, environment: Mapping[str, str], log: Path) -> None:
        self.environment = dict(environment)
        with log.open("ab") as output:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "sweep_service.runner.preloaded"],
                env=self.environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=output,
                start_new_session=True,
            )

    @property
    def alive(self) -> bool:
        """True if the server still runs, so that it can fork."""
        return self._server.poll() is None

    def start(self, arguments: Sequence[str], directory: Path) -> "Forked":
        """Ask for a trainer; it starts as soon as the imports are done."""
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        request = {"arguments": list(arguments), "directory": str(directory)}
        with suppress(BrokenPipeError):  # it has died; the trainer will be seen to have crashed
            os.write(self._server.stdin.fileno(), json.dumps(request).encode() + b"\n")
        return Forked(self, self._server.stdout.fileno())

    def close(self) -> int:
        """End the server and its trainer, if it has one; return the server's exit code."""
        stop(self._server, 0)
        assert self._server.stdout is not None
        self._server.stdout.close()
        return self._server.returncode


class Forked:
    """A trainer forked by a `Preloaded`."""

    def __init__(self, owner: Preloaded, answers: int) -> None:
        self._owner, self._answers, self._pending = owner, answers, b""
        self.pid: int | None = None
        self.exit_code: int | None = None

    def wait(self, timeout_s: float) -> None:
        """Wait until the trainer has ended, at most `timeout_s` seconds. It crashes if its server dies."""
        deadline = time.monotonic() + timeout_s
        while self.exit_code is None:
            ready, _, _ = select.select([self._answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                return
            chunk = os.read(self._answers, 1 << 12)
            if not chunk:
                self.exit_code = self._owner.close() or -signal.SIGKILL
                return
            *lines, self._pending = (self._pending + chunk).split(b"\n")
            for answer in map(json.loads, lines):
                self.pid, self.exit_code = answer.get("pid", self.pid), answer.get("exit_code")

    def ask_to_save(self) -> None:
        """Have the trainer save and end, once it has begun: SIGTERM."""
        if self.exit_code is None and self.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGTERM)

    def stop(self) -> None:
        """End the trainer by SIGTERM, then by ending its server."""
        if self.exit_code is None and self.pid is not None:
            self.ask_to_save()
            self.wait(STOP_GRACE_S)
        if self.exit_code is None:
            self._owner.close()


Running = KeptProgram | Forked
"""A trainer's process, which ends when the process that started it ends."""
