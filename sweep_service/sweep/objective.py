"""The one number by which configs are ranked, computed from the store's rows. Pure.

A trial's objective is the mean of its last evaluations, never a maximum over time; of one that was stopped by hand the
last ones before that, unless its result was discarded. A diverged trial counts what the objective says (0), a failed or
discarded one is missing. A config's objective is the mean over its seeds.

A sweep with a confirm stage chooses configs on one half of the validation problems and measures them on the other, as
its trainers recorded both; where they did not, all problems serve both stages.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from sweep_service.sweep.endings import MEANINGS
from sweep_service.sweep.records import Config, Curve, Role, Stage, Trial, TrialState
from sweep_service.sweep.spec import Objective, SweepSpec
from trainers.evaluation.problem_parts import MIN_PROBLEMS, part_metric

COUNTED: Final = "eval/avg_at_k"
"""The only metric that is a mean over problems of shares of right samples, which evaluations count."""
_TURNS: Final = 100
"""Turns of a fit, far more than it needs to settle."""
Recorded = Callable[[str, str], Sequence[float]]
"""Returns the values that a trial's evaluations recorded of a metric, in order, by the trial's id and the metric."""


def how_to_count(spec: SweepSpec) -> str:
    """Say what has a report count other validation problems, where it does not."""
    least = 2 * MIN_PROBLEMS
    remedy = f"evaluate all trials on the same {least} problems or more"
    if spec.objective.metric != COUNTED:
        remedy = f"set objective.metric to {COUNTED}, a mean over problems, with {least} or more"
    elif spec.trainer is not None:
        remedy = f"give `problems`, {least} or more, in every evaluation (docs/own_trainer.md)"
    return f"to include others, {remedy}"


def measures(spec: SweepSpec) -> dict[Stage, str]:
    """Return the metric that ranks or measures in each stage, where trainers record it: over half of the problems."""
    metric, confirm = spec.objective.metric, spec.seeds.confirm
    if confirm is None or confirm.problems == "same":
        return dict.fromkeys(Stage, metric)
    return {stage: part_metric(metric, f"{stage}_part") for stage in Stage}


def objective_metrics(spec: SweepSpec) -> list[str]:
    """Return the metrics from which objectives are computed."""
    return list(dict.fromkeys([spec.objective.metric, *measures(spec).values()]))


def used_measures(trials: Sequence[Trial], recorded: Recorded, spec: SweepSpec) -> dict[Stage, str]:
    """Return the metric of each stage that these trials are compared by.

    It is `measures`, unless one of the trials was evaluated without it: there were too few problems for halves, or a
    program of one's own counted none. Then all of them are compared by all problems.
    """
    wanted, whole = measures(spec), spec.objective.metric
    halves = all(len(recorded(t.id, wanted[t.stage])) > 0 for t in trials if len(recorded(t.id, whole)) > 0)
    return wanted if halves else dict.fromkeys(Stage, whole)


def trial_objectives(trials: Sequence[Trial], evaluations: Sequence[Curve], spec: SweepSpec) -> dict[str, float | None]:
    """Return each trial's objective by trial id; None while it has none.

    Args:
        trials: the trials asked about.
        evaluations: their curves of `objective_metrics` (others are ignored).
        spec: the sweep's, with the metric and the number of last evaluations that are averaged.
    """
    curves = {(c.trial_id, c.key): [value for value in c.values if value is not None] for c in evaluations}
    used = used_measures(trials, lambda trial_id, metric: curves.get((trial_id, metric), ()), spec)
    return {
        trial.id: trial_objective(trial, curves.get((trial.id, used[trial.stage]), ()), spec.objective)
        for trial in trials
    }


def trial_objective(trial: Trial, evaluations: Sequence[float], objective: Objective) -> float | None:
    """Return one trial's objective; None while it has none.

    Args:
        evaluations: the values that its evaluations recorded of the metric that counts in its stage, in order.
    """
    if trial.state is TrialState.DIVERGED:
        return objective.diverged
    if not trial.state.evaluations_count or len(evaluations) == 0:
        return None
    return fmean(evaluations[-objective.last :])


def config_objectives(
    trials: Sequence[Trial], objectives: Mapping[str, float | None], stage: Stage
) -> dict[str, float]:
    """Return each config's mean over the seeds of one stage that have an objective, by config id."""
    by_config: dict[str, list[float]] = {}
    for trial in trials:
        value = objectives.get(trial.id)
        if trial.stage is stage and value is not None:
            by_config.setdefault(trial.config_id, []).append(value)
    return {config_id: fmean(values) for config_id, values in by_config.items()}


def selection_objectives(trials: Sequence[Trial], objectives: Mapping[str, float | None]) -> dict[str, float]:
    """Return the means by which tuning chooses, by config id: each over the same seeds.

    They differ from `config_objectives` only where the tune stage was cut short, so that some configs never ran on
    some seeds: the mean of fewer seeds varies more, and the best of them would be lucky rather than good.
    """
    seeds, whole = compared(trials)
    comparable = [trial for trial in trials if trial.seed in seeds and trial.config_id in whole]
    return config_objectives(comparable, objectives, Stage.TUNE)


def compared(trials: Sequence[Trial]) -> tuple[set[int], set[str]]:
    """Return the tune seeds on which configs are compared, and the ids of the configs that can be.

    Those that were dropped early cannot. Without a cancelled trial these are all others. Otherwise they are the first n
    seeds, with the configs that have no cancelled trial on these seeds; n is chosen to keep the most trials, and among
    equals the most configs.
    """
    tune = [trial for trial in trials if trial.stage is Stage.TUNE]
    seeds = list(dict.fromkeys(trial.seed for trial in sorted(tune, key=lambda trial: trial.number)))
    dropped = {trial.config_id for trial in tune if trial.state is TrialState.EARLY_STOPPED}
    configs = {trial.config_id for trial in tune} - dropped
    options: list[tuple[set[int], set[str]]] = []
    for count in range(1, len(seeds) + 1):
        first = set(seeds[:count])
        cut = {t.config_id for t in tune if t.seed in first and t.state is TrialState.CANCELLED}
        options.append((first, configs - cut))
    return max(options, key=lambda pair: len(pair[0]) * len(pair[1]), default=(set(), set()))


def choose(configs: Sequence[Config], objectives: Mapping[str, float], count: int) -> list[Config]:
    """Return the `count` best points of the space; equal ones in their order.

    Neither a baseline is among them nor what was dropped early.
    """
    contenders = [
        config for config in configs if config.is_contender and config.dropped is None and config.id in objectives
    ]
    return sorted(contenders, key=lambda config: (-objectives[config.id], config.number))[:count]


class Leader(NamedTuple):
    """The best config so far."""

    config: Config
    stage: Stage
    """CONFIRM once a config that tuning chose has a confirm result."""
    objective: float
    """Mean objective over the stage's seeds."""
    equal: int
    """Number of configs with exactly this objective in this stage, this one included."""
    configs: int
    """Number of configs with an objective in this stage, baselines included."""
    baseline: float | None
    """Mean objective of the baseline over the stage's seeds; None while it has none."""
    diverged: bool
    """True if every trial with a result diverged."""


def leader(
    configs: Sequence[Config],
    trials: Sequence[Trial],
    objectives: Mapping[str, float | None],
    spec: SweepSpec,
) -> Leader | None:
    """Return the best config: of those that tuning chose and that have a confirm result the one with the highest mean
    over all its trials; while there is none, the best by tune results.

    Tune trials help to choose, because they tell something about each config, too; the figures of a verdict come from
    the confirm stage alone.
    """
    tune = selection_objectives(trials, objectives)
    confirmed = config_objectives(trials, objectives, Stage.CONFIRM)
    contenders = choose(configs, tune, spec.chosen)
    ids = [one.id for one in contenders if one.id in confirmed]
    over_all = means_of_all(ids, trials, objectives, spec.objective.diverged)
    for stage, ranking, means in ((Stage.CONFIRM, over_all, confirmed), (Stage.TUNE, tune, tune)):
        for config in choose(contenders, ranking, 1):
            equal = sum(same_objective(mean, means[config.id]) for mean in means.values())
            baseline = next((means[one.id] for one in configs if Role.BASELINE in one.roles and one.id in means), None)
            diverged = all_diverged(trial.state for trial in trials)
            return Leader(config, stage, means[config.id], equal, len(means), baseline, diverged)
    return None


def all_diverged(states: Iterable[TrialState]) -> bool:
    """Say whether every trial with a result diverged, of these states of trials."""
    return {state for state in states if state.has_result} == {TrialState.DIVERGED}


def same_objective(one: float, other: float) -> bool:
    """Say whether two means are equal but for rounding, as means of the same values over different seeds are."""
    return math.isclose(one, other, rel_tol=1e-9, abs_tol=1e-12)


def means_of_all(
    config_ids: Sequence[str], trials: Sequence[Trial], objectives: Mapping[str, float | None], worst: float
) -> dict[str, float]:
    """Return the means of some configs over all their trials, of both stages, by config id.

    A trial that failed by its own fault counts as the worst. Where one config lacks a trial that another one has, as
    after a loss, a mean would tell which seeds and stages it has, too. Then they are what the least-squares fit of
    result = config + seed of a stage, found by turns, gives all configs on all seeds; but nothing beyond all results.
    """
    own: dict[str, dict[tuple[Stage, int], float]] = {id_: {} for id_ in config_ids}
    for trial in trials:
        if trial.config_id not in own:
            continue
        value = objectives[trial.id]
        if value is None and trial.state is TrialState.FAILED and trial.ending and MEANINGS[trial.ending].is_own_fault:
            value = worst
        if value is not None:
            own[trial.config_id][trial.stage, trial.seed] = value
    means = {id_: fmean(values.values()) for id_, values in own.items()}
    every = {seed: None for values in own.values() for seed in values}
    if all(values.keys() == every.keys() for values in own.values()):
        return means
    luck: dict[tuple[Stage, int], float] = {}
    for _ in range(_TURNS):
        luck = {seed: fmean(own[id_][seed] - means[id_] for id_ in own if seed in own[id_]) for seed in every}
        means = {id_: fmean(value - luck[seed] for seed, value in values.items()) for id_, values in own.items()}
    fitted = {id_: mean + fmean(luck.values()) for id_, mean in means.items()}
    results = [value for values in own.values() for value in values.values()]
    return {id_: min(max(fit, min(results)), max(results)) for id_, fit in fitted.items()}
