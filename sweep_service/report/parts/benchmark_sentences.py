"""Sentences about the table of benchmarks: whether it agrees with the verdict, and how much its problems can show."""

import math
from collections import Counter
from collections.abc import Sequence
from statistics import fmean, median

from sweep_service.report.facts.measured_models import MeasuredModel
from sweep_service.report.formatting import count, estimate, number
from sweep_service.report.model import BenchmarkCell, BenchmarkDifference, BenchmarkRow, Outcome, Verdict
from sweep_service.report.statistics.critical_values import student_critical
from sweep_service.report.verdict.comparators import KINDS
from sweep_service.sweep.records import Stage, Sweep
from sweep_service.sweep.spec import MIN_SEEDS, Benchmarks


def agreement(verdict: Verdict, difference: BenchmarkDifference | None, *, several: bool) -> str:
    """Say whether the mean over benchmarks agrees with the verdict, which it never changes.

    Args:
        difference: that of the verdict's two configs, over all benchmarks.
        several: whether these are more than one.
    """
    stays = "The verdict rests on the objective alone."
    compared = verdict.comparison
    if compared is None:
        return f"The verdict compares no configs, so benchmarks neither support nor oppose it. {stays}"
    against = KINDS[compared.comparator_role]
    if difference is None:
        return f"{compared.label} and {against} have no seed on which both were measured on every benchmark. {stays}"
    mean = "The mean over benchmarks" if several else "The benchmark"
    return f"{mean} {_stance(difference, compared.label, against, verdict.outcome)} {stays}"


def _stance(difference: BenchmarkDifference, label: str, against: str, outcome: Outcome) -> str:
    figures = estimate(difference.difference, difference.low, difference.high, sign=True)
    seeds = count(difference.num_seeds, "paired seed")
    if difference.low is None:
        return f"decides nothing about {label} minus {against}: {figures} without an interval, {seeds}."
    if not difference.shown:
        equal = outcome is Outcome.UNDECIDED or outcome.sign == 0
        how = "agrees with" if equal else "neither supports nor opposes"
        return f"{how} the verdict {outcome}: it cannot tell {label} from {against}, {figures}, {seeds}."
    finding = f"{label} is shown to be {'better' if difference.difference > 0 else 'worse'} than {against} on it, "
    how = "says more than"
    if outcome.sign:
        how = "agrees with" if outcome.sign * difference.difference > 0 else "goes against"
    return f"{how} the verdict {outcome}: {finding}{figures}, {seeds}."


def reading(
    sweep: Sweep, rows: Sequence[BenchmarkRow], final: Sequence[MeasuredModel], family: int | None
) -> list[str]:
    """Say how the table is to be read and how much its problems can show.

    Args:
        final: the measured models after their last update.
        family: number of configs compared with the baseline at once; None without a baseline.
    """
    widths = [
        _precision(name, [row.cells[column] for row in rows], final) for column, name in enumerate(sweep.benchmarks)
    ]
    if len(sweep.benchmarks) > 1 and (half := _half_width([row.cells[-1] for row in rows])) is not None:
        widths.append(f"The mean over benchmarks counts each the same; differences of it are known to ±{number(half)}.")
    how = ["There is no baseline, so no differences are given."] if family is None else _how_compared(rows, family)
    return [*(width for width in widths if width), *how, *_missing(sweep.spec.benchmarks, rows)]


def _how_compared(rows: Sequence[BenchmarkRow], family: int) -> list[str]:
    differences = [(row.stage, cell.difference) for row in rows for cell in row.cells if cell and cell.difference]
    lines = list[str]()
    if any(difference.low is not None for _, difference in differences):
        lines.append(
            "Differences are to the baseline, paired by training seed and by problem. Their 95 % intervals count other "
            f"seeds and other problems of the same kind; the lower ends hold for {count(family, 'config')} at once. "
            "Each benchmark stands by itself: among many cells a few are shown by chance."
        )
    if any(
        difference.shown and difference.difference > 0 for stage, difference in differences if stage is Stage.CONFIRM
    ):
        lines.append(
            "The highest mean of a column is marked where it is shown to be above the baseline; this does not show it "
            "to be above the other configs."
        )
    if any(stage is Stage.TUNE for stage, _ in differences):
        lines.append("Differences on tune seeds have no interval, because these seeds chose the configs.")
    confirmed = [difference for stage, difference in differences if stage is Stage.CONFIRM]
    if few := [difference for difference in confirmed if difference.num_seeds < MIN_SEEDS]:
        lines.append(
            f"{count(len(few), 'difference')} on fewer than {MIN_SEEDS} paired seeds "
            f"{'has' if len(few) == 1 else 'have'} no interval."
        )
    return lines


def _precision(name: str, cells: Sequence[BenchmarkCell | None], final: Sequence[MeasuredModel]) -> str:
    """Give the effect of other problems of the same kind on a score and a difference; empty if it is unknown."""
    scores = [model.scores[name] for model in final if name in model.scores]
    errors = [score.problem_se for score in scores if score.problem_se is not None]
    if not errors or scores[0].problems < 2:
        return ""
    problems = scores[0].problems
    half = student_critical(problems - 1) * math.sqrt(fmean(error**2 for error in errors))
    text = (
        f"{name} has {count(problems, 'problem')}: with other problems of the kind, "
        f"one model's avg@{scores[0].samples} could be off by ±{number(half)}"
    )
    of_difference = _half_width(cells)
    if of_difference is None:
        return f"{text}."
    return f"{text}; a difference paired by seed and problem is known to ±{number(of_difference)}."


def _half_width(cells: Sequence[BenchmarkCell | None]) -> float | None:
    """Return the median distance of the differences' upper ends."""
    differences = [cell.difference for cell in cells if cell and cell.difference]
    widths = [one.high - one.difference for one in differences if one.high is not None]
    return median(widths) if widths else None


def _missing(benchmarks: Benchmarks | None, rows: Sequence[BenchmarkRow]) -> list[str]:
    """Count the models that are not in the table, by reason; empty if none is missing."""
    reasons = Counter[str]()
    for row in rows:
        reasons.update(row.missing)
    if not reasons:
        return []
    listed = ", ".join(f"{n} {reason}" for reason, n in sorted(reasons.items()))
    lines = [
        f"{count(sum(reasons.values()), 'model')} not measured on every benchmark ({listed}): means leave these out, "
        "which flatters a config whose bad seeds are among them."
    ]
    if benchmarks is not None and benchmarks.at != "end":
        steps = ", ".join(str(step) for step in benchmarks.at)
        lines.append(f"The spec asks for models after step {steps}; this table has only those after the last step.")
    return lines
