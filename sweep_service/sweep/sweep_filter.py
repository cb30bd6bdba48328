"""Filter for lists of sweeps."""

from typing import Final, NamedTuple

from sweep_service.sweep.records import SweepState


class SweepFilter(NamedTuple):
    """The sweeps that a list shows: those that meet all conditions. Without any it shows all."""

    states: tuple[SweepState, ...] = ()
    """A sweep must be in one of these states."""
    labels: tuple[tuple[str, str], ...] = ()
    """Labels that a sweep must have, all of them, as names and texts."""
    text: str = ""
    """Part of a sweep's name or id, in capital letters or small ones."""
    created_after: float | None = None
    """Seconds since the Unix epoch; a sweep must have been submitted then or later."""
    created_before: float | None = None
    """Seconds since the Unix epoch; a sweep must have been submitted before."""


ALL_SWEEPS: Final = SweepFilter()
