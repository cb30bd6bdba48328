"""The deadline of a trainer. It is kept even if nobody calls the actor any more because its runner is stuck."""

import threading
from contextlib import suppress
from typing import Final

from sweep_service.runner.trainer_launch import STOP_GRACE_S
from sweep_service.runner.trainer_process import Trainer

_LOOK_EVERY_S: Final = 0.1


class Deadline:
    """Ends a trainer at its deadline: SIGTERM, and SIGKILL after `STOP_GRACE_S`.

    Args:
        trainer: the trainer to end; if it has no process yet, it is ended as soon as it has one.
        seconds: time from now to the deadline.
    """

    def __init__(self, trainer: Trainer, seconds: float) -> None:
        self.passed = False
        self._trainer, self._seconds = trainer, seconds
        self._lifted = threading.Event()
        threading.Thread(target=self._watch, name="deadline", daemon=True).start()

    def lift(self) -> None:
        """Cancel the deadline: the trainer has ended, or its owner ends it."""
        self._lifted.set()

    def _watch(self) -> None:
        wait_s = max(0.0, self._seconds)
        while not self._lifted.wait(wait_s):
            self.passed, wait_s = True, _LOOK_EVERY_S
            with suppress(OSError):  # out of file handles, for instance: that passes
                if self._trainer.started_at is not None:
                    self._trainer.end_from_beside(STOP_GRACE_S)
                    return
