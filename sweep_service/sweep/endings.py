"""The states of a trial, and the one table of all endings with the meaning of each. Pure.

A new ending is a member of `Ending` with its row in `MEANINGS`, and whoever notices it names it. Code asks what an
ending means; only reports have sentences of their own for single endings.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, NamedTuple, Protocol, Self


class TrialState(StrEnum):
    """State of a trial."""  # `state_table.TRIAL_LIFE` explains each state

    PENDING = "PENDING"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    DIVERGED = "DIVERGED"
    FAILED = "FAILED"
    CANCELLED = "CANCELLED"
    STOPPED = "STOPPED"
    DISCARDED = "DISCARDED"
    EARLY_STOPPED = "EARLY_STOPPED"

    @property
    def is_over(self) -> bool:
        """True if a trial never leaves this state."""
        return self not in (TrialState.PENDING, TrialState.RUNNING)

    @property
    def has_result(self) -> bool:
        """True if a trial counts in comparisons: one that diverged does, as 0."""
        return self.evaluations_count or self is TrialState.DIVERGED

    @property
    def evaluations_count(self) -> bool:
        """True if a trial's last evaluations are its result, however many it has recorded."""
        return self in (TrialState.SUCCEEDED, TrialState.STOPPED)

    @property
    def went_wrong(self) -> bool:
        """True if a trial ended by itself before its last step, so that somebody should look at it."""
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

    SUCCEEDED = "SUCCEEDED"
    DIVERGED = "DIVERGED"
    RUINED = "RUINED"
    FAILED = "FAILED"
    TIMED_OUT = "TIMED_OUT"
    CRASHED = "CRASHED"
    KILLED = "KILLED"
    HUNG = "HUNG"
    LOST = "LOST"
    MACHINE_FAULT = "MACHINE_FAULT"
    PAUSED = "PAUSED"
    CANCELLED = "CANCELLED"
    OVER_BUDGET = "OVER_BUDGET"
    STOPPED = "STOPPED"
    DISCARDED = "DISCARDED"
    EARLY_STOPPED = "EARLY_STOPPED"


class Meaning(NamedTuple):
    """Meaning of an ending, and its consequences for the attempt and its trial."""

    text: str
    """A sentence for people."""
    outcome: AttemptOutcome
    """Outcome that is published for the attempt."""
    state: TrialState
    """The state of the trial if it is not tried again."""
    retried: bool = False
    """True if the trial is tried again."""
    is_crash: bool = False
    """True if the ending counts against the trial: it is tried again only `retries.max_crashes` times in a row."""
    is_own_fault: bool = False
    """True if a trial that ends so may have ended badly because of what it trains, and counts against its config."""
    log_tells: bool = False
    """True if the trainer's log may tell more than the message."""
    remedy: str = ""
    """Remedy for people; empty where nothing is wrong."""


_O, _T = AttemptOutcome, TrialState
_CRASH: Final = Meaning("", _O.CRASHED, _T.FAILED, retried=True, is_crash=True, is_own_fault=True, log_tells=True)
"""A trainer's death, of whatever kind: it may be the training's own fault, and the log may tell why."""
MEANINGS: Final[Mapping[Ending, Meaning]] = {
    Ending.SUCCEEDED: Meaning("It trained to the last step.", _O.SUCCEEDED, _T.SUCCEEDED),
    Ending.DIVERGED: Meaning(
        "Loss or gradient became infinite or undefined, which is a result.", _O.DIVERGED, _T.DIVERGED
    ),
    Ending.RUINED: Meaning(
        "It had lost half of its right answers, and `health.answers_lost` ends such a trial; it counts as diverged.",
        _O.DIVERGED,
        _T.DIVERGED,
    ),
    Ending.FAILED: Meaning(
        "The trainer said why, such as that a GPU's memory ran out; the same would happen again.",
        _O.FAILED,
        _T.FAILED,
        is_own_fault=True,
        log_tells=True,
        remedy="Do what the message says, then `sweeps retry`; a setting of the training needs a new sweep.",
    ),
    Ending.TIMED_OUT: Meaning(
        "The trial has used up `budget.max_trial_hours`.",
        _O.FAILED,
        _T.FAILED,
        is_own_fault=True,
        remedy="`sweeps extend` with more of these hours, then `sweeps retry`.",
    ),
    Ending.CRASHED: _CRASH._replace(
        text="The trainer died without a word.",
        remedy="`sweeps logs TRIAL` has its last words; `sweeps retry` once the reason is gone.",
    ),
    Ending.KILLED: _CRASH._replace(
        text="The trainer died by signal 9, as Linux kills when the machine's memory is used up.",
        remedy="Fewer trials at a time: `sweeps extend` with a smaller `resources.max_parallel`.",
    ),
    Ending.HUNG: _CRASH._replace(
        text="The trainer showed no life for `retries.hung_after_minutes`.",
        remedy="`sweeps logs TRIAL` tells where it stood; a larger limit where that is slow work.",
    ),
    Ending.LOST: Meaning(
        "The runner, the actor, Ray or the node went away, by no fault of the trial's.",
        _O.LOST,
        _T.FAILED,
        retried=True,
        remedy="None, unless ten attempts in a row are lost before one gets further; the logs of Ray may say why.",
    ),
    Ending.MACHINE_FAULT: Meaning(
        "The machine let it write or open no file: a full disk, too many open files.",
        _O.LOST,
        _T.FAILED,
        retried=True,
        remedy="Free the disk, or raise the limit; nothing begins until then, and all goes on by itself, unless a "
        "hundred attempts in a row end so before one gets further.",
    ),
    Ending.PAUSED: Meaning("The sweep was paused, or it was another one's turn.", _O.PAUSED, _T.FAILED, retried=True),
    Ending.CANCELLED: Meaning("The sweep was stopped, or ended before the trial began.", _O.CANCELLED, _T.CANCELLED),
    Ending.OVER_BUDGET: Meaning(
        "It never began, because it might have passed `budget.max_gpu_hours`.",
        _O.CANCELLED,
        _T.CANCELLED,
        remedy="`sweeps extend` with more GPU-hours.",
    ),
    Ending.STOPPED: Meaning(
        "Somebody stopped the trial; what it has recorded counts.",
        _O.STOPPED,
        _T.STOPPED,
        remedy="`sweeps retry TRIAL` lets it go on.",
    ),
    Ending.DISCARDED: Meaning(
        "Somebody stopped the trial, and wants no result of it.",
        _O.STOPPED,
        _T.DISCARDED,
        remedy="`sweeps retry TRIAL` lets it go on.",
    ),
    Ending.EARLY_STOPPED: Meaning(
        "`early_stopping`, or `health` for a sign of one of its runs, dropped its config.",
        _O.STOPPED,
        _T.EARLY_STOPPED,
        remedy="`sweeps retry TRIAL` takes the config back.",
    ),
}
_LOG_COMMAND: Final = "\nIts log: sweeps logs "
CRASHES: Final = tuple(ending for ending, meaning in MEANINGS.items() if meaning.is_crash)


def full_message(message: str | None, ending: Ending, id_: str, crashes: int, max_crashes: int) -> str | None:
    """Return an attempt's message, and below it the count of its crash, and the command that prints a telling log.

    Args:
        id_: id of the trial or the evaluation.
        crashes: as for `state_after`.
        max_crashes: number of crashes that are forgiven.
    """
    meaning, lines = MEANINGS[ending], message or "it did not say why"
    if meaning.is_crash:
        lines += f"\nThis was crash {crashes} in a row without getting further; {max_crashes} are forgiven."
    if meaning.log_tells:
        lines += f"{_LOG_COMMAND}{id_}"
    return lines if meaning.is_crash or meaning.log_tells else message


def without_log_command(message: str) -> str:
    """Return a message without that command, for places that lead to the log themselves."""
    return message.rpartition(_LOG_COMMAND)[0] or message


class _Work(Protocol):
    """A trial or an evaluation."""

    @property
    def state(self) -> TrialState: ...
    @property
    def ending(self) -> Ending | None: ...


def end_name(work: _Work) -> Ending | None:
    """Return the ending of a trial or an evaluation, where it says more than its state."""
    return None if work.ending is None or work.ending.value == work.state.value else work.ending


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
        """True if an attempt of a trial that is to be stopped ends so, and not by itself."""
        return MEANINGS[ending].retried or ending in (Ending.STOPPED, Ending.DISCARDED, Ending.EARLY_STOPPED)
