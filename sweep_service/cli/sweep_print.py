"""Prints a plan, a sweep, or sweeps beside each other."""

import string
from collections import Counter
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.text import Text

from sweep_service.cli.output import (
    counts_text,
    fact_line,
    number,
    plural,
    print_facts,
    print_table,
    say,
    span,
    state_text,
    stdout,
    sweep_line,
)
from sweep_service.cli.probe_command import gib, memory_text
from sweep_service.cli.winner import winner_facts
from sweep_service.report.comparison_model import ConfigDifference, ConfigValues, SweepsComparison
from sweep_service.schemas import Best, ConfigView, SweepView, TrialView
from sweep_service.sweep.benchmark_cost import BenchmarksPlan, Sampled
from sweep_service.sweep.budget import BudgetPlan, GpuHours
from sweep_service.sweep.endings import MEANINGS, end_name
from sweep_service.sweep.labels import explained, params_text, params_texts, plain_value
from sweep_service.sweep.plan import StoppingForecasts, SweepPlan
from sweep_service.sweep.records import Role, Stage
from trainers.tasks.data_record import data_facts, lines, title

_SHOWN_CONFIGS = 8
_SHOWN_SETTINGS = 30
_SETTING_LENGTH = 60
"""Letters of a setting's value that are shown."""


def _stopping(found: StoppingForecasts, unit: str) -> str:
    """Say what each rule of early stopping would take and lose."""
    rules = [
        f"{one.rule} {one.hours:.2g} {unit} expected, {one.most_hours:.2g} at worst, "
        f"{one.loses_best:.0%} of the replays lose the best"
        if one.rule != "none"
        else f"none {one.hours:.2g} {unit}"
        for one in found.rules
    ]
    return "; ".join([*rules, found.basis])


def print_plan(plan: SweepPlan) -> None:
    """Print what a sweep would run and cost."""
    console = stdout()
    stages = ", ".join(f"{count} {stage}" for stage, count in plan.trials.items() if count)
    baselines = f", with the baselines {', '.join(plan.baselines)}" if plan.baselines else ""
    wall = f", {span(plan.wall_hours * 3600)} at max_parallel trials at a time" if plan.wall_hours else ""
    facts = {
        "configs": f"{plan.configs}{baselines}",
        "trials": f"{sum(plan.trials.values())} ({stages}) of {plan.steps_per_trial} updates",
        "cost": f"{plan.hours:.2g} {plan.hours_unit}{wall}",
        "basis": f"{plan.seconds_per_step:.3g} s per update, from {plan.basis}",
    }
    if plan.cost:
        disk = f"up to {gib(1024 * plan.cost.disk_gib)} of checkpoints"
        facts |= {"memory": memory_text(plan.cost), "disk": disk}
    if plan.budget:
        facts["budget"] = _budget(plan.budget, plan.trials)
    if plan.benchmarks:
        facts["measured"] = _benchmarks(plan.benchmarks, plan.hours_unit)
    if plan.early_stopping:
        facts["stopping"] = _stopping(plan.early_stopping, plan.hours_unit)
    console.print(Text(plan.name, "bold"))
    print_facts(facts, 9)
    for label, roles in list(zip(plan.first_labels, plan.first_roles, strict=True))[:_SHOWN_CONFIGS]:
        comparator = [role for role in roles if role != Role.SPACE]
        names = f"  ({', '.join(comparator)})" if comparator else ""
        console.print(Text(f"           {label or 'the base configuration'}{names}"))
    if plan.configs > _SHOWN_CONFIGS:
        console.print(Text(f"           … {plan.configs - len(plan.first_configs[:_SHOWN_CONFIGS])} more"))
    for index, fact in enumerate(data_facts(plan.data) if plan.data else ()):
        console.print(Text.assemble(("           " if index else "  data     ", "bright_black"), fact))
    for place, prompt in enumerate(plan.prompts, 1):
        console.print(Text.assemble((f"  prompt {place} ", "bright_black"), title(prompt)))
        console.print(Text(lines(prompt), "bright_black"))
    for reason in plan.unchecked:
        console.print(Text.assemble(("  not checked  ", "yellow"), reason))
    for warning in plan.warnings:
        console.print(Text.assemble(("  warning  ", "yellow"), warning))


def _budget(budget: BudgetPlan, trials: Mapping[str, int]) -> str:
    if budget.max_gpu_hours is None:
        return f"at most {budget.worst_gpu_hours:.3g} GPU-hours"
    reserve = f", {budget.kept_for_confirm:.3g} kept for the confirm stage" if budget.kept_for_confirm else ""
    certain = f"{budget.sure_tune_trials} of {trials[Stage.TUNE]} tune trials are sure to begin"
    return f"{budget.max_gpu_hours:g} GPU-hours{reserve}; {certain}"


def _benchmarks(plan: BenchmarksPlan, unit: str) -> str:
    """Say what the benchmarks cost, and what fewer samples would save and lose."""
    names = ", ".join(f"{name} ({plan.problems[name]} x {samples})" for name, samples in plan.samples.items())
    text = f"{plan.models} models on {names}: {_sampled(plan.planned, unit)}"
    if plan.fewer is None:
        return text
    return f"{text}; with benchmarks.samples {plan.fewer_samples}: {_sampled(plan.fewer, unit)}"


def _sampled(sampled: Sampled, unit: str) -> str:
    hours = "" if sampled.hours is None else f", at most {sampled.hours:.2g} {unit}"
    return f"{sampled.completions:,} completions{hours}, sampling error of a model's mean up to ±{sampled.error:.3f}"


def print_sweep(
    sweep: SweepView,
    best: Best | None,
    configs: Sequence[ConfigView],
    trials: Sequence[TrialView],
    page: str,
    *,
    phase: str | None,
    list_trials: bool,
) -> None:
    """Print a sweep's state, who leads and the verdict, its configs, its failed trials or all of them, and its page.

    Args:
        phase: the phase of its trials before the first step.
    """
    console, params, hours = stdout(), params_texts(configs), sweep.gpu_hours
    console.print(sweep_line(sweep))
    seeds = f"tune {_commas(sweep.spec.seeds.tune)}"
    if confirm := sweep.spec.seeds.confirm:
        seeds += f"; confirm the best {confirm.top_k} on {_commas(confirm.seeds)}"
    facts = {
        "message": sweep.message,
        "trials": counts_text(sweep.trials, sweep.trials_to_come),
        "now": phase and explained(phase),
        "gpu-hours": hours and _gpu_hours(hours),
        "seeds": seeds,
        "objective": f"{sweep.spec.objective.metric}, mean of the last {sweep.spec.objective.last} evaluations",
        **winner_facts(best, sweep, params),
        "page": page,
        "mlflow": sweep.mlflow_url,
    }
    print_facts(facts, 13)
    print_warnings(trials, console, 13)
    console.print()
    valued = Counter((trial.config_id, trial.stage) for trial in trials if trial.objective is not None)
    print_table(
        ("CONFIG", "ROLE", "PARAMETERS", "TUNE (SEEDS)", "CONFIRM (SEEDS)"),
        [_config_row(config, params[config.id], valued) for config in configs],
        right=("TUNE (SEEDS)", "CONFIRM (SEEDS)"),
        loose=("PARAMETERS",),
    )
    failures = [trial for trial in trials if trial.state.went_wrong]
    if listed := trials if list_trials else failures:
        console.print()
        _print_trials(listed, {config.id: roles_text(config) for config in configs}, params, console)
    if failed := next((trial for trial in failures if trial.ending and MEANINGS[trial.ending].log_tells), None):
        console.print(Text.assemble(("why one failed: ", "bright_black"), f"sweeps logs {failed.id}"))


def _gpu_hours(hours: GpuHours) -> str:
    reserved = f", {hours.reserved:.3g} more reserved for what runs" if hours.reserved else ""
    return f"{hours.used:.3g} used{reserved}" + (f", of {hours.limit:g}" if hours.limit is not None else "")


def print_warnings(trials: Sequence[TrialView], console: Console, width: int) -> None:
    """Print a line for each code of the trainers' warnings: the number of its trials, and the first one's message."""
    messages: dict[str, list[str]] = {}
    for trial in trials:
        for warning in trial.warnings:
            messages.setdefault(warning.code, []).append(f"trial {trial.id}: {warning.message}")
    for code, texts in messages.items():
        text = f"{code} in {len(texts)} of {plural(len(trials), 'trial')}; {texts[0]}"
        console.print(fact_line("  " + "warning".ljust(width), text, console, "yellow"), soft_wrap=True)


def roles_text(config: ConfigView) -> str:
    """Return the roles of a comparator; a dash for a point of the space that is nothing else."""
    return ", ".join(role.value for role in config.roles if role is not Role.SPACE) or "-"


def _config_row(config: ConfigView, params: str, valued: Mapping[tuple[str, Stage], int]) -> tuple[str, ...]:
    return (
        config.id,
        roles_text(config),
        params or "-",
        _mean(config.tune_objective, valued.get((config.id, Stage.TUNE), 0), config.tune_trials),
        _mean(config.confirm_objective, valued.get((config.id, Stage.CONFIRM), 0), config.confirm_trials),
    )


def _print_trials(
    trials: Sequence[TrialView], roles: Mapping[str, str], params: Mapping[str, str], console: Console
) -> None:
    """Print trials, on a terminal without the beginnings of their ids.

    Args:
        roles, params: role and parameters of each config, by its id.
    """
    columns = ["TRIAL", "CONFIG", "ROLE", "STAGE", "SEED", "STATE", "STEP", "OBJECTIVE", "PARAMETERS"]
    if any(trial.message for trial in trials):
        columns.append("MESSAGE")
    rows: list[list[str | Text]] = []
    for trial in trials:
        ending = f" ({name})" if (name := end_name(trial)) else ""
        tries = f", {trial.attempts} tries" if trial.attempts > 1 else ""
        row = [
            f"…{trial.id[-6:]}" if console.is_terminal else trial.id,
            trial.config_id,
            roles.get(trial.config_id, "-"),
            trial.stage.value,
            str(trial.seed),
            Text.assemble(state_text(trial.state), ending, tries),
            f"{trial.step}/{trial.total_steps}",
            number(trial.objective),
            params.get(trial.config_id) or "-",
            Text((trial.message or "").partition("\n")[0], "red" if trial.state.went_wrong else ""),
        ]
        rows.append(row[: len(columns)])
    loose = [name for name in ("CONFIG", "PARAMETERS", "MESSAGE") if name in columns]
    print_table(columns, rows, right=("SEED", "STEP", "OBJECTIVE"), loose=loose)


def _mean(value: float | None, seeds: int, trials: int) -> str:
    return f"{number(value)} ({seeds}/{trials})" if trials else "-"


def _commas(values: Sequence[int]) -> str:
    return ", ".join(map(str, values))


def print_comparison(comparison: SweepsComparison) -> None:
    """Print sweeps beside each other: the configs they share, each with its difference from the first sweep."""
    console = stdout()
    letters = string.ascii_uppercase
    for letter, sweep in zip(letters, comparison.sweeps, strict=False):
        only = f"{plural(sweep.configs, 'config')}, {sweep.only_here} only here"
        console.print(
            Text.assemble((f"{letter} {sweep.name}", "bold"), f"  {sweep.id}  ", state_text(sweep.state), f"  {only}")
        )
    console.print()
    names = letters[: len(comparison.sweeps)]
    header = [f"{name} (SEEDS)" for name in names] + [f"{name} - A, 95 %" for name in names[1:]]
    if comparison.shared:
        print_table(
            ("CONFIG", "PARAMETERS", *header),
            [
                (
                    row.config_id,
                    params_text(row.params) or "-",
                    *map(_values_text, row.values),
                    *map(_difference_text, row.differences),
                )
                for row in comparison.shared
            ],
            right=header,
            loose=("PARAMETERS",),
        )
    if settings := comparison.settings:
        console.print()
        rows = [(setting.name, *map(_setting_text, setting.values)) for setting in settings[:_SHOWN_SETTINGS]]
        print_table(("SETTING", *names), rows, loose=(names[-1],))
        if len(settings) > _SHOWN_SETTINGS:
            say(f"and {len(settings) - _SHOWN_SETTINGS} more settings; all of them: sweeps compare … --json")
        console.print()
    for note in comparison.notes:
        console.print(Text.assemble(("note  ", "yellow"), note))
    for line in comparison.method:
        console.print(Text(line, "bright_black"))


def _setting_text(value: object) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else plain_value(value)
    return text if len(text) <= _SETTING_LENGTH else f"{text[:_SETTING_LENGTH]}…"


def _values_text(values: ConfigValues) -> str:
    ruined = f", {values.ruined} ruined" if values.ruined else ""
    return f"{number(values.mean)} ({values.n}{ruined})" if values.n or ruined else "-"


def _difference_text(row: ConfigDifference) -> str:
    if row.difference is None:
        return "-"
    if row.repeated:
        return f"the same on all {row.repeated} common seeds"
    interval = "" if row.low is None or row.high is None else f" [{row.low:+.3f}, {row.high:+.3f}]"
    return f"{row.difference:+.3f}{interval}{' paired' if row.paired else ''}"
