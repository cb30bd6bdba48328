"""Turns a request into a whole sweep, with the list of settings that depart from the published ones."""

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from sweep_service.recipes.design import EVALUATIONS, PROBLEMS, PROMPT_TOKENS, TUNE_SEEDS, UPDATES
from sweep_service.recipes.fit import Fit, fit
from sweep_service.recipes.machines import RecipeError
from sweep_service.recipes.recipe import Request
from trainers.config import DataConfig, TrainingConfig, with_params

_CPUS: Final = 4
"""Number of CPUs for each GPU, for graders and the trainer itself."""
_MAX_HOURS: Final = 10_000
_BASE_SUFFIX: Final = "\nPut the final answer in \\boxed{}.\n"


class Departure(NamedTuple):
    """One setting that differs from the published one."""

    name: str
    published: Any
    here: Any
    why: str


class FittedSweep(NamedTuple):
    """A sweep that fits, as the document of its spec."""

    request: Request
    fit: Fit
    document: dict[str, Any]
    departures: list[Departure]


def fitted_sweep(request: Request) -> FittedSweep:
    """Make the best sweep that fits a request. Raises: RecipeError, if nothing fits."""
    if not 0 < request.hours < _MAX_HOURS:
        raise RecipeError(f"--hours {request.hours:g}: give more than 0 and fewer than {_MAX_HOURS:,} hours")
    way = fit(request)
    document = _document(request, way)
    return FittedSweep(request, way, document, _departures(request, document))


def _document(request: Request, way: Fit) -> dict[str, Any]:
    gpus, seeds, recipe = way.placement.gpus, way.design.confirm, request.recipe
    betas = {"loss.beta1": recipe.beta1, "loss.beta2": recipe.beta2}
    name = f"{request.recipe_name}-{request.machine}-{request.hours:g}h".casefold().replace("_", "-")
    # there is room for responses that are longer than in training, at most the published length
    benchmarks = {"names": [*recipe.benchmarks], "longest": min(16384, 4 * way.design.response)}
    return {
        "name": name.replace("+", "")[:63].rstrip(".-"),
        "training": _training(request, way),
        "space": {name: [*values] if len(values) > 1 else values[0] for name, values in betas.items()},
        "seeds": {
            "tune": list(range(TUNE_SEEDS)),
            "confirm": {"top_k": 1, "seeds": list(range(100, 100 + seeds))},
        },
        "baselines": {"ppo_clip": True, "dapo": True},
        "resources": {"gpus": gpus, "cpus": _CPUS * gpus, "max_parallel": way.parallel},
        "budget": {
            "max_gpu_hours": float(request.machine.gpus * request.hours),
            "max_trial_hours": way.trial_hours,
        },
        "probe": "first",
        **({"benchmarks": benchmarks} if recipe.benchmarks else {}),
    }


def _training(request: Request, way: Fit) -> dict[str, Any]:
    design, placement, problems = way.design, way.placement, request.problems
    training = with_params(request.recipe.training, request.recipe.departures)
    del training["rollout"]["sampling_batch"]
    training["compute"].pop("sharding", None)  # as the machine needs it
    changes: dict[str, Any] = {
        "task.data.ref": problems.name,
        "task.max_prompt_tokens": PROMPT_TOKENS,
        "task.validation_every": max(2, problems.rows // PROBLEMS),
        "model.model": request.shape.name,
        "rollout.prompts_per_rollout": design.prompts,
        "rollout.prompts_per_minibatch": design.prompts // UPDATES,
        "rollout.dynamic_sampling.prompts_per_round": 2 * design.prompts,
        "rollout.max_completion_tokens": design.response,
        "rollout.engine": {"name": "vllm", "memory_share": placement.memory_share},
        "optimizer.warmup_steps": min(80, design.rollouts * UPDATES // 10),
        "evaluation.every_steps": design.rollouts * UPDATES // EVALUATIONS,
        "evaluation.samples_per_problem": design.samples,
        "checkpoint_every_rollouts": design.rollouts // EVALUATIONS,
        "kept_checkpoints": 1,
        "steps": design.rollouts * UPDATES,
        "device_batch": placement.device_batch,
    }
    if placement.sharding != "none":
        changes["compute.sharding"] = placement.sharding
    published = DataConfig.model_validate(training["task"]["data"])
    columns = {"split": problems.split, "prompt": problems.prompt, "answer": problems.answer}
    changes |= {f"task.data.{name}": value for name, value in columns.items() if value != getattr(published, name)}
    if not request.shape.chat_template:
        changes |= {"task.data.template": "raw", "task.data.suffix": _BASE_SUFFIX}
    return with_params(training, changes)


_WHY: Final[dict[str, str]] = {
    "task.data.ref": "asked for with --data",
    "task.data.split": "the dataset's own",
    "task.data.prompt": "the dataset's own; `sweeps plan` shows prompts",
    "task.data.answer": "the dataset's own; `sweeps plan` shows prompts",
    "task.data.suffix": "the model has no chat template",
    "task.data.template": "the model has no chat template",
    "task.max_prompt_tokens": "time and memory; longer problems are left out, counted",
    "task.validation_every": f"about {PROBLEMS} problems, so that the score depends less on which they are",
    "model.model": "asked for with --model",
    "model.weights_dtype": "weights below adapters stay as they are",
    "model.lora": "adapters train in a fraction of the memory",
    "rollout.prompts_per_rollout": "time; the gradient is noisier",
    "rollout.prompts_per_minibatch": f"{UPDATES} updates a rollout, as published: they set how far ratios go from 1",
    "rollout.dynamic_sampling.prompts_per_round": "twice the prompts trained on, as published",
    "rollout.max_completion_tokens": "time; longer responses are cut off and count as wrong (eval/truncated_share)",
    "rollout.sampling_batch": "vLLM makes its own batches",
    "rollout.engine": "as the authors; `engine: {name: transformers}` needs no vLLM and takes several times as long",
    "optimizer.learning_rate": "adapters want about ten times the rate: a rule of thumb, not tried",
    "compute.sharding": "state that does not fit on one GPU is shared out; changes results by rounding only",
    "evaluation.every_steps": f"{EVALUATIONS} evaluations; a score is the mean of the last 3",
    "evaluation.samples_per_problem": "time",
    "checkpoint_every_rollouts": "with evaluations; a crash costs a tenth of a trial at most",
    "kept_checkpoints": "disk",
    "steps": "time; what the paper reports is after all 1,000 rollouts",
    "device_batch": "as memory allows; changes results by rounding only",
    "seeds.tune": "the paper names no seeds; with one alone the choice is mostly luck",
    "benchmarks": "as the paper's tables; their problems are kept apart from training (task.apart_from)",
    "seeds.confirm": "fresh seeds, so that the choice is tested and has an interval",
}


def _departures(request: Request, document: Mapping[str, Any]) -> list[Departure]:
    """Compare the sweep with the published values, setting by setting, in the order of the document."""
    trainings = map(TrainingConfig.model_validate, (request.recipe.training, document["training"]))
    published, here = (_settings(training.model_dump(mode="json")) for training in trainings)
    differing = [name for name in here if here[name] != published.get(name)]
    seeds = document["seeds"]
    rows = [
        *((name, published.get(name), here[name]) for name in differing),
        *(
            (f"space.loss.{name}", request.recipe.training["loss"][name], values)
            for name in ("beta1", "beta2")
            if isinstance(values := document["space"][f"loss.{name}"], list)
        ),
        ("seeds.tune", [0], seeds["tune"]),
        ("seeds.confirm", None, f"the best on {len(seeds['confirm']['seeds'])} seeds"),
        *([("benchmarks", None, ", ".join(names))] if (names := request.recipe.benchmarks) else []),
    ]
    why = _WHY | dict.fromkeys(("space.loss.beta1", "space.loss.beta2"), request.recipe.why_these_betas)
    return [Departure(name, before, after, why[name]) for name, before, after in rows]


_WHOLE: Final = ("model.lora", "rollout.engine")
"""Settings that count as one departure each, however many parts they have."""


def _settings(training: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return all settings by dotted name."""
    settings: dict[str, Any] = {}
    for key, value in training.items():
        is_group = isinstance(value, dict) and prefix + key not in _WHOLE
        settings |= _settings(value, f"{prefix}{key}.") if is_group else {prefix + key: value}
    return settings
