"""Basis of the verdict's interval: seeds alone or problems too, which runs, and how many looks."""

from typing import Final

from sweep_service.report.facts.report_inputs import ReportInputs
from sweep_service.report.formatting import confidence_text, count
from sweep_service.report.model import Comparison, Outcome
from sweep_service.sweep.objective import COUNTED, how_to_count
from trainers.evaluation.problem_parts import MIN_PROBLEMS, problem_group

_LEAST: Final = 2
"""Smallest number of independent problems that say something about others."""


def interval_basis(comparison: Comparison | None, inputs: ReportInputs) -> str:
    """Explain the interval of the verdict's comparison; empty without an interval."""
    if comparison is None or comparison.low is None:
        return ""
    text = _counted(comparison, inputs)
    if comparison.batch:
        seeds, are = count(comparison.other_seeds, "other seed"), "is" if comparison.other_seeds == 1 else "are"
        text += (
            f" {seeds} {are} left out, because runs that did not both train {comparison.batch} may differ for that "
            "reason alone."
        )
    if inputs.looks > 1:
        text += (
            f" This is look {inputs.looks} at the question, because the sweep was extended, or trials were tried again "
            "or stopped, after a report had compared confirm results: the interval has "
            f"{confidence_text(comparison.confidence)} instead of 95 %, since each further look may err half as often "
            "as the one before."
        )
    return text


def held_back(comparison: Comparison, inputs: ReportInputs) -> str:
    """Say why a comparison has no word on other problems, and what would give it one; empty if nothing is held back."""
    if not _is_held_back(comparison):
        return ""
    return f" Nothing is shown for other problems, {_why_uncounted(inputs)}; {how_to_count(inputs.sweep.spec)}."


def _is_held_back(comparison: Comparison) -> bool:
    low, high = comparison.average_low, comparison.average_high
    decided = low is not None and high is not None and (low > 0 or high < 0)
    uncounted = comparison.num_problems is None and comparison.outcome is Outcome.UNDECIDED
    return comparison.outcome.is_of_these_problems or (uncounted and decided)


def _counted(comparison: Comparison, inputs: ReportInputs) -> str:
    seeds = count(comparison.num_seeds, "confirm seed")
    if comparison.num_problems is not None:
        problems = count(comparison.num_problems, "validation problem")
        if comparison.num_groups is not None and comparison.num_groups < comparison.num_problems:
            problems += f", {comparison.num_groups} of them independent"
        text = f"The interval counts {seeds} and {problems}"
        if inputs.halves:
            return f"{text}. No config was chosen on these problems."
        return f"{text}, which also chose the configs{_why_same(inputs)}; its lower end allows for that."
    why = "" if _is_held_back(comparison) else f", {_why_uncounted(inputs)}"  # else the verdict says it
    text = f"The interval counts {seeds}, not the choice of validation problems{why}."
    if inputs.halves:
        return f"{text} No config was chosen on these problems."
    return f"{text} The configs were chosen on the same problems{_why_same(inputs)}, so the best may look too good."


def _why_uncounted(inputs: ReportInputs) -> str:
    if inputs.sweep.spec.objective.metric != COUNTED:
        return "because the objective is not a mean of right samples over problems"
    if len({frozenset(counts.names) for counts in inputs.problem_counts}) > 1:
        return "because not all of these trials were evaluated on the same problems"
    if any(len({*map(problem_group, counts.names)}) < _LEAST for counts in inputs.problem_counts):
        return "because no two problems are independent"
    return "because not all trials have recorded which problems they solved"


def _why_same(inputs: ReportInputs) -> str:
    confirm = inputs.sweep.spec.seeds.confirm
    if confirm is not None and confirm.problems == "same":
        return ", as the spec asks"
    independent = [len({*map(problem_group, counts.names)}) for counts in inputs.problem_counts]
    if any(number < 2 * MIN_PROBLEMS for number in independent):
        return f", because there are fewer than {2 * MIN_PROBLEMS}{_that_differ(inputs)}"
    return ""


def _that_differ(inputs: ReportInputs) -> str:
    """Say which problems are few, where some are alike."""
    alike = any(len({*map(problem_group, counts.names)}) < len(counts.names) for counts in inputs.problem_counts)
    return " independent ones" if alike else ""
