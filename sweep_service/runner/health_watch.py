"""Looks at the health of trials while they train and at their end: warns of signs, and does what the spec asks."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sweep_service.errors import Conflict
from sweep_service.health.run_health import RunCurves, window
from sweep_service.health.signs import KEYS, SIGNS
from sweep_service.runner.trainer_process import AttemptEnd
from sweep_service.runner.wishes import Wishes
from sweep_service.stopping.signs_shown import dropped_for, ruin, signs_shown
from sweep_service.stopping.table import standing_of
from sweep_service.store import Fence, Store
from sweep_service.sweep.endings import MEANINGS, Ending
from sweep_service.sweep.objective import objective_metrics
from sweep_service.sweep.records import Stage, Sweep, Trial, TrialWarning, Work

_CODES = tuple(sign.code for sign in SIGNS)


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
            run = curves_of(self._store, sweep, trial)
            known = {warning.code for warning in trial.warnings}
            new = [warning for warning in signs_shown(run) if warning.code not in known]
            if new:
                act(self._store, self._fence, sweep, trial, new)
                self._store.warn(self._fence, trial.id, new)
                self._wishes.dropped = self._store.dropped_running(sweep.id)
            if message := ruin(sweep.spec, run):
                self._wishes.ruined[trial.id] = message


def act(store: Store, fence: Fence, sweep: Sweep, trial: Trial, new: Sequence[TrialWarning]) -> None:
    """Do what the spec asks for signs that a trial shows for the first time: pause the sweep, drop the config."""
    spec, text = sweep.spec, f"trial {trial.number} (seed {trial.seed})"
    if pausing := [one for one in new if spec.action(one.code) == "pause"]:
        with suppress(Conflict):  # it is to be cancelled, or its trials have ended
            store.request_pause(sweep.id, by=f"health, for {pausing[0].code} of {text}: {pausing[0].message}")
    if any(spec.action(one.code) == "stop" for one in new):
        configs, trials = store.list_configs(sweep.id), store.list_trials(sweep.id)
        curves, judged = store.curves(sweep.id, objective_metrics(spec)), store.judgements(sweep.id)
        drops = dropped_for(spec, trial, new, standing_of(spec, configs, trials, curves, judged))
        if drops and all(one.stage is Stage.TUNE for one in trials):
            store.judge(fence, drops)


def looked_at(store: Store, fence: Fence, sweep: Sweep, trial_id: str, end: AttemptEnd) -> AttemptEnd:
    """Return the end of a trial's attempt whose events are stored: RUINED in place of SUCCEEDED, if ruin is to end it.

    If the trial ends with it, its warnings are those of the signs that its whole curves show. So neither depends on
    when anybody looked.
    """
    if MEANINGS[end.ending].retried:
        return end
    trial = store.get_trial(trial_id)
    run, known = curves_of(store, sweep, trial), {warning.code for warning in trial.warnings}
    shown = signs_shown(run)
    act(store, fence, sweep, trial, [warning for warning in shown if warning.code not in known])
    store.warn(fence, trial_id, shown, replaced=_CODES)
    message = ruin(sweep.spec, run) if end.ending is Ending.SUCCEEDED else None
    return AttemptEnd(Ending.RUINED, message) if message else end


def curves_of(store: Store, sweep: Sweep, trial: Trial) -> RunCurves:
    """Return what the signs of health see of a trial."""
    series, samples = store.trial_series(trial.id, KEYS), store.judged_samples(trial.id)
    return RunCurves(trial.total_steps, sweep.spec.objective.last, series, samples)
