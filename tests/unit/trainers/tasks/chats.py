"""Byte-level tokenizers whose chat templates have the forms of well-known models, and datasets in a catalog."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from trainers.catalog.add_from_disk import add_local_dataset
from trainers.catalog.entries import BenchmarkEntry, Origin, entry_folder

BAR, GAP = "\N{FULLWIDTH VERTICAL LINE}", "\N{LOWER ONE EIGHTH BLOCK}"
CHATML = (
    "{% if messages[0].role != 'system' %}<|im_start|>system\nBe helpful.<|im_end|>\n{% endif %}"
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n"
    "{% if enable_thinking is defined and not enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}"
)
LLAMA = (
    "{{ bos_token }}{% set date = strftime_now('%d %b %Y') %}"
    "{% if messages[0].role == 'system' %}{% set said = messages[0].content %}{% set messages = messages[1:] %}"
    "{% else %}{% set said = '' %}{% endif %}"
    "<|start_header_id|>system<|end_header_id|>\n\nToday Date: {{ date }}\n\n{{ said }}<|eot_id|>"
    "{% for message in messages %}<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{{ message.content | trim }}<|eot_id|>{% endfor %}"
    "{% if add_generation_prompt %}<|start_header_id|>assistant<|end_header_id|>\n\n{% endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}{% for message in messages %}{% if message.role == 'system' %}{{ message.content }}{% endif %}"
    f"{{% if message.role == 'user' %}}<{BAR}User{BAR}>{{{{ message.content }}}}{{% endif %}}"
    f"{{% if message.role == 'assistant' %}}<{BAR}Assistant{BAR}>{{{{ message.content }}}}"
    f"<{BAR}end{GAP}of{GAP}sentence{BAR}>{{% endif %}}{{% endfor %}}"
    f"{{% if add_generation_prompt %}}<{BAR}Assistant{BAR}><think>\n{{% endif %}}"
)
NO_SYSTEM = "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"


def base_tokenizer(**settings: Any) -> PreTrainedTokenizerFast:
    """No chat template; nothing is added to text."""
    return _tokenizer(["<|endoftext|>"], eos_token="<|endoftext|>", pad_token="<|endoftext|>", **settings)


def chatml_tokenizer() -> PreTrainedTokenizerFast:
    """As Qwen2.5's base models: turns end with another token than the tokenizer's end token, and there is no BOS."""
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return _tokenizer(special, eos_token="<|endoftext|>", pad_token="<|endoftext|>", chat_template=CHATML)


def llama_tokenizer() -> PreTrainedTokenizerFast:
    """As Llama 3's: BOS is added to every text, and written by the template, too."""
    begin = "<|begin_of_text|>"
    special = [begin, "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<pad>"]
    made = _tokenizer(special, bos_token=begin, eos_token="<|end_of_text|>", pad_token="<pad>", chat_template=LLAMA)
    made.backend_tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{begin} $A", pair=f"{begin} $A $B", special_tokens=[(begin, made.convert_tokens_to_ids(begin))]
    )
    return made


def deepseek_tokenizer() -> PreTrainedTokenizerFast:
    """As DeepSeek-R1's distillations: the reply begins with its thoughts."""
    begin, end = f"<{BAR}begin{GAP}of{GAP}sentence{BAR}>", f"<{BAR}end{GAP}of{GAP}sentence{BAR}>"
    special = [begin, end, f"<{BAR}User{BAR}>", f"<{BAR}Assistant{BAR}>"]
    return _tokenizer(special, bos_token=begin, eos_token=end, pad_token=end, chat_template=DEEPSEEK)


def _tokenizer(special: Sequence[str], **settings: Any) -> PreTrainedTokenizerFast:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={letter: number for number, letter in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(token, special=True, normalized=False) for token in special])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, padding_side="left", clean_up_tokenization_spaces=False, **settings
    )


def add_dataset(cache: Path, name: str, splits: Mapping[str, Sequence[object]]) -> None:
    """Put a dataset into the catalog, a row each; texts are lines as they are."""
    folder = cache / "given" / name
    folder.mkdir(parents=True)
    for split, rows in splits.items():
        lines = (row if isinstance(row, str) else json.dumps(row) for row in rows)
        (folder / f"{split}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    add_local_dataset(folder, cache, name)


def add_benchmark(cache: Path, name: str, problems: Sequence[str]) -> None:
    """Put a benchmark into the catalog."""
    rows = [{"id": str(number), "problem": problem, "answer": "1"} for number, problem in enumerate(problems)]
    write_benchmark(cache, name, "".join(json.dumps(row) + "\n" for row in rows))


def write_benchmark(cache: Path, name: str, text: str) -> Path:
    """Put a benchmark whose file of problems has this text into the catalog; return that file."""
    folder = entry_folder(cache, BenchmarkEntry, name)
    folder.mkdir(parents=True)
    (folder / "problems.jsonl").write_text(text, encoding="utf-8")
    entry = BenchmarkEntry(name=name, origin=Origin(), added_at=0.0, bytes=1, digest="0" * 64, problems=1)
    (folder / "catalog.json").write_text(entry.model_dump_json())
    return folder / "problems.jsonl"
