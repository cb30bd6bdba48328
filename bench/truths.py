"""Conditions under which a word of the report is true in a world.

Runs of a config are drawn from its world: each is ruined with some probability, and sound otherwise. A run is sound if
it neither fails nor collapses nor ends far below the others. `docs/statistics.md` says the same in words.
"""

from typing import NamedTuple

from sweep_service.report.model import Outcome


class Truth(NamedTuple):
    """A config in a world."""

    sound: float
    """Mean result of a sound run."""
    rate: float = 0.0
    """Probability that a run is ruined."""
    ruin: float = 0.0
    """Mean result of a ruined run; of one that fails, what it would have scored."""

    @property
    def average(self) -> float:
        """Mean result of a run."""
        return (1 - self.rate) * self.sound + self.rate * self.ruin


def is_false(outcome: Outcome, config: Truth, comparator: Truth, relevant: float) -> bool:
    """Return True if a word is false of these two configs; a word that claims nothing is never false."""
    if outcome.sign is None:
        return False
    difference = config.average - comparator.average if outcome.is_of_all else config.sound - comparator.sound
    return abs(difference) >= relevant if outcome.sign == 0 else outcome.sign * difference <= 1e-12
