"""Tells from a spec alone if a sweep can show the effect of CE-GPPO's beta1 and beta2 on entropy. Pure.

The report compares configs that differ in one beta and in nothing else, seed by seed, and takes its intervals from the
spread over the seeds of one stage. So it needs such configs, and `MIN_SEEDS` seeds of a stage that has them for sure.
"""

from collections.abc import Sequence
from typing import Final

from search_spaces.space import SearchSpace
from sweep_service.sweep.spec import MIN_SEEDS, SweepSpec

BETAS: Final = ("beta1", "beta2")
FEWEST_ROLLOUTS: Final = 8
"""Least number of rollouts whose entropy a straight line is fitted to."""


def varied_betas(spec: SweepSpec) -> list[str]:
    """Return which betas of ce_gppo the space varies."""
    losses = spec.space.root.get("loss.name")
    preserving = spec.base.loss.name == "ce_gppo" if losses is None else losses.contains("ce_gppo")
    return [beta for beta in BETAS if preserving and f"loss.{beta}" in spec.space.varied]


def smallest_design(betas: Sequence[str]) -> str:
    """Return the words for the fewest trials that give an interval: the betas' interaction needs two values of each."""
    values = " x ".join(f"2 values of {beta}" for beta in betas)
    return f"a grid of {values} on {MIN_SEEDS} tune seeds, {2 ** len(betas) * MIN_SEEDS} trials without baselines"


def beta_design_warnings(spec: SweepSpec) -> list[str]:
    """Warn before the start of betas of which a sweep can claim nothing, and name the smallest design that can."""
    betas = varied_betas(spec)
    if not betas:
        return []
    lacks = _lacks_slopes(spec)
    if lacks is None:
        lacking = {beta: reason for beta in betas if (reason := _lacks_seeds(spec, beta))}
        betas, lacks = list(lacking), next(iter(lacking.values()), None)
    if lacks is None:
        return []
    subject = "beta1 and beta2 vary, but the report can claim nothing of what they do to entropy"
    if len(betas) == 1:
        subject = f"{betas[0]} varies, but the report can claim nothing of what it does to entropy"
    return [f"{subject}: {lacks}; the smallest design that can: {smallest_design(varied_betas(spec))}"]


def _lacks_slopes(spec: SweepSpec) -> str | None:
    """Return why no trial of the sweep will have a slope of entropy that counts."""
    training = spec.base
    if training.loss.name == "ce_gppo" and training.loss.schedule:
        return "a schedule changes the betas during training"
    rollouts = training.steps // training.rollout.updates_per_rollout
    if rollouts < FEWEST_ROLLOUTS and not any(
        name == "steps" or name.startswith("rollout") for name in spec.space.names
    ):
        number = f"{rollouts} rollout{'s' * (rollouts != 1)}"
        return f"a trial has {number}, and a line through its entropy needs {FEWEST_ROLLOUTS}"
    return None


def _lacks_seeds(spec: SweepSpec, beta: str) -> str | None:
    """Return why neither stage is sure to have enough seeds on which configs differ in one beta alone."""
    others = [name for name in spec.space.varied if name != f"loss.{beta}"]
    paired = spec.search.is_grid or not others
    if (paired and len(spec.seeds.tune) >= MIN_SEEDS) or _confirmed_pair(spec, beta):
        return None
    if not paired:
        return f"points drawn by {spec.search.strategy} need not differ in one beta alone"
    return f"its interval is over tune seeds, and {len(spec.seeds.tune)} are fewer than {MIN_SEEDS}"


def _confirmed_pair(spec: SweepSpec, beta: str) -> bool:
    """True if the confirm stage is sure to have two chosen configs that differ in one beta alone.

    It is, if it takes more configs than there are combinations of the other parameters.
    """
    confirm = spec.seeds.confirm
    if confirm is None or len(confirm.seeds) < MIN_SEEDS:
        return False
    others = SearchSpace({name: values for name, values in spec.space.root.items() if name != f"loss.{beta}"})
    return others.size is not None and min(confirm.top_k, spec.space.size or confirm.top_k) > others.size
