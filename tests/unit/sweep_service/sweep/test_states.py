"""The meaning of each state, written down a second time."""

from sweep_service.sweep.endings import TrialState
from sweep_service.sweep.records import DesiredState, SweepState


def having(states: type[SweepState] | type[TrialState] | type[DesiredState], name: str) -> set[str]:
    """Return the states that have a property."""
    return {state.value for state in states if getattr(state, name)}


def test_what_the_states_of_a_sweep_mean() -> None:
    assert having(SweepState, "is_over") == {"SUCCEEDED", "FAILED", "CANCELLED"}
    assert having(SweepState, "needs_runner") == {"QUEUED", "RUNNING"}
    assert having(SweepState, "needs_final_report") == {"FINALIZING"}
    assert having(SweepState, "trials_may_change") == {"QUEUED", "RUNNING"}
    assert having(SweepState, "has_interim_report") == {"RUNNING"}
    assert having(DesiredState, "is_to_end") == {"CANCEL"}


def test_what_the_states_of_a_trial_mean() -> None:
    assert having(TrialState, "is_over") == {"SUCCEEDED", "DIVERGED", "FAILED", "CANCELLED"}
    assert having(TrialState, "has_result") == {"SUCCEEDED", "DIVERGED"}
    assert having(TrialState, "went_wrong") == {"DIVERGED", "FAILED"}
