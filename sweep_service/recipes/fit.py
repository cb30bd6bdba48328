"""Finds the best design that the given GPUs finish in the given hours."""

import math
from typing import Final, NamedTuple

from sweep_service.recipes.design import ARMS, COMPLETIONS, PROMPT_TOKENS, SMALLEST, TUNE_SEEDS, Design, designs
from sweep_service.recipes.estimate import START_S, UNCERTAINTY, Placement, TrialCost, place, trial_cost
from sweep_service.recipes.machines import RecipeError
from sweep_service.recipes.recipe import ModelShape, Request

_MAX_ROLLOUTS: Final = 1000
"""Number of rollouts of the published training."""
_MAX_SEEDS: Final = 12
"""Largest number of confirm seeds; beyond it GPUs stay idle in the last wave."""
_ROUND: Final = 10
"""Rollouts come in multiples of this number, so that no evaluation cuts one."""
_LARGEST_BUDGET: Final = 1.5
"""Largest factor between a trial's time limit and its estimate with margin; hours beyond that are left over."""


class Fit(NamedTuple):
    """A design on its machine."""

    design: Design
    placement: Placement
    cost: TrialCost
    parallel: int
    """Number of trials at a time."""
    waves: int
    """Number of rounds of trials, one after the other."""
    trial_hours: float
    """Time limit of a trial, in hours."""
    tuned: int
    """Number of configs of the tune stage."""

    @property
    def trials(self) -> int:
        """Number of trials of both stages."""
        return self.tuned * TUNE_SEEDS + ARMS * self.design.confirm

    @property
    def expected_hours(self) -> float:
        """Estimated hours of one trial."""
        return self.cost.total / 3600


def fit(request: Request) -> Fit:
    """Return the best design that fits, laid out on the GPUs in the quickest way.

    A larger design with fewer seeds is passed over, so that more hours never show less.

    Raises: RecipeError, if the model or the smallest design does not fit.
    """
    ladder, best = designs(longest_response(request.shape)), None
    for design in ladder:
        way = quickest(request, design)
        if way and hours_needed(way) <= request.hours and (best is None or way.design.confirm >= best.design.confirm):
            best = way
    if best is None:
        raise _nothing_fits(request, ladder[0])
    return _filled(request, best)


def longest_response(shape: ModelShape) -> int:
    """Return how many tokens the model's context leaves for a response.

    Raises: RecipeError, if they are fewer than in the smallest design.
    """
    if shape.context_length is None:
        return 1 << 20
    longest = (shape.context_length - PROMPT_TOKENS) // 512 * 512
    if longest < SMALLEST.response:
        raise RecipeError(
            f"{shape.name} has a context of {shape.context_length} tokens; a prompt of {PROMPT_TOKENS} and a response "
            f"of {SMALLEST.response} need {PROMPT_TOKENS + SMALLEST.response}; name another model with --model"
        )
    return longest


def hours_needed(way: Fit) -> float:
    """Return the hours on the clock for the probe and all trials, with their margin."""
    return _probe_hours(way) + way.waves * UNCERTAINTY * way.expected_hours


def _probe_hours(way: Fit) -> float:
    """Return the hours that a start and two rollouts take, with the margin."""
    rollout_s = (way.cost.sampling + way.cost.scoring + way.cost.updates) / way.design.rollouts
    return UNCERTAINTY * (START_S + 2 * rollout_s) / 3600


def quickest(request: Request, design: Design) -> Fit | None:
    """Return the quickest way to lay a design on the GPUs; None if it fits in no way."""
    ways, machine = list[Fit](), request.machine
    for gpus in (gpus for gpus in (1, 2, 4, 8) if gpus <= machine.gpus):
        if placement := place(request.shape, machine.card, gpus, design, lora=request.recipe.lora):
            ways.append(_on(request, placement, design))
    return min(ways, key=hours_needed, default=None)


def _on(request: Request, placement: Placement, design: Design) -> Fit:
    """Lay a design on the GPUs, with more confirm seeds on those that would idle in the last wave."""
    machine, tuned = request.machine, request.recipe.tuned
    parallel = machine.gpus // placement.gpus
    confirm_waves = math.ceil(ARMS * design.confirm / parallel)
    cost = trial_cost(request.shape, machine.card, placement, design, lora=request.recipe.lora)
    return Fit(
        design._replace(confirm=max(design.confirm, min(_MAX_SEEDS, confirm_waves * parallel // ARMS))),
        placement,
        cost,
        parallel,
        math.ceil(tuned * TUNE_SEEDS / parallel) + confirm_waves,
        UNCERTAINTY * cost.total / 3600,
        tuned,
    )


def _filled(request: Request, way: Fit) -> Fit:
    """Train for as many more rollouts as fit, and share out the hours over the trials."""
    for rollouts in range(_MAX_ROLLOUTS, way.design.rollouts, -_ROUND):
        longer = _on(request, way.placement, way.design._replace(rollouts=rollouts))
        if hours_needed(longer) <= request.hours:
            way = longer
            break
    each = (request.hours - _probe_hours(way)) / way.waves
    most = _LARGEST_BUDGET * UNCERTAINTY * way.expected_hours
    return way._replace(trial_hours=math.floor(100 * min(each, most)) / 100)


def _nothing_fits(request: Request, smallest: Design) -> RecipeError:
    shape, machine, way = request.shape, request.machine, quickest(request, smallest)
    if way is None:
        remedy = "take larger cards" if request.recipe.lora else "take more or larger cards, or the recipe small_lora"
        return RecipeError(
            f"{shape.name} does not fit on {machine}, even with responses of {smallest.response} tokens"
            f"{' on 8 GPUs together' if machine.gpus >= 8 else ''}; {remedy}, or a smaller model (--model)"
        )
    needed = math.ceil(10 * hours_needed(way)) / 10
    return RecipeError(
        f"{request.hours:g} hours of {machine} do not suffice for {shape.name}: the smallest sweep that answers "
        f"anything (responses of {smallest.response} tokens, {smallest.prompts} prompts x {COMPLETIONS} a rollout, "
        f"{smallest.rollouts} rollouts, {TUNE_SEEDS} tune and {smallest.confirm} confirm seeds) "
        f"needs --hours {needed:g}"
    )
