"""Writes a model folder as the Hub has them, of a real architecture and size, with random weights.

python bench/random_model.py qwen2-1.5b FOLDER. Weights are random but for one feature that makes digits and the end of
a turn likely, so that some answers to small sums are right and rewards differ. The tokenizer spells every text byte by
byte and has the architecture's chat template; the vocabulary is as large as the real one's.
"""

import argparse
import math
from pathlib import Path
from typing import Any, Final, NamedTuple

import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import (
    GenerationConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
)

_CHATML: Final = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_HEADERS: Final = (
    "{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
    "{{ message['content'] }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)


class Family(NamedTuple):
    """What tells one architecture's folders from another's."""

    config: type[Any]
    model: type[Any]
    special: tuple[str, ...]
    """The end of a text first, the end of a turn last."""
    begin: str | None
    """Written before every text."""
    chat_template: str


QWEN2: Final = Family(Qwen2Config, Qwen2ForCausalLM, ("<|endoftext|>", "<|im_start|>", "<|im_end|>"), None, _CHATML)
LLAMA: Final = Family(
    LlamaConfig,
    LlamaForCausalLM,
    ("<|end_of_text|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    "<|begin_of_text|>",
    _HEADERS,
)


class Size(NamedTuple):
    """A model's shape; the large ones are those of the published configurations."""

    family: Family
    vocabulary: int
    hidden: int
    intermediate: int
    layers: int
    heads: int
    kv_heads: int
    context: int
    tied: bool


SIZES: Final = {
    "qwen2-tiny": Size(QWEN2, 272, 32, 64, 2, 4, 2, 512, tied=True),
    "llama-tiny": Size(LLAMA, 272, 32, 64, 2, 4, 2, 512, tied=False),
    "qwen2-0.5b": Size(QWEN2, 151936, 896, 4864, 24, 14, 2, 32768, tied=True),
    "qwen2-1.5b": Size(QWEN2, 151936, 1536, 8960, 28, 12, 2, 131072, tied=True),
}


def save_random_model(size: Size, folder: Path, *, likely: str = "0123456789", end_share: float = 0.25) -> Path:
    """Save a model in bfloat16, as published ones are, with its tokenizer.

    Args:
        likely: characters that are.
        end_share: how often the end of a turn comes where one of them or it comes.
    """
    torch.manual_seed(0)
    tokenizer = _tokenizer(size)
    vocabulary = tokenizer.get_vocab()
    ends = [vocabulary[size.family.special[place]] for place in (-1, 0)]
    begin = None if size.family.begin is None else vocabulary[size.family.begin]
    config = size.family.config(
        vocab_size=size.vocabulary,
        hidden_size=size.hidden,
        intermediate_size=size.intermediate,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.kv_heads,
        max_position_embeddings=size.context,
        tie_word_embeddings=size.tied,
        bos_token_id=begin,
        eos_token_id=ends[0],
        pad_token_id=ends[1],
        dtype="bfloat16",
    )
    model = size.family.model(config).to(torch.bfloat16)
    _prefer(model, [vocabulary[token] for token in likely], ends[0], end_share)
    model.generation_config = GenerationConfig(bos_token_id=begin, eos_token_id=ends, pad_token_id=ends[1])
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@torch.no_grad()
def _prefer(model: Any, likely: list[int], end: int, end_share: float) -> None:
    """Make tokens likely, and the end, by the one feature that is on everywhere: most of what is sampled."""
    hidden, vocabulary = model.config.hidden_size, model.config.vocab_size
    weights = {**dict.fromkeys(likely, 1.0), end: len(likely) * end_share / (1 - end_share)}
    gap = math.log(20 * (vocabulary - len(weights)) / sum(weights.values()))
    scale = gap / (2 * math.sqrt(hidden))  # of the feature after the last norm, whose root mean square is 1
    column = torch.full((vocabulary,), 2.0)
    for token, weight in weights.items():
        column[token] = 4.0 + 2 * math.log(weight) / gap
    model.model.embed_tokens.weight[:, 0] = 2.0 + (column - 2.0).sign()
    model.lm_head.weight[:, 0] = column
    model.model.norm.weight[0] = scale


def _tokenizer(size: Size) -> PreTrainedTokenizerFast:
    """Bytes, tokens that no text has up to the vocabulary's size, and the special ones last, as published ones are."""
    family = size.family
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    unused = size.vocabulary - len(letters) - len(family.special)
    names = [*letters, *(f"<|unused_{number}|>" for number in range(unused))]
    tokenizer = Tokenizer(models.BPE(vocab={name: place for place, name in enumerate(names)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in family.special])
    if family.begin is not None:
        begin = (family.begin, tokenizer.token_to_id(family.begin))
        tokenizer.post_processor = processors.TemplateProcessing(single=f"{family.begin} $A", special_tokens=[begin])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=family.begin,
        eos_token=family.special[-1],
        pad_token=family.special[0],
        chat_template=family.chat_template,
        model_max_length=size.context,
        clean_up_tokenization_spaces=False,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("size", choices=SIZES)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    save_random_model(SIZES[options.size], options.folder)
