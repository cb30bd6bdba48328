"""A fitted sweep as a file: what it asks, what it can show, what it costs, where it departs, and the spec."""

import textwrap
from typing import Any, Final

from sweep_service.intake.spec_check import parse_spec
from sweep_service.recipes.cards import Machine
from sweep_service.recipes.design import COMPLETIONS, SEED_SD, TUNE_SEEDS, Design, difference_shown
from sweep_service.recipes.fit import TUNED, Fit
from sweep_service.recipes.fitted_sweep import Departure, FittedSweep, Request, fitted_sweep
from sweep_service.recipes.memory import GB, disk_bytes, place
from sweep_service.recipes.remarked_yaml import scalar, write_yaml
from sweep_service.recipes.shape import ModelShape
from sweep_service.recipes.trial_cost import UNCERTAINTY, trial_cost

_WIDTH: Final = 118
_PUBLISHED: Final = Design(response=16384, prompts=128, rollouts=1000, confirm=0, samples=32)
_PUBLISHED_EVALUATIONS: Final = 200
_PUBLISHED_PROBLEMS: Final = 60


def write_recipe(request: Request) -> str:
    """Return the sweep's file.

    Raises: RecipeError, if nothing fits; InvalidSpec, if the service refuses what was made.
    """
    sweep = fitted_sweep(request)
    parse_spec(sweep.document)
    return _head(sweep) + write_yaml(sweep.document, _remarks(sweep))


def _head(sweep: FittedSweep) -> str:
    request, found = sweep.request, sweep.fit
    blocks = [
        f"{request.recipe.title}: on {request.shape.name}, fitted to {request.hours:g} hours of {request.machine} by",
        f"  {request.command}",
        "",
        _question(found),
        "",
        _showing(request, found),
        "",
        _costs(request, found),
        "",
        f"Needs {request.shape.name} and {request.problems.name} in the catalog (`sweeps models add`, `sweeps datasets "
        "add`). Run `sweeps plan -f FILE` first. The sweep begins with a probe, which measures time and memory on your "
        "machine; with `probe: only` it ends there.",
        "",
        f"Departs from examples/{request.recipe.source}.yaml, where each value has its source; all else is as there:",
        *map(_departure, sweep.departures),
    ]
    return "".join(f"{line}\n" for block in blocks for line in _comment(block))


def _comment(text: str) -> list[str]:
    if not text:
        return ["#"]
    indent = "      " if text.startswith("  ") else ""
    wrapped = textwrap.wrap(text, _WIDTH, subsequent_indent=indent, break_on_hyphens=False, break_long_words=False)
    return [f"# {line}" for line in wrapped]


def _question(found: Fit) -> str:
    design = found.design
    waves = "all at once" if found.waves == 1 else f"{found.parallel} at a time, in {found.waves} rounds"
    return (
        "Asks which of the paper's betas is best here, (0.5, 1) or (0.75, 1), and whether it is better than PPO clip "
        f"(GRPO) and DAPO: {TUNED} configs on {TUNE_SEEDS} tune seeds, then the best and the two baselines on "
        f"{design.confirm} fresh seeds; {found.trials} trials, {waves}. A trial is {design.rollouts} rollouts of "
        f"{design.prompts} prompts x {COMPLETIONS} responses of up to {design.response} tokens."
    )


def _showing(request: Request, found: Fit) -> str:
    design = found.design
    low, high = (difference_shown(design.confirm, design.samples, sd) for sd in (SEED_SD / 2, 2 * SEED_SD))
    return (
        f"Can show: a true difference of {design.smallest_difference:.3f} in avg@{design.samples} with 80 % "
        f"probability. Assumed: training seeds spread that score with sd {SEED_SD:g}, the low end of what this "
        f"service has recorded on its embedded task (bench/recorded_sweeps.json); with {SEED_SD / 2:g} it is "
        f"{low:.3f}, with {2 * SEED_SD:g} {high:.3f}. Sampling the validation problems is counted in. Published, at "
        f"full length and on five benchmarks: {request.recipe.gains}."
    )


def _costs(request: Request, found: Fit) -> str:
    lora, placement = request.recipe.lora, found.placement
    disk = disk_bytes(request.shape, found.trials, found.parallel, lora=lora) / GB
    lies = "one GPU" if placement.gpus == 1 else f"{placement.gpus} GPUs"
    return (
        f"Costs, by arithmetic from data sheets and not measured (docs/recipes.md): {found.expected_hours:.1f} hours "
        f"a trial on {lies} if every response has full length, right within a factor of {UNCERTAINTY:g}; a trial is "
        f"stopped as failed after {found.trial_hours:g}. Memory {placement.used:.0f} of {request.machine.card.memory} "
        f"GB of each GPU at the peak; checkpoints take {disk:.0f} GB of disk. "
        + _published(request.shape, request.machine, lora=lora)
    )


def _published(shape: ModelShape, machine: Machine, *, lora: bool) -> str:
    """What the published run would take, on as few of these cards as hold it."""
    card = machine.card
    places = (place(shape, card, gpus, _PUBLISHED, lora=lora) for gpus in (1, 2, 4, 8))
    placement = next((found for found in places if found), None)
    if placement is None:
        return f"The published training, 1,000 rollouts of 16,384 tokens, does not fit on 8 {machine.name}."
    cost = trial_cost(
        shape,
        card,
        placement,
        _PUBLISHED,
        lora=lora,
        evaluations=_PUBLISHED_EVALUATIONS,
        problems=_PUBLISHED_PROBLEMS,
    )
    hours = float(f"{cost.total / 3600 * placement.gpus:.2g}")
    return (
        f"By the same arithmetic one training as published, 1,000 rollouts of 16,384 tokens, takes {hours:,.0f} "
        "GPU-hours."
    )


def _departure(found: Departure) -> str:
    return f"  {found.name}: {_shown(found.published)} -> {_shown(found.here)}; {found.why}"


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['name']}" if "name" in value else f"rank {value['rank']}"
    return "none" if value is None else value if isinstance(value, str) else scalar(value)


def _remarks(sweep: FittedSweep) -> dict[str, str]:
    """Beside each line what the example has where it differs, and what the sweep's own lines are for."""
    departed = {f"training.{found.name}": f"example: {_shown(found.published)}" for found in sweep.departures}
    own = {
        "training.terms.entropy_bonus": "",
        "training.loss.beta1": "of the base; the space sets it",
        "space.loss.beta1": "the paper's for its 1.5B and for its 7B model",
        "space.loss.beta2": "the paper's",
        "seeds.tune": "to choose",
        "seeds.confirm": "best and baselines",
        "baselines": "beta1 = beta2 = 0, which is GRPO; clip-higher",
        "resources": "of a trial; max_parallel: trials at a time",
        "budget.max_gpu_hours": f"{sweep.request.machine} x {sweep.request.hours:g} hours",
        "budget.max_trial_hours": f"computed: {sweep.fit.expected_hours:.1f}",
        "probe": "measures time and memory before the first trial",
    }
    return departed | own
