"""The sweeps in examples/ bind, and the paper's have the values of the paper and its recipes, each with its source."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from search_spaces.presets import PRESETS
from sweep_service.cli.spec_file import read_spec
from sweep_service.intake.spec_check import parse_spec
from sweep_service.sweep.own_trainer import OwnConfig
from sweep_service.sweep.plan import first_records, make_plan, stage_counts
from sweep_service.sweep.points import setting
from sweep_service.sweep.records import Role
from sweep_service.sweep.spec import SweepSpec
from tests.unit.trainers.tasks.chats import add_benchmark, add_dataset, chatml_tokenizer, deepseek_tokenizer
from trainers.config import PretrainedModel, TrainingConfig, WordProblemsTask
from trainers.tasks.prompted_problems import PromptedProblems
from trainers.tasks.word_problems import WordProblems

EXAMPLES = Path(__file__).parents[3] / "examples"
NAMES = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
PAPER = [name for name in NAMES if name.startswith("paper_")]

COMMON: dict[str, Any] = {
    "task.name": "word_problems",
    "task.data.ref": "klear-mathsub-30k",
    "task.data.suffix": "",
    "task.data.template": "chat",
    "task.reward": "math",
    "task.max_prompt_tokens": 4096,
    "advantage.normalize_std": True,
    "advantage.epsilon": 1e-6,
    "aggregation.denominator": "active",
    "terms.positive_nll": 0.1,
    "terms.entropy_bonus.coefficient": 0,
    "rollout.prompts_per_rollout": 128,
    "rollout.completions_per_prompt": 8,
    "rollout.prompts_per_minibatch": 16,
    "rollout.dynamic_sampling.prompts_per_round": 256,
    "rollout.dynamic_sampling.max_rounds": 1,
    "rollout.max_completion_tokens": 16384,
    "rollout.overlong": None,
    "rollout.temperature": 1.0,
    "rollout.top_p": 1.0,
    "optimizer.learning_rate": 1e-6,
    "optimizer.warmup_steps": 10 * 8,
    "optimizer.weight_decay": 0.1,
    "optimizer.max_grad_norm": 1.0,
    "optimizer.adam_beta1": 0.9,
    "optimizer.adam_beta2": 0.999,
    "model.weights_dtype": "float32",
    "model.lora": None,
    "compute.autocast": "bfloat16",
    "compute.gradient_checkpointing": True,
    "evaluation.every_steps": 5 * 8,
    "evaluation.samples_per_problem": 32,
    "evaluation.temperature": 0.6,
    "evaluation.top_p": 0.95,
    "checkpoint_every_rollouts": 5,
    "steps": 1000 * 8,
}
MODELS = {"1_5b": "deepseek-r1-distill-qwen-1.5b", "7b": "deepseek-r1-distill-qwen-7b"}

PPO = {"epsilon_low": 0.2, "epsilon_high": 0.2, "dual_clip": 10.0}
DAPO = PPO | {"name": "dapo", "epsilon_high": 0.28}
OF_BOTH_SIZES: dict[str, dict[str, Any]] = {
    "grpo": PPO | {"name": "grpo"},
    "dapo": DAPO | {"erc": None},
    "cispo": {"name": "cispo", "epsilon_low": 0.2, "epsilon_high": 0.2},
    "gspo": {"name": "gspo", "epsilon_low": 3e-4, "epsilon_high": 4e-4},
    "erc": DAPO | {"erc": {"mode": "mask", "low": 0.95, "high": 1.05}},
}
CE_GPPO = PPO | {"name": "ce_gppo", "beta2": 1.0, "erc": None}
LOSSES: dict[str, dict[str, Any]] = {
    **{f"paper_{size}_{arm}": loss for size in MODELS for arm, loss in OF_BOTH_SIZES.items()},
    "paper_1_5b_ce_gppo": CE_GPPO | {"beta1": 0.5, "schedule": []},
    "paper_7b_ce_gppo": CE_GPPO | {"beta1": 0.75, "schedule": []},
    "paper_1_5b_beta_grid": CE_GPPO | {"beta1": 0.5, "schedule": []},
    "paper_1_5b_beta_schedule": CE_GPPO
    | {"beta1": 0.0, "schedule": [{"step": 585 * 8, "beta1": 0.5, "beta2": None, "ramp": 0}]},
}


def load(name: str) -> SweepSpec:
    return parse_spec(read_spec(str(EXAMPLES / f"{name}.yaml")))


@pytest.mark.parametrize("name", NAMES)
def test_an_example_can_be_planned_and_every_point_binds(name: str) -> None:
    spec = load(name)
    assert make_plan(spec, 1.0).hours > 0
    points = list(spec.space.grid() if spec.space.size else spec.space.corners())
    kind = TrainingConfig if spec.trainer is None else OwnConfig
    assert all(isinstance(spec.at(point).training, kind) for point in points)


def test_the_demo_measures_its_confirmed_models_on_problems_that_it_keeps_apart() -> None:
    spec = load("demo")
    assert setting(spec.base, "task.apart_from") == ["expressions"]
    plan = make_plan(spec, 1.0, problems={"expressions": 24})
    assert plan.benchmarks is not None
    assert (plan.benchmarks.models, plan.trials["confirm"]) == (13, 12)  # those, and the initial one


def test_every_recipe_of_the_paper_is_there() -> None:
    assert set(LOSSES) == set(PAPER)


@pytest.mark.parametrize("name", PAPER)
def test_a_recipe_has_the_values_of_its_sources(name: str) -> None:
    spec = load(name)
    point, *others = spec.space.grid()
    training = spec.base
    # the space says what is the point of the sweep, not what else it trains
    assert others or spec.bind(point) == training.model_copy(update={"task": spec.bind(point).task})
    assert {dotted: setting(training, dotted) for dotted in COMMON} == COMMON
    size = "7b" if "_7b_" in name else "1_5b"
    assert isinstance(training.model, PretrainedModel)
    assert training.model.model == MODELS[size]
    loss = training.loss.model_dump(mode="json")
    assert loss == loss | LOSSES[name]
    mode = training.loss.fixed_aggregation or training.aggregation.mode
    assert mode == ("seq_mean_token_mean" if name.endswith("gspo") else "token_mean")


@pytest.mark.parametrize("size", MODELS)
def test_baselines_differ_from_ce_gppo_in_the_loss_only(size: str) -> None:
    def rest(name: str) -> dict[str, Any]:
        dump = load(name).base.model_dump(exclude={"loss"})
        dump["task"]["apart_from"] = ()  # benchmarks are kept apart from
        if name == "paper_1_5b_beta_grid":
            dump["rollout"] |= {"engine": {"name": "transformers"}, "sampling_batch": 64}
        return dump | {"aggregation": dump["aggregation"]["denominator"]}

    assert all(rest(name) == rest(f"paper_{size}_ce_gppo") for name in PAPER if f"_{size}_" in name)


def test_the_grid_is_the_paper_s_with_its_benchmarks_and_fresh_seeds() -> None:
    spec = load("paper_1_5b_beta_grid")
    assert spec.space == PRESETS["ce_gppo_beta_grid"]
    assert spec.benchmarks is not None
    assert spec.benchmarks.names == ("aime24", "aime25", "hmmt25", "math500", "amc23")
    assert stage_counts(spec) == (34, 15)


@pytest.mark.parametrize("size", MODELS)
def test_the_ce_gppo_recipe_brings_its_grpo_and_dapo(size: str) -> None:
    spec = load(f"paper_{size}_ce_gppo")
    losses = {config.roles[0]: config.training["loss"] for config in first_records(spec, "swp")[0]}
    assert losses[Role.BASELINE] == losses[Role.BASELINE] | PPO | {"name": "ce_gppo", "beta1": 0.0, "beta2": 0.0}
    assert losses[Role.DAPO] == load(f"paper_{size}_dapo").base.loss.model_dump(mode="json")


@pytest.mark.parametrize("name", PAPER)
def test_every_value_of_a_recipe_names_its_source(name: str) -> None:
    text = (EXAMPLES / f"{name}.yaml").read_text()
    training = text[text.index("\ntraining:") : text.index("\nspace:")].splitlines()[2:]
    named = {"name: word_problems", "name: pretrained", "mode: mask", f"name: {LOSSES[name]['name']}"}
    lines = [line.strip() for line in training if not line.endswith(":") and line.strip() not in named]
    sourced = re.compile(r"[^#]+: .+# (P\b|R\b|V\b|E\b|the same|departs, \d|ours|GSPO's own)")
    assert [line for line in lines if not sourced.match(line)] == []


@pytest.mark.parametrize("name", PAPER)
def test_every_departure_that_a_value_names_is_listed(name: str) -> None:
    listed = (EXAMPLES / f"paper_{'7b' if '_7b_' in name else '1_5b'}_ce_gppo.yaml").read_text()
    named = {*re.findall(r"departs, (\d)", (EXAMPLES / f"{name}.yaml").read_text())}
    assert {*"134567"} <= named <= {*re.findall(r"\n#  (\d)\. ", listed)}


def test_a_recipe_s_prompt_is_the_model_s_chat(tmp_path: Path) -> None:
    task = load("paper_7b_ce_gppo").base.task
    assert isinstance(task, WordProblemsTask)
    rows = [{"problem": f"What is {n} + 1?", "answer": str(n + 1)} for n in range(1000)]
    add_dataset(tmp_path, task.data.ref, {"train": rows})
    problems = WordProblems(task.model_copy(update={"reward": "exact"}), tmp_path)
    asked = PromptedProblems(problems, deepseek_tokenizer())
    bar, gap = "\N{FULLWIDTH VERTICAL LINE}", "\N{LOWER ONE EIGHTH BLOCK}"
    begin = f"<{bar}begin{gap}of{gap}sentence{bar}>"
    assert asked.training[0].prompt == f"{begin}<{bar}User{bar}>What is 0 + 1?<{bar}Assistant{bar}><think>\n"
    assert (len(asked.training), len(asked.validation)) == (998, 2)


ROWS: dict[str, list[dict[str, Any]]] = {
    "gsm8k": [{"question": f"{n} + 0?", "answer": f"{n}\n#### {n}"} for n in range(40)],
    "my-math": [
        {"problem": f"{n} + 0?", "solution": rf"So \boxed{{{n}}}.", "level": f"Level {n % 5 + 1}"} for n in range(40)
    ],
    "bookkeeping": [{"text": f"{n} + 0?", "result": n, "checked": "yes" if n % 2 else "no"} for n in range(40)],
    "my-problems": [{"question": f"{n} + 0?", "answer": n} for n in range(40)],
}


def mapped() -> list[dict[str, Any]]:
    """The tasks that docs/tasks.md and the example with own data show."""
    shown = re.findall(r"```yaml\n(.*?)```", (EXAMPLES.parent / "docs" / "tasks.md").read_text(), re.DOTALL)
    return [*(yaml.safe_load(text)["task"] for text in shown if "data:" in text), load("own_data").training["task"]]


@pytest.mark.parametrize("task", mapped(), ids=lambda task: task["data"]["ref"])
def test_a_shown_mapping_reads_rows_of_its_form(tmp_path: Path, task: dict[str, Any]) -> None:
    rows = ROWS[task["data"]["ref"]]
    others = [row | {"problem": f"{n} + 1?"} for n, row in enumerate(rows)]
    add_dataset(tmp_path, task["data"]["ref"], {"train": rows, "test": others})
    for name in task.get("apart_from", ()):
        add_benchmark(tmp_path, name, ["7 + 0?"])
    problems = WordProblems(WordProblemsTask.model_validate(task | {"reward": "exact"}), tmp_path)
    asked = PromptedProblems(problems, chatml_tokenizer())
    assert asked.training[0].answer.isdecimal()
    assert f"{asked.training[0].answer} + 0?" in asked.training[0].prompt
    assert len(asked.training) >= 18
    assert set(asked.record.left_out) <= {"filter", "like_benchmark"}
