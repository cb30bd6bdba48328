"""The status page's figures: means over seeds in groups of steps, progress, time left."""

import math
from typing import Any

import numpy as np
import pytest

from sweep_service.pages.page_curves import LinePoints, line_points
from sweep_service.pages.progress import duration, progress
from sweep_service.sweep.records import Stage, SweepState, Trial, TrialState

NAN = math.nan


def trial(number: int, state: TrialState, step: int = 0, **fields: Any) -> Trial:
    identity = {"id": f"trl_{number}", "sweep_id": "swp_x", "config_id": "cfg_x", "seed": number, "threads": 1}
    row = {"stage": Stage.TUNE, "number": number, "state": state, "step": step, "total_steps": 100}
    return Trial.model_validate(identity | row | fields)


def done(number: int, seconds: float, **fields: Any) -> Trial:
    return trial(number, TrialState.SUCCEEDED, 100, **{"started_at": 1000.0, "ended_at": 1000.0 + seconds} | fields)


def test_a_point_is_the_mean_of_the_seeds_that_have_a_value() -> None:
    seeds = [np.array([NAN, 1.0, 2.0, NAN]), np.array([NAN, 3.0, NAN, NAN])]
    assert line_points(seeds, 1) == LinePoints(x=[1, 2], mean=[2, 2], low=[1, 2], high=[3, 2], n=[2, 1])


def test_a_wide_point_is_the_mean_over_its_steps_and_hides_no_peak() -> None:
    seeds = [np.array([NAN, 1.0, 9.0, 2.0, NAN]), np.array([NAN, 3.0, NAN, NAN, NAN])]
    first_mean = (2.0 + 9.0) / 2  # of steps 1 and 2
    assert line_points(seeds, 3) == LinePoints(x=[1.5, 3], mean=[first_mean, 2], low=[1, 2], high=[9, 2], n=[2, 1])


def test_a_line_without_values_has_no_points() -> None:
    assert line_points([np.full(7, NAN)], 2) == LinePoints([], [], [], [], [])


def test_progress_counts_the_trials_to_come() -> None:
    trials = [done(0, 50), trial(1, TrialState.RUNNING, 50), trial(2, TrialState.PENDING), trial(3, TrialState.PENDING)]
    estimate = progress(SweepState.RUNNING, trials, 2, now=1075.0)
    assert (estimate.share, estimate.trials) == (1.5 / 6, 6)
    assert estimate.left_s == pytest.approx(50 * 4.5), "one trial at a time, 50 s each"


def test_time_left_is_shared_by_what_runs_and_at_least_that_of_the_slowest() -> None:
    running = [trial(1, TrialState.RUNNING, 50), trial(2, TrialState.RUNNING, 10)]
    estimate = progress(SweepState.RUNNING, [done(0, 100), *running], 0, now=0)
    assert estimate.left_s == pytest.approx(90)


def test_before_a_trial_has_ended_time_left_follows_from_those_that_run() -> None:
    running = [trial(0, TrialState.RUNNING, 25, started_at=1000.0), trial(1, TrialState.RUNNING, 0, started_at=1000.0)]
    estimate = progress(SweepState.RUNNING, running, 0, now=1010.0)
    assert estimate.left_s == pytest.approx(40)


@pytest.mark.parametrize("trials", [[], [trial(0, TrialState.PENDING)], [trial(0, TrialState.RUNNING)]])
def test_time_left_is_not_guessed(trials: list[Trial]) -> None:
    assert progress(SweepState.RUNNING, trials, to_come=1 - len(trials), now=0).left_s is None


@pytest.mark.parametrize(
    "state", [SweepState.CANCELLED, SweepState.FAILED, SweepState.SUCCEEDED, SweepState.FINALIZING]
)
def test_a_sweep_that_has_ended_waits_for_nothing(state: SweepState) -> None:
    estimate = progress(state, [done(0, 50), trial(1, TrialState.CANCELLED, 30)], 0, now=0)
    assert (estimate.share, estimate.trials, estimate.left_s) == (1.0, 2, None)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0 s"),
        (99.4, "99 s"),
        (100, "2 min"),
        (5940, "99 min"),
        (6000, "1 h 40 min"),
        (7200, "2 h"),
        (100_000, "27 h 47 min"),
        (200_000, "2 d 7 h"),
        (172_800, "2 d"),
    ],
)
def test_a_length_of_time_is_short(seconds: float, text: str) -> None:
    assert duration(seconds) == text
