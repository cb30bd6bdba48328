"""Random models with a chat template that soon end their turn, in a catalog, and problems to ask them."""

from pathlib import Path

import torch
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

from tests.unit.trainers.tasks.chats import add_dataset
from trainers.catalog.add_from_disk import add_local_model

CONTEXT = 1024


def add_chat_model(cache: Path, name: str, tokenizer: PreTrainedTokenizerFast, end_of_turn: str) -> None:
    """Add a model that writes 1, 2 and 3 and then ends its turn, but never writes the tokenizer's own end token."""
    torch.manual_seed(0)
    ends = tokenizer.eos_token_id
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=ends,
        bos_token_id=tokenizer.bos_token_id,
    )
    model = Qwen2ForCausalLM(config)
    likely = dict.fromkeys(tokenizer.convert_tokens_to_ids(["1", "2", "3", end_of_turn]), 5.0)
    with torch.no_grad():  # a feature that is always on gives its column of the head the part of a bias
        model.model.embed_tokens.weight[:, 0] = 4.0
        model.lm_head.weight[:, 0] = torch.tensor([likely.get(token, -9.0) / 4 for token in range(len(tokenizer))])
    folder = cache / "given-models" / name
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    add_local_model(folder, cache, name)


def add_sums(cache: Path) -> None:
    """Add a dataset of problems whose answers are 1, 2 or 3."""
    rows = [
        {"question": f"What is {n} modulo 3, plus 1?", "answer": f"{n} #### {n % 3 + 1}", "hint": "look {"}
        for n in range(40)
    ]
    add_dataset(cache, "sums", {"train": rows})
