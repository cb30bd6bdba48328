"""The worker's end of a process that builds reports: it is asked and looked at, and never waited for."""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sweep_service.processes.child_processes import end_in_words, kill, stop


class ReportChild:
    """A child that builds one report after another, each when it is asked.

    Raises: OSError, if it cannot be started.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self.asked = 0
        """Number of reports that it was asked for."""
        self._received = b""
        self.process = subprocess.Popen(
            command, env=dict(environment), stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self._requests, self._answers = self.process.stdin, self.process.stdout
        os.set_blocking(self._answers.fileno(), False)

    def ask(self, sweep_id: str, *, interim: bool, patient: bool) -> None:
        """Ask for a report. The request fits into the pipe; a child that has died is seen to have ended."""
        self.asked += 1
        request = {"sweep_id": sweep_id, "interim": interim, "patient": patient}
        with suppress(BrokenPipeError):
            os.write(self._requests.fileno(), json.dumps(request).encode() + b"\n")

    def answer(self) -> Mapping[str, Any] | None:
        """Return the answer to the last request, once it is there; also that of a child that ended without one."""
        ended = self.process.poll() is not None  # what it wrote before is there by now
        with suppress(BlockingIOError):
            while chunk := os.read(self._answers.fileno(), 1 << 16):
                self._received += chunk
        line, newline, self._received = self._received.partition(b"\n")
        if newline:
            return json.loads(line)
        self._received = line
        return {"failure": f"its process ended {end_in_words(self.process.returncode)}"} if ended else None

    def kill(self) -> None:
        """End the process; `gone` tells when it has."""
        kill(self.process)

    @property
    def gone(self) -> bool:
        """True if the process has ended; nothing of it is left then."""
        if self.process.poll() is None:
            return False
        self._close()
        return True

    def stop(self) -> None:
        """End the process, and wait for its end."""
        stop(self.process, 0)
        self._close()

    def _close(self) -> None:
        self._requests.close()
        self._answers.close()
