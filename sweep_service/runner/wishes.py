"""Work that must end while a runner works: by the user's wishes, or for another sweep's turn."""

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from sweep_service.store import Store
from sweep_service.sweep.endings import Ending, Stop
from sweep_service.sweep.records import DesiredState, Sweep, SweepState

READ_EVERY_S: Final = 1.0
SAVE_WITHIN_S: Final = 600.0
"""Seconds that a trainer has to save at a pause: one optimizer step, or the tokens under way, and a checkpoint."""


class Halt(NamedTuple):
    """The way in which a runner ends one attempt that the user no longer wants."""

    ending: Ending
    save_within_s: float = 0.0
    """Seconds that the trainer has to save before it is killed; 0 to kill it at once."""
    message: str | None = None
    """Message of the attempt's end."""


class Interruption(NamedTuple):
    """The way in which a runner ends its work when the user no longer wants the sweep to run."""

    halt: Halt
    """The end of the attempts under way."""
    state: SweepState
    """The state in which the runner leaves the sweep."""


_INTERRUPTIONS: Final[Mapping[DesiredState, Interruption]] = {
    DesiredState.PAUSE: Interruption(Halt(Ending.PAUSED, SAVE_WITHIN_S), SweepState.PAUSED),
    DesiredState.CANCEL: Interruption(Halt(Ending.CANCELLED), SweepState.CANCELLED),
}
"""Interruption that each wish asks for; `DesiredState.RUN`, which interrupts nothing, is left out."""


def interruption_for(sweep: Sweep) -> Interruption | None:
    """Return the way in which the wish for a sweep ends a runner's work; None if it lets it go on.

    A sweep that has trained keeps its verdict, whatever of its evaluations is interrupted: its report is built anew.
    """
    interruption = _INTERRUPTIONS.get(sweep.desired_state)
    if interruption is not None and sweep.desired_state.is_to_end and sweep.has_trained:
        return interruption._replace(state=SweepState.FINALIZING)
    return interruption


class Wishes:
    """Answers what the user wishes of one sweep, from a reading of the store that is at most a second old."""

    def __init__(self, store: Store, sweep_id: str) -> None:
        self._store, self._sweep_id = store, sweep_id
        self.sweep = store.get_sweep(sweep_id)
        """The sweep as it was at the last reading."""
        self.stops = dict[str, bool]()
        """The trials that the user wants stopped while the sweep goes on, and whether each one's result counts."""
        self.dropped = dict[str, str]()
        """The tune trials whose configs were dropped early, and what is said of each."""
        self.ruined = dict[str, str]()
        """The trials that end at once because they are ruined, and what is said of each."""
        self.yielding = dict[str, str]()
        """The trials and evaluations that give their slots back while the sweep goes on, and what is said of each."""
        self._interruption: Interruption | None = None
        self._read_at = float("-inf")

    @property
    def interruption(self) -> Interruption | None:
        """Interruption that the user asks for; None to go on.

        Once there is one, this runner keeps to it; only a cancel still takes the place of a pause.
        """
        now, present = time.monotonic(), self._interruption
        if (present is None or present.halt.save_within_s) and now - self._read_at > READ_EVERY_S:
            self._read_at = now
            self.sweep = self._store.get_sweep(self._sweep_id)
            self.stops = dict(self._store.stops(self._sweep_id))
            if self.sweep.spec.drops:
                self.dropped = self._store.dropped_running(self._sweep_id)
            self._interruption = interruption_for(self.sweep) or present
        return self._interruption

    def halt(self, work_id: str) -> Halt | None:
        """Return the end that an attempt of a trial or evaluation is to have: with the sweep, or alone; None to go on.

        A trial that is stopped by hand or by a rule saves, too, so that it can go on if it is tried again.
        """
        if interruption := self.interruption:
            return interruption.halt
        if (counts := self.stops.get(work_id)) is not None:
            return Halt(Stop.by_hand(counts=counts).ending, SAVE_WITHIN_S)
        if (message := self.dropped.get(work_id)) is not None:
            return Halt(Ending.EARLY_STOPPED, SAVE_WITHIN_S, message)
        if (message := self.ruined.get(work_id)) is not None:
            return Halt(Ending.RUINED, message=message)
        if (message := self.yielding.get(work_id)) is not None:
            return Halt(Ending.PAUSED, SAVE_WITHIN_S, message)
        return None

    @property
    def some_end(self) -> bool:
        """True if any attempt is to be ended."""
        return self.interruption is not None or bool(self.stops or self.dropped or self.ruined or self.yielding)
