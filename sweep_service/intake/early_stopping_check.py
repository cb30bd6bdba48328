"""Checks that a rule of early stopping can keep its promise in a sweep, and can save anything."""

from sweep_service.errors import SpecError
from sweep_service.sweep.early_stopping import Median, Paired, Rungs, looks_at_all
from sweep_service.sweep.plan import droppable
from sweep_service.sweep.spec import MIN_SEEDS, SweepSpec

_RULE = "/early_stopping/rule"


def early_stopping_errors(spec: SweepSpec) -> list[SpecError]:
    """Return the reasons why the rule cannot work; none without a rule."""
    rule, seeds = spec.early_stopping, len(spec.seeds.tune)
    if rule is None:
        return []
    if looks_at_all(rule) and not spec.search.is_grid:
        why = f"{rule.rule} compares all configs on the same seeds, and {spec.search.strategy} draws them one by one"
        return [SpecError(_RULE, f"{why}; use search.strategy grid, or rule median or asha")]
    errors, contenders = list[SpecError](), droppable(spec)
    least_seeds = MIN_SEEDS + 1 if isinstance(rule, Paired) else 2 if isinstance(rule, Rungs) else 1
    if seeds < least_seeds:
        so_few = f"{seeds} tune seed{'s' * (seeds != 1)}"
        why = f"{rule.rule} saves nothing with {so_few}: its first look comes after {least_seeds - 1}"
        errors.append(SpecError("/seeds/tune", f"{why}; list {least_seeds} or more, or use rule median or asha"))
    if contenders <= spec.chosen:
        why = (
            f"{rule.rule} never drops the last {spec.chosen} configs, and without baselines the space has {contenders}"
        )
        errors.append(SpecError(_RULE, f"{why}; leave early_stopping out, or vary more values"))
    elif isinstance(rule, Median) and contenders <= rule.min_runs:
        why = f"{rule.min_runs} other runs of a seed never come together with {contenders} configs"
        errors.append(SpecError("/early_stopping/min_runs", f"{why}; give at most {contenders - 1}"))
    return errors


def extension_errors(spec: SweepSpec, more: SweepSpec) -> list[SpecError]:
    """Refuse to give a sweep more seeds or configs than those for which its rule was planned, or to confirm more.

    Args:
        spec, more: the spec before and after.
    """
    if not spec.drops:
        return []
    if more.chosen > spec.chosen:
        who = spec.early_stopping.rule if spec.early_stopping else "health"
        text = f"{who} may have left no more than {spec.chosen} configs"
        return [SpecError("/seeds/confirm/top_k", f"{text}; confirm as many, or submit a new sweep")]
    if spec.early_stopping is None or not looks_at_all(spec.early_stopping):
        return []
    text = f"{spec.early_stopping.rule} was planned for the seeds and configs that the sweep began with"
    remedy = "submit a new sweep, and join both with `sweeps compare`"
    changed = [("/seeds/tune", more.seeds.tune != spec.seeds.tune), ("/space", more.space != spec.space)]
    return [SpecError(place, f"{text}; {remedy}") for place, differs in changed if differs]
