"""Waiting work of a sweep that may begin: trials in order while the budget has room, then evaluations of models.

An evaluation on benchmarks is handed out only while no trial can begin, and none while a trial waits for evaluations to
end. So training waits for nothing but evaluations that had begun before there was a trial for their place.
"""

from collections.abc import Callable
from pathlib import Path

from sweep_service.runner.leftovers import remove_models
from sweep_service.runner.stages import RefusedProposal, next_records
from sweep_service.store import Fence, Store
from sweep_service.sweep.budget import (
    ReservedWork,
    gpu_hours,
    kept_for_later,
    left_s,
    not_begun_message,
    reason_to_give_up,
    room,
    stopped_message,
)
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.evaluations import missing_evaluations
from sweep_service.sweep.objective import objective_metrics
from sweep_service.sweep.plan import stage_counts, tuning_had_room
from sweep_service.sweep.records import Evaluation, Role, Stage, Sweep, Trial, Work


class WaitingWork:
    """Trials and evaluations that wait; makes those that come next, and ends those that never can begin.

    Args:
        fence: the right to write; every method may raise StaleEpoch.
        fits: whether so many trials and so many evaluations may run at a time, asked anew each time.
    """

    def __init__(self, store: Store, fence: Fence, sweep: Sweep, fits: Callable[[int, int], bool]) -> None:
        self._store, self._fence, self._fits = store, fence, fits
        self.given_up: str | None = None
        """Why no other trial begins: those so far failed, or the next point cannot run. None while there is hope."""
        self.take(sweep)

    def take(self, sweep: Sweep) -> None:
        """Go on with the sweep as it is now."""
        self.sweep = sweep
        self.look_again()
        self.look_for_hope()
        limited = sweep.spec.budget.max_gpu_hours is not None
        self._later = kept_for_later(sweep.spec, stage_counts(sweep.spec)) if limited else ReservedWork()

    def look_again(self) -> None:
        """Look for work at the next question even if there is no other room: rows have changed."""
        self._idle_room: tuple[bool, ...] | None = None  # the room with which the rows gave nothing to do

    def look_for_hope(self) -> None:
        """Ask anew whether the sweep is given up, which the end of a trial may have changed."""
        self.given_up = reason_to_give_up(self.sweep, self._store.list_trials(self.sweep.id))

    def next_work(self, trials: int, evaluations: int) -> Work | None:
        """Return the trial or evaluation that may begin beside so many that run; None if there is none now."""
        most, running = self.sweep.spec.resources.max_parallel, trials + evaluations
        if most is not None and running >= most:
            return None
        trains, measures = self._fits(trials + 1, evaluations), self._fits(trials, evaluations + 1)
        alone = self._fits(trials + 1, 0)
        room = (trains, measures, alone)
        if room == self._idle_room or not (trains or measures):
            return None
        may_train = alone and not self.sweep.has_trained
        trial = self._next_trial(others_run=running > 0) if may_train else None
        if self.given_up is not None:
            return None
        work = trial if trains else None  # else it waits for evaluations to end, and no other goes before it
        if trial is None and measures:
            work = self._next_evaluation(others_run=running > 0)
        if work is None and running:
            self._idle_room = room
        return work

    def _next_trial(self, *, others_run: bool) -> Trial | None:
        """Return the first pending trial that may begin; make new ones if there is none and the sweep needs more.

        When the budget lets no new trial begin, running ones may still give back hours that they do not need. Once the
        last of them has ended, the waiting trials are cancelled and the trials that come next are made.
        """
        while True:
            pending = self._store.list_trials(self.sweep.id, limit=1, states=[TrialState.PENDING])
            if not pending:
                if self._add_trials():
                    continue
                return None
            (trial,) = pending
            if self.given_up is not None:
                return None
            if self._has_time(trial) if trial.attempts else self._has_room(trial.stage):
                return trial
            if others_run and not trial.attempts:
                return None
            self._end_pending(trial)

    def _add_trials(self) -> bool:
        """Store the configs and trials that come next; return whether there are any."""
        sweep, store = self.sweep, self._store
        configs, trials = store.list_configs(sweep.id), store.list_trials(sweep.id)
        evaluations = store.curves(sweep.id, objective_metrics(sweep.spec))
        may_propose = self._has_room(Stage.TUNE, len(sweep.spec.seeds.tune))
        if may_propose and any(trial.stage is Stage.CONFIRM for trial in trials):
            may_propose = tuning_had_room(sweep.spec, trials, store.spent(sweep.id).probe_gpu_hours)
        try:
            records = next_records(sweep, configs, trials, evaluations, may_propose=may_propose)
        except RefusedProposal as refusal:
            records, self.given_up = None, str(refusal)
        if records is not None:
            store.add_configs(self._fence, *records)
        return records is not None

    def _has_time(self, work: Work) -> bool:
        seconds = left_s(self.sweep.spec, work.held_s)
        return seconds is None or seconds > 0

    def _has_room(self, stage: Stage | None, number: int = 1) -> bool:
        """True if the budget has room for so many new trials of a stage, or without one, for so many evaluations."""
        spec = self.sweep.spec
        if spec.budget.max_gpu_hours is None:
            return True
        free = room(spec, self._store.spent(self.sweep.id), self._reserved(stage), measures=stage is None)
        return free is None or free >= number

    def _reserved(self, stage: Stage | None) -> ReservedWork:
        """Return the work for which a trial of this stage, or an evaluation, must leave room.

        Evaluations leave room for the confirm stage, and all trials for the evaluations.
        """
        if self.sweep.has_trained:
            return ReservedWork()
        if stage is None:
            return ReservedWork(self._confirm_trials_left(stage), 0)
        begun = sum(evaluation.attempts > 0 for evaluation in self._store.list_evaluations(self.sweep.id))
        trials = self._confirm_trials_left(stage) if stage is Stage.TUNE else 0
        return ReservedWork(trials, max(0, self._later.evaluations - begun))

    def _confirm_trials_left(self, stage: Stage | None) -> int:
        """Return the number of confirm trials still to begin, for a trial of this stage or an evaluation to begin now.

        While a sweep that has been confirmed is tuned again, other configs may come to be the best, so that of its
        confirm trials only those of the baselines are sure to count.
        """
        trials = self._store.list_trials(self.sweep.id)
        begun = [trial for trial in trials if trial.stage is Stage.CONFIRM and trial.attempts > 0]
        tuned = stage is not Stage.TUNE and all(t.state.is_over for t in trials if t.stage is Stage.TUNE)
        if begun and not tuned:
            configs = self._store.list_configs(self.sweep.id)
            compared = {config.id for config in configs if {Role.BASELINE, Role.DAPO} & set(config.roles)}
            begun = [trial for trial in begun if trial.config_id in compared]
        return max(0, self._later.trials - len(begun))

    def _end_pending(self, trial: Trial) -> None:
        """End a trial that has used up its time; if it never began, end all that wait, for none fits the budget."""
        spec = self.sweep.spec
        if trial.attempts:
            self._store.end_waiting(self._fence, Ending.TIMED_OUT, stopped_message(spec, trial), trial.id)
            self.look_for_hope()
        else:
            hours = gpu_hours(spec, self._store.spent(self.sweep.id))
            message = not_begun_message(spec, hours, self._reserved(trial.stage))
            waiting = self._store.list_trials(self.sweep.id, states=[TrialState.PENDING])
            self._store.end_waiting(self._fence, Ending.OVER_BUDGET, message, *(other.id for other in waiting))

    def _next_evaluation(self, *, others_run: bool) -> Evaluation | None:
        """Return the first evaluation that waits and may begin; those that never can are ended."""
        store, sweep = self._store, self.sweep
        if not sweep.benchmarks:
            return None
        trials, evaluations = store.list_trials(sweep.id), store.list_evaluations(sweep.id)
        models, configs = store.kept_models(sweep.id), store.list_configs(sweep.id)
        if new := missing_evaluations(sweep, configs, trials, evaluations, models.keys()):
            store.add_evaluations(self._fence, new)
        for evaluation in [*evaluations, *new]:
            if evaluation.state is not TrialState.PENDING:
                continue
            if evaluation.attempts and not self._has_time(evaluation):
                self._end_evaluation(evaluation, Ending.TIMED_OUT, stopped_message(sweep.spec, evaluation))
            elif evaluation.trial_id and self.model(evaluation) is None:
                self._end_evaluation(evaluation, Ending.FAILED, "the weights of its trial are gone")
            elif evaluation.attempts or self._has_room(None):
                return evaluation
            elif not others_run:
                hours = gpu_hours(sweep.spec, store.spent(sweep.id))
                message = not_begun_message(sweep.spec, hours, self._reserved(None), measures=True)
                self._end_evaluation(evaluation, Ending.OVER_BUDGET, message)
        return None

    def _end_evaluation(self, evaluation: Evaluation, ending: Ending, message: str) -> None:
        self._store.end_waiting(self._fence, ending, message, evaluation.id)
        self.free_models(evaluation.trial_id)

    def model(self, evaluation: Evaluation) -> str | None:
        """Return the folder of the model that a trial has trained; None if it is not there."""
        assert evaluation.trial_id is not None
        path = self._store.kept_models(self.sweep.id).get((evaluation.trial_id, evaluation.model_step))
        if path is None and (checkpoint := self._store.newest_checkpoint(evaluation.trial_id)):
            path = checkpoint.path if checkpoint.step == evaluation.model_step else None
        return path if path is not None and Path(path).is_dir() else None

    def free_models(self, trial_id: str | None) -> None:
        """Remove the models of a trial that were kept for evaluations alone, and whose evaluations are over."""
        benchmarks = self.sweep.spec.benchmarks
        if benchmarks is None or benchmarks.at == "end":  # then trials keep none
            return
        evaluations = self._store.list_evaluations(self.sweep.id)
        over = {one.model_step for one in evaluations if one.trial_id == trial_id and one.state.is_over}
        if trial_id is not None and over:
            attempts = self._store.list_attempts(self.sweep.id)
            remove_models((attempt for attempt in attempts if attempt.trial_id == trial_id), over)
