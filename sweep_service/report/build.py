"""`build`: from a sweep's rows to its report."""

from collections.abc import Mapping, Sequence
from typing import Final

from sweep_service.links import curves_link
from sweep_service.objective import choose, config_objectives, trial_objectives
from sweep_service.records import Stage, Sweep
from sweep_service.report.best import card, pick
from sweep_service.report.cautions import cautions
from sweep_service.report.curves import curve_sets
from sweep_service.report.data import ReportInputs
from sweep_service.report.health import trial_health
from sweep_service.report.labels import config_label, count, varied_names
from sweep_service.report.model import Comparison, ConfigRow, Report, SweepInfo, TrialRow
from sweep_service.report.rows import config_row, in_order, trial_row
from sweep_service.report.verdict import compare, judge

_CURVES: Final = {
    "eval/avg_at_k": True,
    "eval/pass_at_k": False,
    "entropy": True,
    "reward/mean": True,
    "share/na_lp": False,
    "share/pa_lp": False,
    "clip_fraction/low": False,
    "clip_fraction/high": False,
    "ppo_kl": False,
    "grad_norm": False,
    "completion/length_mean": False,
}
"""The metrics shown over time, and whether with every seed."""


def build(inputs: ReportInputs) -> Report:
    """Build the report. Pure: equal inputs give equal reports."""
    sweep = inputs.sweep
    objectives = trial_objectives(inputs.trials, inputs.curves, sweep.spec.objective)
    trials = _trial_rows(inputs, objectives)
    rows = _config_rows(inputs, trials)
    tune = config_objectives(inputs.trials, objectives, Stage.TUNE)
    confirm = sweep.spec.seeds.confirm
    candidates = [config.id for config in choose(inputs.configs, tune, confirm.top_k if confirm else 1)]
    unsteady = frozenset(t.config_id for t in trials if t.stage is Stage.CONFIRM and t.reward_collapsed)
    comparisons = compare(inputs.configs, rows, candidates, unsteady)
    best = pick(candidates, rows)
    verdict = judge(best, comparisons, confirming=confirm is not None)
    ordered = in_order(rows)
    shown = {config.id: config for config in inputs.configs}
    curves = curve_sets([shown[row.id] for row in ordered], inputs.curves, _CURVES)
    contenders = [rows[id_] for id_ in candidates]
    return Report(
        inputs_digest=inputs.digest,
        interim=inputs.interim,
        sweep=_sweep_info(inputs, trials),
        objective=_objective_text(inputs),
        verdict=verdict,
        cautions=cautions(sweep, ordered, trials, verdict, interim=inputs.interim),
        best=card(best, shown[best.id], contenders, sweep, verdict) if best else None,
        comparisons=comparisons,
        configs=ordered,
        trials=trials,
        curves=curves,
        method=_method(sweep, comparisons),
        versions=dict(sorted(inputs.versions.items())),
    )


def _sweep_info(inputs: ReportInputs, trials: Sequence[TrialRow]) -> SweepInfo:
    sweep = inputs.sweep
    return SweepInfo(
        **sweep.model_dump(include={"id", "name", "message", "created_at", "spec_digest"}),
        trial_hours=sum(trial.seconds or 0 for trial in trials) / 3600,
        state=sweep.state,
        labels=dict(sweep.spec.labels),
        mlflow_url=curves_link(inputs.mlflow_url, sweep),
    )


def _trial_rows(inputs: ReportInputs, objectives: Mapping[str, float | None]) -> list[TrialRow]:
    curves = {(curve.trial_id, curve.key): curve for curve in inputs.curves}
    varied = varied_names(inputs.configs)
    labels = {config.id: config_label(config, varied) for config in inputs.configs}
    return [
        trial_row(
            trial, labels[trial.config_id], objectives.get(trial.id), trial_health(trial, curves), inputs.mlflow_url
        )
        for trial in inputs.trials
    ]


def _config_rows(inputs: ReportInputs, trials: Sequence[TrialRow]) -> dict[str, ConfigRow]:
    by_config: dict[str, list[TrialRow]] = {}
    for trial in trials:
        by_config.setdefault(trial.config_id, []).append(trial)
    varied = varied_names(inputs.configs)
    return {config.id: config_row(config, by_config.get(config.id, []), varied) for config in inputs.configs}


def _objective_text(inputs: ReportInputs) -> str:
    """`avg@32 on 20 validation problems, mean of the last 3 evaluations`."""
    objective, base = inputs.sweep.spec.objective, inputs.sweep.spec.base.evaluation
    name = f"avg@{base.samples_per_problem}" if objective.metric == "eval/avg_at_k" else f"pass@{base.pass_k}"
    return f"{name} on held-out validation problems, mean of each trial's last {count(objective.last, 'evaluation')}"


def _method(sweep: Sweep, comparisons: Sequence[Comparison]) -> list[str]:
    seeds = sweep.spec.seeds
    lines = [
        f"Configs were chosen on tune seeds {_listed(seeds.tune)} by their mean over these seeds.",
        "A diverged trial counts 0; a failed one is missing. Both are listed.",
    ]
    if seeds.confirm is None:
        return [*lines, "Nothing was confirmed on fresh seeds, so no interval is given and no verdict is possible."]
    lines += [
        f"The best {seeds.confirm.top_k} and the baselines were trained again on confirm seeds "
        f"{_listed(seeds.confirm.seeds)}; every figure of the verdict comes from these alone.",
        "Differences are paired by seed (config + seed model). Their variance is pooled over the configs that did not "
        "collapse and are not plainly noisier than the pair, or the pair's own where that is larger; a pair with a "
        "collapsed config stands on its own.",
        "Intervals hold with 95 % confidence for all configs compared with one comparator at once (Dunnett); "
        "intervals of means are Student's t over seeds.",
    ]
    if any(comparison.variance == "pair" for comparison in comparisons):
        lines.append("At least one comparison rests on its pair's own variance.")
    return [*lines, "Not covered: other tasks, models, budgets, and what sampling temperature or test problems change."]


def _listed(seeds: Sequence[int]) -> str:
    text = ", ".join(str(seed) for seed in seeds[:12])
    return f"{text}, … ({len(seeds)} in all)" if len(seeds) > 12 else text
