"""The best design that given GPUs finish in given hours."""

import math
from typing import Final, NamedTuple

from sweep_service.recipes.cards import Machine
from sweep_service.recipes.design import (
    ARMS,
    COMPLETIONS,
    PROMPT_TOKENS,
    TUNE_SEEDS,
    Design,
    designs,
    floor_response,
)
from sweep_service.recipes.errors import RecipeError
from sweep_service.recipes.memory import Placement, place
from sweep_service.recipes.recipe import BETA1
from sweep_service.recipes.shape import ModelShape
from sweep_service.recipes.trial_cost import UNCERTAINTY, TrialCost, trial_cost

TUNED: Final = len(BETA1) + ARMS - 1
"""Configs of the tune stage: the points, PPO clip, DAPO."""
MOST_ROLLOUTS: Final = 1000
"""As published."""
MOST_SEEDS: Final = 12
"""Beyond these GPUs rather idle in the last wave."""
_ROUND: Final = 10
"""Rollouts between evaluations are whole, whatever their number."""
_LARGEST_BUDGET: Final = 1.5
"""Of the time a trial is given, over what its margin asks: where hours are left over, they are left."""


class Fit(NamedTuple):
    """A design on its machine."""

    design: Design
    placement: Placement
    cost: TrialCost
    parallel: int
    """Trials at a time."""
    waves: int
    """One after the other."""
    trial_hours: float
    """That a trial may take at most."""

    @property
    def trials(self) -> int:
        """Of both stages."""
        return TUNED * TUNE_SEEDS + ARMS * self.design.confirm

    @property
    def expected_hours(self) -> float:
        """Of one trial, as computed."""
        return self.cost.total / 3600


def fit(shape: ModelShape, machine: Machine, hours: float, *, lora: bool) -> Fit:
    """Take the best design that fits; of the ways to lay it on the GPUs the quickest.

    More hours never show less: a larger design with fewer seeds is passed over.

    Args:
        hours: on the clock, for the whole sweep.

    Raises: RecipeError, if the model or the smallest design does not fit.
    """
    ladder, best = designs(longest_response(shape)), None
    for design in ladder:
        way = quickest(shape, machine, design, lora=lora)
        if way and hours_needed(way) <= hours and (best is None or way.design.confirm >= best.design.confirm):
            best = way
    if best is None:
        raise _nothing_fits(shape, machine, ladder[0], hours, lora=lora)
    return _filled(shape, machine, best, hours, lora=lora)


def longest_response(shape: ModelShape) -> int:
    """What the model's context leaves for a response, in tokens.

    Raises: RecipeError, if that is less than the shortest one that is planned.
    """
    if shape.context_length is None:
        return 1 << 20
    longest = (shape.context_length - PROMPT_TOKENS) // 512 * 512
    if longest < floor_response():
        raise RecipeError(
            f"{shape.name} has a context of {shape.context_length} tokens; a prompt of {PROMPT_TOKENS} and a response "
            f"of {floor_response()} need {PROMPT_TOKENS + floor_response()}"
        )
    return longest


def hours_needed(found: Fit) -> float:
    """On the clock: the probe, and all trials with their margin."""
    return _probe_hours(found) + found.waves * UNCERTAINTY * found.expected_hours


def _probe_hours(found: Fit) -> float:
    """A start and two rollouts, with the margin."""
    rollout_s = (found.cost.sampling + found.cost.scoring + found.cost.updates) / found.design.rollouts
    return UNCERTAINTY * (300 + 2 * rollout_s) / 3600


def quickest(shape: ModelShape, machine: Machine, design: Design, *, lora: bool) -> Fit | None:
    """Of the ways to lay a design on the GPUs the quickest; None if it fits in no way."""
    found = list[Fit]()
    for gpus in (gpus for gpus in (1, 2, 4, 8) if gpus <= machine.gpus):
        if placement := place(shape, machine.card, gpus, design, lora=lora):
            found.append(_on(shape, machine, placement, design, lora=lora))
    return min(found, key=hours_needed, default=None)


def _on(shape: ModelShape, machine: Machine, placement: Placement, design: Design, *, lora: bool) -> Fit:
    """The design, with confirm seeds on the GPUs that would idle in the last wave."""
    parallel = machine.gpus // placement.gpus
    confirm_waves = math.ceil(ARMS * design.confirm / parallel)
    cost = trial_cost(shape, machine.card, placement, design, lora=lora)
    return Fit(
        design._replace(confirm=max(design.confirm, min(MOST_SEEDS, confirm_waves * parallel // ARMS))),
        placement,
        cost,
        parallel,
        math.ceil(TUNED * TUNE_SEEDS / parallel) + confirm_waves,
        UNCERTAINTY * cost.total / 3600,
    )


def _filled(shape: ModelShape, machine: Machine, found: Fit, hours: float, *, lora: bool) -> Fit:
    """Train as many rollouts more as fit, and share the hours out over the trials."""
    for rollouts in range(MOST_ROLLOUTS, found.design.rollouts, -_ROUND):
        longer = _on(shape, machine, found.placement, found.design._replace(rollouts=rollouts), lora=lora)
        if hours_needed(longer) <= hours:
            found = longer
            break
    each = (hours - _probe_hours(found)) / found.waves
    most = _LARGEST_BUDGET * UNCERTAINTY * found.expected_hours
    return found._replace(trial_hours=math.floor(100 * min(each, most)) / 100)


def _nothing_fits(shape: ModelShape, machine: Machine, floor: Design, hours: float, *, lora: bool) -> RecipeError:
    way = quickest(shape, machine, floor, lora=lora)
    if way is None:
        remedy = "take larger cards" if lora else "take more or larger cards, or the recipe small_lora"
        return RecipeError(
            f"{shape.name} does not fit on {machine}, even with responses of {floor.response} tokens"
            f"{' on 8 GPUs together' if machine.gpus >= 8 else ''}; {remedy}, or a smaller model (--model)"
        )
    needed = math.ceil(10 * hours_needed(way)) / 10
    return RecipeError(
        f"{hours:g} hours of {machine} do not suffice for {shape.name}: the smallest sweep that answers anything "
        f"(responses of {floor.response} tokens, {floor.prompts} prompts x {COMPLETIONS} a rollout, "
        f"{floor.rollouts} rollouts, {TUNE_SEEDS} tune and {floor.confirm} confirm seeds) needs --hours {needed:g}"
    )
