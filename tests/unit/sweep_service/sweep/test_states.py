"""The meaning of each state, written down a second time."""

import pytest

from sweep_service.sweep.endings import (
    MEANINGS,
    AttemptOutcome,
    Ending,
    Stop,
    TrialState,
    with_log_command,
    without_log_command,
)
from sweep_service.sweep.records import DesiredState, SweepState


def having(states: type[SweepState] | type[TrialState] | type[DesiredState], name: str) -> set[str]:
    """Return the states that have a property."""
    return {state.value for state in states if getattr(state, name)}


def test_what_the_states_of_a_sweep_mean() -> None:
    assert having(SweepState, "is_over") == {"SUCCEEDED", "FAILED", "CANCELLED"}
    assert having(SweepState, "needs_runner") == {"QUEUED", "RUNNING"}
    assert having(SweepState, "needs_final_report") == {"FINALIZING"}
    assert having(SweepState, "trials_may_change") == {"QUEUED", "RUNNING", "PAUSED"}
    assert having(SweepState, "has_interim_report") == {"RUNNING", "PAUSED"}
    assert having(DesiredState, "is_to_end") == {"CANCEL"}


def test_a_sweep_shows_what_it_is_on_its_way_to() -> None:
    for state in SweepState:
        assert DesiredState.RUN.shown(state) == state.value
        assert DesiredState.CANCEL.shown(state) == (state.value if state.is_over else "CANCELLING")
    assert [DesiredState.PAUSE.shown(state) for state in (SweepState.QUEUED, SweepState.RUNNING)] == ["PAUSING"] * 2
    assert DesiredState.PAUSE.shown(SweepState.PAUSED) == "PAUSED"


def test_what_the_states_of_a_trial_mean() -> None:
    assert having(TrialState, "is_over") == {"SUCCEEDED", "DIVERGED", "FAILED", "CANCELLED", "STOPPED", "DISCARDED"}
    assert having(TrialState, "has_result") == {"SUCCEEDED", "DIVERGED", "STOPPED"}
    assert having(TrialState, "evaluations_count") == {"SUCCEEDED", "STOPPED"}
    assert having(TrialState, "went_wrong") == {"DIVERGED", "FAILED"}


@pytest.mark.parametrize(("counts", "state"), [(True, TrialState.STOPPED), (False, TrialState.DISCARDED)])
def test_a_stop_by_hand_takes_the_place_of_what_would_be_tried_again_and_of_nothing_else(
    counts: bool, state: TrialState
) -> None:
    stop = Stop.by_hand(counts=counts)
    assert (MEANINGS[stop.ending].state, MEANINGS[stop.ending].outcome) == (state, AttemptOutcome.STOPPED)
    assert state.has_result is counts
    kept = {ending.value for ending in Ending if not stop.takes_place_of(ending)}
    assert kept == {"SUCCEEDED", "DIVERGED", "FAILED", "TIMED_OUT", "CANCELLED", "OVER_BUDGET"}


def test_the_log_is_named_where_it_may_tell_more() -> None:
    named = {
        ending.value for ending in Ending if "sweeps logs trl_1" in (with_log_command("so", ending, "trl_1") or "")
    }
    assert named == {"FAILED", "CRASHED", "KILLED", "HUNG"}
    assert with_log_command("so", Ending.TIMED_OUT, "trl_1") == "so"
    assert with_log_command(None, Ending.CRASHED, "trl_1") == "it did not say why\nIts log: sweeps logs trl_1"
    assert without_log_command("a\nb\nIts log: sweeps logs trl_1") == "a\nb"
    assert without_log_command("a\nb") == "a\nb"
