"""Ends a trainer at its deadline, or once it stands still, even if nobody calls its actor because the runner is stuck.

It gets SIGTERM, and SIGKILL after `STOP_GRACE_S`.
"""

import threading
from abc import ABC, abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Final

import psutil

from sweep_service.processes.vigil import Vigil, has_worked, processor_time_s
from sweep_service.runner.trainer_launch import STOP_GRACE_S
from sweep_service.runner.trainer_process import EVENTS_FILE, Trainer

_LOOK_EVERY_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 10.0
_LOOKS: Final = 6
"""Least number of looks without life before a trainer is ended."""


class _Limit(ABC):
    """Watches a trainer from a thread of its own until it is lifted."""

    def __init__(self, trainer: Trainer, thread: str) -> None:
        self._trainer = trainer
        self._lifted = threading.Event()
        threading.Thread(target=self._watch, name=thread, daemon=True).start()

    def lift(self) -> None:
        """Watch no longer: the trainer has ended, or its owner ends it."""
        self._lifted.set()

    @abstractmethod
    def _watch(self) -> None: ...


class Deadline(_Limit):
    """Ends a trainer `seconds` from now; if it has no process by then, as soon as it has one."""

    def __init__(self, trainer: Trainer, seconds: float) -> None:
        self.passed = False
        self._seconds = seconds
        super().__init__(trainer, "deadline")

    def _watch(self) -> None:
        wait_s = max(0.0, self._seconds)
        while not self._lifted.wait(wait_s):
            self.passed, wait_s = True, _LOOK_EVERY_S
            with suppress(OSError):  # out of file handles, for instance: that passes
                if self._trainer.started_at is not None:
                    self._trainer.end_from_beside(STOP_GRACE_S)
                    return


class HangWatch(_Limit):
    """Ends a trainer that has shown no life for `patience_s` seconds.

    Signs of life are a new event, and processor time of the trainer and of all processes below it, such as a rollout
    server. So rollouts that take hours count as life. GPUs that wait for each other while their processes spin do, too:
    that is for NCCL's own watchdog.
    """

    def __init__(self, trainer: Trainer, directory: Path, patience_s: float) -> None:
        self.hung = False
        """True if the trainer was ended by this watch."""
        self._events = directory / EVENTS_FILE
        self._every_s = min(_LONGEST_PAUSE_S, patience_s / _LOOKS)
        self._vigil = Vigil(self._shows_life, patience_s, self._every_s)
        self._patience_s = patience_s
        self._size, self._busy_s = 0, 0.0
        super().__init__(trainer, "hang-watch")

    @property
    def message(self) -> str:
        """The message of an attempt whose trainer has hung."""
        return (
            f"the trainer showed no life for {self._patience_s / 60:.3g} minutes, neither an event nor processor time, "
            "and was killed; if it only waited, for a slow disk for instance, set retries.hung_after_minutes higher"
        )

    def _watch(self) -> None:
        while not self._lifted.wait(self._every_s):
            with suppress(OSError, psutil.Error):  # out of file handles, for instance: that look counts for nothing
                if self._vigil.hangs():
                    self.hung = True
                    self._trainer.end_from_beside(STOP_GRACE_S)

    def _shows_life(self) -> bool:
        size_before, busy_before_s, pid = self._size, self._busy_s, self._trainer.pid
        size = self._events.stat().st_size if self._events.exists() else 0
        busy_s = 0.0 if pid is None else processor_time_s(pid)
        self._size, self._busy_s = size, busy_s  # both or none: a look that fails counts for nothing
        return self._size != size_before or has_worked(busy_before_s, self._busy_s, self._every_s)
