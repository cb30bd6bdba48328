"""The warnings of a plan: what a spec lacks for a report that says something, and for costs that are known. Pure."""

import math
from typing import Final

from sweep_service.sweep.beta_design import beta_design_warnings
from sweep_service.sweep.cost import Measured, shapes
from sweep_service.sweep.early_stopping import looks_at_all
from sweep_service.sweep.objective import COUNTED, how_to_count
from sweep_service.sweep.own_trainer import OwnTrainer
from sweep_service.sweep.spec import MIN_SEEDS, SweepSpec
from trainers.config import TransformersEngine
from trainers.evaluation.problem_parts import MIN_PROBLEMS
from trainers.tasks.data_record import DataRecord

_RARE: Final = 0.1
"""Rate of ruin below which a plan does not ask for more seeds."""
_ERROR: Final = 0.05
"""Probability with which the bounds of the chosen configs' rates of ruin err together at most."""
LUCK: Final = 0.1
"""Supposed sd of the share of right samples that a config gains or loses on one problem by its own luck."""
_BOUND: Final = 1.96 * math.sqrt(2)
"""Half the width of a 95 % interval of a difference of two configs, in units of one config's standard error."""


def plan_warnings(spec: SweepSpec, measured: Measured | None, *, guessed: bool) -> list[str]:
    """Return the warnings of a plan, but for those of its budget.

    Args:
        measured: figures of a probe of the same shape.
        guessed: true if neither earlier trials nor a probe say what a trial costs.
    """
    of_any = [*_space_warnings(spec), *_seed_warnings(spec), *_early_stopping_warnings(spec)]
    if spec.trainer is not None:
        return [*_own_trainer_warnings(spec.trainer, guessed=guessed), *of_any]
    warnings = [*_training_warnings(spec, guessed=guessed), *of_any]
    if not spec.baselines.ppo_clip:
        warnings.append("no PPO-clip baseline: the report has nothing to compare with")
    warnings += beta_design_warnings(spec)
    if measured is None:
        return warnings
    if shapes(spec) > 1:
        warnings.append(
            "points of the space differ in lengths or batches: the probe is of the most expensive one, the cost of the "
            "others is scaled by their tokens"
        )
    figures = measured.figures
    if too_few := problems_warning(spec, figures.validation_groups or figures.validation_problems):
        warnings.append(too_few)
    return warnings


def _early_stopping_warnings(spec: SweepSpec) -> list[str]:
    """Say what a rule of early stopping may cost, and what the report then cannot say."""
    rule, nothing = spec.early_stopping, "the report says nothing of parameters once a config is dropped"
    by_signs = [f"health may drop configs: {nothing}"] if spec.health.drops else []
    if rule is None:
        return by_signs
    given_up = (
        "what the report says of parameters rests on the tune seeds before the first config is dropped"
        if looks_at_all(rule)
        else nothing
    )
    return [*by_signs, f"early_stopping {rule.rule}: trials and hours are those without it, at the worst; {given_up}"]


def _own_trainer_warnings(trainer: OwnTrainer, *, guessed: bool) -> list[str]:
    warnings: list[str] = []
    if guessed:
        warnings.append(
            "no trial of this command has run yet, and no probe can measure it: its hours are a mere guess; "
            "run one trial first"
        )
    if trainer.baseline is None:
        warnings.append("no trainer.baseline: the report has nothing to compare with; give its values, or {}")
    return warnings


def _space_warnings(spec: SweepSpec) -> list[str]:
    size, asked = spec.space.size, spec.search.num_configs or 0
    if size is None or asked <= size:
        return []
    has = "one point, which is" if size == 1 else f"{size} points, which are"
    return [f"search.num_configs {asked}: the space has {has} all that is tried; give it more values, or lower it"]


def _training_warnings(spec: SweepSpec, *, guessed: bool) -> list[str]:
    warnings, base = list[str](), spec.base
    if guessed and base.model.name != "tiny_qwen2":
        warnings.append(
            "no trial of this shape has run yet: the cost is that of the tiny policy, and far too low; measure it: "
            "sweeps probe -f SPEC"
        )
    warmup, steps = base.optimizer.warmup_steps, base.steps
    if warmup >= steps and not {"optimizer.warmup_steps", "steps"} & set(spec.space.names):
        warnings.append(
            f"optimizer.warmup_steps {warmup} is not below steps {steps}: the learning rate never gets to its value, "
            "and the policy hardly changes; lower it"
        )
    evaluations, last = -(-steps // base.evaluation.every_steps), spec.objective.last
    if evaluations < last:
        warnings.append(
            f"objective.last {last}: a trial has {evaluations} evaluation{'s' * (evaluations != 1)} and one of before "
            "training, which is then averaged, too; evaluate more often, or lower objective.last"
        )
    sampling, evaluated = base.rollout.sampling_batch, base.evaluation.sampling_batch
    if sampling is not None and sampling < evaluated and isinstance(base.rollout.engine, TransformersEngine):
        warnings.append(
            f"evaluation.sampling_batch {evaluated} is above rollout.sampling_batch {sampling}: an evaluation needs "
            "more memory than sampling does; if memory is scarce, set it as low"
        )
    return warnings


def _seed_warnings(spec: SweepSpec) -> list[str]:
    warnings: list[str] = []
    if len(spec.seeds.tune) < 2:
        warnings.append("one tune seed: the winner of a single seed is mostly luck")
    if spec.seeds.confirm is None:
        warnings.append("no confirm stage: the report can rank configs but not say how sure it is; add seeds.confirm")
    elif len(spec.seeds.confirm.seeds) < MIN_SEEDS:
        warnings.append(f"fewer than {MIN_SEEDS} confirm seeds: no interval can be given")
    else:
        warnings += _uncounted(spec)
        if spec.objective.metric == COUNTED:
            warnings += _word_of_seeds(len(spec.seeds.confirm.seeds), spec.seeds.confirm.top_k)
    return warnings


def _uncounted(spec: SweepSpec) -> list[str]:
    """Say where the report's words are about the validation problems alone, or may be."""
    if spec.objective.metric != COUNTED:
        why = f"objective.metric {spec.objective.metric}: other validation problems are not counted, so"
    elif spec.trainer is not None:
        why = "trainer: unless its evaluations have `problems`, other validation problems are not counted, and"
    else:
        return []
    return [f"{why} the report says at most AHEAD, BEHIND or ALIKE ON THESE PROBLEMS; {how_to_count(spec)}"]


def _word_of_seeds(seeds: int, chosen: int) -> list[str]:
    """Say which words of the report so many sound runs of each chosen config can carry."""
    each = _ERROR / chosen
    possible = 1 - each ** (1 / seeds)
    if possible <= _RARE:
        return []
    needed = math.ceil(math.log(each) / math.log(1 - _RARE))
    return [
        f"{seeds} confirm seeds: even if no run is ruined, up to {possible:.0%} may be, so the report says BETTER only "
        f"of a lead above {possible:.0%} of the results, and AHEAD IN SOUND RUNS of smaller ones; {needed} seeds carry "
        f"BETTER for a lead of {_RARE:.0%}"
    ]


def problems_warning(spec: SweepSpec, validation_problems: int) -> str | None:
    """Return a warning if the validation problems are too few to show two configs alike, with luck on each; else None.

    Args:
        validation_problems: number of all that are independent, of which a confirm stage may use a half.
    """
    confirm, relevant = spec.seeds.confirm, spec.objective.relevant
    if confirm is None or spec.objective.metric == "eval/reward_mean":
        return None
    halved = confirm.problems != "same" and validation_problems // 2 >= MIN_PROBLEMS
    problems = validation_problems // 2 if halved else validation_problems
    needed = math.ceil((_BOUND * LUCK / relevant) ** 2)
    if problems >= needed:
        return None
    which = "half of them, on which no config is chosen" if halved else "all of them"
    return (
        f"{validation_problems} independent validation problems, of which the confirm stage counts {which}: if configs "
        f"have luck of their own on each (sd {LUCK:g}), no number of seeds narrows a difference below ±"
        f"{_BOUND * LUCK / math.sqrt(max(1, problems)):.2g}; to show that two are alike within objective.relevant "
        f"{relevant:g} takes about {needed}{' in that half' if halved else ''}"
    )


def groups_warning(spec: SweepSpec, data: DataRecord) -> str | None:
    """Return a warning if validation problems are alike, so that fewer are independent than there are; else None."""
    if (alike := data.alike) is None:
        return None
    text = (
        f"{data.validation.problems} validation problems, {alike.groups} of them independent (up to {alike.largest} "
        "are alike): the report's intervals count the independent ones"
    )
    halves = spec.seeds.confirm is not None and spec.seeds.confirm.problems != "same"
    if halves and alike.groups < 2 * MIN_PROBLEMS <= data.validation.problems:
        text += f"; halves need {2 * MIN_PROBLEMS}, so the problems that choose the configs measure them, too"
    return text
