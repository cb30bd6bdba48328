"""The lives of sweeps and of their trials, state by state: its meaning, its end, and the states that may follow. Pure.

The store lets a sweep go only where `SWEEP_LIFE` leads, the pages show the sentences, and `docs/states_table.py` writes
`docs/states.md`. Evaluations live as trials do. How attempts end is in `endings.MEANINGS`.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Generic, NamedTuple, TypeVar

from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.records import SweepState

State = TypeVar("State", bound=StrEnum)


class Life(NamedTuple, Generic[State]):
    """Description of a state."""

    meaning: str
    """A sentence for people."""
    until: str
    """The end of the state, and its deadline."""
    next: frozenset[State] = frozenset()
    """States that may follow by themselves, or because the user wishes so."""
    opened: frozenset[State] = frozenset()
    """States that may follow in a new generation: after an extension, another try, or added benchmarks."""


_S, _T = SweepState, TrialState
_FINAL: Final = "For good, unless somebody gives it more to do."

SWEEP_LIFE: Final[Mapping[SweepState, Life[SweepState]]] = {
    _S.QUEUED: Life(
        "It is stored, and waits for a worker or for Ray.",
        "For as long as that takes; its page says what it waits for.",
        frozenset({_S.RUNNING, _S.PAUSED, _S.FINALIZING, _S.CANCELLED, _S.FAILED}),
    ),
    _S.RUNNING: Life(
        "A runner hands out its trials, or waits for a slot, or for a node that has what they ask for.",
        "Until nothing is left to train; for a node it waits up to `budget.max_wait_hours`. A runner that is silent "
        "for 10 seconds loses it; "
        "it has FAILED after 5 minutes in which runners died and nothing got further.",
        frozenset({_S.QUEUED, _S.PAUSED, _S.FINALIZING, _S.CANCELLED, _S.FAILED}),
    ),
    _S.PAUSED: Life(
        "It trains nothing and holds no slot until somebody resumes it.",
        "Until then.",
        frozenset({_S.QUEUED}),
    ),
    _S.FINALIZING: Life(
        "All trials have ended; its report is being built.",
        "A report that is not done after 10 minutes fails, and the sweep with it.",
        frozenset({_S.SUCCEEDED, _S.CANCELLED, _S.FAILED}),
    ),
    _S.SUCCEEDED: Life("Its report is there.", _FINAL, opened=frozenset({_S.QUEUED})),
    _S.FAILED: Life("It could not go on; its message says why.", _FINAL, opened=frozenset({_S.QUEUED})),
    _S.CANCELLED: Life("Somebody has cancelled it; its report has what was trained.", "For good."),
}

SHOWN_LIFE: Final[Mapping[str, Life[SweepState]]] = {
    "PAUSING": Life(
        "Its running trials save; then it is PAUSED.",
        "A trainer that has not saved after 10 minutes is killed; its trial goes on later from an older checkpoint.",
        frozenset({_S.PAUSED, _S.QUEUED, _S.CANCELLED, _S.FINALIZING}),
    ),
    "CANCELLING": Life(
        "Its trials are being ended; then it is CANCELLED.",
        "A trainer that has not ended after 3 seconds is killed.",
        frozenset({_S.CANCELLED, _S.FINALIZING}),
    ),
}
"""Words that are shown instead of the state while a wish is carried out."""

_OVER: Final = frozenset({_T.FAILED, _T.CANCELLED, _T.STOPPED, _T.DISCARDED, _T.EARLY_STOPPED})

TRIAL_LIFE: Final[Mapping[TrialState, Life[TrialState]]] = {
    _T.PENDING: Life(
        "It waits for a slot, the first time or again.",
        "For as long as its sweep runs or is paused; it is CANCELLED with it.",
        _OVER | {_T.RUNNING},
    ),
    _T.RUNNING: Life(
        "An attempt is under way.",
        "`budget.max_trial_hours`, and `retries.hung_after_minutes` without a sign of life.",
        _OVER | {_T.PENDING, _T.SUCCEEDED, _T.DIVERGED},
    ),
    _T.SUCCEEDED: Life("It trained to the last step.", "For good."),
    _T.DIVERGED: Life("Its loss or gradient became infinite or undefined; it counts as objective 0.", "For good."),
    _T.FAILED: Life("It ended by an error, and its objective is missing.", _FINAL, opened=frozenset({_T.PENDING})),
    _T.CANCELLED: Life("It ended with its sweep, or never began.", _FINAL, opened=frozenset({_T.PENDING})),
    _T.STOPPED: Life(
        "Somebody has stopped it; the evaluations that it has recorded count.", _FINAL, opened=frozenset({_T.PENDING})
    ),
    _T.DISCARDED: Life(
        "Somebody has stopped it, and its result does not count.", _FINAL, opened=frozenset({_T.PENDING})
    ),
    _T.EARLY_STOPPED: Life(
        "`early_stopping` or `health` dropped its config, so it has no result.", _FINAL, opened=frozenset({_T.PENDING})
    ),
}


def sweep_meaning(word: str) -> str:
    """Return the sentence on a word that is shown for a sweep's state; none for other words."""
    lives: Mapping[str, Life[SweepState]] = {**SWEEP_LIFE, **SHOWN_LIFE}
    return lives[word].meaning if word in lives else ""
