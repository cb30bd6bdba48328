"""The settings of rollouts by vLLM: what follows from what, and what is refused with which remedy."""

from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from tests.unit.trainers.training.bare_trainers import config
from trainers.config import TransformersEngine, VLLMEngine
from trainers.config.several_processes import sharing_refusals
from trainers.errors import ConfigError
from trainers.rollouts.vllm_engine import engine_problems, refuse_missing

BASE: dict[str, Any] = {
    "model": {"name": "pretrained", "model": "some"},
    "task": {"name": "word_problems", "max_prompt_tokens": 100},
    "rollout": {"max_completion_tokens": 400, "engine": {"name": "vllm"}},
    "evaluation": {"max_completion_tokens": 900},
}


def test_what_is_left_out_follows_from_mode_and_correction() -> None:
    assert VLLMEngine() == VLLMEngine(mode="colocate", memory_share=0.3, sleep=True, tensor_parallel=1, server_gpus=0)
    server = VLLMEngine(mode="server", server_gpus=4)
    assert (server.tensor_parallel, server.memory_share, server.sleep) == (4, 0.9, False)
    assert VLLMEngine(mode="server", tensor_parallel=2).server_gpus == 2
    assert VLLMEngine(mode="server").server_gpus == 1
    assert VLLMEngine().correction_cap is None
    assert VLLMEngine(correction="token_truncate").correction_cap == 2
    for engine in (VLLMEngine(), server, VLLMEngine(correction="token_truncate", correction_cap=5)):
        assert VLLMEngine.model_validate(engine.model_dump(mode="json")) == engine


def test_a_bare_off_of_yaml_is_off() -> None:
    assert VLLMEngine.model_validate(yaml.safe_load("{name: vllm, correction: off}")).correction == "off"


@pytest.mark.parametrize(
    ("settings", "reasons"),
    [
        ({"server_gpus": 2}, ["server_gpus 2: only mode server has GPUs of its own; leave it out"]),
        ({"mode": "server", "server_gpus": 0}, ["greater than or equal to 1"]),
        ({"mode": "server", "server_gpus": 4, "tensor_parallel": 2}, ["tensor_parallel 2: a server holds one copy"]),
        ({"mode": "server", "sleep": True}, ["sleep true: a server shares its GPUs with nobody"]),
        ({"correction_cap": 3, "server_gpus": 1}, ["correction_cap 3 caps nothing", "server_gpus 1"]),
    ],
)
def test_what_means_nothing_is_refused_all_at_once(settings: dict[str, Any], reasons: list[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        VLLMEngine.model_validate(settings)
    for reason in reasons:
        assert reason in str(caught.value)


def test_a_run_that_vllm_cannot_sample_is_refused_all_at_once() -> None:
    with pytest.raises(ValidationError) as caught:
        config(
            BASE,
            model={"name": "tiny_qwen2"},
            rollout__engine={"name": "vllm", "max_length": 999},
            rollout__top_p=0.9,
        )
    for reason in (
        "rollout.engine vllm: model tiny_qwen2",
        "rollout.engine.max_length 999: prompts of 100 tokens and completions of 900 would be cut; give 1000 or more",
        "rollout.top_p 0.9: completions would be drawn from a distribution that is cut",
    ):
        assert reason in str(caught.value)
    assert config(BASE, rollout__engine__max_length=1000).rollout.engine != TransformersEngine()


def test_groups_of_processes_hold_one_copy_each() -> None:
    settings = config(BASE, rollout__engine__tensor_parallel=4)
    (refusal,) = [r for r in sharing_refusals(settings, 2) if "tensor_parallel" in r.setting]
    assert refusal.reason == (
        "rollout.engine.tensor_parallel 4: 2 processes cannot form groups of so many; "
        "set rollout.engine.tensor_parallel to 2"
    )
    for fitting, processes in ((settings, 4), (settings, 8), (config(BASE, rollout__engine={"name": "vllm"}), 3)):
        assert not [r for r in sharing_refusals(fitting, processes) if "tensor_parallel" in r.setting]


def test_a_model_that_does_not_fit_is_refused() -> None:
    model = SimpleNamespace(config=SimpleNamespace(num_attention_heads=14, max_position_embeddings=2048))
    settings = config(BASE, rollout__engine__tensor_parallel=4, rollout__engine__max_length=4096)
    length, heads = engine_problems(settings, model, 80)
    assert length == (
        "rollout.engine.max_length 4096: the longest prompt and completion have 980 tokens, and the model's context "
        "2048; give a number between them, or null"
    )
    assert heads == "rollout.engine.tensor_parallel 4 does not divide the model's 14 attention heads"
    assert engine_problems(config(BASE), model, 80) == []
    assert engine_problems(config(BASE, rollout__engine={"name": "transformers"}), model, 80) == []


def test_without_vllm_the_remedy_is_named() -> None:
    with pytest.raises(ConfigError, match=r"pip install 'sweep-service\[gpu\]'"):
        refuse_missing(VLLMEngine())
    refuse_missing(TransformersEngine())
