"""The states of a trial, and the one table of all endings with the meaning of each. Pure.

A new ending is a member of `Ending` with its row in `MEANINGS`, and whoever notices it names it. Code asks what an
ending means; only reports have sentences for single endings.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple


class TrialState(StrEnum):
    """Where a trial is."""

    PENDING = "PENDING"  # waits for a slot, the first time or again after a crash
    RUNNING = "RUNNING"  # an attempt is under way
    SUCCEEDED = "SUCCEEDED"  # trained to the last step
    DIVERGED = "DIVERGED"  # loss or gradient became non-finite; counts as objective 0
    FAILED = "FAILED"  # ended by an error or too many crashes; its objective is missing
    CANCELLED = "CANCELLED"  # stopped with its sweep, or never begun

    @property
    def is_over(self) -> bool:
        """Whether a trial never leaves this state."""
        return self not in (TrialState.PENDING, TrialState.RUNNING)

    @property
    def has_result(self) -> bool:
        """Whether a trial counts in comparisons: one that diverged does, as 0."""
        return self in (TrialState.SUCCEEDED, TrialState.DIVERGED)

    @property
    def went_wrong(self) -> bool:
        """Whether a trial ended by itself before its last step, so that somebody should look at it."""
        return self in (TrialState.FAILED, TrialState.DIVERGED)


class AttemptOutcome(StrEnum):
    """Outcome of an attempt in the words of the event `attempt.finished`; `Ending` is more exact."""

    SUCCEEDED = "SUCCEEDED"
    DIVERGED = "DIVERGED"
    FAILED = "FAILED"
    CRASHED = "CRASHED"
    LOST = "LOST"
    CANCELLED = "CANCELLED"


class Ending(StrEnum):
    """Reason why an attempt ended, or why a trial that waited was ended without another one."""

    SUCCEEDED = "SUCCEEDED"  # trained to the last step
    DIVERGED = "DIVERGED"  # loss or gradient became non-finite
    FAILED = "FAILED"  # the trainer said why; trying again would fail again
    TIMED_OUT = "TIMED_OUT"  # the trial has used up budget.max_trial_hours
    CRASHED = "CRASHED"  # the trainer or its actor died
    KILLED = "KILLED"  # by signal 9, as Linux does when the machine's memory is used up
    LOST = "LOST"  # the runner or the node went away
    CANCELLED = "CANCELLED"  # the sweep was stopped, or ended before the trial began
    OVER_BUDGET = "OVER_BUDGET"  # never begun: the trial might have passed budget.max_gpu_hours


class Meaning(NamedTuple):
    """Consequences of an ending for the attempt and for its trial."""

    outcome: AttemptOutcome
    """Outcome that is published for the attempt."""
    state: TrialState
    """The state of the trial if it is not tried again."""
    retried: bool = False
    """Whether the trial is tried again."""
    is_crash: bool = False
    """Whether the ending counts against the trial: it is tried again only `retries.max_crashes` times."""


MEANINGS: Final[Mapping[Ending, Meaning]] = {
    Ending.SUCCEEDED: Meaning(AttemptOutcome.SUCCEEDED, TrialState.SUCCEEDED),
    Ending.DIVERGED: Meaning(AttemptOutcome.DIVERGED, TrialState.DIVERGED),
    Ending.FAILED: Meaning(AttemptOutcome.FAILED, TrialState.FAILED),
    Ending.TIMED_OUT: Meaning(AttemptOutcome.FAILED, TrialState.FAILED),
    Ending.CRASHED: Meaning(AttemptOutcome.CRASHED, TrialState.FAILED, retried=True, is_crash=True),
    Ending.KILLED: Meaning(AttemptOutcome.CRASHED, TrialState.FAILED, retried=True, is_crash=True),
    Ending.LOST: Meaning(AttemptOutcome.LOST, TrialState.FAILED, retried=True),
    Ending.CANCELLED: Meaning(AttemptOutcome.CANCELLED, TrialState.CANCELLED),
    Ending.OVER_BUDGET: Meaning(AttemptOutcome.CANCELLED, TrialState.CANCELLED),
}
CRASHES: Final = tuple(ending for ending, meaning in MEANINGS.items() if meaning.is_crash)


def state_after(ending: Ending, crashes: int, max_crashes: int) -> TrialState:
    """Return the state of a trial after one of its attempts has ended.

    Args:
        ending: ending of the attempt.
        crashes: number of the trial's attempts that ended in one of `CRASHES`, this one included.
        max_crashes: number of crashes that are forgiven.
    """
    meaning = MEANINGS[ending]
    given_up = meaning.is_crash and crashes > max_crashes
    return TrialState.PENDING if meaning.retried and not given_up else meaning.state
