"""The meaning of each state, written down a second time."""

import runpy
from pathlib import Path

import pytest

from sweep_service.runner.lease import LEASE_S
from sweep_service.runner.trainer_launch import STOP_GRACE_S
from sweep_service.runner.wishes import SAVE_WITHIN_S
from sweep_service.sweep.endings import (
    CRASHES,
    MEANINGS,
    AttemptOutcome,
    Ending,
    Stop,
    TrialState,
    full_message,
    without_log_command,
)
from sweep_service.sweep.records import DesiredState, SweepState
from sweep_service.sweep.state_table import SHOWN_LIFE, SWEEP_LIFE, TRIAL_LIFE, sweep_meaning
from sweep_service.worker.reports.builder import LONGEST_S
from sweep_service.worker.work_loop import PATIENCE_S

DOCS = Path(__file__).parents[4] / "docs"


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
    assert having(TrialState, "is_over") == {
        "SUCCEEDED",
        "DIVERGED",
        "FAILED",
        "CANCELLED",
        "STOPPED",
        "DISCARDED",
        "EARLY_STOPPED",
    }
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
    own_endings = {ending.value for ending in Ending if not stop.takes_place_of(ending)}
    assert own_endings == {"SUCCEEDED", "DIVERGED", "RUINED", "FAILED", "TIMED_OUT", "CANCELLED", "OVER_BUDGET"}


def test_the_log_is_named_where_it_may_tell_more() -> None:
    messages = {ending: full_message("so", ending, "trl_1", 2, 3) or "" for ending in Ending}
    assert {ending for ending, text in messages.items() if "sweeps logs trl_1" in text} == {Ending.FAILED, *CRASHES}
    assert {ending for ending, text in messages.items() if "crash 2 in a row" in text} == {*CRASHES}
    assert full_message("so", Ending.TIMED_OUT, "trl_1", 2, 3) == "so"
    assert full_message(None, Ending.SUCCEEDED, "trl_1", 0, 3) is None
    assert full_message(None, Ending.CRASHED, "trl_1", 4, 3) == (
        "it did not say why\nThis was crash 4 in a row without getting further; 3 are forgiven.\n"
        "Its log: sweeps logs trl_1"
    )
    assert without_log_command("a\nb\nIts log: sweeps logs trl_1") == "a\nb"
    assert without_log_command("a\nb") == "a\nb"


def test_the_documented_states_are_those_of_the_code() -> None:
    page = (DOCS / "states.md").read_text(encoding="utf-8")
    assert runpy.run_path(str(DOCS / "states_table.py"))["with_tables"](page) == page, "run docs/states_table.py"
    assert set(SWEEP_LIFE) == set(SweepState)
    assert set(TRIAL_LIFE) == set(TrialState)
    assert set(MEANINGS) == set(Ending)
    assert [sweep_meaning(word) for word in ("PAUSING", "ARCHIVED")] == [SHOWN_LIFE["PAUSING"].meaning, ""]
    shown = {wish.shown(state) for wish in DesiredState for state in SweepState}
    assert shown == {*SweepState, *SHOWN_LIFE}


def test_a_state_is_final_if_nothing_follows_by_itself() -> None:
    for lives in (SWEEP_LIFE, TRIAL_LIFE):
        assert all(state.is_over == (not life.next) for state, life in lives.items())
        assert all(state.is_over for state, life in lives.items() if life.opened)


def test_a_trial_may_go_where_its_endings_lead() -> None:
    after = {meaning.state for meaning in MEANINGS.values()}
    assert all(state.is_over for state in after)
    assert TRIAL_LIFE[TrialState.RUNNING].next == after | {TrialState.PENDING}


def test_the_sentences_give_the_figures_of_the_code() -> None:
    assert f"silent for {LEASE_S:.0f} seconds" in SWEEP_LIFE[SweepState.RUNNING].until
    assert f"after {PATIENCE_S / 60:.0f} minutes in which runners died" in SWEEP_LIFE[SweepState.RUNNING].until
    assert f"not done after {LONGEST_S / 60:.0f} minutes" in SWEEP_LIFE[SweepState.FINALIZING].until
    assert f"not saved after {SAVE_WITHIN_S / 60:.0f} minutes" in SHOWN_LIFE["PAUSING"].until
    assert f"not ended after {STOP_GRACE_S:.0f} seconds" in SHOWN_LIFE["CANCELLING"].until
