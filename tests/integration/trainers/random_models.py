"""Random models of well-known architectures with a vocabulary of 257 tokens, in a catalog with sums to ask them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

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

from tests.unit.trainers.tasks import chats
from trainers.catalog.add_from_disk import add_local_model

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


QUESTIONS = ["7+" * (n % 9) + str(n) for n in range(40)]


def catalog(folder: Path, architecture: str = "qwen2") -> Path:
    """Make a catalog with the model `tiny` and the dataset `sums`, whose prompts differ in length."""
    torch.manual_seed(0)
    tokenizer, cache = chats.base_tokenizer(), folder / "cache"
    end = tokenizer.eos_token_id
    shared = {"vocab_size": len(tokenizer), "eos_token_id": end, "pad_token_id": end, "bos_token_id": end}
    model = MODELS[architecture](shared)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # a model whose guesses depend on what it reads
    model.save_pretrained(folder / "tiny")
    tokenizer.save_pretrained(folder / "tiny")
    add_local_model(folder / "tiny", cache, "tiny")
    chats.add_dataset(cache, "sums", {"train": [{"question": text, "answer": "7"} for text in QUESTIONS]})
    return cache
