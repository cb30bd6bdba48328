"""Requests for what sweeps have found: objectives, curves, scores on benchmarks, reports and verdicts."""

from collections import Counter
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from statistics import fmean

from pydantic_core import from_json

from sweep_service.errors import Conflict, NotFound, NotReady, ReportFailed
from sweep_service.report.comparison_model import SweepsComparison
from sweep_service.schemas import (
    Best,
    CheckpointView,
    ConfigCurve,
    ConfigView,
    Judged,
    MetricKey,
    ReportsView,
    StoredReportView,
    TrialView,
    VerdictView,
)
from sweep_service.service.base import ServicePart
from sweep_service.store import KeptReport
from sweep_service.sweep.benchmark_scores import BenchmarkScore, ProblemScore, problem_scores
from sweep_service.sweep.labels import params_texts
from sweep_service.sweep.links import run_link
from sweep_service.sweep.objective import config_objectives, leader, objective_metrics, trial_objectives
from sweep_service.sweep.own_trainer import own_file
from sweep_service.sweep.records import (
    BenchmarkResult,
    Checkpoint,
    Evaluation,
    Stage,
    Sweep,
    SweepState,
    Trial,
    TrialState,
)
from trainers.record.metrics import EVALUATION_METRICS, STEP_METRICS, find_metric
from trainers.yaml_text import write_yaml


class Results(ServicePart):
    """Results of one sweep or several, as views of `sweep_service.schemas`."""

    def trials(self, sweep_id: str, after: int, limit: int, states: Sequence[TrialState]) -> list[TrialView]:
        """Return trials by number, each with its objective and its newest checkpoint."""
        sweep = self.store.get_sweep(sweep_id)
        checkpoints = {checkpoint.trial_id: checkpoint for checkpoint in self.store.newest_checkpoints(sweep_id)}
        return self._views(sweep, self.store.list_trials(sweep_id, after, limit, states), checkpoints)

    def trial(self, trial_id: str) -> TrialView:
        """Return one trial with its objective and its newest checkpoint.

        Raises: NotFound.
        """
        sweep = self.store.get_sweep(self.store.get_work(trial_id).sweep_id)
        trial, checkpoint = self.store.get_trial(trial_id), self.store.newest_checkpoint(trial_id)
        return self._views(sweep, [trial], {trial_id: checkpoint} if checkpoint else {})[0]

    def _views(self, sweep: Sweep, trials: Sequence[Trial], checkpoints: Mapping[str, Checkpoint]) -> list[TrialView]:
        curves = self.store.curves(sweep.id, objective_metrics(sweep.spec), [trial.id for trial in trials])
        values = trial_objectives(trials, curves, sweep.spec)
        newest = {trial_id: CheckpointView(**dict(checkpoint)) for trial_id, checkpoint in checkpoints.items()}
        return [
            TrialView(
                **dict(trial),
                objective=values[trial.id],
                checkpoint=newest.get(trial.id),
                mlflow_url=run_link(self.settings.mlflow_links, trial.mlflow_run_id),
            )
            for trial in trials
        ]

    def benchmark_scores(self, sweep_id: str) -> list[BenchmarkScore]:
        """Return the scores of a sweep's models on its benchmarks, by evaluation, then by benchmark.

        Raises: NotFound.
        """
        return [BenchmarkScore.of(evaluation, result) for evaluation, result in self._measured(sweep_id)]

    def problem_scores(self, sweep_id: str, benchmark: str) -> list[ProblemScore]:
        """Return the scores of a sweep's models on each problem of a benchmark, by evaluation, then in its order.

        Raises: NotFound.
        """
        return [score for measured in self._measured(sweep_id, benchmark) for score in problem_scores(*measured)]

    def _measured(self, sweep_id: str, benchmark: str | None = None) -> list[tuple[Evaluation, BenchmarkResult]]:
        evaluations = {evaluation.id: evaluation for evaluation in self.store.list_evaluations(sweep_id)}
        results = self.store.benchmark_results(sweep_id, benchmark)
        return [(evaluations[result.evaluation_id], result) for result in results]

    def configs(self, sweep_id: str, after: int, limit: int) -> list[ConfigView]:
        """Return configs by number, each with its mean objective in both stages."""
        trials, values = self.objectives(self.store.get_sweep(sweep_id))
        means = {stage: config_objectives(trials, values, stage) for stage in Stage}
        counts = Counter((trial.config_id, trial.stage) for trial in trials)
        labels = params_texts(self.store.list_configs(sweep_id))
        return [
            ConfigView(
                **dict(config),
                label=labels[config.id],
                tune_objective=means[Stage.TUNE].get(config.id),
                confirm_objective=means[Stage.CONFIRM].get(config.id),
                tune_trials=counts[config.id, Stage.TUNE],
                confirm_trials=counts[config.id, Stage.CONFIRM],
            )
            for config in self.store.list_configs(sweep_id, after, limit)
        ]

    def metric_keys(self, sweep_id: str) -> list[MetricKey]:
        """Return the metrics that a sweep's trials have recorded, by name.

        Raises: NotFound.
        """
        metrics = {key: find_metric(key) for key in sorted(self.store.metric_keys(sweep_id))}
        return [MetricKey(key=key, **(metric._asdict() if metric else {})) for key, metric in metrics.items()]

    def unknown_metrics(self, sweep_id: str, keys: Sequence[str]) -> dict[str, list[str]]:
        """Return the names that no metric has, each with the metrics that it may mean, the closest first."""
        if not (others := [key for key in keys if key not in STEP_METRICS and key not in EVALUATION_METRICS]):
            return {}
        recorded = self.store.metric_keys(sweep_id)  # such as those of a program of its own
        names = sorted({*recorded, *STEP_METRICS, *EVALUATION_METRICS})
        return {key: get_close_matches(key, names, 3) for key in others if key not in recorded}

    def config_curves(self, sweep_id: str, keys: Sequence[str]) -> list[ConfigCurve]:
        """Return metrics of every config over its steps: mean and range over seeds, tune and confirm apart."""
        groups: dict[tuple[str, Stage, str], dict[int, list[float]]] = {}
        for curve in self.store.curves(sweep_id, keys):
            by_step = groups.setdefault((curve.config_id, curve.stage, curve.key), {})
            for step, value in zip(curve.steps, curve.values, strict=True):
                values = by_step.setdefault(step, [])
                if value is not None:
                    values.append(value)
        return [_over_seeds(*names, by_step) for names, by_step in groups.items()]

    def report(self, sweep_id: str, format_: str, *, interim: bool = False, digest: str | None = None) -> KeptReport:
        """Return the report as html, json or md.

        Args:
            interim: while the sweep goes on, return the newest interim one, and ask the worker for a newer one.
            digest: return the final report of this digest, which a newer one may have superseded.
        Raises: NotFound; NotReady; ReportFailed.
        """
        if digest is not None:
            if (stored := self.store.find_report(sweep_id, format_, digest)) is None:
                where = f" of sweep {sweep_id} as {format_}; GET /v1/sweeps/{sweep_id}/reports lists what is kept"
                raise NotFound("report", digest, where)
            return stored
        kept = self.store.find_report(sweep_id, format_)
        if interim and (kept is None or kept.interim):
            self.store.want_report(sweep_id)
        if kept is not None and (interim or not kept.interim):
            return kept
        if (reason := self.store.report_failure(sweep_id)) is not None:
            raise ReportFailed(
                f"the report of sweep {sweep_id} could not be built: {reason}; the worker's log tells more"
            )
        raise NotReady(_no_report_yet(self.store.get_sweep(sweep_id), interim=interim))

    def reports(self, sweep_id: str) -> ReportsView:
        """Return the final reports of a sweep; `building` is True while a new one is being built.

        Raises: NotFound.
        """
        building = self.store.report_requested(sweep_id) and not self.store.deletions([sweep_id])
        return ReportsView(
            building=building and self.store.get_sweep(sweep_id).state.is_over,
            failure=self.store.report_failure(sweep_id),
            reports=[StoredReportView(**dict(stored)) for stored in self.store.stored_reports(sweep_id)],
        )

    def compare(self, sweep_ids: Sequence[str]) -> SweepsComparison:
        """Join sweeps by config, and compare each with the first.

        Raises: NotFound; Conflict, if one of them is archived.
        """
        # brings scipy, which nothing else here needs
        from sweep_service.report.compare import SweepResults, compare_sweeps

        if gone := self.store.deletions(sweep_ids):
            raise Conflict(f"{', '.join(gone)} has no curves any more, so it cannot be compared; its report is left")
        compared: list[SweepResults] = []
        for sweep_id in sweep_ids:
            sweep = self.store.get_sweep(sweep_id)
            trials, metric = self.store.list_trials(sweep_id), sweep.spec.objective.metric
            # over all validation problems, because a seed may be in one stage here and in the other there
            objectives = trial_objectives(trials, self.store.curves(sweep_id, [metric]), sweep.spec)
            values: dict[str, dict[int, float]] = {}
            ruined = self.store.ruined_trials(sweep_id)
            for trial in trials:
                if (value := objectives[trial.id]) is not None and trial.id not in (ruined or ()):
                    values.setdefault(trial.config_id, {})[trial.seed] = value
            lost = None if ruined is None else Counter(trial.config_id for trial in trials if trial.id in ruined)
            compared.append(SweepResults(sweep, self.store.list_configs(sweep_id), values, lost))
        return compare_sweeps(compared)

    def best(self, sweep_id: str) -> Best:
        """Return the best config so far, as the report picks it: `objective.leader`.

        Raises: NotFound; NotReady, if no config has a result yet.
        """
        sweep = self.store.get_sweep(sweep_id)
        configs = self.store.list_configs(sweep_id)
        trials, values = self.objectives(sweep)
        if (best := leader(configs, trials, values, sweep.spec)) is None:
            if self.store.deletions([sweep_id]):
                raise NotReady(f"sweep {sweep_id} has no curves any more; its report names the best config")
            raise NotReady(f"no config of sweep {sweep_id} has a result yet")
        return Best.of(best, sweep, params_texts(configs)[best.config.id], self.judged(sweep_id))

    def judged(self, sweep_id: str) -> Judged:
        """Return the verdict of a sweep's report, while it runs the newest interim one; without a report, the reason.

        Raises: NotFound.
        """
        kept = self.store.find_report(sweep_id, "verdict")
        if kept is not None and (verdict := _read_verdict(kept, from_json(kept.content))) is not None:
            goes_on = not verdict.interim and not self.store.get_sweep(sweep_id).state.is_over
            return Judged(verdict=verdict.model_copy(update={"outdated": goes_on}), no_verdict=None)
        reason = "there is no report yet to say how sure this is"
        if kept is not None:
            reason = (
                "the report is of another version, whose words mean something else; to have it built by this one: "
                f"sweeps report {sweep_id} --anew"
            )
        if (failure := self.store.report_failure(sweep_id)) is not None:
            reason = f"the report could not be built: {failure}"
        return Judged(verdict=None, no_verdict=reason)


def best_yaml(best: Best) -> str:
    """Return the best config as a file that `python -m trainers` takes; comments say how sure it is.

    For a trainer of one's own it is the JSON that such programs read, without comments.
    """
    if best.of_program:
        return own_file(best.training)
    lines = [
        f"{best.config_id}: {best.label}",
        f"{best.metric} {best.objective:.4f}, mean over {best.stage} seeds",
        *best.remarks,
        best.verdict_text,
    ]
    head = "".join(f"# {' '.join(line.split())}\n" for line in lines if line)
    return head + write_yaml(best.training)


def _no_report_yet(sweep: Sweep, *, interim: bool) -> str:
    """Say why there is no report of a sweep yet."""
    if interim and sweep.state.has_interim_report:
        return f"the interim report of sweep {sweep.id} has not been built yet"
    shown = sweep.desired_state.shown(sweep.state)
    if interim and sweep.state is SweepState.QUEUED:
        return f"sweep {sweep.id} is {shown}, and has an interim report only once it runs"
    if sweep.state.trials_may_change:
        return f"sweep {sweep.id} is {shown}, and has a final report only once its trials have ended"
    return f"the report of sweep {sweep.id} has not been built yet"


def _read_verdict(kept: KeptReport, verdict: object) -> VerdictView | None:
    """Return the verdict of a kept report; None if it has none to show, as one of another version may."""
    match verdict:
        case {"outcome": "BETTER" | "WORSE" | "EQUIVALENT", "comparison": {**compared}} if (
            "average_low" not in compared
        ):
            return None  # of sound runs alone
        case {"outcome": str(outcome), "sentence": str(sentence), **rest}:
            names = ("config_id", "comparator_id", "difference", "low", "high", "num_seeds")
            compared = rest.get("comparison") or {}
            figures = {name: compared.get(name) for name in names}
            facts = {"interim": kept.interim, "created_at": kept.created_at}
            return VerdictView.model_validate({"outcome": outcome, "sentence": sentence, **figures, **facts})
        case _:
            return None


def _over_seeds(config_id: str, stage: Stage, key: str, by_step: Mapping[int, Sequence[float]]) -> ConfigCurve:
    steps = sorted(by_step)
    columns = [by_step[step] for step in steps]
    return ConfigCurve(
        config_id=config_id,
        stage=stage,
        key=key,
        steps=steps,
        mean=[fmean(values) if values else None for values in columns],
        low=[min(values, default=None) for values in columns],
        high=[max(values, default=None) for values in columns],
        n=[len(values) for values in columns],
    )
