"""Rows of the report joined for display, in one place so that HTML, Markdown and CSV agree."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from sweep_service.report.formatting import confidence_text, count, number
from sweep_service.report.model import (
    BenchmarkCell,
    BenchmarkRow,
    BenchmarkTable,
    BudgetComparison,
    Comparison,
    ConfigRow,
    Report,
    SampledCompletion,
    SampleGroup,
    TrialRow,
    Unit,
)
from sweep_service.report.verdict.comparators import COMMON, KINDS
from sweep_service.sweep.labels import ROLE_NAMES
from sweep_service.sweep.records import Role, Stage


def confidence(report: Report) -> str:
    """Write the confidence of the report's intervals of differences, such as `95 %`."""
    return confidence_text(max((one.confidence for one in report.comparisons), default=0.95))


class Delta(NamedTuple):
    """A config's mean minus the reference's, over the seeds on which both have a result."""

    difference: float
    low: float | None
    """Lower end of the 95 % interval; only comparisons of the confirm stage have one."""
    high: float | None


def sentence(report: Report) -> str:
    """Return the verdict's sentence without the outcome's name in front, with a capital unless a label leads it."""
    outcome, separator, rest = report.verdict.sentence.partition(": ")
    text = rest if separator and outcome == report.verdict.outcome else report.verdict.sentence
    return text if "=" in text.partition(" ")[0] else text[:1].upper() + text[1:]


def interim_text(report: Report) -> str:
    """Warn of the numbers of a sweep that goes on."""
    return (
        f"The sweep is {report.sweep.state.lower()}; every number may still change, and the intervals do not allow for "
        "looking early."
    )


def reference(report: Report) -> ConfigRow | None:
    """Return the config that deltas refer to: the baseline, else the DAPO arm, else the verdict's comparator."""
    rows = [row for role in COMMON for row in report.configs if role in row.roles and (row.tune or row.confirm)]
    comparison = report.verdict.comparison
    rows += [row for row in report.configs if comparison and row.id == comparison.comparator_id]
    return rows[0] if rows else None


def reference_name(report: Report) -> str:
    """Return the reference's name for a column's head, such as `baseline`; empty without one."""
    row = reference(report)
    common = (ROLE_NAMES[role] for role in COMMON if row and role in row.roles)
    return next(common, ROLE_NAMES[Role.MATCHED] if row else "")


def leader(report: Report) -> str | None:
    """Return the id of the config with the highest mean, comparators included; None without a result or in a draw."""
    stage = Stage.CONFIRM if any(row.confirm for row in report.configs) else Stage.TUNE
    means = {row.id: result.mean for row in report.configs if (result := row.stage(stage))}
    leaders = [id_ for id_, mean in means.items() if mean == max(means.values())]
    return leaders[0] if len(leaders) == 1 else None


def deltas(report: Report, stage: Stage) -> dict[str, Delta]:
    """Return each config's distance from the reference in one stage, by config id; empty without a reference."""
    against = reference(report)
    reference_result = against and against.stage(stage)
    if against is None or reference_result is None:
        return {}
    compared = {c.config_id: c for c in report.comparisons if c.comparator_id == against.id}
    by_config: dict[str, Delta] = {}
    for row in report.configs:
        comparison = compared.get(row.id) if stage is Stage.CONFIRM else None
        if comparison is not None:
            by_config[row.id] = Delta(comparison.difference, comparison.low, comparison.high)
        elif row.id != against.id and (own := row.stage(stage)) and (differences := own.minus(reference_result)):
            by_config[row.id] = Delta(fmean(differences.values()), None, None)
    return by_config


def compared(report: Report) -> dict[str, Comparison]:
    """Return the comparison that stands beside each config, by config id: with a comparator like the verdict's."""
    verdict = report.verdict.comparison
    wanted = verdict.comparator_role if verdict else None
    chosen: dict[str, Comparison] = {}
    for comparison in sorted(report.comparisons, key=lambda c: c.comparator_role is not wanted):
        chosen.setdefault(comparison.config_id, comparison)
    return chosen


def comparator_name(compared: Mapping[str, Comparison]) -> str:
    """Name the comparator of all these comparisons, like `the baseline`; `a comparator` if they differ in it."""
    kinds = {KINDS[comparison.comparator_role] for comparison in compared.values()}
    return kinds.pop() if len(kinds) == 1 else "a comparator"


def spread_text(report: Report) -> str:
    """State the spread over one config's runs and the part that sampling at evaluations adds; empty if unknown."""
    spread = report.descriptive
    if spread is None or spread.training_sd is None:
        return ""
    text = f"The objective of one config's runs has a standard deviation of {number(spread.training_sd)} over seeds"
    if spread.evaluation_se is not None:
        text += f"; sampling completions at evaluations alone would give it one of {number(spread.evaluation_se)}"
    return f"{text}."


def budgets(report: Report) -> dict[tuple[str, str], dict[Unit, BudgetComparison]]:
    """Return the difference at equal cost by config and comparator, then by unit."""
    by_pair: dict[tuple[str, str], dict[Unit, BudgetComparison]] = {}
    for budget in report.budgets:
        by_pair.setdefault((budget.config_id, budget.comparator_id), {})[budget.unit] = budget
    return by_pair


def units(report: Report) -> list[Unit]:
    """Return the units of cost in which comparisons are also made; steps are the comparisons themselves."""
    present = {budget.unit for budget in report.budgets}
    costs: tuple[Unit, ...] = ("tokens", "hours")
    return [unit for unit in costs if unit in present]


def varied(report: Report) -> list[str]:
    """Return the dotted names of the parameters in which configs differ, in the order of their first mention."""
    return list(
        dict.fromkeys(name for row in sorted(report.configs, key=lambda row: row.number) for name in row.params)
    )


def column_names(table: BenchmarkTable) -> list[str]:
    """Return the names of the columns of the table of benchmarks: benchmarks as in the catalog, and their mean."""
    return ["mean over benchmarks" if column.benchmark is None else column.benchmark for column in table.columns]


def cell_note(cell: BenchmarkCell) -> str:
    """Write the numbers of completions a problem and of problems behind a cell: `avg@16, 30 problems`."""
    problems = count(cell.num_problems, "problem")
    return problems if cell.k is None else f"avg@{cell.k}, {problems}"


def column_notes(table: BenchmarkTable) -> list[str]:
    """Return for each column the `cell_note` that all its cells share; empty where they differ."""
    notes = [{cell_note(cell) for row in table.rows if (cell := row.cells[n])} for n in range(len(table.columns))]
    return [note.pop() if len(note) == 1 else "" for note in notes]


def entropy_kept(report: Report) -> dict[str, float | None]:
    """Return each config's entropy at the end divided by that at the start, by config id."""
    return {row.id: row.entropy_kept for row in report.configs}


def missing_text(row: BenchmarkRow) -> str:
    """Count a row's missing models by reason, like `2 diverged, 1 evaluation failed`; empty if none is."""
    return ", ".join(f"{n} {reason}" for reason, n in row.missing.items())


def passes(table: BenchmarkTable) -> list[tuple[str, list[int], list[tuple[str, dict[int, float]]]]]:
    """Return for each benchmark its name, the values of k, and each row's label with its pass@k by k."""
    tables: list[tuple[str, list[int], list[tuple[str, dict[int, float]]]]] = []
    for place, name in enumerate(column_names(table)):
        cells = [(row.label, cell.pass_at_k) for row in table.rows if (cell := row.cells[place]) and cell.pass_at_k]
        if cells:
            tables.append((name, sorted({k for _, by_k in cells for k in by_k}), cells))
    return tables


def trial_numbers(report: Report) -> dict[str, int]:
    """Return each trial's number by its id."""
    return {trial.id: trial.number for trial in report.trials}


def failures(report: Report) -> list[TrialRow]:
    """Return the trials without a result of their own."""
    return [trial for trial in report.trials if trial.state.went_wrong]


class Prompt(NamedTuple):
    """One problem and what each group's policy wrote for it, in the order of the report's groups."""

    text: str
    completions: list[list[SampledCompletion]]


def prompts(groups: Sequence[SampleGroup]) -> list[Prompt]:
    """Return the sampled problems; those that most groups have come first."""
    by_prompt: dict[str, list[list[SampledCompletion]]] = {}
    for place, group in enumerate(groups):
        for item in group.items:
            by_prompt.setdefault(item.prompt, [[] for _ in groups])[place].append(item)
    shared = sorted(by_prompt.items(), key=lambda entry: -sum(bool(items) for items in entry[1]))
    return [Prompt(text, completions) for text, completions in shared]
