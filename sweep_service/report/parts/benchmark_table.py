"""The table of benchmarks: initial models, baselines and configs, each on every benchmark and on their mean.

Only models after their last update are compared. A difference is that of a config to the baseline, paired by training
seed and by problem, as those of the verdict are. Benchmarks choose nothing: the verdict stays with the objective.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

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
from sweep_service.report.statistics.differences import Arm, Difference, Pairs, Problem, sound_differences
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.evaluations import is_measured
from sweep_service.sweep.records import Role, Stage, Trial, TrialState
from trainers.evaluation.problem_parts import problem_group

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
    to_baseline = [_to_baseline(facts, measured, compared, names) for names in columns]
    rows = [*_initial_rows(facts, columns), *(_row(one, facts, columns, to_baseline) for one in measured)]
    return BenchmarkTable(
        columns=[
            BenchmarkColumn(
                benchmark=names[0] if column < len(sweep.benchmarks) else None, leader=_leader(rows, column)
            )
            for column, names in enumerate(columns)
        ],
        rows=rows,
        sentence=agreement(facts.verdict, _of_verdict(facts, measured, columns[-1]), several=len(columns) > 1),
        text=reading(sweep, rows, list(facts.models.values()), len(compared) if facts.baseline else None),
    )


def _to_baseline(
    facts: Facts, measured: Sequence[_Measured], compared: Sequence[_Measured], names: Sequence[str]
) -> Mapping[str, BenchmarkDifference]:
    """Return the differences to the baseline by config id; without an interval on tune seeds, which chose configs."""
    if facts.baseline is None:
        return {}
    baseline = facts.baseline.id
    found = _differences(facts, measured, {one.row.id: baseline for one in compared}, names)
    for one in measured:
        tune = _models_of(facts.baseline, Stage.TUNE, facts)
        if one.stage is Stage.TUNE and one.row.id != baseline and tune.models:
            pairs = Pairs([_arm(one, names), _arm(tune, names)])
            if pairs.seeds(one.row.id, baseline).any():
                plain = pairs.difference(one.row.id, baseline)
                found[one.row.id] = _shown(replace(plain, low=None, high=None))
    return found


def _of_verdict(facts: Facts, measured: Sequence[_Measured], names: Sequence[str]) -> BenchmarkDifference | None:
    """Return the verdict's two configs compared on all benchmarks; None where they share no measured seed."""
    comparison = facts.verdict.comparison
    if comparison is None:
        return None
    comparators: dict[str, str] = {}
    for one in facts.comparisons:  # the first of a config is with its comparator in the verdict
        comparators.setdefault(one.config_id, one.comparator_id)
    shared = comparison.comparator_role is not Role.MATCHED
    return _differences(facts, measured, comparators, names, shared=shared).get(comparison.config_id)


def _differences(
    facts: Facts,
    measured: Sequence[_Measured],
    comparators: Mapping[str, str],
    names: Sequence[str],
    *,
    shared: bool = True,
) -> dict[str, BenchmarkDifference]:
    """Compare configs of the confirm stage on some benchmarks, which weigh the same; by the config's id."""
    confirmed = [one for one in measured if one.stage is Stage.CONFIRM]
    every = [_arm(one, names, facts.unsteady) for one in confirmed]
    sound = [_arm(one, names, without=facts.ruined) for one in confirmed]
    known = {arm.config_id for arm in every if arm.values}
    comparators = {id_: other for id_, other in comparators.items() if id_ in known and other in known}
    return {id_: _shown(one) for id_, one in sound_differences(sound, every, comparators, shared=shared).items()}


def _shown(one: Difference) -> BenchmarkDifference:
    low, high = (None, None) if one.with_ruined else (one.low, one.high)
    return BenchmarkDifference(
        difference=one.difference,
        low=low,
        high=high,
        num_seeds=one.num_seeds,
        num_problems=one.num_problems,
        shown=low is not None and high is not None and (low > 0 or high < 0),
    )


def _arm(one: _Measured, names: Sequence[str], unsteady: Collection[str] = (), without: Collection[str] = ()) -> Arm:
    """Return a config's scores over some benchmarks by seed, without some trials' models."""
    values, rates = dict[int, float](), dict[int, dict[Problem, float]]()
    for trial in one.trials:
        model = one.models.get(trial.seed)
        if model is None or trial.id in without or not all(model.rates.get(name) for name in names):
            continue
        values[trial.seed] = fmean(fmean(model.rates[name].values()) for name in names)
        rates[trial.seed] = {
            Problem(problem, problem_group(problem), name): share
            for name in names
            for problem, share in model.rates[name].items()
        }
    return Arm(one.row.id, values, one.row.id not in unsteady, rates)


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


def _row(
    one: _Measured,
    facts: Facts,
    columns: Sequence[Sequence[str]],
    to_baseline: Sequence[Mapping[str, BenchmarkDifference]],
) -> BenchmarkRow:
    cells = list[BenchmarkCell | None]()
    for names, differences in zip(columns, to_baseline, strict=True):
        cell = _cell(one.models, names)
        cells.append(cell and cell.model_copy(update={"difference": differences.get(one.row.id)}))
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


def _leader(rows: Sequence[BenchmarkRow], column: int) -> str | None:
    """Return the config of the confirm stage with the highest mean, if it is shown to be above the baseline."""
    cells = [(cell, row.config_id) for row in rows if row.stage is Stage.CONFIRM and (cell := row.cells[column])]
    if not cells:
        return None
    cell, config_id = max(cells, key=lambda item: item[0].mean)
    difference = cell.difference
    return config_id if difference and difference.shown and difference.difference > 0 else None
