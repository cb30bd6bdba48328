"""`build` makes a sweep's report from its rows."""

from collections.abc import Mapping, Sequence
from typing import Final

import numpy as np

from sweep_service.report.facts.measured_models import final_models
from sweep_service.report.facts.problem_rates import problem_rates
from sweep_service.report.facts.report_inputs import CURVES, Drawn, ReportInputs
from sweep_service.report.facts.sweep_facts import Facts
from sweep_service.report.facts.table_rows import config_row, in_order, trial_row
from sweep_service.report.formatting import count
from sweep_service.report.model import Comparison, ConfigRow, Report, SweepInfo, TrialRow
from sweep_service.report.parts.arms import confirmed_arms, tuned_arms
from sweep_service.report.parts.benchmark_table import benchmark_table
from sweep_service.report.parts.best_config import card
from sweep_service.report.parts.budget_comparison import budget_comparisons
from sweep_service.report.parts.cautions import cautions
from sweep_service.report.parts.claims import claims
from sweep_service.report.parts.collapse import tuning_text
from sweep_service.report.parts.curve_sets import curve_sets, prominent
from sweep_service.report.parts.descriptive import descriptive
from sweep_service.report.parts.exploration import exploration
from sweep_service.report.parts.grid import grid
from sweep_service.report.parts.importance import importance
from sweep_service.report.parts.interval_basis import interval_basis
from sweep_service.report.parts.purchase import next_purchase
from sweep_service.report.parts.sample_groups import sample_groups
from sweep_service.report.parts.ties import tie_set
from sweep_service.report.parts.tradeoff import tradeoff
from sweep_service.report.parts.verdict import compare, judge
from sweep_service.sweep.budget import gpu_hours
from sweep_service.sweep.labels import config_labels, varied_names
from sweep_service.sweep.links import curves_link
from sweep_service.sweep.objective import choose, compared, leader, selection_objectives, trial_objective
from sweep_service.sweep.records import Role, Stage, Trial
from trainers.config import TrainingConfig

_PROBLEMS_COUNT: Final = (
    "Differences also count the problems: each pair's right samples by seed and problem (seed + problem + rest model) "
    "say how much other problems of the same kind would change its difference. The two parts of an interval's half "
    "width add like standard errors, each with its own degrees of freedom."
)


def build(inputs: ReportInputs) -> Report:
    """Build the report. Pure: equal inputs give equal reports."""
    facts = _facts(inputs)
    ordered = in_order(facts.rows)
    return Report(
        inputs_digest=inputs.digest,
        interim=inputs.interim,
        sweep=_sweep_info(inputs),
        objective=_objective_text(inputs),
        halves=inputs.halves,
        verdict=facts.verdict,
        benchmarks=benchmark_table(facts),
        cautions=cautions(facts),
        best=card(facts),
        comparisons=list(facts.comparisons),
        budgets=budget_comparisons(facts),
        claims=claims(facts),
        exploration=exploration(facts),
        descriptive=descriptive(facts),
        grid=grid(facts),
        tradeoff=tradeoff(facts),
        importance=importance(facts),
        configs=ordered,
        trials=list(facts.trials),
        curves=curve_sets(
            [facts.configs[row.id] for row in ordered], inputs, _shown_metrics(inputs), prominent(ordered)
        ),
        samples=sample_groups(facts),
        method=_method(inputs, facts.comparisons),
        versions=dict(sorted(inputs.versions.items())),
    )


def _facts(inputs: ReportInputs) -> Facts:
    sweep = inputs.sweep
    objectives = _objectives(inputs)
    varied = varied_names(inputs.configs)
    trials = _trial_rows(inputs, objectives, varied)
    rows = _config_rows(inputs, trials, varied)
    tune = selection_objectives(inputs.trials, objectives)
    confirm, relevant = sweep.spec.seeds.confirm, sweep.spec.objective.relevant
    candidates = [config.id for config in choose(inputs.configs, tune, confirm.top_k if confirm else 1)]
    collapsed = {trial.id: trial.config_id for trial in trials if trial.stage is Stage.CONFIRM and trial.collapsed}
    unsteady, rates = frozenset(collapsed.values()), problem_rates(inputs)
    arms = confirmed_arms(inputs.configs, rows, unsteady, rates)
    whole = confirmed_arms(inputs.configs, rows, frozenset(), rates, without=collapsed)
    comparisons = compare(
        arms,
        whole,
        trials,
        inputs.configs,
        rows,
        candidates,
        objective=sweep.spec.objective,
        halves=inputs.halves,
        looks=inputs.looks,
    )
    leading = leader(inputs.configs, inputs.trials, objectives, confirm)
    best = rows[leading.config.id] if leading else None
    verdict = judge(best, rows, inputs.configs, comparisons, relevant=relevant, confirming=confirm is not None)
    basis = interval_basis(verdict.comparison, inputs)
    if best is not None and verdict.comparison is not None:
        basis += tuning_text(trials, rows, best.id)
    tuned = tuned_arms(rows, problem_rates(inputs, Stage.TUNE))
    after = None if inputs.interim else next_purchase(verdict, rows, whole, tuned, sweep, inputs.looks)
    return Facts(
        inputs=inputs,
        trials=trials,
        configs={config.id: config for config in inputs.configs},
        rows=rows,
        varied=varied,
        candidates=candidates,
        unsteady=unsteady,
        comparisons=comparisons,
        best=best,
        verdict=verdict.model_copy(update={"basis": basis, "ties": tie_set(arms, rows), "next": after}),
    )


def _objectives(inputs: ReportInputs) -> dict[str, float | None]:
    """Return each trial's objective by trial id; None without one."""
    objective = inputs.sweep.spec.objective
    return {
        trial.id: trial_objective(
            trial, inputs.present(trial.id, inputs.measures[trial.stage]).values.tolist(), objective
        )
        for trial in inputs.trials
    }


def _sweep_info(inputs: ReportInputs) -> SweepInfo:
    sweep = inputs.sweep
    spent, spec = inputs.spent, sweep.spec
    return SweepInfo(
        **sweep.model_dump(include={"id", "name", "message", "created_at", "spec_digest"}),
        trial_hours=sum(work.held_s for work in spent.begun if not work.measures) / 3600,
        gpu_hours=gpu_hours(spec, spent).used,
        max_gpu_hours=spec.budget.max_gpu_hours,
        state=sweep.state,
        labels=dict(spec.labels),
        mlflow_url=curves_link(inputs.mlflow_url, sweep),
    )


def _trial_rows(inputs: ReportInputs, objectives: Mapping[str, float | None], varied: Sequence[str]) -> list[TrialRow]:
    labels = config_labels(inputs.configs, varied)
    models = final_models(inputs)
    return [
        trial_row(trial, labels[trial.config_id], objectives[trial.id], inputs, models.get(trial.id))
        for trial in inputs.trials
    ]


def _config_rows(inputs: ReportInputs, trials: Sequence[TrialRow], varied: Sequence[str]) -> dict[str, ConfigRow]:
    by_config: dict[str, list[TrialRow]] = {}
    for trial in trials:
        by_config.setdefault(trial.config_id, []).append(trial)
    labels = config_labels(inputs.configs, varied)
    return {
        config.id: config_row(config, labels[config.id], by_config.get(config.id, []), varied)
        for config in inputs.configs
    }


def _shown_metrics(inputs: ReportInputs) -> Mapping[str, Drawn]:
    """Return what is shown over time: the validation reward only where it is another number than avg@k."""
    pairs = [
        (inputs.present(trial.id, "eval/avg_at_k").values, inputs.present(trial.id, "eval/reward_mean").values)
        for trial in inputs.trials
    ]
    same = all(np.array_equal(right, reward) for right, reward in pairs)
    return {key: drawn for key, drawn in CURVES.items() if not (same and key == "eval/reward_mean")}


def _objective_text(inputs: ReportInputs) -> str:
    """Describe the objective: `avg@32 on 20 validation problems, mean of the last 3 evaluations`."""
    objective, base = inputs.sweep.spec.objective, inputs.sweep.spec.trained_base
    ours = base.evaluation if isinstance(base, TrainingConfig) else None  # a program chooses its own k
    names = {
        "eval/avg_at_k": f"avg@{ours.samples_per_problem if ours else 'k'}",
        "eval/pass_at_k": f"pass@{ours.pass_k if ours else 'k'}",
        "eval/reward_mean": "mean reward",
    }
    name = names[objective.metric]
    return f"{name} on held-out validation problems, mean of each trial's last {count(objective.last, 'evaluation')}"


def _selection(trials: Sequence[Trial], seeds: Sequence[int]) -> str:
    """Say how tuning chose; a tune stage that was cut short leaves fewer seeds or configs to compare."""
    shared, whole = compared(trials)
    used = [seed for seed in seeds if seed in shared]
    text = f"Configs were chosen on tune seeds {_listed(used)} by their mean over these seeds."
    left_out = len({trial.config_id for trial in trials if trial.stage is Stage.TUNE} - whole)
    if len(used) < len(seeds):
        rest = _listed([seed for seed in seeds if seed not in shared])
        text += f" Not every config ran on {rest}, so results on these chose nothing: a mean over more seeds varies "
        text += "less, and is no match for a lucky one."
    if left_out:
        text += f" {count(left_out, 'config')} that did not run on all of them could not be chosen."
    return text


def _method(inputs: ReportInputs, comparisons: Sequence[Comparison]) -> list[str]:
    seeds = inputs.sweep.spec.seeds
    lines = [
        _selection(inputs.trials, seeds.tune),
        f"A diverged trial counts {inputs.sweep.spec.objective.diverged:g}; a failed one is missing. Both are listed.",
    ]
    if seeds.confirm is None:
        return [*lines, "Nothing was confirmed on fresh seeds, so no interval is given and no verdict is possible."]
    lines += [
        f"{_confirmed(seeds.confirm.top_k, comparisons)} were trained again on confirm seeds "
        f"{_listed(seeds.confirm.seeds)}; every figure of the verdict comes from these alone.",
        _problems(inputs),
        "Differences are paired by seed (config + seed model). The variance of each lies between its own and the "
        "mean over all configs' differences from the same comparator; a pair with a collapsed config stands alone.",
        *([_PROBLEMS_COUNT] if any(comparison.num_problems for comparison in comparisons) else []),
        "Of each 95 % interval the lower bounds hold at once for all configs compared with one comparator, or each "
        "with a matched baseline of its own (Dunnett, nominally 97.5 %), which pays for choosing the best of them and "
        "makes the lower half the longer one; the upper bound is Student's (97.5 %) and holds by itself. "
        "The tie set is Hsu's multiple comparison with the best (97.5 %). "
        "Intervals of means are Student's t over seeds.",
    ]
    if any(comparison.variance == "pair" for comparison in comparisons):
        lines.append("At least one comparison rests on its pair's own variance.")
    return [
        *lines,
        "Not covered: other tasks, models and budgets, another sampling temperature, problems of another kind.",
    ]


def _confirmed(top_k: int, comparisons: Sequence[Comparison]) -> str:
    if any(comparison.comparator_role is Role.MATCHED for comparison in comparisons):
        return f"The best {top_k}, the baselines, and for each of the best its own matched baseline"
    return f"The best {top_k} and the baselines"


def _problems(inputs: ReportInputs) -> str:
    """Say which validation problems chose the configs and which measured them."""
    if inputs.halves:
        return "One half of the validation problems chose the configs; the other half gave every confirm result."
    return "The same validation problems chose the configs and gave the confirm results."


def _listed(seeds: Sequence[int]) -> str:
    text = ", ".join(str(seed) for seed in seeds[:12])
    return f"{text}, … ({len(seeds)} in all)" if len(seeds) > 12 else text
