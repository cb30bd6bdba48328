"""The states of a trial, and the one table of all endings with the meaning of each. Pure.

A new ending is a member of `Ending` with its row in `MEANINGS`, and whoever notices it names it. Code asks what an
ending means; only reports have sentences for single endings.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Self


class TrialState(StrEnum):
    """Where a trial is."""

    PENDING = "PENDING"  # waits for a slot, the first time or again after a crash
    RUNNING = "RUNNING"  # an attempt is under way
    SUCCEEDED = "SUCCEEDED"  # trained to the last step
    DIVERGED = "DIVERGED"  # loss or gradient became non-finite; counts as objective 0
    FAILED = "FAILED"  # ended by an error or too many crashes; its objective is missing
    CANCELLED = "CANCELLED"  # stopped with its sweep, or never begun
    STOPPED = "STOPPED"  # stopped by hand; the evaluations that it has recorded count
    DISCARDED = "DISCARDED"  # stopped by hand, and its result does not count

    @property
    def is_over(self) -> bool:
        """Whether a trial never leaves this state."""
        return self not in (TrialState.PENDING, TrialState.RUNNING)

    @property
    def has_result(self) -> bool:
        """Whether a trial counts in comparisons: one that diverged does, as 0."""
        return self.evaluations_count or self is TrialState.DIVERGED

    @property
    def evaluations_count(self) -> bool:
        """Whether a trial's last evaluations are its result, however many it has recorded."""
        return self in (TrialState.SUCCEEDED, TrialState.STOPPED)

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
    PAUSED = "PAUSED"
    CANCELLED = "CANCELLED"
    STOPPED = "STOPPED"


class Ending(StrEnum):
    """Reason why an attempt ended, or why a trial that waited was ended without another one."""

    SUCCEEDED = "SUCCEEDED"  # trained to the last step
    DIVERGED = "DIVERGED"  # loss or gradient became non-finite
    FAILED = "FAILED"  # the trainer said why; trying again would fail again
    TIMED_OUT = "TIMED_OUT"  # the trial has used up budget.max_trial_hours
    CRASHED = "CRASHED"  # the trainer died
    KILLED = "KILLED"  # by signal 9, as Linux does when the machine's memory is used up
    HUNG = "HUNG"  # the trainer showed no life for retries.hung_after_minutes
    LOST = "LOST"  # the runner, the actor or the node went away
    MACHINE_FAULT = "MACHINE_FAULT"  # the machine let it write or open no file: a full disk, too many open files
    PAUSED = "PAUSED"  # the sweep was paused
    CANCELLED = "CANCELLED"  # the sweep was stopped, or ended before the trial began
    OVER_BUDGET = "OVER_BUDGET"  # never begun: the trial might have passed budget.max_gpu_hours
    STOPPED = "STOPPED"  # somebody stopped the trial by hand; what it has recorded counts
    DISCARDED = "DISCARDED"  # somebody stopped the trial by hand, and wants no result of it


class Meaning(NamedTuple):
    """Consequences of an ending for the attempt and for its trial."""

    outcome: AttemptOutcome
    """Outcome that is published for the attempt."""
    state: TrialState
    """The state of the trial if it is not tried again."""
    retried: bool = False
    """Whether the trial is tried again."""
    is_crash: bool = False
    """Whether the ending counts against the trial: it is tried again only `retries.max_crashes` times in a row."""
    log_tells: bool = False
    """Whether the trainer's log may tell more than the message."""


MEANINGS: Final[Mapping[Ending, Meaning]] = {
    Ending.SUCCEEDED: Meaning(AttemptOutcome.SUCCEEDED, TrialState.SUCCEEDED),
    Ending.DIVERGED: Meaning(AttemptOutcome.DIVERGED, TrialState.DIVERGED),
    Ending.FAILED: Meaning(AttemptOutcome.FAILED, TrialState.FAILED, log_tells=True),
    Ending.TIMED_OUT: Meaning(AttemptOutcome.FAILED, TrialState.FAILED),
    Ending.CRASHED: Meaning(AttemptOutcome.CRASHED, TrialState.FAILED, retried=True, is_crash=True, log_tells=True),
    Ending.KILLED: Meaning(AttemptOutcome.CRASHED, TrialState.FAILED, retried=True, is_crash=True, log_tells=True),
    Ending.HUNG: Meaning(AttemptOutcome.CRASHED, TrialState.FAILED, retried=True, is_crash=True, log_tells=True),
    Ending.LOST: Meaning(AttemptOutcome.LOST, TrialState.FAILED, retried=True),
    Ending.MACHINE_FAULT: Meaning(AttemptOutcome.LOST, TrialState.FAILED, retried=True),
    Ending.PAUSED: Meaning(AttemptOutcome.PAUSED, TrialState.FAILED, retried=True),
    Ending.CANCELLED: Meaning(AttemptOutcome.CANCELLED, TrialState.CANCELLED),
    Ending.OVER_BUDGET: Meaning(AttemptOutcome.CANCELLED, TrialState.CANCELLED),
    Ending.STOPPED: Meaning(AttemptOutcome.STOPPED, TrialState.STOPPED),
    Ending.DISCARDED: Meaning(AttemptOutcome.STOPPED, TrialState.DISCARDED),
}
_LOG_COMMAND: Final = "\nIts log: sweeps logs "
CRASHES: Final = tuple(ending for ending, meaning in MEANINGS.items() if meaning.is_crash)


def with_log_command(message: str | None, ending: Ending, id_: str) -> str | None:
    """Return what is said of an attempt, and below it, if its log may tell more, the command that prints that.

    Args:
        id_: id of the trial or the evaluation.
    """
    if not MEANINGS[ending].log_tells:
        return message
    return f"{message or 'it did not say why'}{_LOG_COMMAND}{id_}"


def without_log_command(message: str) -> str:
    """Return a message without that command, for places that lead to the log themselves."""
    return message.rpartition(_LOG_COMMAND)[0] or message


def state_after(ending: Ending, crashes: int, max_crashes: int) -> TrialState:
    """Return the state of a trial after one of its attempts has ended.

    Args:
        ending: ending of the attempt.
        crashes: number of the trial's attempts that ended in one of `CRASHES`, this one included, since it got further.
        max_crashes: number of crashes that are forgiven.
    """
    meaning = MEANINGS[ending]
    given_up = meaning.is_crash and crashes > max_crashes
    return TrialState.PENDING if meaning.retried and not given_up else meaning.state


class Stop(NamedTuple):
    """An end that somebody asks for by hand."""

    ending: Ending
    message: str

    @classmethod
    def by_hand(cls, *, counts: bool) -> Self:
        """Return the stop of a trial whose result counts, or does not."""
        if counts:
            return cls(Ending.STOPPED, "stopped by hand; the evaluations that it has recorded count")
        return cls(Ending.DISCARDED, "stopped by hand; its result does not count")

    def takes_place_of(self, ending: Ending) -> bool:
        """Whether an attempt of a trial that is to be stopped ends so, and not by itself."""
        return MEANINGS[ending].retried or ending in (Ending.STOPPED, Ending.DISCARDED)
