"""One child that judges answers, from the side of its parent, which enforces its limits of time and memory."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, cast

import psutil

from trainers.errors import GraderError

MEMORY_LIMIT_BYTES: Final = 1 << 30
"""Number of bytes that a child may hold while it judges; one that has just started holds 60 MB."""

MEMORY_KEPT_BYTES: Final = 1 << 28
"""Number of bytes that a child may hold after a question; one that holds more is not asked another."""

_COMMAND: Final = (sys.executable, "-m", "trainers.grading")
_LOOK_AFTER_S: Final = 0.05
_LONGEST_REPLY_BYTES: Final = 1 << 16


class Verdict(NamedTuple):
    """The judgement of one answer."""

    equal: bool | None
    """True if the answer equals the gold answer; None if the grader failed."""
    timed_out: bool = False
    """True if the answer is called unequal because it could not be judged within the limits."""
    failure: str = ""
    """The reason why the grader failed, if it did."""


class GraderProcess:
    """A child of this process that is asked one question at a time.

    It is a fresh interpreter, never a fork, and ends with this process by lifeline and death signal. The signal comes
    when the thread that makes this object ends.

    Args:
        deadline_s: processor time for a question, in seconds: a busy machine does not make a right answer wrong.
        patience_s: seconds without a reply, or a start, after which a child counts as dead.
        command: starts the child; `trainers.grading.__main__` says how the two talk.
    """

    def __init__(self, deadline_s: float, *, patience_s: float = 60.0, command: Sequence[str] = _COMMAND) -> None:
        lifeline, own_end = os.pipe()
        self._lifeline = os.fdopen(own_end, "wb", buffering=0)
        self._child = subprocess.Popen(
            [*command, "--parent-fd", str(lifeline)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=[lifeline],
            env={**os.environ, "PYTHONHASHSEED": "0"},  # sympy's order of terms depends on hashes
            start_new_session=True,  # Ctrl-C asks the trainer to finish its update, which needs rewards
        )
        os.close(lifeline)
        assert self._child.stdin is not None
        assert self._child.stdout is not None
        self._questions, self._replies = self._child.stdin, self._child.stdout
        os.set_blocking(self._replies.fileno(), False)
        self._usage = psutil.Process(self._child.pid)
        self._deadline_s = deadline_s
        self._patience_s = patience_s
        self._number = 0
        self._received = b""
        self._asked_at = 0.0
        self._processor_s: float | None = None
        """Processor time in seconds used before the question; None until the child is ready."""

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    @property
    def ended(self) -> bool:
        """True if the child is known to have ended."""
        return self._child.returncode is not None

    def fileno(self) -> int:
        """The file descriptor that becomes readable with a reply."""
        return self._replies.fileno()

    def ask(self, gold: str, answer: str | None) -> None:
        """Send a question; without an answer: can the gold answer be read?

        It fits into the pipe, so this does not wait; `poll` notices a child that has died.
        """
        self._number += 1
        self._asked_at = time.monotonic()
        if self._processor_s is not None:
            self._processor_s = self._used_s()
        with suppress(BrokenPipeError):
            question = {"id": self._number, "gold": gold, **({} if answer is None else {"answer": answer})}
            self._questions.write(json.dumps(question).encode("ascii") + b"\n")

    def poll(self) -> Verdict | None:
        """Return the verdict if it is there.

        The child is `ended` with it if it was over a limit, keeps too much memory, died, or sent no proper reply.

        Raises: GraderError, if the child could not start.
        """
        try:
            reply = self._reply()
        except _BrokenError as broken:
            return self._bury(str(broken))
        if reply is not None:
            if self._held_bytes() > MEMORY_KEPT_BYTES:
                self.close()
            return Verdict(reply.get("equal"), failure=str(reply.get("error", "")))
        waited_s = time.monotonic() - self._asked_at
        if self._is_over_limit(waited_s):
            self.close()
            return Verdict(equal=False, timed_out=True)
        return self._bury(f"gave no reply for {self._patience_s:g} s") if waited_s > self._patience_s else None

    def close(self) -> None:
        """End the child at once: it holds nothing that an orderly end would save."""
        self._child.kill()
        self._child.wait()
        for pipe in (self._questions, self._replies, self._lifeline):
            pipe.close()

    def _reply(self) -> dict[str, Any] | None:
        """Return the reply to the last question, once it has arrived whole."""
        while True:
            while b"\n" not in self._received:
                received = cast("bytes | None", self._replies.read(_LONGEST_REPLY_BYTES))  # None: nothing there
                if received is None:
                    return None
                if not received:
                    with suppress(subprocess.TimeoutExpired):
                        self._child.wait(1)
                    raise _BrokenError("ended")
                self._received += received
                if len(self._received) > _LONGEST_REPLY_BYTES:
                    raise _BrokenError("sent more than any reply")
            line, _, self._received = self._received.partition(b"\n")
            reply: Any = None
            with suppress(ValueError):
                reply = json.loads(line)
            if reply == {"ready": True} and self._processor_s is None:
                self._processor_s = self._used_s()
                continue
            ours = isinstance(reply, dict) and reply.get("id") == self._number
            if ours and isinstance(reply.get("equal"), bool) != ("error" in reply):
                return reply
            raise _BrokenError(f"sent {line[:100]!r}, which answers no question")

    def _is_over_limit(self, waited_s: float) -> bool:
        if self._processor_s is None or waited_s < _LOOK_AFTER_S:
            return False
        if self._held_bytes() > MEMORY_LIMIT_BYTES:
            return True
        return waited_s >= self._deadline_s and self._used_s() - self._processor_s >= self._deadline_s

    def _bury(self, what: str) -> Verdict:
        code = self._child.poll()
        self.close()
        if self._processor_s is None and code is not None and code > 0:
            raise GraderError(
                f"the grader cannot start: it ended with exit code {code}, for the reason above; "
                "try `python -m trainers.grading` by hand"
            )
        return Verdict(None, failure=f"the grader {what}" + ("" if code is None else f" (exit code {code})"))

    def _used_s(self) -> float:
        with suppress(psutil.NoSuchProcess):
            times = self._usage.cpu_times()
            return times.user + times.system
        return 0.0

    def _held_bytes(self) -> int:
        with suppress(psutil.NoSuchProcess):
            return self._usage.memory_info().rss
        return 0


class _BrokenError(Exception):
    """The child ended, or sent something that is not a reply."""
