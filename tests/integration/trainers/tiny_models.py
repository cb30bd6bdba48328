"""Random Qwen2 models that are made in a moment and write short numbers, so that some answers are right."""

from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TOKENS = ("<pad>", "<end>", "<unknown>", *"0123456789")
BIASES = {"<pad>": -9.0, "<unknown>": -9.0, "<end>": 3.0, "0": 2.0, "1": 2.0, "2": 2.0, "3": 2.0}
CONTEXT = 256


def save_tiny_model(folder: Path, seed: int = 0) -> Path:
    """Save a model and a tokenizer of one token a character; what is not a digit is unknown to it."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=len(TOKENS),
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=CONTEXT,
        pad_token_id=TOKENS.index("<pad>"),
        eos_token_id=TOKENS.index("<end>"),
        bos_token_id=None,
    )
    model = Qwen2ForCausalLM(config)
    with torch.no_grad():  # a feature that is always on gives its column of the head the part of a bias
        model.model.embed_tokens.weight[:, 0] = 4.0
        model.lm_head.weight[:, 0] = torch.tensor([BIASES.get(token, 0.0) / 4 for token in TOKENS])
    model.save_pretrained(folder)
    vocabulary = {token: number for number, token in enumerate(TOKENS)}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token="<unknown>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", eos_token="<end>", unk_token="<unknown>", padding_side="left"
    ).save_pretrained(folder)
    return folder
