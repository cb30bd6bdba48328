"""What the renderings show beside each other: rows of the report joined, so that HTML, Markdown and CSV agree."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, Literal

from sweep_service.report.model import (
    BudgetComparison,
    Comparison,
    ConfigRow,
    Report,
    SampledCompletion,
    SampleGroup,
    StageResult,
    TrialRow,
)
from sweep_service.sweep.labels import ROLE_NAMES
from sweep_service.sweep.records import Role, Stage

_COMPARATORS: Final = (Role.BASELINE, Role.DAPO, Role.MATCHED)


@dataclass(frozen=True)
class Delta:
    """A config's mean minus the reference's over the seeds that both have a result on."""

    difference: float
    low: float | None
    """95 % interval; only comparisons of the confirm stage have one."""
    high: float | None
    num_seeds: int


def sentence(report: Report) -> str:
    """The verdict's sentence without the outcome's name in front."""
    outcome, separator, rest = report.verdict.sentence.partition(": ")
    return rest if separator and outcome == report.verdict.outcome else report.verdict.sentence


def reference(report: Report) -> ConfigRow | None:
    """The config that deltas refer to: the baseline, else the DAPO arm, else the matched baseline."""
    rows = [row for role in _COMPARATORS for row in report.configs if role in row.roles and (row.tune or row.confirm)]
    return rows[0] if rows else None


def reference_name(report: Report) -> str:
    """What the reference is called in a column's head, such as `baseline`; empty without one."""
    row = reference(report)
    return next((ROLE_NAMES[role] for role in _COMPARATORS if row and role in row.roles), "")


def deltas(report: Report, stage: Stage) -> dict[str, Delta]:
    """By config id: how far each config is from the reference in one stage. Without a reference there is none."""
    against = reference(report)
    if against is None:
        return {}
    compared = {found.config_id: found for found in report.comparisons if found.comparator_id == against.id}
    found: dict[str, Delta] = {}
    for row in report.configs:
        comparison = compared.get(row.id) if stage is Stage.CONFIRM else None
        if comparison is not None:
            difference, low, high = comparison.difference, comparison.low, comparison.high
            found[row.id] = Delta(difference, low, high, comparison.num_seeds)
        elif row.id != against.id and (pairs := _pairs(_stage(row, stage), _stage(against, stage))):
            found[row.id] = Delta(fmean(mine - other for mine, other in pairs), None, None, len(pairs))
    return found


def _stage(row: ConfigRow, stage: Stage) -> StageResult | None:
    return row.confirm if stage is Stage.CONFIRM else row.tune


def _pairs(mine: StageResult | None, other: StageResult | None) -> list[tuple[float, float]]:
    if mine is None or other is None:
        return []
    others = {seed.seed: seed.value for seed in other.seeds}
    return [(seed.value, others[seed.seed]) for seed in mine.seeds if seed.seed in others]


Unit = Literal["steps", "tokens", "hours"]


def budgets(report: Report) -> dict[tuple[str, str], dict[Unit, BudgetComparison]]:
    """By config and comparator: the difference at equal cost, by unit."""
    found: dict[tuple[str, str], dict[Unit, BudgetComparison]] = {}
    for budget in report.budgets:
        found.setdefault((budget.config_id, budget.comparator_id), {})[budget.unit] = budget
    return found


def units(report: Report) -> list[Unit]:
    """The costs at which comparisons are also made; steps are the comparisons themselves."""
    present = {budget.unit for budget in report.budgets}
    wanted: tuple[Unit, ...] = ("tokens", "hours")
    return [unit for unit in wanted if unit in present]


def varied(report: Report) -> list[str]:
    """Dotted names of the parameters in which configs differ, in the order in which they were first named."""
    return list(
        dict.fromkeys(name for row in sorted(report.configs, key=lambda row: row.number) for name in row.params)
    )


def failures(report: Report) -> list[TrialRow]:
    """Trials without a result of their own."""
    return [trial for trial in report.trials if trial.state.went_wrong]


@dataclass(frozen=True)
class Prompt:
    """One problem and what each group's policy wrote for it, in the order of the report's groups."""

    text: str
    completions: list[list[SampledCompletion]]


def prompts(groups: Sequence[SampleGroup]) -> list[Prompt]:
    """The sampled problems; those that most groups have come first."""
    by_prompt: dict[str, list[list[SampledCompletion]]] = {}
    for place, group in enumerate(groups):
        for item in group.items:
            by_prompt.setdefault(item.prompt, [[] for _ in groups])[place].append(item)
    shared = sorted(by_prompt.items(), key=lambda entry: -sum(bool(items) for items in entry[1]))
    return [Prompt(text, completions) for text, completions in shared]


def place(value: float, low: float, high: float, margin: float = 4.0) -> float:
    """Where a value lies between two others, in percent of the width, with a margin on both sides."""
    span = (high - low) or 1.0
    return round(margin + (100 - 2 * margin) * (value - low) / span, 2)


def bounds(comparisons: Sequence[Comparison]) -> tuple[float, float]:
    """The range that shows every interval, every difference and zero."""
    values = [value for c in comparisons for value in (c.low, c.high, c.difference) if value is not None]
    return min([0.0, *values]), max([0.0, *values])


def by_number(trials: Sequence[TrialRow]) -> Mapping[str, int]:
    """A trial's number by its id."""
    return {trial.id: trial.number for trial in trials}
