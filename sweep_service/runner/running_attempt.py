"""Attempts under way, as the ledger knows them from their actors' reports."""

import time
from dataclasses import dataclass, field
from typing import Final

from sweep_service.processes.vigil import Vigil
from sweep_service.sweep.records import Attempt, Work

SILENT_S: Final = 300.0
"""Seconds without a report after which an actor hangs, which reports every second; removing old files may take long."""
_LOOK_EVERY_S: Final = 10.0
PLACED_WITHIN_S: Final = 10.0
"""After this many seconds without a report, check whether the cluster has room for the actor."""


@dataclass
class RunningAttempt:
    """An attempt that was handed out and has not ended."""

    attempt: Attempt
    """The attempt, with the process of its trainer once that is known."""
    work: Work
    """The trial or evaluation as it was when it was handed out."""
    limit_hours: float | None = None
    """The hours that the spec gave each trial then; None for no limit."""
    held_s: float = 0.0
    """Seconds for which the attempt has held its resources, by its actor's last report."""
    stored_s: float = 0.0
    """Seconds of `held_s` that the store has."""
    reported_at: float | None = None
    """Time of the last report, on the monotonic clock."""
    asked_at: float | None = None
    """Time at which its trainer was asked to save and end."""
    actor: tuple[str, int, float] | None = None
    """Host, pid and start of the actor's process, once it has reported."""
    has_reported: bool = False
    """True if a report came since the vigil last looked."""
    vigil: Vigil = field(init=False)
    """Notices an actor that lives and reports no more."""
    actor_error: str = "its actor ended, or the node that it ran on"
    """Ray's words for the actor's end."""

    def __post_init__(self) -> None:
        self.vigil = Vigil(self._shows_life, SILENT_S, _LOOK_EVERY_S)

    @property
    def waits_for_place(self) -> bool:
        """True if it was handed out seconds ago, and no actor has reported: Ray may have no place for it."""
        return self.actor is None and time.time() - self.attempt.started_at > PLACED_WITHIN_S

    def _shows_life(self) -> bool:
        """True if the actor has reported since the last look, or has not begun to: it may wait for its place."""
        reported, self.has_reported = self.has_reported or self.actor is None, False
        return reported
