"""Sentences that say how the report's numbers were made."""

from collections.abc import Sequence
from typing import Final

from sweep_service.report.formatting import count
from sweep_service.report.sweep_facts import Facts
from sweep_service.sweep.objective import compared
from sweep_service.sweep.records import Role, Stage, Trial

_PROBLEMS_COUNT: Final = (
    "Differences also count the problems: each pair's right samples by seed and problem (seed + problem + rest model) "
    "say how much other problems of the same kind would change its difference. The two parts of an interval's half "
    "width add like standard errors, each with its own degrees of freedom."
)


def method(facts: Facts) -> list[str]:
    """Say how configs were chosen, which seeds and problems measured them, and what the intervals cover."""
    inputs, comparisons, seeds = facts.inputs, facts.comparisons, facts.inputs.sweep.spec.seeds
    lines = [
        _selection(inputs.trials, seeds.tune),
        f"A diverged trial counts {inputs.sweep.spec.objective.diverged:g}; a failed one is missing. Both are listed.",
    ]
    if seeds.confirm is None:
        return [*lines, "Nothing was confirmed on fresh seeds, so no interval is given and no verdict is possible."]
    matched = any(comparison.comparator_role is Role.MATCHED for comparison in comparisons)
    baselines = (
        " and the baselines" if not matched else ", the baselines, and for each of the best its own matched baseline"
    )
    problems = "The same validation problems chose the configs and gave the confirm results."
    if inputs.halves:
        problems = "One half of the validation problems chose the configs; the other half gave every confirm result."
    lines += [
        f"The best {seeds.confirm.top_k}{baselines} were trained again on confirm seeds "
        f"{_listed(seeds.confirm.seeds)}; every figure of the verdict comes from these alone.",
        problems,
        "Differences are paired by seed (config + seed model). The variance of each lies between its own and the "
        "mean over all configs' differences from the same comparator; a pair whose ruined runs count, for want of "
        "sound ones, stands alone.",
        *([_PROBLEMS_COUNT] if any(comparison.num_problems for comparison in comparisons) else []),
        "Of each 95 % interval the lower bounds hold at once for all configs compared with one comparator, or each "
        "with a matched baseline of its own (Dunnett, nominally 97.5 %), which pays for choosing the best of them and "
        "makes the lower half the longer one; the upper bound is Student's (97.5 %) and holds by itself. "
        "Averages over all runs count the largest difference between the rates of ruin that these runs leave possible "
        "(Clopper-Pearson, 95 % for all compared configs at once), a ruined run losing all that a sound one scores. "
        "The tie set is Hsu's multiple comparison with the best, with the confidence of the look. "
        "Intervals of means are Student's t over seeds.",
    ]
    if any(comparison.variance == "pair" for comparison in comparisons):
        lines.append("At least one comparison rests on its pair's own variance.")
    return [
        *lines,
        "Not covered: other tasks, models and budgets, another sampling temperature, problems of another kind.",
    ]


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


def _listed(seeds: Sequence[int]) -> str:
    text = ", ".join(str(seed) for seed in seeds[:12])
    return f"{text}, … ({len(seeds)} in all)" if len(seeds) > 12 else text
