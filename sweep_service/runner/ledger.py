"""The runner's book of trials and evaluations, between Tune and the store: hands out, stores reports, ends.

An evaluation on benchmarks is handed out only while no trial can begin, so that training never waits for it.
"""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any, Final

from sweep_service.processes.child_processes import terminate
from sweep_service.runner.recovery import ingest_rest, settle
from sweep_service.runner.stages import next_records
from sweep_service.runner.trainer_process import Job
from sweep_service.runner.wishes import Wishes
from sweep_service.settings import Settings
from sweep_service.store import Fence, Store
from sweep_service.sweep.budget import (
    Kept,
    gpu_hours,
    kept_for_later,
    left_s,
    not_begun_message,
    room,
    stopped_message,
)
from sweep_service.sweep.endings import Ending, TrialState
from sweep_service.sweep.evaluations import measuring_request, missing_evaluations, steps_to_keep
from sweep_service.sweep.objective import objective_metrics
from sweep_service.sweep.plan import stage_counts
from sweep_service.sweep.records import Attempt, Config, Evaluation, Stage, Trial, Work
from trainers.config import TrainingConfig

MARK_EVERY_S: Final = 5.0
"""Seconds between two notes in the store of how long a trial has held its resources."""


class Nothing(Enum):
    """Reason why no trial is handed out."""

    NOW = "now"  # all slots are taken, or running trials decide what comes next
    EVER = "ever"  # the sweep needs no more trials, or is interrupted


@dataclass
class _RunningAttempt:
    attempt: Attempt
    """The attempt, with the process of its trainer once that is known."""
    work: Work
    """The trial or evaluation as it was when it was handed out."""
    held_s: float = 0.0
    """Seconds for which the attempt has held its resources, by its actor's last report."""
    stored_s: float = 0.0
    """Seconds of `held_s` that the store has."""
    reported_at: float | None = None
    """Time of the last report, on the monotonic clock."""


class Ledger:
    """The one owner of a sweep's attempts while its runner lives. Not thread-safe, but for `kill_trainers`.

    Args:
        fence: the right to write; every method may raise StaleEpoch.
        slots: number of trials that may run at a time, asked anew each time.
        evaluation_slots: the same of evaluations, which may have other resources.
    """

    def __init__(
        self,
        store: Store,
        fence: Fence,
        settings: Settings,
        slots: Callable[[], int],
        wishes: Wishes,
        evaluation_slots: Callable[[], int] | None = None,
    ) -> None:
        self._store, self._fence, self._settings, self._slots, self._wishes = store, fence, settings, slots, wishes
        self._evaluation_slots = evaluation_slots or slots
        self._sweep = store.get_sweep(fence.sweep_id)
        self._configs: dict[str, Config] = {}
        self._running: dict[str, _RunningAttempt] = {}  # by the names that Tune gives to trials
        self._idle = False  # the rows gave nothing to do, and none of them has changed since
        limited = self._sweep.spec.budget.max_gpu_hours is not None
        spec = self._sweep.spec
        self._later = kept_for_later(spec, stage_counts(spec)) if limited else Kept()

    def next_job(self, name: str) -> Job | Nothing:
        """Hand out the next trial or evaluation as `name`. Its attempt is stored before this returns."""
        if self._wishes.interruption:
            return Nothing.EVER
        running = len(self._running)
        trains, measures = running < self._slots(), running < self._evaluation_slots()
        if self._idle or not (trains or measures):
            return Nothing.NOW
        work = self._next_trial() if trains else None
        if work is None and measures:
            work = self._next_evaluation()
        if work is None:
            self._idle = bool(self._running)
            return Nothing.NOW if self._running else Nothing.EVER
        directory = self._settings.storage / work.sweep_id / work.id / "{attempt}"
        attempt = self._store.start_attempt(self._fence, work.id, str(directory))
        self._running[name] = _RunningAttempt(attempt, work)
        return self._job(work, attempt)

    def _next_trial(self) -> Trial | None:
        """Return the first pending trial that may begin; make new ones if there is none and the sweep needs more.

        When the budget lets no new trial begin, running ones may still give back hours that they do not need. Once the
        last of them has ended, the waiting trials are cancelled and the trials that come next are made.
        """
        while True:
            pending = self._store.list_trials(self._sweep.id, limit=1, states=[TrialState.PENDING])
            if not pending:
                if self._add_trials():
                    continue
                return None
            (trial,) = pending
            if self._may_go_on(trial):
                return trial
            if self._running and not trial.attempts:
                return None
            self._end_pending(trial)

    def _add_trials(self) -> bool:
        """Store the configs and trials that come next; return whether there are any."""
        sweep, store = self._sweep, self._store
        configs, trials = store.list_configs(sweep.id), store.list_trials(sweep.id)
        evaluations = store.curves(sweep.id, objective_metrics(sweep.spec))
        every_seed = self._has_room(Stage.TUNE, len(sweep.spec.seeds.tune))
        records = next_records(sweep, configs, trials, evaluations, may_propose=every_seed)
        if records is not None:
            store.add_configs(self._fence, *records)
        return records is not None

    def _may_go_on(self, trial: Trial) -> bool:
        """Whether a pending trial may be handed out: once begun it needs time left, before that room in the budget."""
        if trial.attempts:
            return self._has_time(trial)
        return self._has_room(trial.stage)

    def _has_time(self, work: Work) -> bool:
        seconds = left_s(self._sweep.spec, work.held_s)
        return seconds is None or seconds > 0

    def _has_room(self, stage: Stage | None, number: int = 1) -> bool:
        """Whether the budget has room for so many new trials of a stage, or without one, for so many evaluations."""
        spec = self._sweep.spec
        if spec.budget.max_gpu_hours is None:
            return True
        free = room(spec, self._store.spent(self._sweep.id), self._reserved(stage), measures=stage is None)
        return free is None or free >= number

    def _reserved(self, stage: Stage | None) -> Kept:
        """Return for what a trial of this stage, or an evaluation, must leave room.

        Evaluations leave room for the confirm stage, and all trials for the evaluations.
        """
        if stage is None:
            trials = self._store.list_trials(self._sweep.id)
            return Kept(self._later.trials - sum(t.stage is Stage.CONFIRM and t.attempts > 0 for t in trials), 0)
        begun = sum(evaluation.attempts > 0 for evaluation in self._store.list_evaluations(self._sweep.id))
        return Kept(self._later.trials if stage is Stage.TUNE else 0, self._later.evaluations - begun)

    def _end_pending(self, trial: Trial) -> None:
        """End a trial that has used up its time; if it never began, end all that wait, for none fits the budget."""
        spec = self._sweep.spec
        if trial.attempts:
            self._store.end_waiting(self._fence, Ending.TIMED_OUT, stopped_message(spec, trial), trial.id)
        else:
            hours = gpu_hours(spec, self._store.spent(self._sweep.id))
            message = not_begun_message(spec, hours, self._reserved(trial.stage))
            waiting = self._store.list_trials(self._sweep.id, states=[TrialState.PENDING])
            self._store.end_waiting(self._fence, Ending.OVER_BUDGET, message, *(other.id for other in waiting))

    def _next_evaluation(self) -> Evaluation | None:
        """Return the first evaluation that waits and may begin; those that never can are ended."""
        store, sweep = self._store, self._sweep
        if sweep.spec.benchmarks is None:
            return None
        trials, evaluations = store.list_trials(sweep.id), store.list_evaluations(sweep.id)
        kept, configs = store.kept_models(sweep.id), store.list_configs(sweep.id)
        if new := missing_evaluations(sweep.spec, configs, trials, evaluations, kept.keys()):
            store.add_evaluations(self._fence, new)
        for evaluation in [*evaluations, *new]:
            if evaluation.state is not TrialState.PENDING:
                continue
            if evaluation.attempts and not self._has_time(evaluation):
                self._end_evaluation(evaluation, Ending.TIMED_OUT, stopped_message(sweep.spec, evaluation))
            elif evaluation.trial_id and self._model(evaluation) is None:
                self._end_evaluation(evaluation, Ending.FAILED, "the weights of its trial are gone")
            elif evaluation.attempts or self._has_room(None):
                return evaluation
            elif not self._running:
                hours = gpu_hours(sweep.spec, store.spent(sweep.id))
                message = not_begun_message(sweep.spec, hours, self._reserved(None), measures=True)
                self._end_evaluation(evaluation, Ending.OVER_BUDGET, message)
        return None

    def _end_evaluation(self, evaluation: Evaluation, ending: Ending, message: str) -> None:
        self._store.end_waiting(self._fence, ending, message, evaluation.id)

    def _model(self, evaluation: Evaluation) -> str | None:
        """Return the folder of the model that a trial has trained; None if it is not there."""
        assert evaluation.trial_id is not None
        path = self._store.kept_models(self._sweep.id).get((evaluation.trial_id, evaluation.model_step))
        if path is None and (checkpoint := self._store.newest_checkpoint(evaluation.trial_id)):
            path = checkpoint.path if checkpoint.step == evaluation.model_step else None
        return path if path is not None and Path(path).is_dir() else None

    def _free_model(self, work: Work) -> None:
        """Remove the weights that were kept for an evaluation alone, once it is over."""
        if isinstance(work, Evaluation) and self._store.get_work(work.id).state.is_over and work.trial_id:
            path = self._store.kept_models(self._sweep.id).get((work.trial_id, work.model_step))
            if path is not None:
                shutil.rmtree(path, ignore_errors=True)

    def _job(self, work: Work, attempt: Attempt) -> Job:
        if work.config_id not in self._configs:
            self._configs = {config.id: config for config in self._store.list_configs(self._sweep.id)}
        spec, config = self._sweep.spec, self._configs[work.config_id].training | {"seed": work.seed}
        measures = isinstance(work, Evaluation)
        resources = spec.evaluation_resources if measures else spec.resources
        checkpoint = None if measures else self._store.newest_checkpoint(work.id)
        return Job(
            trial_id=work.id,
            attempt=attempt.number,
            directory=attempt.directory,
            config=config,
            threads=work.threads,
            cpus=resources.cpus,
            gpus=resources.gpus,
            processes=1 if measures else resources.processes_for(TrainingConfig.model_validate(config)),
            resume_from=checkpoint.path if checkpoint and Path(checkpoint.path).is_dir() else None,
            cache=str(self._settings.cache),
            limit_s=left_s(spec, work.held_s),
            keep_models=steps_to_keep(spec, work) if isinstance(work, Trial) else (),
            measure=self._request(work) if isinstance(work, Evaluation) else None,
        )

    def _request(self, evaluation: Evaluation) -> dict[str, Any]:
        """Return what is to be measured; samples of a trained model stay in one folder over all attempts."""
        if evaluation.trial_id is None:
            return measuring_request(self._sweep.spec, None, None)
        results = self._settings.storage / evaluation.sweep_id / evaluation.id / "results"
        return measuring_request(self._sweep.spec, self._model(evaluation), str(results))

    def report(self, name: str, result: dict[str, Any]) -> None:
        """Store what a trial's actor sent; its events are taken out of the result."""
        running = self._running[name]
        self._note_held(running, result.get("held_s", running.held_s))
        if "process" in result and running.attempt.pid is None:
            host, pid, started = json.loads(result["process"])
            process = {"host": host, "pid": pid, "pid_started_at": started}
            running.attempt = running.attempt.model_copy(update=process)  # known to `kill_trainers` before all else
            self._store.set_process(self._fence, running.attempt, host, pid, started)
        if lines := result.pop("events", ""):
            events = [json.loads(line) for line in lines.splitlines()]
            self._store.ingest(self._fence, running.attempt, result["start"], result["end"], events)
            self._idle &= not any(event.get("model_only") for event in events)  # a model that can be measured

    def _note_held(self, running: _RunningAttempt, held_s: float) -> None:
        """Note for how long an attempt has held its resources, and tell the store every `MARK_EVERY_S` seconds."""
        running.held_s, running.reported_at = held_s, time.monotonic()
        if held_s - running.stored_s >= MARK_EVERY_S or (held_s and not running.stored_s):
            self._store.set_held(self._fence, running.work.id, running.work.held_s + held_s)
            running.stored_s = held_s

    def complete(self, name: str, result: dict[str, Any] | None) -> None:
        """End a trial's attempt. Ending it again changes nothing.

        Args:
            result: the last result; None or without an ending if the attempt was interrupted or its actor died.
        """
        running = self._running.get(name)
        if running is None:
            return
        attempt, more_held_s = running.attempt, running.held_s - running.stored_s
        if result is not None and "ending" in result:
            ending, message = Ending(result["ending"]), result.get("message")
            if ending is Ending.TIMED_OUT:
                message = stopped_message(self._sweep.spec, self._store.get_work(attempt.trial_id))
            self._finish(attempt, ending, message, more_held_s)
        else:
            if running.reported_at is not None:  # it held them until now, or longer than anyone can tell
                more_held_s += time.monotonic() - running.reported_at
            if interruption := self._wishes.interruption:
                terminate(attempt.host, attempt.pid, attempt.pid_started_at)
                ingest_rest(self._store, self._fence, attempt)
                self._finish(attempt, interruption.ending, None, more_held_s)
            else:
                settle(self._store, self._fence, self._sweep, attempt, Ending.CRASHED, more_held_s)
        del self._running[name]
        self._idle = False
        self._free_model(running.work)

    def _finish(self, attempt: Attempt, ending: Ending, message: str | None, more_held_s: float) -> None:
        crashes = self._sweep.spec.retries.max_crashes
        self._store.finish_attempt(self._fence, attempt, ending, message, crashes, more_held_s)

    def kill_trainers(self) -> None:
        """Kill this host's trainers without writing to the store, for another runner may own the sweep by now."""
        for running in list(self._running.values()):
            attempt = running.attempt
            with suppress(OSError):
                terminate(attempt.host, attempt.pid, attempt.pid_started_at)
