"""Projects the store onto a tracking server: a run per sweep, a child run per trial, their curves while they train.

The server shows a projection of the store and is never asked for anything else: it may be away, be wiped or be rebuilt.
Whatever was carried is marked afterwards; a crash in between repeats calls, which a `Tracker` makes harmless.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any, Final

from pydantic import ValidationError

from sweep_service.errors import NotReady
from sweep_service.report import Report
from sweep_service.schemas import MEDIA_TYPES
from sweep_service.store import Store
from sweep_service.sweep.evaluations import models_of_trials
from sweep_service.sweep.objective import objective_metrics, trial_objectives
from sweep_service.sweep.records import Config, Evaluation, Sweep, Trial
from sweep_service.tracking import benchmark_words, mlflow_words
from sweep_service.tracking.charts_page import TAG, shared_view, sweep_note
from sweep_service.tracking.config_runs import config_runs
from sweep_service.tracking.tracker import MetricPoint, RunStatus, Tracker, TrackerGone, TrackerRefused

EXPERIMENT: Final = "sweeps"
PERIOD_S: Final = 1.0
PAUSE_SHARE: Final = 20
"""Length of the pause after a pass, in passes: while nothing is left out, MLflow keeps a core busy for a twentieth."""
LONGEST_PAUSE_S: Final = 10.0
LAST_PASSES_S: Final = 8.0
"""Seconds for which `run` goes on after it was stopped if MLflow is behind."""
CHUNKS_AT_A_TIME: Final = 50
REPORT_FILES: Final[Mapping[str, str]] = {**MEDIA_TYPES, "yaml": "application/yaml"}
"""Media type of each file of a report; the YAML is the best config's."""

log = logging.getLogger(__name__)


def read_report(content: bytes) -> Report | None:
    """Return a stored report; None for a report of another version, of which MLflow shows the files and no verdict."""
    try:
        return Report.model_validate_json(content)
    except ValidationError:
        return None


def _scores_of(trial_id: str | None) -> str:
    return f"benchmark scores of {trial_id}"


class Projector:
    """Keeps a tracking server like the store.

    Args:
        store: read for everything, written for marks only.
        tracker: the server; `run` and `close` close it.
    """

    def __init__(self, store: Store, tracker: Tracker) -> None:
        self._store, self._tracker = store, tracker
        self._experiment_id: str | None = None
        self._set_aside: set[str] = set()

    def run(self, stop: threading.Event) -> None:
        """Carry over until `stop` is set, and then the rest, for a few seconds. Never raises."""
        pause, away = PERIOD_S, False
        while not stop.is_set():
            begun = time.monotonic()
            try:
                with self._store.projecting() as permitted:
                    more = permitted and self.carry(stop.is_set)
            except Exception as error:  # noqa: BLE001 (a tracker in trouble must not stop sweeps, whatever it says)
                pause = min(2 * pause, LONGEST_PAUSE_S)
                self._experiment_id = None  # it may come back as another server, or an empty one
                if not away:
                    log.warning("nothing reaches MLflow; curves wait in the store: %s", error)
                away = True
                stop.wait(pause)
                continue
            if away:
                log.warning("MLflow is back")
            took_s, away = time.monotonic() - begun, False
            pause = min(PERIOD_S + PAUSE_SHARE * took_s, LONGEST_PAUSE_S)
            stop.wait(0 if more else pause)
        if not away:
            deadline = time.monotonic() + LAST_PASSES_S
            try:
                with self._store.projecting() as permitted:
                    while permitted and self.carry(lambda: time.monotonic() > deadline) and time.monotonic() < deadline:
                        pass
            except Exception as error:  # noqa: BLE001 (as above: the worker that is stopping must go on doing so)
                log.warning("MLflow went away; the rest is carried over after the next start: %s", error)
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._tracker.close()

    def carry(self, hurried: Callable[[], bool] = lambda: False) -> bool:
        """Carry over the records that MLflow lacks, in one pass; return true if some are left for the next one.

        Args:
            hurried: called before each sweep and trial; true leaves everything else for the next pass.
        Raises: TrackerAway, if the server does not answer; TrackerRefused, if our experiment was deleted there.
        """
        for sweep_id in self._store.projections_requested():
            self._store.forget_projection(sweep_id)
            self._set_aside.clear()
            self._experiment_id = None  # the server may be another one by now
        experiment_id = self._experiment_id
        if experiment_id is None:
            experiment_id = self._tracker.experiment(EXPERIMENT)
            for key, value in mlflow_words.EXPERIMENT_TAGS.items():
                self._tracker.set_experiment_tag(experiment_id, key, value)
            self._forget_what_is_gone(experiment_id)
            self._experiment_id = experiment_id
        for deletion in self._store.deletions_in_mlflow():
            if hurried():
                return True
            self._remove_runs(experiment_id, deletion.sweep_id)
        for sweep in self._store.sweeps_behind():
            if hurried():
                return True
            self._guarded(sweep.id, sweep.id, self._show_sweep, experiment_id, sweep)
        more = False
        for sweep_id, behind in groupby(self._store.behind(), key=lambda pair: pair[0].sweep_id):
            sweep = self._store.get_sweep(sweep_id)
            configs = {config.id: config for config in self._store.list_configs(sweep_id)}
            for trial, shown in behind if sweep.mlflow_run_id else ():
                if hurried():
                    return True
                arguments = experiment_id, sweep, trial, configs[trial.config_id], shown
                more |= self._guarded(trial.id, sweep_id, self._show_trial, *arguments)
        return self._carry_scores(hurried) or more

    def _remove_runs(self, experiment_id: str, sweep_id: str) -> None:
        """Move all runs of a sweep that is deleted or archived to the server's bin."""
        for run_id in list(self._tracker.find_runs(experiment_id, {"sweep_id": sweep_id}, deleted=False)):
            try:
                self._tracker.delete_run(run_id)
            except TrackerRefused as error:  # it may be gone already
                log.warning("MLflow does not delete run %s of sweep %s: %s", run_id, sweep_id, error)
        self._store.set_mlflow_deleted(sweep_id)

    def _carry_scores(self, hurried: Callable[[], bool]) -> bool:
        """Carry over the scores of models on benchmarks; return true if some are left for the next pass."""
        behind = [
            (one, results)
            for one, results in self._store.evaluations_behind()
            if self._set_aside.isdisjoint((one.trial_id, _scores_of(one.trial_id)))
        ]
        for sweep_id, evaluations in groupby(behind, key=lambda pair: pair[0].sweep_id):
            new = {evaluation.id: results for evaluation, results in evaluations}
            sweep, configs = self._store.get_sweep(sweep_id), self._store.list_configs(sweep_id)
            models = models_of_trials(configs, self._store.list_evaluations(sweep_id))
            for trial in self._store.list_trials(sweep_id):
                of_trial = models.get(trial.id, [])
                if new.keys().isdisjoint(one.id for one in of_trial) or trial.id in self._set_aside:
                    continue
                if hurried():
                    return True
                self._guarded(_scores_of(trial.id), sweep_id, self._show_scores, sweep, trial, of_trial, new)
                if self._experiment_id is None:  # MLflow has lost the sweep: there is no mark to set any more
                    return True
            for evaluation_id in {one.id for one, _ in behind if one.trial_id is None} & new.keys():
                self._store.set_results_projected(evaluation_id, new[evaluation_id])
        return False

    def _forget_what_is_gone(self, experiment_id: str) -> None:
        """Carry over again the sweeps whose runs this server does not have."""
        present = set(self._tracker.find_runs(experiment_id, {"kind": "sweep"}))
        for sweep_id, run_id in self._store.sweep_runs().items():
            if run_id not in present:
                log.warning("MLflow has lost sweep %s; it is carried over again", sweep_id)
                self._store.forget_projection(sweep_id)

    def _guarded(self, name: str, sweep_id: str, show: Callable[..., bool | None], *arguments: Any) -> bool:
        """Show one sweep or trial; return whether `show` has more left.

        What cannot be shown is set aside, so that it does not hold up the others.
        """
        if name in self._set_aside:
            return False
        try:
            return bool(show(*arguments))
        except TrackerGone as error:
            log.warning("MLflow has lost sweep %s; it is carried over again: %s", sweep_id, error)
            self._store.forget_projection(sweep_id)
            self._experiment_id = None
        except TrackerRefused as error:
            self._set_aside.add(name)
            log.warning("MLflow refused %s, which is left out until the next start: %s", name, error)
        except (ArithmeticError, ValueError):  # of its own figures, which no other sweep has
            self._set_aside.add(name)
            log.exception("%s cannot be shown in MLflow, and is left out until the next start", name)
        return False

    def _show_sweep(self, experiment_id: str, sweep: Sweep) -> None:
        digest = self._store.report_digest(sweep.id)
        tags = mlflow_words.sweep_tags(sweep)
        run_id = sweep.mlflow_run_id
        if run_id is None:
            start = mlflow_words.milliseconds(sweep.created_at)
            run_id = self._tracker.ensure_run(experiment_id, sweep.name, start, tags, ("kind", "sweep_id"))
            spec = sweep.spec.model_dump(mode="json", exclude={"labels"})  # these are tags
            self._tracker.log(run_id, params=mlflow_words.flat(spec))
            self._store.set_sweep_run(sweep.id, experiment_id, run_id)
            sweep = self._store.get_sweep(sweep.id)
            names = mlflow_words.group_names(sweep, self._store.list_configs(sweep.id))
            self._tracker.set_experiment_tag(experiment_id, TAG + sweep.id, shared_view(sweep, names))
        report = self._show_report(experiment_id, run_id, sweep) if digest else None
        self._tracker.log(run_id, tags=tags | mlflow_words.answer_tags(report, sweep_note(sweep, report)))
        self._update_run(run_id, mlflow_words.run_status(sweep.state), sweep.ended_at)
        self._store.set_sweep_projected(sweep.id, sweep.state, digest)

    def _show_report(self, experiment_id: str, run_id: str, sweep: Sweep) -> Report | None:
        """Carry over the report's files; of a final report also a run for each config."""
        files: dict[str, bytes] = {}
        for format_ in REPORT_FILES:
            with suppress(NotReady):
                files[format_] = self._store.get_report(sweep.id, format_)
        for format_, content in files.items():
            self._tracker.put_artifact(run_id, f"report.{format_}", content, REPORT_FILES[format_])
        report = read_report(files["json"]) if "json" in files else None
        if report is not None and not report.interim:
            self._show_configs(experiment_id, sweep, report)
        return report

    def _show_configs(self, experiment_id: str, sweep: Sweep, report: Report) -> None:
        """Make the configs' runs; those of an earlier report go to the bin, since a run's points cannot be changed."""
        configs = {config.id: config for config in self._store.list_configs(sweep.id)}
        start = mlflow_words.milliseconds(sweep.started_at or sweep.created_at)
        identity = ("kind", "sweep_id", "config_id", "report")
        current: set[str] = set()
        evaluations, results = self._store.list_evaluations(sweep.id), self._store.benchmark_results(sweep.id)
        scores = benchmark_words.config_score_points(sweep, [*configs.values()], evaluations, results)
        runs = config_runs(sweep, configs, report, scores)
        for run in runs:
            run_id = self._tracker.ensure_run(experiment_id, run.name, start, run.tags, identity, deleted=False)
            self._tracker.log(run_id, run.points, run.params)
            self._update_run(run_id, "FINISHED", sweep.ended_at or sweep.created_at)
            current.add(run_id)
        every = {"kind": "config", "sweep_id": sweep.id}
        for old in set(self._tracker.find_runs(experiment_id, every, deleted=False)) - current:
            self._tracker.delete_run(old)
        if runs:
            view = shared_view(sweep, [run.name for run in runs], by_config=True)
            self._tracker.set_experiment_tag(experiment_id, TAG + sweep.id, view)

    def _show_trial(self, experiment_id: str, sweep: Sweep, trial: Trial, config: Config, shown: str | None) -> bool:
        """Carry over the next part of a trial's curves, after the last part its state; return true if more is left."""
        run_id = trial.mlflow_run_id
        if run_id is None:
            tags = mlflow_words.trial_tags(sweep, trial, config)
            name = mlflow_words.trial_name(sweep, trial, config)
            start = mlflow_words.milliseconds(trial.started_at or time.time())
            run_id = self._tracker.ensure_run(experiment_id, name, start, tags, ("kind", "trial_id"))
            training = {**config.settings, "seed": trial.seed, "threads": trial.threads}
            self._tracker.log(run_id, params=mlflow_words.flat(training), tags=tags)  # a run may be of another parent
            self._store.set_trial_run(trial.id, run_id)
        chunks = self._store.chunks_behind(trial.id, CHUNKS_AT_A_TIME)
        if chunks:
            points = [
                point for chunk in chunks for point in mlflow_words.chunk_points(chunk, config.updates_per_rollout)
            ]
            self._tracker.log(run_id, points)
            self._store.set_projected(trial.id, curve_id=chunks[-1].id)
        if len(chunks) == CHUNKS_AT_A_TIME:
            return True
        if trial.state != shown:
            final: list[MetricPoint] = []
            if trial.state.is_over:
                curves = self._store.curves(sweep.id, objective_metrics(sweep.spec), [trial.id])
                objective = trial_objectives([trial], curves, sweep.spec)[trial.id]
                final = mlflow_words.final_points(trial, objective)
            self._tracker.log(run_id, final, tags=mlflow_words.progress_tags(trial))
            self._update_run(run_id, mlflow_words.run_status(trial.state), trial.ended_at)
            self._store.set_projected(trial.id, state=trial.state)
        return False

    def _show_scores(self, sweep: Sweep, trial: Trial, models: Sequence[Evaluation], new: Mapping[str, int]) -> None:
        """Carry over all scores of a trial's models, then mark those that it has trained.

        The mark of the initial model, which many trials share, is set once all of them show it.

        Args:
            models: the trial's, of all steps.
            new: number of results by id of each evaluation that is behind.
        """
        if trial.mlflow_run_id is None:
            return
        results = self._store.benchmark_results(sweep.id, evaluation_ids=[model.id for model in models])
        measured = benchmark_words.measured_models(models, results)
        if measured:
            self._tracker.log(trial.mlflow_run_id, benchmark_words.score_points(measured, sweep.benchmarks))
        for name, table in benchmark_words.problem_tables(measured).items():
            self._tracker.put_artifact(trial.mlflow_run_id, f"benchmarks/{name}.csv", table, "text/csv")
        for model in models:
            if model.trial_id is not None and model.id in new:
                self._store.set_results_projected(model.id, new[model.id])

    def _update_run(self, run_id: str, status: RunStatus, ended_at: float | None) -> None:
        self._tracker.update_run(run_id, status, None if ended_at is None else mlflow_words.milliseconds(ended_at))
