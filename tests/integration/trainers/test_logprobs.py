"""The trainer's log-probabilities are those of generation, whatever padding stands before a prompt."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    GemmaConfig,
    GemmaForCausalLM,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
)

from tests.integration.trainers.trainer_runs import Run, run
from tests.unit.trainers.tasks import chats
from trainers.catalog.add_from_disk import add_local_model
from trainers.config import TrainingConfig, with_params
from trainers.errors import ConfigError
from trainers.rollouts import logprob_check
from trainers.rollouts.logprob_check import Gap
from trainers.training import sampling_trainer

TRAINING: dict[str, Any] = {
    "task": {
        "name": "word_problems",
        "data": {"ref": "sums", "prompt": "question", "template": "raw"},
        "reward": "number",
    },
    "model": {"name": "pretrained", "model": "tiny"},
    "rollout": {
        "prompts_per_rollout": 4,
        "completions_per_prompt": 2,
        "prompts_per_minibatch": 2,
        "max_completion_tokens": 4,
    },
    "evaluation": {"every_steps": 1, "samples_per_problem": 1, "pass_k": 1, "probe_completions": 0},
    "device_batch": 4,
    "steps": 2,
}
SIZES: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
ROTARY = {**SIZES, "intermediate_size": 64, "num_key_value_heads": 1}
MODELS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "gpt2": lambda shared: GPT2LMHeadModel(
        GPT2Config(
            **shared,
            n_embd=32,
            n_layer=2,
            n_head=2,
            n_positions=64,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            summary_first_dropout=0.0,
        )
    ),
    "opt": lambda shared: OPTForCausalLM(
        OPTConfig(**shared, **SIZES, ffn_dim=64, word_embed_proj_dim=32, max_position_embeddings=64, dropout=0.0)
    ),
    "qwen2": lambda shared: Qwen2ForCausalLM(Qwen2Config(**shared, **ROTARY)),
    "llama": lambda shared: LlamaForCausalLM(LlamaConfig(**shared, **ROTARY)),
    "gemma": lambda shared: GemmaForCausalLM(GemmaConfig(**shared, **ROTARY, head_dim=16)),
}


def trained(
    tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch, **changes: Any
) -> tuple[Run, list[Gap | None]]:
    """Train a random model for one update; return the run, and the gaps of its check: padding's, generation's."""
    torch.manual_seed(0)
    tokenizer, cache, gaps = chats.base_tokenizer(), tmp_path / "cache", list[Gap | None]()
    end = tokenizer.eos_token_id
    model = MODELS[architecture](
        {"vocab_size": len(tokenizer), "eos_token_id": end, "pad_token_id": end, "bos_token_id": end}
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # a model whose guesses depend on what it reads
    model.save_pretrained(tmp_path / "tiny")
    tokenizer.save_pretrained(tmp_path / "tiny")
    add_local_model(tmp_path / "tiny", cache, "tiny")
    rows = [{"question": "7+" * (n % 9) + str(n), "answer": str(n)} for n in range(40)]
    chats.add_dataset(cache, "sums", {"train": rows})
    judged = logprob_check.judged

    def seen(*found: Gap | None, exact: bool) -> Any:
        gaps.extend(found)
        return judged(*found, exact=exact)

    monkeypatch.setattr(logprob_check, "judged", seen)
    config = TrainingConfig.model_validate(with_params(TRAINING, changes))
    return run(config, tmp_path / "run", cache), gaps


@pytest.mark.parametrize("architecture", MODELS)
def test_the_trainer_scores_as_generation_draws(
    tmp_path: Path, architecture: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    done, gaps = trained(tmp_path, architecture, monkeypatch)
    assert done.outcome == "SUCCEEDED"
    assert len(gaps) == 2
    assert all(gap is not None and gap.largest < 1e-5 for gap in gaps), gaps
    assert done.of("warning") == []


def test_a_model_whose_positions_are_wrong_is_refused_with_the_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling_trainer, "give_positions", lambda _: None)
    with pytest.raises(ConfigError, match=r"differ by up to [\d.]+ nats from those without padding and [\d.]+ nats"):
        trained(tmp_path, "gpt2", monkeypatch)


def test_where_arithmetic_differs_a_remarkable_gap_is_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampling_trainer, "give_positions", lambda _: None)
    done, _ = trained(tmp_path, "gpt2", monkeypatch, **{"compute.autocast": "bfloat16"})
    (warning,) = done.of("warning")
    assert warning["code"] == "LOGPROBS_DIFFER"
    assert "nats a token from those without padding" in warning["message"]


def test_rounding_to_bfloat16_is_not_remarkable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done, gaps = trained(tmp_path, "qwen2", monkeypatch, **{"compute.autocast": "bfloat16"})
    assert done.of("warning") == []
    assert all(gap is not None and 0 < gap.mean < logprob_check.REMARKABLE_NATS for gap in gaps), gaps
