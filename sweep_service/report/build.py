"""`build` makes a sweep's report from its rows: facts first, then what they show, part by part."""

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.findings.table import cautions, claims
from sweep_service.report.formatting import count
from sweep_service.report.model import Report, SweepInfo
from sweep_service.report.parts.benchmark_table import benchmark_table
from sweep_service.report.parts.best_config import card
from sweep_service.report.parts.budget_comparison import budget_comparisons
from sweep_service.report.parts.curve_sets import curve_sets, prominent, shown_metrics
from sweep_service.report.parts.descriptive import descriptive
from sweep_service.report.parts.exploration import exploration
from sweep_service.report.parts.grid import grid
from sweep_service.report.parts.importance import importance
from sweep_service.report.parts.method import method
from sweep_service.report.parts.sample_groups import sample_groups
from sweep_service.report.parts.tradeoff import tradeoff
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.budget import gpu_hours
from sweep_service.sweep.links import curves_link
from trainers.config import TrainingConfig


def build(inputs: ReportInputs) -> Report:
    """Build the report. Pure: equal inputs give equal reports."""
    facts = Facts(inputs)
    explored = facts if inputs.before_drops is inputs else Facts(inputs.before_drops)
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
        claims=claims(explored),
        exploration=exploration(explored),
        descriptive=descriptive(explored),
        grid=grid(explored),
        tradeoff=tradeoff(facts),
        importance=importance(explored),
        configs=list(facts.ordered),
        trials=list(facts.trials),
        curves=curve_sets(
            [facts.configs[row.id] for row in facts.ordered], inputs, shown_metrics(inputs), prominent(facts.ordered)
        ),
        samples=sample_groups(facts),
        method=method(facts),
        versions=dict(sorted(inputs.versions.items())),
    )


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
