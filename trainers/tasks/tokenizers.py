"""Tokenizers of policies made from scratch. Each pads on the left, as sampling needs, and adds no tokens by itself."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

PAD, END, START, UNKNOWN = "<pad>", "<end>", "<start>", "<unknown>"
_SPECIAL: Final = (PAD, END, START, UNKNOWN)


def character_tokenizer(characters: Sequence[str]) -> "PreTrainedTokenizerFast":
    """Make a tokenizer with one token a character; any other character is unknown."""
    from tokenizers import Tokenizer, decoders, models

    vocabulary = {token: index for index, token in enumerate((*_SPECIAL, *characters))}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=UNKNOWN))
    tokenizer.decoder = decoders.Fuse()
    return _wrapped(tokenizer)


def byte_tokenizer(texts: Sequence[str], vocabulary_size: int) -> "PreTrainedTokenizerFast":
    """Byte pairs learnt from `texts`; it spells every text and gives it back unchanged.

    Digits stay single, so that numbers which `texts` lack are made of known parts. Special tokens are never read from
    text: a problem that says `<end>` does not end the prompt.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    bytes_of_words = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), bytes_of_words])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary_size,
        special_tokens=list(_SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return _wrapped(tokenizer, split_special_tokens=True)


def _wrapped(tokenizer: "Tokenizer", **settings: Any) -> "PreTrainedTokenizerFast":
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=PAD,
        eos_token=END,
        bos_token=START,
        unk_token=UNKNOWN,
        padding_side="left",
        clean_up_tokenization_spaces=False,
        **settings,
    )
