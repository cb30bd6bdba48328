"""What the shared evaluation of an initial model follows from: two runs share one exactly where it is the same."""

from typing import Any

import pytest

from trainers.config import TrainingConfig, with_params
from trainers.training import sampling_trainer
from trainers.training.sampling_trainer import initial_evaluation_key

PRETRAINED = {"model": {"name": "pretrained", "model": "acme"}}
VLLM = {**PRETRAINED, "rollout.engine": {"name": "vllm"}}
SAME: dict[str, Any] = {"model": "digest", "recipe": {"asked": "a"}, "seed_derivation": 2, "processes": 1}


def key(settings: dict[str, Any], **others: Any) -> dict[str, Any]:
    return initial_evaluation_key(TrainingConfig.model_validate(with_params({}, settings)), **(SAME | others))


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling_trainer, "vllm_version", lambda: "0.1")


@pytest.mark.parametrize(
    "change",
    [
        {"task.largest": 98},
        {"evaluation.samples_per_problem": 16},
        {"evaluation.temperature": 0.9},
        {"evaluation.top_p": 0.9},
        {"evaluation.sampling_batch": 64},
        {"evaluation.max_completion_tokens": 24},
        {"rollout.max_completion_tokens": 24},
        {"compute.autocast": "bfloat16"},
        {"compute.sharding": "fsdp"},
    ],
)
def test_runs_that_evaluate_otherwise_have_other_keys(change: dict[str, Any]) -> None:
    assert key(change) != key({})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (PRETRAINED, {**PRETRAINED, "model.weights_dtype": "bfloat16", "optimizer.learning_rate": 1e-3}),
        (PRETRAINED, VLLM),
        (VLLM, {**VLLM, "rollout.engine.memory_share": 0.31}),
    ],
)
def test_models_and_engines_are_part_of_it(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert key(one) != key(other)


@pytest.mark.parametrize(
    "change", [{"model": "other"}, {"recipe": {"asked": "b"}}, {"seed_derivation": 1}, {"processes": 2}]
)
def test_what_is_not_configured_is_part_of_it(change: dict[str, Any]) -> None:
    assert key({}, **change) != key({})


def test_the_version_of_vllm_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before, alone = key(VLLM), key({})
    monkeypatch.setattr(sampling_trainer, "vllm_version", lambda: "0.2")
    assert key(VLLM) != before
    assert key({}) == alone


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 5},
        {"steps": 960},
        {"loss.beta1": 0.1},
        {"optimizer.learning_rate": 1e-4},
        {"rollout.temperature": 0.7, "rollout.prompts_per_rollout": 64},
        {"evaluation.every_steps": 3},
        {"evaluation.probe_completions": 0},
    ],
)
def test_settings_of_training_are_not(change: dict[str, Any]) -> None:
    assert key(change) == key({})
