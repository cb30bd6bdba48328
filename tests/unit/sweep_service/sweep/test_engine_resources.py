"""A sweep whose trials cannot run vLLM with the resources that they get is refused at submission, with a pointer."""

from typing import Any

import pytest

from sweep_service.errors import InvalidSpec
from sweep_service.intake.spec_check import parse_spec

TRAINING: dict[str, Any] = {
    "model": {"name": "pretrained", "model": "some"},
    "task": {"name": "word_problems"},
    "rollout": {"engine": {"name": "vllm"}},
    "device_batch": 8,
}


def spec(resources: dict[str, Any], engine: dict[str, Any] | None = None) -> dict[str, Any]:
    training = {**TRAINING, "rollout": {"engine": {"name": "vllm", **(engine or {})}}}
    space = {"loss.beta1": {"type": "categorical", "choices": [0.5, 0.75]}}
    return {"name": "s", "training": training, "space": space, "resources": resources}


@pytest.mark.parametrize(
    ("resources", "engine", "pointer", "reason"),
    [
        ({}, {}, "/resources/gpus", "gpus 0: rollouts by vLLM need whole GPUs; give 1 or more"),
        ({"gpus": 0.5}, {}, "/resources/gpus", "gpus 0.5: rollouts by vLLM need whole GPUs"),
        ({"gpus": 2}, {"mode": "server", "server_gpus": 2}, "/resources/gpus", "vLLM's server takes 2"),
        (
            {"gpus": 2},
            {"tensor_parallel": 4},
            "/training/rollout/engine/tensor_parallel",
            "2 processes cannot form groups",
        ),
    ],
)
def test_resources_that_vllm_cannot_use(
    resources: dict[str, Any], engine: dict[str, Any], pointer: str, reason: str
) -> None:
    with pytest.raises(InvalidSpec) as caught:
        parse_spec(spec(resources, engine))
    assert [(error.pointer, reason in error.detail) for error in caught.value.errors] == [(pointer, True)]


def test_resources_that_it_can_use() -> None:
    for resources, engine, processes in (
        ({"gpus": 1}, {}, 1),
        ({"gpus": 4}, {"tensor_parallel": 2}, 4),
        ({"gpus": 4}, {"mode": "server", "server_gpus": 2}, 2),
    ):
        parsed = parse_spec(spec(resources, engine))
        assert parsed.resources.processes_for(parsed.base) == processes
