"""A sweep's progress and the time it has left, computed from its trials. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from sweep_service.sweep.records import SweepState, Trial, TrialState


@dataclass(frozen=True)
class Progress:
    """A sweep's progress."""

    share: float
    """Done share (0 to 1) of all updates, those to come included; a trial that has ended counts as whole."""
    trials: int
    """Number of trials, those to come included."""
    left_s: float | None
    """Expected seconds to the end of the last trial; None while unknown, and when no trial is left."""


def progress(state: SweepState, trials: Sequence[Trial], to_come: int, now: float) -> Progress:
    """Return a sweep's progress.

    Args:
        to_come: number of trials that it makes later, at most.
        now: current time, in seconds since the Unix epoch.
    """
    goes_on = state.trials_may_change
    total = len(trials) + to_come
    done = sum(1.0 if trial.state.is_over else trial.step / trial.total_steps for trial in trials)
    share = done / total if total else float(not goes_on)
    return Progress(share=share, trials=total, left_s=_left(trials, total - done, now) if goes_on else None)


def _left(trials: Sequence[Trial], whole_trials: float, now: float) -> float | None:
    running = [trial for trial in trials if trial.state is TrialState.RUNNING]
    took = [
        trial.ended_at - trial.started_at
        for trial in trials
        if trial.state is TrialState.SUCCEEDED and trial.started_at and trial.ended_at
    ]
    took = took or [
        (now - trial.started_at) * trial.total_steps / trial.step
        for trial in running
        if trial.started_at and trial.step
    ]
    if not took or not running:
        return None
    longest = max(1 - trial.step / trial.total_steps for trial in running)
    return median(took) * max(longest, whole_trials / len(running))


def duration(seconds: float) -> str:
    """Return a length of time such as `40 s`, `7 min`, `1 h 20 min`, `3 d 4 h`."""
    if seconds < 99.5:
        return f"{max(0, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 100:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(hours, 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
