"""Looks at the health of trials while they train and at their end: warns of signs, and does what the spec asks."""

from collections.abc import Mapping, Sequence
from typing import Any

from sweep_service.health.run_health import RunCurves, window
from sweep_service.health.signs import KEYS
from sweep_service.runner.trainer_process import AttemptEnd
from sweep_service.runner.wishes import Wishes
from sweep_service.stopping.signs_shown import dropped_for, ruin, signs_shown, stopping_sign
from sweep_service.stopping.table import standing_of
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import MEANINGS, Ending
from sweep_service.sweep.objective import objective_metrics
from sweep_service.sweep.records import Stage, Sweep, Trial, TrialWarning, Work


class HealthWatch:
    """The signs of one sweep's trials, while its runner lives."""

    def __init__(self, store: Store, fence: Fence, wishes: Wishes) -> None:
        self._store, self._fence, self._wishes = store, fence, wishes
        self._seen = dict[str, int]()  # by trial the step at which it was noted last
        self._due = dict[str, None]()

    def note_events(self, trial: Work, events: Sequence[Mapping[str, Any]]) -> None:
        """Note new events of a trial: it is looked at after each evaluation, and after each window of steps."""
        evaluated = any(event["type"] == "evaluation" for event in events)
        step = max((event["step"] for event in events if event["type"] == "step"), default=0)
        if evaluated or step - self._seen.get(trial.id, 0) >= window(trial.total_steps):
            self._due[trial.id] = None
            self._seen[trial.id] = step

    def look(self) -> None:
        """Look at the trials that are due."""
        sweep, (due, self._due) = self._wishes.sweep, (list(self._due), {})
        for trial in map(self._store.get_trial, due):
            if trial.state.is_over:  # and was looked at as it ended
                continue
            run, known = curves_of(self._store, sweep, trial), signs_of(trial)
            if new := [sign for sign in signs_shown(run) if sign.code not in known]:
                drop(self._store, self._fence, sweep, trial, new)
                pause_for = reason_to_pause(sweep, trial, new)
                self._store.set_signs(self._fence, trial.id, [*known.values(), *new], pause_for=pause_for)
                self._wishes.dropped = self._store.dropped_running(sweep.id)
            if message := ruin(sweep.spec, run):
                self._wishes.ruined[trial.id] = message


def signs_of(trial: Trial) -> dict[str, TrialWarning]:
    """Return the signs that a trial is known to show, by code."""
    return {warning.code: warning for warning in trial.warnings if warning.is_sign}


def reason_to_pause(sweep: Sweep, trial: Trial, new: Sequence[TrialWarning]) -> str | None:
    """Say for which new sign of a trial its sweep is to be paused; None if for none."""
    for sign in new:
        if sweep.spec.action(sign.code) == "pause":
            return f"health, for {sign.code} of trial {trial.number} (seed {trial.seed}): {sign.message}"
    return None


def drop(
    store: Store, fence: Fence, sweep: Sweep, trial: Trial, new: Sequence[TrialWarning], *, ends: bool = False
) -> None:
    """Drop the trial's config for a new sign, if the spec asks for it and there is something to save.

    Args:
        ends: whether the trial ends now, so that only the config's other trials can be saved.
    """
    sign = stopping_sign(sweep.spec, trial, new)
    if sign is None:
        return
    trials = store.list_trials(sweep.id)
    own = (one for one in trials if one.config_id == trial.config_id and one.stage is Stage.TUNE)
    if any(one.stage is Stage.CONFIRM for one in trials) or all(
        one.state.is_over or (ends and one.id == trial.id) for one in own
    ):
        return
    configs, judged = store.list_configs(sweep.id), store.judgements(sweep.id)
    curves = store.curves(sweep.id, objective_metrics(sweep.spec))
    if judgements := dropped_for(trial, sign, standing_of(sweep.spec, configs, trials, curves, judged)):
        store.judge(fence, judgements)


def looked_at(store: Store, fence: Fence, sweep: Sweep, trial_id: str, end: AttemptEnd) -> AttemptEnd:
    """Return the end of a trial's attempt whose events are stored: RUINED in place of SUCCEEDED, if ruin is to end it.

    If the trial ends with it, its warnings are those of the signs that its whole curves show. So neither depends on
    when anybody looked.
    """
    if MEANINGS[end.ending].retried:
        return end
    trial = store.get_trial(trial_id)
    run, known = curves_of(store, sweep, trial), signs_of(trial)
    shown = signs_shown(run)
    new = [sign for sign in shown if sign.code not in known]
    drop(store, fence, sweep, trial, new, ends=True)
    store.set_signs(fence, trial_id, shown, pause_for=reason_to_pause(sweep, trial, new))
    message = ruin(sweep.spec, run) if end.ending is Ending.SUCCEEDED else None
    return AttemptEnd(Ending.RUINED, message) if message else end


def curves_of(store: Store, sweep: Sweep, trial: Trial) -> RunCurves:
    """Return what the signs of health see of a trial."""
    series, samples = store.trial_series(trial.id, KEYS), store.judged_samples(trial.id)
    return RunCurves(trial.total_steps, sweep.spec.objective.last, series, samples)
