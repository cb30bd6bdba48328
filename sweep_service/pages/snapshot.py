"""A snapshot of a sweep for its page. Everything here is data; a template makes it HTML."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sweep_service.pages.config_looks import ConfigLook, looks
from sweep_service.pages.page_curves import MeanCurves
from sweep_service.pages.progress import Progress, progress
from sweep_service.schemas import Best, Judged
from sweep_service.service import SweepService
from sweep_service.sweep.deletion import Deletion
from sweep_service.sweep.labels import Phases, explained, telling_phase
from sweep_service.sweep.links import curves_link, run_link
from sweep_service.sweep.objective import leader, trial_objective, used_measures
from sweep_service.sweep.plan import trials_to_come
from sweep_service.sweep.records import Config, Sample, Sweep, Trial, TrialState, TrialWarning

ENTROPY: Final = "entropy"
REWARD: Final = "reward/mean"
SHOWN_EVALUATIONS: Final = 3
"""Number of evaluations whose samples are shown, each of another trial."""
SHOWN_SAMPLES: Final = 4


@dataclass(frozen=True)
class PageTrial:
    """A row of the table of trials."""

    trial: Trial
    look: ConfigLook
    phase: str | None
    """Phase of the trial before its first update."""
    entropy: float | None
    reward: float | None
    objective: float | None
    """The trial's objective; while it runs, its last evaluation."""
    mlflow_url: str | None


@dataclass(frozen=True)
class Warned:
    """A warning, in the words of the first trial that has it."""

    warning: TrialWarning
    row: PageTrial
    trials: int
    """Number of trials that have it."""


@dataclass(frozen=True)
class ShownEvaluation:
    """Completions that one trial wrote at one evaluation."""

    row: PageTrial
    step: int
    samples: list[Sample]


@dataclass(frozen=True)
class Snapshot:
    """A sweep at one moment."""

    sweep: Sweep
    now: float
    counts: Mapping[TrialState, int]
    """Number of trials by state; states without trials are left out."""
    progress: Progress
    rows: list[PageTrial]
    looks: dict[str, ConfigLook]
    warnings: list[Warned]
    failures: list[PageTrial]
    evaluations: list[ShownEvaluation]
    best: Best | None
    """The config that leads so far, under the name of its look."""
    best_seeds: int
    """Number of seeds that its objective is the mean of."""
    judged: Judged
    """The report's verdict, or the reason why there is none."""
    probing: str | None
    """Phase of the sweep's cost probe; None without a running one."""
    mlflow_url: str | None

    def beginning(self) -> str:
        """Say what a running sweep does whose time left is unknown."""
        if phase := telling_phase([row.phase for row in self.rows if row.phase]):
            return explained(phase)
        runs = any(row.trial.state is TrialState.RUNNING for row in self.rows)
        return "no running trial has made a step yet" if runs else "no trial runs at this moment"

    def groups(self) -> dict[str, list[PageTrial]]:
        """Return the rows of each part of the table; ended trials come last first, all others by number."""
        parts: dict[str, list[PageTrial]] = {"running": [], "ended": [], "waiting": []}
        for row in sorted(self.rows, key=lambda row: (-(row.trial.ended_at or 0), row.trial.number)):
            running = "running" if row.trial.state is TrialState.RUNNING else "waiting"
            parts["ended" if row.trial.state.is_over else running].append(row)
        return parts


def take(
    service: SweepService,
    sweep: Sweep,
    trials: Sequence[Trial],
    configs: Sequence[Config],
    curves: MeanCurves,
    phases: Phases,
    judged: Judged,
    samples: Sequence[Sample],
    deletion: Deletion | None,
) -> Snapshot:
    """Return everything that the page shows."""
    named, now = looks(sweep, configs), time.time()
    url, objective = service.settings.mlflow_links, sweep.spec.objective
    by_id = {trial.id: trial for trial in trials}
    used = used_measures(trials, lambda id_, metric: curves.recorded(by_id[id_], metric), sweep.spec)
    values = {
        trial.id: trial_objective(trial, curves.recorded(trial, used[trial.stage]), objective) for trial in trials
    }
    rows = [
        PageTrial(
            trial=trial,
            look=named[trial.config_id],
            phase=phases.of_trials.get(trial.id) if trial.step == 0 and trial.state is TrialState.RUNNING else None,
            entropy=curves.latest(trial, ENTROPY),
            reward=curves.latest(trial, REWARD),
            objective=values[trial.id] if trial.state.is_over else curves.latest(trial, used[trial.stage]),
            mlflow_url=run_link(url, trial.mlflow_run_id),
        )
        for trial in trials
    ]
    has_evaluations = any(curves.recorded(trial, used[trial.stage]) for trial in trials)
    leading = None
    if deletion is None or (deletion.keep_report and has_evaluations):  # else a trial that diverged would count alone
        leading = leader(configs, trials, values, sweep.spec)
    best = leading and Best.of(leading, sweep, named[leading.config.id].label, judged)
    counts = Counter((trial.stage, trial.state) for trial in trials)
    valued = [(trial.config_id, trial.stage) for trial in trials if values[trial.id] is not None]
    return Snapshot(
        sweep=sweep,
        now=now,
        counts=Counter(trial.state for trial in trials),
        progress=progress(sweep.state, trials, trials_to_come(service.planned(sweep), counts), now),
        rows=rows,
        looks=named,
        warnings=_warnings(rows),
        failures=[row for row in rows if row.trial.state.went_wrong],
        evaluations=_evaluations(rows, samples),
        best=best,
        best_seeds=valued.count((best.config_id, best.stage)) if best else 0,
        judged=judged,
        probing=None if sweep.state.is_over else phases.of_probe,
        mlflow_url=curves_link(url, sweep),
    )


def _evaluations(rows: Sequence[PageTrial], samples: Sequence[Sample]) -> list[ShownEvaluation]:
    """Put samples beside the trials that wrote them, in their order."""
    by_id = {row.trial.id: row for row in rows}
    written: dict[tuple[str, int], list[Sample]] = {}
    for sample in samples:
        written.setdefault((sample.trial_id, sample.step), []).append(sample)
    return [
        ShownEvaluation(by_id[trial_id], step, first[:SHOWN_SAMPLES]) for (trial_id, step), first in written.items()
    ]


def _warnings(rows: Sequence[PageTrial]) -> list[Warned]:
    """Return each code's warning once, in the words of the first trial that has it."""
    by_code: dict[str, dict[str, tuple[TrialWarning, PageTrial]]] = {}
    for row in rows:
        for warning in row.trial.warnings:
            by_code.setdefault(warning.code, {}).setdefault(row.trial.id, (warning, row))
    return [Warned(*next(iter(warned.values())), trials=len(warned)) for warned in by_code.values()]
