"""The recipes: models, data and published trainings. The published values are those of examples/paper_*.yaml."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from search_spaces.presets import PRESETS
from sweep_service.recipes.machines import Machine, RecipeError
from trainers.catalog.entries import DatasetEntry, ModelEntry, read_entry
from trainers.catalog.row_files import ANSWER_COLUMNS, PROMPT_COLUMNS, likely_columns
from trainers.config import with_params
from trainers.errors import ConfigError


class ModelShape(NamedTuple):
    """The sizes of a decoder-only transformer on which time and memory depend; names as in `ModelEntry`."""

    name: str
    parameters: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    context_length: int | None
    """Largest number of tokens of a prompt and its response together; None if it is not known."""
    chat_template: bool

    @property
    def kv_bytes(self) -> int:
        """Bytes of one token's keys and values, in bfloat16."""
        return 2 * 2 * self.num_layers * self.num_kv_heads * self.hidden_size // self.num_heads


KNOWN: Final = {
    shape.name: shape
    for shape in (
        ModelShape("deepseek-r1-distill-qwen-1.5b", 1_777_088_000, 1536, 28, 12, 2, 131_072, chat_template=True),
        ModelShape("deepseek-r1-distill-qwen-7b", 7_615_616_512, 3584, 28, 28, 4, 131_072, chat_template=True),
    )
}
"""The recipes' own models, so that a sweep can be planned before they are in the catalog."""


def find_model(cache: Path, name: str) -> ModelShape:
    """Return the sizes of the model of this name in the catalog, or among those that the recipes know.

    Raises: RecipeError, if it is in neither.
    """
    try:
        return ModelShape(**read_entry(cache, ModelEntry, name).model_dump(include=set(ModelShape._fields)))
    except ConfigError as error:
        if name in KNOWN:
            return KNOWN[name]
        raise RecipeError(f"--model: {error}") from error


class Problems(NamedTuple):
    """A dataset to train on, with the names of its columns."""

    name: str
    rows: int
    split: str = "train"
    prompt: str = "problem"
    answer: str = "answer"


MATH_SUB: Final = Problems("klear-mathsub-30k", 30_000)
"""The recipes' own dataset."""


def find_problems(cache: Path, name: str | None) -> Problems:
    """Return the dataset of this name in the catalog, or the recipes' own.

    Raises: RecipeError, if the catalog has none, or its columns do not have the usual names.
    """
    if name in (None, MATH_SUB.name):
        return MATH_SUB
    try:
        entry = read_entry(cache, DatasetEntry, name)
    except ConfigError as error:
        raise RecipeError(f"--data: {error}") from error
    prompt, answer = likely_columns(entry.columns)
    if prompt is None or answer is None:
        missing, names = ("problem", PROMPT_COLUMNS) if prompt is None else ("answer", ANSWER_COLUMNS)
        raise RecipeError(
            f"{entry.name} has the columns {', '.join(entry.columns)}, and none has a usual name of the {missing} "
            f"({', '.join(names)}); write the recipe without --data and set task.data yourself (docs/tasks.md)"
        )
    split = "train" if "train" in entry.splits else max(entry.splits, key=lambda name: entry.splits[name])
    return Problems(entry.name, entry.splits[split], split, prompt, answer)


class Recipe(NamedTuple):
    """A published training, and the sweep around it."""

    title: str
    model: str
    source: str
    """Name of the example that holds the published values, each with its source."""
    training: Mapping[str, Any]
    """The published values."""
    gains: str
    """Published differences in the mean score over five mathematical benchmarks."""
    departures: Mapping[str, Any] = {}
    """Values by dotted name that the recipe replaces in `training` on every machine."""
    beta1: Sequence[float] = (0.5, 0.75)
    """Values tried; usually the paper's settings with beta2 = 1, for its 1.5B and for its 7B model."""
    beta2: Sequence[float] = (1.0,)
    why_these_betas: str = "both of the paper's settings are tried; it picked one by model size"
    benchmarks: Sequence[str] = ()
    """Benchmarks on which the confirmed models are measured."""

    @property
    def tuned(self) -> int:
        """Number of configs of the tune stage: the points, PPO clip, DAPO."""
        return len(self.beta1) * len(self.beta2) + 2

    @property
    def lora(self) -> bool:
        """True if the recipe trains adapters only."""
        return "model.lora" in self.departures


def _choices(name: str) -> list[float]:
    """Return the values of a parameter in the preset of the paper's grid."""
    return [float(str(value)) for value in PRESETS["ce_gppo_beta_grid"].root[name].edges]


_PAPER: Final[dict[str, Any]] = {
    "task": {
        "name": "word_problems",
        "data": {"ref": MATH_SUB.name, "suffix": "", "template": "chat"},
        "reward": "math",
        "max_prompt_tokens": 4096,
        "validation_every": 500,
    },
    "model": {"name": "pretrained", "model": "deepseek-r1-distill-qwen-1.5b"},
    "loss": {"name": "ce_gppo", "epsilon": 0.2, "dual_clip": 10.0, "beta1": 0.5, "beta2": 1.0},
    "advantage": {"normalize_std": True, "epsilon": 1e-6},
    "aggregation": {"mode": "token_mean", "denominator": "active"},
    "terms": {"positive_nll": 0.1, "entropy_bonus": {"coefficient": 0}},
    "rollout": {
        "prompts_per_rollout": 128,
        "completions_per_prompt": 8,
        "prompts_per_minibatch": 16,
        "dynamic_sampling": {"prompts_per_round": 256, "max_rounds": 1},
        "max_completion_tokens": 16384,
        "overlong": None,
        "temperature": 1.0,
        "top_p": 1.0,
        "sampling_batch": 64,
    },
    "optimizer": {
        "learning_rate": 1e-6,
        "warmup_steps": 80,
        "weight_decay": 0.1,
        "max_grad_norm": 1.0,
        "adam_beta1": 0.9,
        "adam_beta2": 0.999,
    },
    "compute": {"autocast": "bfloat16", "gradient_checkpointing": True},
    "evaluation": {
        "every_steps": 40,
        "samples_per_problem": 32,
        "temperature": 0.6,
        "top_p": 0.95,
        "sampling_batch": 64,
    },
    "checkpoint_every_rollouts": 5,
    "steps": 8000,
    "device_batch": 4,
}
_PAPER_7B: Final = with_params(
    _PAPER,
    {
        "model.model": "deepseek-r1-distill-qwen-7b",
        "loss.beta1": 0.75,
        "rollout.sampling_batch": 32,
        "evaluation.sampling_batch": 32,
        "compute.sharding": "fsdp",
        "device_batch": 1,
    },
)

_PAPER_RECIPE: Final = Recipe(
    "CE-GPPO, arXiv:2509.20712, its 1.5B model",
    "deepseek-r1-distill-qwen-1.5b",
    "paper_1_5b_ce_gppo",
    _PAPER,
    "0.058 over GRPO and 0.025 over DAPO",
)
RECIPES: Final[dict[str, Recipe]] = {
    "paper_1_5b": _PAPER_RECIPE,
    "paper_1_5b_beta_grid": _PAPER_RECIPE._replace(
        title="CE-GPPO, arXiv:2509.20712, its grid of betas, its 1.5B model",
        beta1=_choices("loss.beta1"),
        beta2=_choices("loss.beta2"),
        why_these_betas="all values that the paper compares (Fig. 3); it shows some of their pairs, one run each",
        benchmarks=("aime24", "aime25", "hmmt25", "math500", "amc23"),
    ),
    "paper_7b": Recipe(
        "CE-GPPO, arXiv:2509.20712, its 7B model",
        "deepseek-r1-distill-qwen-7b",
        "paper_7b_ce_gppo",
        _PAPER_7B,
        "0.070 over GRPO and 0.030 over DAPO",
    ),
    "small_lora": _PAPER_RECIPE._replace(
        title="CE-GPPO with LoRA adapters, for small cards",
        departures={
            "model.weights_dtype": "bfloat16",
            "model.lora": {"rank": 32, "alpha": 64.0},
            "optimizer.learning_rate": 1e-5,
        },
    ),
}


class Request(NamedTuple):
    """A recipe, the machine and hours it must fit, and the model and data to take."""

    recipe_name: str
    machine: Machine
    hours: float
    model: ModelShape | None = None
    """The model to train; None for the recipe's own."""
    problems: Problems = MATH_SUB

    @property
    def recipe(self) -> Recipe:
        """The recipe of this name."""
        return RECIPES[self.recipe_name]

    @property
    def shape(self) -> ModelShape:
        """The model to train."""
        return self.model or KNOWN[self.recipe.model]

    @property
    def command(self) -> str:
        """The command that writes the same file again."""
        parts = [f"sweeps recipe {self.recipe_name} --gpus {self.machine} --hours {self.hours:g}"]
        parts += [f"--model {self.shape.name}"] if self.shape.name != self.recipe.model else []
        parts += [f"--data {self.problems.name}"] if self.problems.name != MATH_SUB.name else []
        return " ".join(parts)
