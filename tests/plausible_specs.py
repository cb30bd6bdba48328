"""Specs that somebody could mean: every loss, engine, policy, task and strategy, in sizes that fit each other."""

from collections.abc import Iterator
from random import Random
from typing import Any

from search_spaces.strategies import DRAWING
from tests.losses.all_cases import CASES

MODELS = ("base", "chat")
DATASET = "exam"
"""What the specs name: a model without and one with a chat template, a dataset with splits train and test, its columns
question, answer and level."""

SCALARS: dict[str, list[Any]] = {
    "optimizer.learning_rate": [1e-6, 3e-6, 1e-5],
    "optimizer.weight_decay": [0, 0.1],
    "optimizer.max_grad_norm": [0.2, 1.0],
    "rollout.temperature": [0.8, 1.0],
    "terms.positive_nll": [0, 0.1],
    "terms.entropy_bonus.coefficient": [0, 0.001],
    "advantage.normalize_std": [True, False],
    "advantage.entropy.alpha": [0.1, 0.4],
    "advantage.entropy_reward.level": ["token", "sequence"],
    "advantage.positive_weight.weight": [0, 0.5, 1],
    "aggregation.denominator": ["window", "active"],
}
OF_LOSS = {name: case.searched for name, case in CASES.items()}


def plausible_specs(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """Yield specs; one seed gives the same ones."""
    random = Random(seed)
    for index in range(number):
        pretrained = random.random() < 0.6
        resources = _resources(random, pretrained)
        served = resources.pop("served")
        processes = max(1, int(resources.get("gpus", 0)) - served)
        loss = list(OF_LOSS)[index % len(OF_LOSS)]
        training = {
            "task": _task(random, pretrained),
            "model": _model(random) if pretrained else {"name": "tiny_qwen2", "hidden_size": 32},
            "loss": {"name": loss} | ({"erc": {"mode": "mask", "low": 0.95}} if loss == "dapo" else {}),
            "rollout": _rollout(random, processes, served, pretrained and resources.get("gpus", 0) >= 1),
            "evaluation": {"every_steps": random.choice((8, 40)), "samples_per_problem": random.choice((8, 32))},
            "checkpoint_every_rollouts": random.choice((1, 5, 10)),
        }
        minibatch = training["rollout"]["prompts_per_minibatch"] * training["rollout"]["completions_per_prompt"]
        training["device_batch"] = random.choice([size for size in (1, 2, 4, 8) if minibatch // processes % size == 0])
        updates = training["rollout"]["prompts_per_rollout"] // training["rollout"]["prompts_per_minibatch"]
        training["steps"] = updates * random.choice((10, 60, 500))
        if processes > 1 and random.random() < 0.5 and "lora" not in training["model"]:
            training["compute"] = {"sharding": random.choice(("fsdp", "zero2", "zero3")), "autocast": "bfloat16"}
        if loss == "ce_gppo" and random.random() < 0.3:
            training["loss"]["schedule"] = [
                {"step": updates, "beta1": 0.5},
                {"step": 2 * updates, "beta2": 0, "ramp": 4},
            ]
        yield {
            "name": f"plausible-{index}",
            "labels": random.choice(({}, {"team": "rl", "goal": "\N{GREEK SMALL LETTER BETA}"})),
            "training": training,
            **_search(random, loss),
            "seeds": _seeds(random),
            "baselines": {"dapo": random.random() < 0.5},
            "objective": {"metric": random.choice(("eval/avg_at_k", "eval/pass_at_k")), "last": random.choice((1, 3))},
            "resources": resources,
            "budget": _budget(random, resources),
            "retries": {"max_crashes": random.choice((0, 3))},
        }


def _resources(random: Random, pretrained: bool) -> dict[str, Any]:
    if not pretrained:
        return {"cpus": random.choice((0.5, 1, 2.5)), "max_parallel": random.choice((1, 2, 8)), "served": 0}
    gpus, served = random.choice(((0.5, 0), (1, 0), (2, 0), (4, 0), (8, 0), (3, 1), (6, 2)))
    return {"cpus": 8, "gpus": gpus, "served": served}


def _model(random: Random) -> dict[str, Any]:
    model: dict[str, Any] = {"name": "pretrained", "model": random.choice(MODELS)}
    if random.random() < 0.4:
        model["lora"] = {"rank": random.choice((2, 4)), "alpha": 32, "target_modules": ["q_proj", "v_proj"]}
        model["weights_dtype"] = random.choice(("float32", "bfloat16"))
    return model


def _task(random: Random, pretrained: bool) -> dict[str, Any]:
    if not pretrained:
        return random.choice(
            ({"name": "expressions"}, {"name": "countdown", "problems": 500}, {"name": "word_problems"})
        )
    data: dict[str, Any] = {
        "ref": DATASET,
        "prompt": "question",
        "answer": "answer",
        "suffix": "\nAnswer in \\boxed{}.",
    }
    data |= random.choice(
        ({}, {"filter": {"level": [1, 2]}}, {"system": "Reason step by step."}, {"answer_boxed": True})
    )
    task = {
        "name": "word_problems",
        "data": data,
        "max_prompt_tokens": 256,
        "reward": random.choice(("math", "number")),
    }
    return task | random.choice(({}, {"validation": {"split": "test", "problems": 64}}, {"validation_every": 20}))


def _rollout(random: Random, processes: int, served: int, vllm: bool) -> dict[str, Any]:
    minibatch = processes * random.choice((1, 2, 4))
    rollout: dict[str, Any] = {
        "prompts_per_minibatch": minibatch,
        "prompts_per_rollout": minibatch * random.choice((2, 4, 8)),
        "completions_per_prompt": random.choice((8, 16)),
        "max_completion_tokens": random.choice((64, 1024)),
    }
    if served:
        rollout["engine"] = {"name": "vllm", "mode": "server", "server_gpus": served}
    elif vllm and random.random() < 0.6:
        rollout["engine"] = {
            "name": "vllm",
            "memory_share": 0.4,
            "correction": random.choice(("off", "token_truncate")),
        }
    if random.random() < 0.3:
        rollout["dynamic_sampling"] = {"prompts_per_round": rollout["prompts_per_rollout"], "max_rounds": 3}
    if random.random() < 0.3:
        rollout["overlong"] = {"cache_tokens": 16}
    return rollout


def _search(random: Random, loss: str) -> dict[str, Any]:
    names = {f"loss.{name}": values for name, values in OF_LOSS[loss].items()} | SCALARS
    own = [name for name in names if name.startswith("loss.")]
    chosen = random.sample(own, random.choice((1, 2))) + random.sample(list(SCALARS), random.choice((0, 1)))
    space: dict[str, Any] = {name: names[name] for name in chosen}
    if random.random() < 0.5:
        return {"space": space, "search": {"strategy": "grid"}}
    space["optimizer.learning_rate"] = {"type": "float", "low": 1e-7, "high": 1e-4, "log": True}
    search = {"strategy": random.choice(DRAWING), "num_configs": random.choice((5, 100)), "seed": 7}
    return {"space": space, "search": search}


def _seeds(random: Random) -> dict[str, Any]:
    tune = list(range(random.choice((1, 2, 5))))
    confirm = {"top_k": random.choice((1, 2)), "seeds": list(range(100, 100 + random.choice((3, 5, 10))))}
    return {"tune": tune} | random.choice(({}, {"confirm": confirm}))


def _budget(random: Random, resources: dict[str, Any]) -> dict[str, Any]:
    if random.random() < 0.5:
        return {}
    limit = {"max_trial_hours": random.choice((0.5, 6))}
    return limit | ({"max_gpu_hours": 50_000} if resources.get("gpus") else {})
