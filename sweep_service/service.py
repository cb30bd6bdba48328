"""The requests that the service takes, with all their rules. The API calls this; it calls the store."""

import json
import time
from collections import Counter
from collections.abc import Sequence
from statistics import fmean

from pydantic_core import from_json

from sweep_service.errors import NotReady, ReportFailed
from sweep_service.intake.preview import with_prompts
from sweep_service.intake.whole_check import check_spec
from sweep_service.schemas import (
    Best,
    CheckpointView,
    ConfigCurve,
    ConfigView,
    Judged,
    ProbeView,
    SweepsComparison,
    SweepSummary,
    TrialView,
    VerdictView,
)
from sweep_service.settings import Settings
from sweep_service.store import KeptReport, Store, schema_versions
from sweep_service.sweep.benchmark_scores import BenchmarkScore, ProblemScore, problem_scores
from sweep_service.sweep.budget import GpuHours, gpu_hours
from sweep_service.sweep.cost import costliest, measured, probe_shape
from sweep_service.sweep.labels import equals_text
from sweep_service.sweep.links import curves_link, run_link
from sweep_service.sweep.objective import config_objectives, leader, objective_metrics, trial_objectives
from sweep_service.sweep.plan import SweepPlan, first_records, make_plan
from sweep_service.sweep.records import (
    Curve,
    DesiredState,
    Stage,
    Sweep,
    SweepState,
    Trial,
    TrialState,
    new_id,
)
from trainers.catalog.entries import BenchmarkEntry, all_entries
from trainers.yaml_text import write_yaml


class SweepService:
    """The requests that users may make, but for plain rows, which `store` gives. Raises `sweep_service.errors`."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store, self.settings = store, settings

    def check_ready(self) -> None:
        """Check that the database answers and has the schema that this version needs.

        Raises: NotReady; the database's own error, if it does not answer.
        """
        present, needed = schema_versions(self.store.engine)
        if present != needed:
            raise NotReady(f"the database has schema {present}, this version needs {needed}; run `sweeps db upgrade`")

    def plan(self, raw: object) -> SweepPlan:
        """Check a spec and say what it would run, without storing anything.

        Raises: InvalidSpec.
        """
        spec = check_spec(raw, self.settings.cache)
        earlier = self.store.seconds_per_step(spec.base.model_dump(mode="json", exclude={"seed"}), spec.resources)
        probe = self.store.find_probe(probe_shape(costliest(spec), spec.resources))
        problems = {entry.name: entry.problems for entry in all_entries(self.settings.cache, BenchmarkEntry)}
        plan = make_plan(spec, earlier, measured(probe), problems)
        return with_prompts(plan, spec, self.settings.cache)

    def submit(self, raw: object, idempotency_key: str | None = None) -> tuple[Sweep, bool]:
        """Accept a sweep. Once this returns it is stored for good.

        Returns: the sweep, and whether it is an earlier one that the same key named.
        Raises: InvalidSpec; IdempotencyKeyReused.
        """
        spec = check_spec(raw, self.settings.cache)
        sweep = Sweep(
            id=(sweep_id := new_id("swp")),
            name=spec.name,
            state=SweepState.QUEUED,
            desired_state=DesiredState.RUN,
            created_at=time.time(),
            spec=spec,
            spec_digest=spec.digest,
        )
        configs, trials = first_records(spec, sweep_id)
        key = (idempotency_key, spec.digest) if idempotency_key else None
        stored = self.store.create_sweep(sweep, configs, trials, key)
        return stored, stored.id != sweep.id

    def summaries(self, sweeps: Sequence[Sweep]) -> list[SweepSummary]:
        """Return the short form of sweeps, with their trials counted."""
        counts = self.store.count_trials([sweep.id for sweep in sweeps])
        return [
            SweepSummary(
                **sweep.model_dump(include=set(SweepSummary.model_fields)),
                only_probes=sweep.spec.only_probes,
                labels=dict(sweep.spec.labels),
                trials=counts[sweep.id],
                mlflow_url=curves_link(self.settings.mlflow_links, sweep),
            )
            for sweep in sweeps
        ]

    def gpu_hours(self, sweep: Sweep) -> GpuHours | None:
        """Return the GPU-hours that a sweep has used and reserved of its budget; None on CPUs."""
        return gpu_hours(sweep.spec, self.store.spent(sweep.id)) if sweep.spec.resources.gpus else None

    def sweeps(
        self, limit: int, before: str | None, states: Sequence[SweepState], labels: Sequence[tuple[str, str]] = ()
    ) -> list[SweepSummary]:
        """Return sweeps, newest first, from the one after the id `before`."""
        return self.summaries(self.store.list_sweeps(limit, before, states, labels))

    def cancel(self, sweep_id: str) -> Sweep:
        """Stop a sweep; its running trials end within seconds.

        Raises: NotFound; Conflict, if it has ended already.
        """
        return self.store.request_cancel(sweep_id)

    def trials(self, sweep_id: str, after: int, limit: int, states: Sequence[TrialState]) -> list[TrialView]:
        """Return trials by number, each with its objective and its newest checkpoint."""
        sweep = self.store.get_sweep(sweep_id)
        trials = self.store.list_trials(sweep_id, after, limit, states)
        curves = self.store.curves(sweep_id, objective_metrics(sweep.spec), [trial.id for trial in trials])
        values = trial_objectives(trials, curves, sweep.spec)
        checkpoints = {
            checkpoint.trial_id: CheckpointView(**dict(checkpoint))
            for checkpoint in self.store.newest_checkpoints(sweep_id)
        }
        return [
            TrialView(
                **trial.model_dump(),
                objective=values[trial.id],
                checkpoint=checkpoints.get(trial.id),
                mlflow_url=run_link(self.settings.mlflow_links, trial.mlflow_run_id),
            )
            for trial in trials
        ]

    def benchmark_scores(self, sweep_id: str) -> list[BenchmarkScore]:
        """Return what a sweep's models score on its benchmarks, by evaluation, then by benchmark.

        Raises: NotFound.
        """
        evaluations = {evaluation.id: evaluation for evaluation in self.store.list_evaluations(sweep_id)}
        results = self.store.benchmark_results(sweep_id)
        return [BenchmarkScore.of(evaluations[result.evaluation_id], result) for result in results]

    def problem_scores(self, sweep_id: str, benchmark: str) -> list[ProblemScore]:
        """Return how a sweep's models do on each problem of a benchmark, by evaluation, then in the benchmark's order.

        Raises: NotFound.
        """
        evaluations = {evaluation.id: evaluation for evaluation in self.store.list_evaluations(sweep_id)}
        results = self.store.benchmark_results(sweep_id, benchmark)
        return [score for result in results for score in problem_scores(evaluations[result.evaluation_id], result)]

    def probe(self, sweep_id: str) -> ProbeView:
        """Return a sweep's newest cost probe, or that of another sweep which serves it too.

        Raises: NotFound; NotReady, if it has none.
        """
        spec = self.store.get_sweep(sweep_id).spec
        probe = self.store.last_probe(sweep_id)
        if probe is None and spec.probes != "off":
            probe = self.store.find_probe(probe_shape(costliest(spec), spec.resources))
        if probe is None:
            reason = "it has not begun yet" if spec.probes != "off" else "its spec asks for none (probe: off)"
            raise NotReady(f"sweep {sweep_id} has no probe: {reason}")
        figures = measured(probe)
        return ProbeView(**dict(probe), cost=make_plan(spec, None, figures).cost if figures else None)

    def configs(self, sweep_id: str, after: int, limit: int) -> list[ConfigView]:
        """Return configs by number, each with its mean objective in both stages."""
        trials, values = self._objectives(self.store.get_sweep(sweep_id))
        means = {stage: config_objectives(trials, values, stage) for stage in Stage}
        counts = Counter((trial.config_id, trial.stage) for trial in trials)
        return [
            ConfigView(
                **config.model_dump(),
                tune_objective=means[Stage.TUNE].get(config.id),
                confirm_objective=means[Stage.CONFIRM].get(config.id),
                tune_trials=counts[config.id, Stage.TUNE],
                confirm_trials=counts[config.id, Stage.CONFIRM],
            )
            for config in self.store.list_configs(sweep_id, after, limit)
        ]

    def _objectives(self, sweep: Sweep) -> tuple[list[Trial], dict[str, float | None]]:
        trials = self.store.list_trials(sweep.id)
        curves = self.store.curves(sweep.id, objective_metrics(sweep.spec))
        return trials, trial_objectives(trials, curves, sweep.spec)

    def config_curves(self, sweep_id: str, keys: Sequence[str]) -> list[ConfigCurve]:
        """Return metrics of every config over its steps: mean and range over seeds, tune and confirm apart."""
        groups: dict[tuple[str, Stage, str], list[Curve]] = {}
        for curve in self.store.curves(sweep_id, keys):
            groups.setdefault((curve.config_id, curve.stage, curve.key), []).append(curve)
        return [_over_seeds(*names, curves) for names, curves in groups.items()]

    def report(self, sweep_id: str, format_: str, *, interim: bool = False) -> KeptReport:
        """Return the report as html, json or md.

        Args:
            interim: while the sweep goes on, return the newest interim one, and ask the worker for a newer one.
        Raises: NotFound; NotReady; ReportFailed.
        """
        kept = self.store.find_report(sweep_id, format_)
        if interim and (kept is None or kept.interim):
            self.store.want_report(sweep_id)
        if kept is not None and (interim or not kept.interim):
            return kept
        if (reason := self.store.report_failure(sweep_id)) is not None:
            raise ReportFailed(
                f"the report of sweep {sweep_id} could not be built: {reason}; the worker's log tells more"
            )
        raise NotReady(f"the report of sweep {sweep_id} has not been built yet")

    def compare(self, sweep_ids: Sequence[str]) -> SweepsComparison:
        """Join sweeps by config, and compare each with the first.

        Raises: NotFound.
        """
        from sweep_service.report.compare import Results, compare_sweeps  # brings scipy, which nothing else here needs

        compared: list[Results] = []
        for sweep_id in sweep_ids:
            sweep = self.store.get_sweep(sweep_id)
            trials, metric = self.store.list_trials(sweep_id), sweep.spec.objective.metric
            # over all validation problems, because a seed may be in one stage here and in the other there
            objectives = trial_objectives(trials, self.store.curves(sweep_id, [metric]), sweep.spec)
            values: dict[str, dict[int, float]] = {}
            for trial in trials:
                if (value := objectives[trial.id]) is not None:
                    values.setdefault(trial.config_id, {})[trial.seed] = value
            compared.append(Results(sweep, self.store.list_configs(sweep_id), values))
        return compare_sweeps(compared)

    def best(self, sweep_id: str) -> Best:
        """Return the best config so far, as the report picks it: `objective.leader`.

        Raises: NotFound; NotReady, if no config has a result yet.
        """
        sweep = self.store.get_sweep(sweep_id)
        configs = self.store.list_configs(sweep_id)
        trials, values = self._objectives(sweep)
        if (best := leader(configs, trials, values, sweep.spec.seeds.confirm)) is None:
            raise NotReady(f"no config of sweep {sweep_id} has a result yet")
        return Best(
            config_id=best.config.id,
            params=best.config.params,
            stage=best.stage,
            metric=sweep.spec.objective.metric,
            objective=best.objective,
            equal=best.equal,
            configs=best.configs,
            **dict(self.judged(sweep_id)),
            training=best.config.training,
        )

    def judged(self, sweep_id: str) -> Judged:
        """Return what a sweep's report says, while it runs the newest interim one; without a report, why there is none.

        Raises: NotFound.
        """
        if (verdict := self._verdict(sweep_id)) is not None:
            return Judged(verdict=verdict, no_verdict=None)
        reason = "the verdict is still to come: there is no report yet"
        if (failure := self.store.report_failure(sweep_id)) is not None:
            reason = f"there is no verdict: the report could not be built: {failure}"
        return Judged(verdict=None, no_verdict=reason)

    def _verdict(self, sweep_id: str) -> VerdictView | None:
        if (kept := self.store.find_report(sweep_id, "verdict")) is not None:
            return _read_verdict(kept, from_json(kept.content))
        if (kept := self.store.find_report(sweep_id, "json")) is not None:  # an earlier version kept no part of it
            return _read_verdict(kept, from_json(kept.content).get("verdict"))
        return None


def best_yaml(best: Best) -> str:
    """Return the best config as a file that `python -m trainers` takes; comments say how sure it is."""
    lines = [
        f"{best.config_id}: {json.dumps(best.params)}",
        f"{best.metric} {best.objective:.4f}, mean over {best.stage} seeds",
        equals_text(best.equal, best.configs),
        best.verdict_text,
    ]
    head = "".join(f"# {' '.join(line.split())}\n" for line in lines if line)
    return head + write_yaml(best.training)


def _read_verdict(kept: KeptReport, verdict: object) -> VerdictView | None:
    """Return the verdict of a kept report; None if it has none to show, as one of another version may."""
    match verdict:
        case {"outcome": str(outcome), "sentence": str(sentence), **rest}:
            names = ("config_id", "comparator_id", "difference", "low", "high", "num_seeds")
            compared = rest.get("comparison") or {}
            figures = {name: compared.get(name) for name in names}
            facts = {"interim": kept.interim, "created_at": kept.created_at}
            return VerdictView.model_validate({"outcome": outcome, "sentence": sentence, **figures, **facts})
        case _:
            return None


def _over_seeds(config_id: str, stage: Stage, key: str, curves: Sequence[Curve]) -> ConfigCurve:
    by_step: dict[int, list[float]] = {}
    for curve in curves:
        for step, value in zip(curve.steps, curve.values, strict=True):
            values = by_step.setdefault(step, [])
            if value is not None:
                values.append(value)
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
