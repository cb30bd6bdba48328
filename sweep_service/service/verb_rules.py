"""Requests that steer a submitted sweep: pause, cancel, stop, extend, retry, delete, measure more, a new report."""

from collections.abc import Sequence
from contextlib import suppress

from sweep_service.errors import Conflict, NotFound
from sweep_service.intake.added_check import MeasuredSweep, check_added, check_extension
from sweep_service.processes.disk_use import disk_use
from sweep_service.schemas import DeletionView, Freed
from sweep_service.service.base import ServicePart
from sweep_service.sweep.budget import left_s
from sweep_service.sweep.evaluations import evaluations_to_reopen, missing_evaluations
from sweep_service.sweep.extension import draws_more, reopened_endings
from sweep_service.sweep.objective import leader
from sweep_service.sweep.records import Evaluation, Stage, Sweep, SweepState, Trial, TrialState, Work


class VerbRules(ServicePart):
    """Each request may be repeated: asking again for the same is no change."""

    def cancel(self, sweep_id: str, by: str | None = None) -> Sweep:
        """Stop a sweep; its running trials end within seconds.

        Raises: NotFound; Conflict, if it has ended already.
        """
        return self.store.request_cancel(sweep_id, by)

    def pause(self, sweep_id: str, by: str | None = None) -> Sweep:
        """Stop a sweep until it is resumed; its running trials save, and give their slots back.

        Raises: NotFound; Conflict, if it has ended already or is about to.
        """
        return self.store.request_pause(sweep_id, by)

    def resume(self, sweep_id: str, by: str | None = None) -> Sweep:
        """Let a paused sweep go on from what its trials have saved.

        Raises: NotFound; Conflict, if it has ended already or is about to.
        """
        return self.store.request_resume(sweep_id, by)

    def extend(self, sweep_id: str, raw: object, by: str | None = None) -> Sweep:
        """Give a sweep more configs, seeds, or other limits.

        One that has ended goes on; asking again for the same is no change.

        Raises: NotFound; InvalidSpec, with pointers into the request; StillReading, while a trainer reads new data;
            Conflict, if the sweep can train no more.
        """
        sweep = self.store.get_sweep(sweep_id)
        _check_trains(sweep)
        spec = check_extension(raw, sweep.spec, self.settings.cache)
        if spec == sweep.spec:
            return sweep
        again = reopened_endings(sweep, spec)
        works = self._not_dropped(sweep_id, self._works(sweep_id)) if again else []
        ids = [work.id for work in works if work.ending in again]
        drawn = [*draws_more(sweep.spec, spec), *(["trials"] if ids else [])]
        data = {"changes": raw, "draws_more": drawn, "by": by}
        return self.store.give_more(sweep, spec, ids, "sweep.extended", data)

    def retry_failed(self, sweep_id: str, by: str | None = None) -> Sweep:
        """Try what failed of a sweep again, trials and evaluations, and of one that has FAILED what never began.

        Evaluations of benchmarks that were added later are tried again when these are asked for again.

        Raises: NotFound; Conflict, if the sweep can train no more, or the trials have used up their time.
        """
        sweep = self.store.get_sweep(sweep_id)
        ended = {TrialState.FAILED, *([TrialState.CANCELLED] if sweep.state is SweepState.FAILED else [])}
        works = self.store.list_trials(sweep_id) if sweep.has_trained else self._works(sweep_id)
        again = [work for work in works if work.state in ended]
        return self._retry(sweep, self._not_dropped(sweep_id, again), by)

    def _works(self, sweep_id: str) -> list[Work]:
        return [*self.store.list_trials(sweep_id), *self.store.list_evaluations(sweep_id)]

    def _not_dropped(self, sweep_id: str, works: Sequence[Work]) -> list[Work]:
        """Leave out the tune trials of configs that were dropped early."""
        dropped = {config.id for config in self.store.list_configs(sweep_id) if config.dropped}
        return [one for one in works if not (_is_tune_trial(one) and one.config_id in dropped)]

    def retry_trial(self, trial_id: str, by: str | None = None) -> Sweep:
        """Try a failed trial again, or one that was stopped. Of one that waits or runs this is no change.

        With a trial that was stopped early its config is taken back, and all of its trials that were stopped so.

        Raises: NotFound; Conflict, if it has ended by itself with a result, or its sweep can train no more.
        """
        sweep = self.store.get_sweep(self.store.get_work(trial_id).sweep_id)
        trials = self.store.list_trials(sweep.id)
        trial = next((one for one in trials if one.id == trial_id), None)
        if trial is None:
            raise NotFound("trial", trial_id)
        again = (TrialState.FAILED, TrialState.STOPPED, TrialState.DISCARDED, TrialState.EARLY_STOPPED)
        if trial.state.is_over and trial.state not in again:
            stopped = "only one that FAILED, or was stopped, can be tried again"
            raise Conflict(f"trial {trial_id} is {trial.state}; {stopped}")
        stopped = (
            (trial.config_id, TrialState.EARLY_STOPPED) if trial.state.is_over and trial.stage is Stage.TUNE else ()
        )
        taken_back = [one for one in trials if (one.config_id, one.state) == stopped and one is not trial]
        return self._retry(sweep, [trial, *taken_back] if trial.state.is_over else [], by)

    def stop_trial(self, trial_id: str, *, counts: bool, by: str | None = None) -> Sweep:
        """Stop one trial while its sweep goes on; one that runs saves first, and gives its slot back.

        Args:
            counts: whether the evaluations that it has recorded count as its result; else it has none.
        Raises: NotFound; Conflict, if it has ended otherwise, or ends with its sweep.
        """
        return self.store.get_sweep(self.store.request_stop(trial_id, counts=counts, by=by).sweep_id)

    def _retry(self, sweep: Sweep, works: Sequence[Work], by: str | None) -> Sweep:
        if not works:
            return sweep
        _check_trains(sweep)
        if spent := [one for one in works if (left := left_s(sweep.spec, one.held_s)) is not None and left <= 0]:
            kind = "evaluation" if isinstance(spent[0], Evaluation) else "trial"
            limit = f"budget.max_trial_hours {sweep.spec.budget.max_trial_hours:g}"
            remedy = f"raise it first: sweeps extend {sweep.id} --max-trial-hours HOURS"
            raise Conflict(f"{kind} {spent[0].id} has used up {limit}; {remedy}")
        ids = [work.id for work in works]
        return self.store.give_more(sweep, sweep.spec, ids, "sweep.trials_retried", {"trials": ids, "by": by})

    def delete(self, sweep_id: str, *, keep_report: bool, by: str | None = None) -> DeletionView:
        """Have a sweep that has ended deleted, or archived; asking again is no change. A worker carries it out.

        Raises: NotFound; Conflict, if it has not ended, or is to be deleted with its report.
        """
        self.store.request_deletion(sweep_id, keep_report=keep_report, by=by)
        return self.deletion(sweep_id)

    def deletion(self, sweep_id: str) -> DeletionView:
        """Return the progress of a sweep's deletion, and the disk and rows that it frees or would free.

        Raises: NotFound, if there never was such a sweep.
        """
        deletion = self.store.deletions([sweep_id]).get(sweep_id)
        if deletion is not None and deletion.rows_done_at is not None:
            pending = deletion.mlflow_done_at is None
            return DeletionView(**dict(deletion), state=deletion.state, mlflow_pending=pending)
        sweep = self.store.get_sweep(sweep_id)
        archived = self.store.count_rows(sweep_id, keep_report=True)
        rows = archived if deletion and deletion.keep_report else self.store.count_rows(sweep_id)
        runs = self.store.count_runs(sweep_id)
        disk: dict[str, int | None] = {"bytes": None, "files": None}
        if self.settings.storage.is_dir():
            with suppress(OSError):  # a folder that a program has locked
                disk |= disk_use(self.settings.storage / sweep_id)._asdict()
        frees = Freed(**disk, rows=rows, rows_if_archived=archived, mlflow_runs=runs)
        if deletion is not None:
            return DeletionView(**dict(deletion), state=deletion.state, frees=frees)
        blocked = (
            None if sweep.state.is_over else f"it is {sweep.state}; cancel it first: sweeps cancel {sweep_id} --wait"
        )
        return DeletionView(sweep_id=sweep_id, name=sweep.name, state=None, blocked=blocked, frees=frees)

    def add_benchmarks(self, sweep_id: str, raw: object, by: str | None = None) -> Sweep:
        """Have models of a sweep that has ended measured on more benchmarks. Asking again for the same is no change.

        Evaluations that have ended without all of their results are tried again with it.

        Raises: NotFound; InvalidSpec, with pointers into the request; Conflict, unless the sweep has SUCCEEDED.
        """
        sweep = self.store.get_sweep(sweep_id)
        if not (sweep.state is SweepState.SUCCEEDED or sweep.has_trained):
            by_hand = "export a checkpoint of it, and measure that with `python -m trainers.benchmarks`"
            remedy = by_hand if sweep.state.is_over else "ask again then"
            raise Conflict(
                f"sweep {sweep_id} is {sweep.state}: benchmarks can be added to one that has SUCCEEDED; {remedy}"
            )
        configs, (trials, values) = self.store.list_configs(sweep_id), self.objectives(sweep)
        best = leader(configs, trials, values, sweep.spec)
        rows = MeasuredSweep(sweep, configs, trials, best.config.id if best else None)
        added = check_added(raw, rows, self.settings.cache)
        if not sweep.state.is_over:
            if added in sweep.added_benchmarks:
                return sweep
            raise Conflict(
                f"sweep {sweep_id} is {sweep.state}, for other benchmarks are being measured; ask again when it has "
                f"SUCCEEDED, or end that with `sweeps cancel {sweep_id}`, which keeps what is complete"
            )
        parts = tuple(dict.fromkeys((*sweep.added_benchmarks, added)))
        extended = sweep.model_copy(update={"added_benchmarks": parts})
        evaluations, results = self.store.list_evaluations(sweep_id), self.store.benchmark_results(sweep_id)
        again = evaluations_to_reopen(extended, trials, evaluations, results)
        if not again and not missing_evaluations(extended, configs, trials, evaluations):
            return sweep
        return self.store.open_again(sweep, added, again, by)

    def renew_report(self, sweep_id: str, by: str | None = None) -> Sweep:
        """Have the report of a sweep that has ended built anew, as the present version builds it.

        The one before stays to be read by its digest; if it would be the same, it stands.

        Raises: NotFound; Conflict, if the sweep has not ended, or is archived.
        """
        self.store.request_report(sweep_id, by)
        return self.store.get_sweep(sweep_id)


def _is_tune_trial(work: Work) -> bool:
    return isinstance(work, Trial) and work.stage is Stage.TUNE


def _check_trains(sweep: Sweep) -> None:
    """Check that trials of a sweep may still begin, or begin again.

    Raises: Conflict.
    """
    if sweep.state is SweepState.CANCELLED or sweep.desired_state.is_to_end:
        raise Conflict(f"sweep {sweep.id} was cancelled for good; submit a new one")
    if sweep.has_trained:
        why = "benchmarks were added after its training, so nothing of it is trained any more"
        raise Conflict(f"sweep {sweep.id}: {why}; submit a new one, and join them with `sweeps compare`")
    if sweep.state is SweepState.FINALIZING:
        raise Conflict(
            f"the report of sweep {sweep.id} is being built, which takes seconds, and ten minutes at most; ask again "
            f"when it has ended: sweeps watch {sweep.id}"
        )
