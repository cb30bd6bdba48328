"""Tokenizers of policies made from scratch. Each pads on the left, as sampling needs, and adds no tokens by itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

PAD, END, START, UNKNOWN = "<pad>", "<end>", "<start>", "<unknown>"
_SPECIAL: Final = (PAD, END, START, UNKNOWN)


def character_tokenizer(characters: Sequence[str]) -> "PreTrainedTokenizerFast":
    """One token a character; any other character is unknown."""
    from tokenizers import Tokenizer, decoders, models

    vocabulary = {token: index for index, token in enumerate((*_SPECIAL, *characters))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.decoder = decoders.Fuse()
    return _wrapped(tokenizer)


def _wrapped(tokenizer: "Tokenizer") -> "PreTrainedTokenizerFast":
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        bos_token=START,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
