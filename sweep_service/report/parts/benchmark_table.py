"""The table of benchmarks: initial models, baselines and configs, each on every benchmark and on their mean.

Only models after their last update are compared. A difference is that of a config to the baseline, paired by training
seed and by problem. Benchmarks choose nothing: the verdict stays with the objective.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from sweep_service.report.facts.measured_models import MeasuredModel, initial_models
from sweep_service.report.facts.table_rows import is_comparator
from sweep_service.report.model import (
    BenchmarkCell,
    BenchmarkColumn,
    BenchmarkDifference,
    BenchmarkRow,
    BenchmarkTable,
    ConfigRow,
)
from sweep_service.report.parts.benchmark_sentences import agreement, reading
from sweep_service.report.statistics.critical_values import Floats
from sweep_service.report.statistics.seeds_and_problems import paired_difference
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.evaluations import is_measured
from sweep_service.sweep.records import Role, Stage, Trial, TrialState
from sweep_service.sweep.spec import MIN_SEEDS

Models = Mapping[int, MeasuredModel]
"""Measured models of one config and stage, by seed."""


@dataclass(frozen=True)
class _Measured:
    """One config's trials of a stage whose models are to be in the table, and the models that have been measured."""

    row: ConfigRow
    stage: Stage
    trials: Sequence[Trial]
    models: Models


def benchmark_table(facts: Facts) -> BenchmarkTable | None:
    """Return the table; None where the spec names no benchmarks."""
    sweep = facts.inputs.sweep
    if not sweep.benchmarks:
        return None
    columns: list[Sequence[str]] = [[name] for name in sweep.benchmarks]  # each is a mean over these
    columns += [sweep.benchmarks] if len(sweep.benchmarks) > 1 else []
    by_kind = sorted(facts.ordered, key=lambda row: 0 if Role.BASELINE in row.roles else 1 if is_comparator(row) else 2)
    stages = [(_models_of(row, Stage.CONFIRM, facts), _models_of(row, Stage.TUNE, facts)) for row in by_kind]
    measured = [one for confirm, tune in stages if (one := confirm if confirm.trials else tune).trials]
    compared = [
        one for one in measured if one.models and one.stage is Stage.CONFIRM and Role.BASELINE not in one.row.roles
    ]
    rows = [*_initial_rows(facts, columns), *(_row(one, facts, columns, len(compared)) for one in measured)]
    return BenchmarkTable(
        columns=[
            BenchmarkColumn(
                benchmark=names[0] if column < len(sweep.benchmarks) else None, leader=_leader(rows, column)
            )
            for column, names in enumerate(columns)
        ],
        rows=rows,
        sentence=agreement(
            facts.verdict, _of_verdict(facts, measured, columns[-1], len(compared)), several=len(columns) > 1
        ),
        text=reading(sweep, rows, list(facts.models.values()), len(compared) if facts.baseline else None),
    )


def _of_verdict(
    facts: Facts, measured: Sequence[_Measured], names: Sequence[str], family: int
) -> BenchmarkDifference | None:
    """Return the verdict's two configs compared on all benchmarks; None where they share no measured seed."""
    comparison = facts.verdict.comparison
    if comparison is None:
        return None
    models = {one.row.id: one.models for one in measured if one.stage is Stage.CONFIRM}
    one, other = (models.get(id_, {}) for id_ in comparison.pair)
    return _difference(one, other, names, family, 0.0 if comparison.comparator_role is Role.MATCHED else 0.5)


def _models_of(row: ConfigRow, stage: Stage, facts: Facts) -> _Measured:
    own = [trial for trial in facts.inputs.trials if trial.config_id == row.id and trial.stage is stage]
    trials = sorted((trial for trial in own if is_measured(facts.inputs.sweep, trial)), key=lambda trial: trial.seed)
    models = {trial.seed: facts.models[trial.id] for trial in trials if trial.id in facts.models}
    return _Measured(row, stage, trials, models)


def _initial_rows(facts: Facts, columns: Sequence[Sequence[str]]) -> list[BenchmarkRow]:
    models = initial_models(facts.inputs)
    return [
        BenchmarkRow(
            config_id=(config_id := model.evaluation.config_id),
            label="initial model" if len(models) == 1 else f"initial model of {facts.rows[config_id].label}",
            initial=True,
            stage=None,
            cells=[_cell({0: model}, names) for names in columns],
            missing={} if _is_whole(model, columns[-1]) else {_evaluation_text(model): 1},
        )
        for model in models
    ]


def _row(one: _Measured, facts: Facts, columns: Sequence[Sequence[str]], family: int) -> BenchmarkRow:
    baseline: Models = {}
    if facts.baseline is not None and facts.baseline.id != one.row.id:
        baseline = _models_of(facts.baseline, one.stage, facts).models
    cells = list[BenchmarkCell | None]()
    for names in columns:
        cell = _cell(one.models, names)
        difference = _difference(one.models, baseline, names, family if one.stage is Stage.CONFIRM else None)
        cells.append(cell and cell.model_copy(update={"difference": difference}))
    lacking = [_reason(trial, facts.models.get(trial.id), columns[-1]) for trial in one.trials]
    return BenchmarkRow(
        config_id=one.row.id,
        label=one.row.label,
        stage=one.stage,
        cells=cells,
        missing=dict(sorted(Counter(reason for reason in lacking if reason is not None).items())),
    )


def _is_whole(model: MeasuredModel, names: Sequence[str]) -> bool:
    return all(name in model.scores for name in names)


def _reason(trial: Trial, model: MeasuredModel | None, names: Sequence[str]) -> str | None:
    """Say why a trial's last model has not been measured on every benchmark; None if it has."""
    if model is None:
        return "no evaluation" if trial.state is TrialState.SUCCEEDED else trial.state.lower()
    return None if _is_whole(model, names) else _evaluation_text(model)


def _evaluation_text(model: MeasuredModel) -> str:
    state = model.evaluation.state
    return "asked for on fewer" if state is TrialState.SUCCEEDED else f"evaluation {state.lower()}"


def _cell(models: Models, names: Sequence[str]) -> BenchmarkCell | None:
    """Sum up the models that have a score on each of these benchmarks; None if there is none."""
    by_seed = [[model.scores[name] for name in names] for model in models.values() if _is_whole(model, names)]
    means = [[score.avg_at_k for score in scores if score.avg_at_k is not None] for scores in by_seed]
    whole = [fmean(values) for values in means if len(values) == len(names)]
    if not whole:
        return None
    single = [scores[0] for scores in by_seed] if len(names) == 1 else []
    passes: dict[int, list[float]] = {}
    for score in single:
        for k, value in score.pass_at_k.items():
            passes.setdefault(k, []).extend([] if value is None else [value])
    return BenchmarkCell(
        mean=fmean(whole),
        num_seeds=len(whole),
        num_problems=sum(score.problems for score in by_seed[0]),
        k=single[0].samples if single else None,
        pass_at_k={k: fmean(values) for k, values in passes.items() if values},
    )


def _difference(
    models: Models, baseline: Models, names: Sequence[str], family: int | None, correlation: float = 0.5
) -> BenchmarkDifference | None:
    """Compare a config with the baseline, or another comparator, on the seeds that both have; None without one.

    Args:
        names: the benchmarks, which weigh the same.
        family: number of configs for which the lower ends hold at once; None for no interval.
        correlation: that of two configs' differences.
    """
    seeds = sorted(models.keys() & baseline.keys())
    pairs = [_rates(models, baseline, seeds, name) for name in names]
    result = paired_difference([one for one, _ in pairs], [other for _, other in pairs])
    if result is None:
        return None
    low = high = None
    if family is not None and result.num_seeds >= MIN_SEEDS and result.parts is not None and result.parts.total:
        low = result.difference - result.parts.lower_width(family, correlation, correlation)
        high = result.difference + result.parts.upper_width()
    return BenchmarkDifference(
        difference=result.difference,
        low=low,
        high=high,
        num_seeds=result.num_seeds,
        num_problems=result.num_problems,
        shown=low is not None and high is not None and (low > 0 or high < 0),
    )


def _rates(models: Models, baseline: Models, seeds: Sequence[int], name: str) -> tuple[Floats, Floats]:
    """Return both configs' shares of right samples on one benchmark (seeds, problems); NaN where one is missing."""
    sides = [[one[seed].rates.get(name, {}) for seed in seeds] for one in (models, baseline)]
    problems = list(dict.fromkeys(problem for side in sides for rates in side for problem in rates))
    one, other = (
        np.array([[rates.get(problem, math.nan) for problem in problems] for rates in side], dtype=float).reshape(
            len(seeds), len(problems)
        )
        for side in sides
    )
    return one, other


def _leader(rows: Sequence[BenchmarkRow], column: int) -> str | None:
    """Return the config of the confirm stage with the highest mean, if it is shown to be above the baseline."""
    cells = [(cell, row.config_id) for row in rows if row.stage is Stage.CONFIRM and (cell := row.cells[column])]
    if not cells:
        return None
    cell, config_id = max(cells, key=lambda item: item[0].mean)
    difference = cell.difference
    return config_id if difference and difference.shown and difference.difference > 0 else None
