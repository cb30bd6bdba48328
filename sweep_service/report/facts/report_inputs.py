"""The inputs of a report: the rows of one sweep, frozen, with a digest that names them."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal

import numpy as np
from pydantic_core import to_json

from sweep_service.health.run_health import RunCurves
from sweep_service.report.model import REPORT_VERSION
from sweep_service.sweep.budget import Spent, WorkTime
from sweep_service.sweep.objective import used_measures
from sweep_service.sweep.records import (
    AskedBefore,
    Attempt,
    BenchmarkResult,
    Checkpoint,
    Config,
    Evaluation,
    ProblemCounts,
    Sample,
    Stage,
    Sweep,
    SweepState,
    Trial,
    TrialState,
    ValidatedSweep,
)
from sweep_service.sweep.series import Series, TrialSeries
from trainers.evaluation.problem_parts import PART_METRICS, part_metric
from trainers.evaluation.problem_parts import PARTS as PROBLEM_PARTS
from trainers.losses import PARTS, REGIONS
from trainers.record.metrics import RATIO_BINS

Drawn = Literal["seeds", "configs", "prominent"]

CURVES: Final[dict[str, Drawn]] = {
    "eval/avg_at_k": "seeds",
    "eval/pass_at_k": "configs",
    "eval/reward_mean": "prominent",
    "eval/length_mean": "prominent",
    "entropy": "seeds",
    "probe/entropy": "configs",
    "probe/kl_from_initial_k3": "prominent",
    "reward/mean": "seeds",
    "group/zero_spread_share": "prominent",
    "completion/length_mean": "configs",
    "completion/truncated_share": "prominent",
    "clip_fraction/low": "configs",
    "clip_fraction/high": "configs",
    "clip_fraction/dropped": "prominent",
    "ppo_kl": "configs",
    "kl/k3": "prominent",
    "grad_norm": "configs",
    "tokens/total": "prominent",
    "entropy_change/measured": "prominent",
    **dict.fromkeys((f"entropy_change/predicted_{part}" for part in PARTS), "prominent"),
    **{f"share/{region}": "configs" if region in ("na_lp", "pa_lp") else "prominent" for region in REGIONS},
    **dict.fromkeys((f"weight_share/{part}" for part in PARTS), "prominent"),
    **dict.fromkeys((f"ratio_share/{name}" for name in RATIO_BINS), "prominent"),
}
"""Metrics shown over time, and how much of each: every seed's curve, the means of all configs, or the means of
prominent configs only. In a sweep of few configs all are prominent."""
CURVE_KEYS: Final = (
    *CURVES,
    "eval/avg_at_k_se",
    "eval/pass_at_k_se",
    "eval/reward_mean_se",
    "completion/length_ended",
    "weight_share/potential",
    *(part_metric(name, part) for part in PROBLEM_PARTS for name in PART_METRICS),
)
"""The metrics that a report reads."""

_EMPTY: Final = Series(np.empty(0, dtype=np.int64), np.empty(0))


@dataclass(frozen=True)
class ReportInputs:
    """The rows from which everything in a report follows."""

    sweep: Sweep
    configs: tuple[Config, ...]
    trials: tuple[Trial, ...]
    series: Mapping[str, TrialSeries]
    """Metrics of `CURVE_KEYS` by trial id; a trial that recorded none is left out."""
    attempts: tuple[Attempt, ...] = ()
    """Attempts of trials that were begun more than once, in the order in which they began."""
    trained_with: Mapping[str, Sequence[Mapping[str, str]]] = field(
        default_factory=dict[str, Sequence[Mapping[str, str]]]
    )
    """Versions of packages with which each trial has trained, by its id: one entry an attempt that noted them."""
    samples: tuple[Sample, ...] = ()
    """Completions from the last evaluation of one trial of each config and stage."""
    checkpoints: tuple[Checkpoint, ...] = ()
    """The newest checkpoint of each trial."""
    problem_counts: tuple[ProblemCounts, ...] = ()
    """Right samples by problem of each trial's last `objective.last` evaluations; none where trainers did not count."""
    evaluations: tuple[Evaluation, ...] = ()
    """Models that were to be measured on benchmarks, by number."""
    benchmark_results: tuple[BenchmarkResult, ...] = ()
    validated_before: tuple[ValidatedSweep, ...] = ()
    """Earlier sweeps from the same initial model that chose their configs by one of this sweep's benchmarks."""
    asked_before: tuple[AskedBefore, ...] = ()
    """Earlier sweeps with a report that ask the same question: the same initial model and task."""
    mlflow_url: str | None = None
    """Address at which people reach MLflow; None leaves its links out."""
    versions: Mapping[str, str] = field(default_factory=dict[str, str])
    """Versions of the packages that built the report."""
    provenance: Mapping[str, str] = field(default_factory=dict[str, str])
    """Version or digest of the code and of each dataset, by name, as of when these rows were read."""
    probe_gpu_hours: float = 0.0
    looks: int = 1
    """Number of looks at the question: see `sweep.extension.looks`."""

    @property
    def spent(self) -> Spent:
        """Time that the sweep's trials, its evaluations and its probe have taken."""
        trials = [WorkTime(trial.state, trial.held_s) for trial in self.trials if trial.attempts]
        evaluations = [WorkTime(one.state, one.held_s, measures=True) for one in self.evaluations if one.attempts]
        return Spent([*trials, *evaluations], self.probe_gpu_hours)

    def get(self, trial_id: str, key: str) -> Series | None:
        """Return one metric of one trial; None if it was never recorded."""
        series = self.series.get(trial_id)
        return None if series is None else series.get(key)

    def present(self, trial_id: str, key: str) -> Series:
        """Return one metric of one trial at the steps that have a value; empty if it was never recorded."""
        series = self.get(trial_id, key)
        return _EMPTY if series is None else series.present

    def run_curves(self, trial: Trial) -> RunCurves:
        """Return what the signs of health see of a trial."""
        return RunCurves(
            trial.total_steps,
            self.sweep.spec.objective.last,
            self.series.get(trial.id),
            self.judged_samples.get(trial.id),
            trial.state is TrialState.DIVERGED,
        )

    @cached_property
    def measures(self) -> Mapping[Stage, str]:
        """The metric by which each stage compares configs: over half of the validation problems, or over all."""
        return used_measures(
            self.trials, lambda id_, metric: self.present(id_, metric).values.tolist(), self.sweep.spec
        )

    @property
    def dropped(self) -> Sequence[Config]:
        """The configs that `early_stopping` has dropped, by number."""
        return [config for config in self.configs if config.dropped is not None]

    @cached_property
    def before_drops(self) -> "ReportInputs":
        """The rows as they were before the first config was dropped, for what compares all configs of the tune stage.

        They have the tune seeds on which no config had been dropped yet: none, if a rule judged single runs.
        """
        judged = [config.dropped for config in self.configs if config.dropped is not None]
        if not judged:
            return self
        first = min(0 if one.seed is not None else one.mark for one in judged)
        shared = {*self.sweep.spec.seeds.tune[:first]}
        kept = tuple(trial for trial in self.trials if trial.stage is Stage.CONFIRM or trial.seed in shared)
        return replace(self, trials=kept)

    @cached_property
    def judged_samples(self) -> Mapping[str, int]:
        """Number of judged samples of one evaluation by trial id, where trainers counted them."""
        return {counts.trial_id: sum(counts.judged) for counts in self.problem_counts}

    @property
    def halves(self) -> bool:
        """True if other validation problems measured the confirm stage than those that chose the configs."""
        return self.measures[Stage.TUNE] != self.measures[Stage.CONFIRM]

    @property
    def interim(self) -> bool:
        """True if trials may still change; once the sweep leaves such a state, all have ended."""
        return self.sweep.state.trials_may_change

    @cached_property
    def digest(self) -> str:
        """Hash of the rows and of the report's version; a sweep that only ends well with its report keeps it."""
        digest = hashlib.sha256(f"{REPORT_VERSION}\n".encode())
        ends_well = self.sweep.state in (SweepState.FINALIZING, SweepState.SUCCEEDED)
        left_out = {"epoch", "ended_at", *(["state"] if ends_well else [])}
        digest.update(self.sweep.model_dump_json(exclude=left_out).encode())
        if self.dropped:
            digest.update(to_json([config.dropped for config in self.dropped]))
        digest.update(to_json((self.configs, self.trials, self.samples, self.checkpoints, self.problem_counts)))
        for attempt in self.attempts:
            digest.update(to_json((attempt.trial_id, attempt.number, attempt.held_from, attempt.held_s)))
        digest.update(to_json(self.trained_with))
        digest.update(to_json((self.evaluations, self.benchmark_results, self.validated_before, self.asked_before)))
        for trial in self.trials:
            if series := self.series.get(trial.id):
                for name, array in series.arrays():
                    digest.update(f"{trial.id} {name}\n".encode())
                    digest.update(array.tobytes())
        digest.update(repr((self.probe_gpu_hours, self.looks)).encode())
        digest.update(repr((self.mlflow_url, sorted(self.versions.items()), sorted(self.provenance.items()))).encode())
        return digest.hexdigest()
