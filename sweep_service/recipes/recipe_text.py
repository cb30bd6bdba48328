"""Writes a fitted sweep as a file: what it asks, what it can show, what it costs, where it departs, and the spec."""

import json
import math
import textwrap
from typing import Any, Final

from sweep_service.intake.spec_check import parse_spec
from sweep_service.recipes.design import COMPLETIONS, SEED_SD, TUNE_SEEDS, difference_shown
from sweep_service.recipes.estimate import GB, UNCERTAINTY, host_bytes
from sweep_service.recipes.fit import Fit
from sweep_service.recipes.fitted_sweep import FittedSweep, fitted_sweep
from sweep_service.recipes.recipe import Request
from trainers.yaml_text import write_yaml

_WIDTH: Final = 118


def write_recipe(request: Request) -> str:
    """Return the sweep's file.

    Raises: RecipeError, if nothing fits; InvalidSpec, if the service refuses what was made.
    """
    sweep = fitted_sweep(request)
    parse_spec(sweep.document)
    return _head(sweep) + write_yaml(sweep.document, width=90, short_lines=True)


def _head(sweep: FittedSweep) -> str:
    request, way = sweep.request, sweep.fit
    host_gb = math.ceil(way.parallel * host_bytes(request.shape, way.placement.gpus, lora=request.recipe.lora) / GB)
    names, benchmarks = " ".join(request.recipe.benchmarks), ""
    if names:
        benchmarks = f", and `sweeps benchmarks add {names}`, whose hours come on top (the plan counts completions)"
    blocks = [
        f"{request.recipe.title}: on {request.shape.name}, fitted to {request.hours:g} hours of {request.machine} by",
        f"  {request.command}",
        "",
        _question(request, way),
        "",
        _smallest_difference(request, way),
        "",
        f"Costs, computed from data sheets and not measured (docs/recipes.md): {way.expected_hours:.1f} hours a trial "
        f"if every response has full length, right within a factor of {UNCERTAINTY:g}; a trial is stopped as failed "
        f"after {way.trial_hours:g}. The sweep begins with a probe, which measures time, memory and disk on your "
        "machine; with `probe: only` it ends there.",
        "",
        f"Needs {host_gb} GB of main memory with all trials of a round at work, computed likewise "
        f"(in the compose file SWEEPS_GPU_MEMORY={host_gb}g).",
        "",
        f"Needs {request.shape.name} and {request.problems.name} in the catalog (`sweeps models add`, `sweeps datasets "
        f"add`){benchmarks}. Run `sweeps plan -f FILE` first.",
        "",
        f"Departs from examples/{request.recipe.source}.yaml, where each value has its source; all else is as there:",
        *(f"  {one.name}: {_shown(one.published)} -> {_shown(one.here)}; {one.why}" for one in sweep.departures),
    ]
    wrap = textwrap.TextWrapper(_WIDTH, break_on_hyphens=False, break_long_words=False)
    lines = list[str]()
    for block in blocks:
        wrap.subsequent_indent = "      " if block.startswith("  ") else ""
        lines += wrap.wrap(block) or [""]
    return "".join(f"# {line}".rstrip() + "\n" for line in lines)


def _question(request: Request, way: Fit) -> str:
    design = way.design
    waves = "all at once" if way.waves == 1 else f"{way.parallel} at a time, in {way.waves} rounds"
    pairs = [f"({beta1:g}, {beta2:g})" for beta1 in request.recipe.beta1 for beta2 in request.recipe.beta2]
    betas = " or ".join(pairs) if len(pairs) == 2 else f"{len(pairs)} pairs"
    return (
        f"Asks which of the paper's betas is best here, {betas}, and whether it is better than PPO clip "
        f"(GRPO) and DAPO: {way.tuned} configs on {TUNE_SEEDS} tune seeds, then the best and the two baselines on "
        f"{design.confirm} fresh seeds; {way.trials} trials, {waves}. A trial is {design.rollouts} rollouts of "
        f"{design.prompts} prompts x {COMPLETIONS} responses of up to {design.response} tokens."
    )


def _smallest_difference(request: Request, way: Fit) -> str:
    design = way.design
    low, high = (difference_shown(design.confirm, design.samples, sd) for sd in (SEED_SD / 2, 2 * SEED_SD))
    return (
        f"Can show: a true difference of {design.smallest_difference:.3f} in avg@{design.samples} with 80 % "
        f"probability. Assumed: training seeds spread that score with sd {SEED_SD:g}, the low end of what this "
        f"service has recorded on its embedded task (bench/recorded_sweeps.json); with {SEED_SD / 2:g} it is "
        f"{low:.3f}, with {2 * SEED_SD:g} {high:.3f}. Sampling the validation problems is counted in. Published, at "
        f"full length and on five benchmarks: {request.recipe.gains}."
    )


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return f"{value['name']}" if "name" in value else f"rank {value['rank']}"
    return "none" if value is None else value if isinstance(value, str) else json.dumps(value)
