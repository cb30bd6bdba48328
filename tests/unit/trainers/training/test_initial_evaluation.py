"""What the shared evaluation of an initial model follows from: two runs share one exactly where it is the same."""

from typing import Any

import pytest

from tests.unit.trainers.training.bare_trainers import config
from trainers.config import ComputeConfig, EvaluationConfig, TrainingConfig, VLLMEngine
from trainers.training import sampling_trainer
from trainers.training.sampling_trainer import initial_evaluation_key

PRETRAINED = {"name": "pretrained", "model": "acme"}
VLLM = {"model": PRETRAINED, "rollout__engine": {"name": "vllm"}}
SAME: dict[str, Any] = {"model": "digest", "recipe": {"asked": "a"}, "processes": 1}

OTHERS: dict[str, dict[str, Any]] = {
    "compute": {"autocast": "bfloat16", "gradient_checkpointing": True, "sharding": "fsdp"},
    "evaluation": {
        "samples_per_problem": 16,
        "pass_k": 4,
        "temperature": 0.9,
        "top_p": 0.9,
        "max_completion_tokens": 24,
        "sampling_batch": 64,
        "shown_samples": 3,
    },
    "rollout.engine": {
        "mode": "server",
        "memory_share": 0.31,
        "tensor_parallel": 2,
        "max_length": 4096,
        "sleep": False,
        "server_gpus": 2,
        "correction": "token_truncate",
        "correction_cap": 3.0,
    },
}
"""Another value of every setting of a group that an evaluation may follow from."""
NO_PART: dict[str, Any] = {"compute": {}, "evaluation": {"every_steps": 16, "probe_completions": 0}}
"""Those from which none does."""
TOGETHER = {"server_gpus": {"mode": "server"}, "correction_cap": {"correction": "token_truncate"}}
"""What a setting cannot be without; the engine that has only this is the one to compare with."""


def key(settings: dict[str, Any], **others: Any) -> dict[str, Any]:
    return initial_evaluation_key(config(**settings), **(SAME | others))


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_trainer, "vllm_version", lambda: "0.1")


@pytest.mark.parametrize(
    ("group", "kind"), [("compute", ComputeConfig), ("evaluation", EvaluationConfig), ("rollout.engine", VLLMEngine)]
)
def test_every_setting_of_an_evaluation_is_part_of_it_or_listed_as_none(group: str, kind: Any) -> None:
    of_vllm, no_part = ({"name": "vllm"}, {}) if kind is VLLMEngine else ({}, NO_PART[group])
    assert {*OTHERS[group], *of_vllm, *no_part} == kind.model_fields.keys()

    def key_with(values: dict[str, Any]) -> dict[str, Any]:
        return key({"model": PRETRAINED, group: of_vllm | values})

    for name, value in OTHERS[group].items():
        needed = TOGETHER.get(name, {})
        assert key_with(needed | {name: value}) != key_with(needed), name
    assert key_with(no_part) == key_with({})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({}, {"task__largest": 98}),
        ({}, {"rollout__max_completion_tokens": 24}),
        ({"model": PRETRAINED}, {"model": PRETRAINED | {"weights_dtype": "bfloat16"}}),
        ({"model": PRETRAINED}, VLLM),
    ],
)
def test_runs_that_evaluate_otherwise_have_other_keys(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert key(one | {"optimizer__learning_rate": 1e-3}) != key(other | {"optimizer__learning_rate": 1e-3})


@pytest.mark.parametrize("change", [{"model": "other"}, {"recipe": {"asked": "b"}}, {"processes": 2}])
def test_what_is_not_configured_is_part_of_it(change: dict[str, Any]) -> None:
    assert key({}, **change) != key({})


def test_the_version_of_vllm_is_part_of_it_where_vllm_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    before, alone = key(VLLM), key({})
    monkeypatch.setattr(sampling_trainer, "vllm_version", lambda: "0.2")
    assert key(VLLM) != before
    assert key({}) == alone


TRAINING: dict[str, dict[str, Any]] = {
    "loss": {"loss__beta1": 0.1},
    "advantage": {"advantage__normalize_std": False},
    "aggregation": {"aggregation__denominator": "active"},
    "terms": {"terms__positive_nll": 0.1},
    "critic": {"critic": {}},
    "rollout": {"rollout__temperature": 0.7, "rollout__prompts_per_rollout": 64},
    "optimizer": {"optimizer__learning_rate": 1e-4},
    "steps": {"steps": 960},
    "device_batch": {"device_batch": 32},
    "checkpoint_every_rollouts": {"checkpoint_every_rollouts": 3},
    "kept_checkpoints": {"kept_checkpoints": 3},
    "keep_best": {"keep_best": True},
    "seed": {"seed": 5},
}


def test_settings_of_training_are_not() -> None:
    assert TRAINING.keys() | {"task", "model", "compute", "evaluation"} == TrainingConfig.model_fields.keys()
    for change in TRAINING.values():
        assert key(change) == key({}), change
