"""What is refused before training, each with reason and remedy."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from trainers.config import LoRAConfig, PretrainedModel, TrainingConfig
from trainers.errors import ConfigError
from trainers.policy.load_policy import load_tokenizer, lora, refuse
from trainers.tasks.tokenizers import END, character_tokenizer

PROMPTS = [[1, 2, 3], [1, 2, 3, 4]]


def model(**settings: Any) -> Qwen2ForCausalLM:
    shape = {"vocab_size": 16, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "max_position_embeddings": 16}
    return Qwen2ForCausalLM(Qwen2Config(**{**shape, **heads, **settings}))


def problems(policy: Any, **config: Any) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        refuse(policy, TrainingConfig.model_validate(config), PROMPTS)
    return list(caught.value.problems)


def test_functional_dropout_is_found_in_the_configuration() -> None:
    (problem,) = problems(model(attention_dropout=0.1))
    assert "attention_dropout 0.1" in problem
    assert "set it to 0 in the model's config.json" in problem


def test_dropout_layers_are_found_wherever_they_are() -> None:
    policy = model()
    policy.model.layers[0].mlp.extra = torch.nn.Dropout(0.25)
    (problem,) = problems(policy)
    assert "model.layers.0.mlp.extra 0.25" in problem


def test_mixtures_of_experts_whose_balancing_loss_would_be_left_out_are_refused() -> None:
    (problem,) = problems(model(output_router_logits=True, router_aux_loss_coef=0.001))
    assert problem.startswith("model: router_aux_loss_coef 0.001: ")
    refuse(model(output_router_logits=False, router_aux_loss_coef=0.001), TrainingConfig(), PROMPTS)


def test_adapters_need_modules_that_are_there() -> None:
    adapters = {"target_modules": ["q_proj", "self_attn.v_proj", "query", "proj"]}
    assert [problem.partition(": ")[0] for problem in problems(model(), model={"lora": adapters})] == [
        "model.lora.target_modules query",
        "model.lora.target_modules proj",
    ]
    refuse(model(), TrainingConfig.model_validate({"model": {"lora": {}}}), PROMPTS)


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    model().save_pretrained(tmp_path)
    with pytest.raises(ConfigError, match=f"^{tmp_path}: there is no tokenizer"):
        load_tokenizer(tmp_path)


def test_a_tokenizer_without_an_end_token_is_refused(tmp_path: Path) -> None:
    tokenizer = character_tokenizer("0123")
    tokenizer.save_pretrained(tmp_path)
    assert load_tokenizer(tmp_path).eos_token == END
    settings = json.loads((tmp_path / "tokenizer_config.json").read_text(encoding="utf-8"))
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | {"eos_token": None}), encoding="utf-8")
    with pytest.raises(ConfigError, match=f"^{tmp_path}: the tokenizer has no end token.* eos_token"):
        load_tokenizer(tmp_path)


def test_the_longest_prompt_and_completion_must_fit_the_context_of_the_model() -> None:
    _, problem = problems(model(attention_dropout=0.1), rollout={"max_completion_tokens": 13})  # all are told at once
    assert "with the longest prompt of 4 tokens it exceeds the model's context of 16; use at most 12" in problem


def test_another_trl_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trainers.policy.load_policy.version", lambda _: "1.17.0")
    (problem,) = problems(model())
    assert problem == "trl 1.17.0: private methods of TRL 1.16 are overridden; install trl>=1.16,<1.17"


def test_ligers_loss_is_refused() -> None:
    with pytest.raises(ValueError, match="use_liger_kernel: Liger's fused loss would replace"):
        TrainingConfig.model_validate({"use_liger_kernel": True})


def test_adapters_have_no_dropout() -> None:
    made = lora(LoRAConfig(rank=4, target_modules=("q_proj",)))
    assert made is not None
    assert (made.r, made.lora_alpha, made.lora_dropout, made.target_modules) == (4, 32.0, 0.0, {"q_proj"})
    assert lora(None) is None


def test_weights_in_bfloat16_need_adapters_or_a_large_learning_rate() -> None:
    weights = {"name": "pretrained", "model": "some-model", "weights_dtype": "bfloat16"}
    with pytest.raises(ValueError, match=r"learning_rate 1e-06: updates this small round away .* compute\.autocast"):
        TrainingConfig.model_validate({"model": weights, "optimizer": {"learning_rate": 1e-6}})
    config = TrainingConfig.model_validate({"model": {**weights, "lora": {}}, "optimizer": {"learning_rate": 1e-6}})
    assert isinstance(config.model, PretrainedModel)
    TrainingConfig.model_validate({"model": weights, "optimizer": {"learning_rate": 1e-3}})
