"""The user's wishes for a sweep while its runner works: one object reads them from the store and tells everybody."""

import time
from collections.abc import Mapping
from typing import Final, NamedTuple

from sweep_service.store import Store
from sweep_service.sweep.endings import Ending
from sweep_service.sweep.records import DesiredState, SweepState

READ_EVERY_S: Final = 1.0


class Interruption(NamedTuple):
    """The way in which a runner ends its work when the user no longer wants the sweep to run."""

    ending: Ending
    """Ending of the attempts under way."""
    state: SweepState
    """The state in which the runner leaves the sweep."""


_INTERRUPTIONS: Final[Mapping[DesiredState, Interruption]] = {
    DesiredState.CANCEL: Interruption(Ending.CANCELLED, SweepState.CANCELLED),
}
"""Interruption that each wish asks for; `DesiredState.RUN`, which interrupts nothing, is left out."""


def interruption_for(wish: DesiredState) -> Interruption | None:
    """Return the way in which a wish ends a runner's work; None if it lets it go on."""
    return _INTERRUPTIONS.get(wish)


class Wishes:
    """Answers what the user wishes of one sweep, from a reading of the store that is at most a second old."""

    def __init__(self, store: Store, sweep_id: str) -> None:
        self._store, self._sweep_id = store, sweep_id
        self._interruption: Interruption | None = None
        self._read_at = float("-inf")

    @property
    def interruption(self) -> Interruption | None:
        """Interruption that the user asks for; None to go on. Once there is one, this runner keeps to it."""
        now = time.monotonic()
        if self._interruption is None and now - self._read_at > READ_EVERY_S:
            self._read_at = now
            self._interruption = interruption_for(self._store.get_sweep(self._sweep_id).desired_state)
        return self._interruption
