"""Checks that a folder holds a model that can be trained, and describes it. Imports no torch."""

import json
from collections import Counter
from collections.abc import Collection, Mapping
from fnmatch import fnmatch
from math import prod
from pathlib import Path
from typing import Any, Final

from safetensors import SafetensorError, safe_open

from trainers.errors import ConfigError

CONFIG: Final = "config.json"
INDEX: Final = "model.safetensors.index.json"
SINGLE: Final = "model.safetensors"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
_BESIDE: Final = (
    CONFIG,
    INDEX,
    "generation_config.json",
    "tokenizer.json",
    TOKENIZER_CONFIG,
    "tokenizer.model",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "chat_template.json",
)
_TOKENIZERS: Final = ("tokenizer.json", "tokenizer.model", "vocab.json", "vocab.txt", "spiece.model", "*.bpe.model")
_PICKLES: Final = ("*.bin", "*.pt", "*.pth", "*.ckpt", "*.pkl")
_CAUSAL: Final = ("ForCausalLM", "LMHeadModel")
_SIZES: Final = {
    "vocabulary": ("vocab_size",),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "num_layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers"),
    "num_heads": ("num_attention_heads", "n_head", "n_heads", "num_heads"),
}
_CONTEXT: Final = ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length")
_KV_HEADS: Final = ("num_key_value_heads", "num_kv_heads")
DTYPES: Final = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
"""The types of weights that can be trained, by their name in safetensors files."""


def files_beside(names: Collection[str]) -> list[str]:
    """List the files of a model that are not its weights, among `names`: configuration, tokenizer, chat template.

    Raises: ConfigError, with every reason why there can be no such model.
    """
    problems = list[str]()
    if "adapter_config.json" in names and CONFIG not in names:
        problems.append("these are LoRA adapters, not a model; merge them into their base model and add that")
    elif CONFIG not in names:
        problems.append(f"there is no {CONFIG}, so this is not a Hugging Face model")
    if not {SINGLE, INDEX} & set(names):
        pickles = sorted(name for name in names if any(fnmatch(name, pattern) for pattern in _PICKLES))
        problems.append(
            f"its weights are pickles ({', '.join(pickles[:3])}), which can run any code when they are read; take a "
            "revision with safetensors, or convert them on a machine that may be lost and add the folder"
            if pickles
            else f"there are no weights: neither {SINGLE} nor {INDEX}"
        )
    if not any(fnmatch(name, pattern) for name in names for pattern in _TOKENIZERS):
        problems.append("there is no tokenizer, such as tokenizer.json")
    if problems:
        raise ConfigError(*problems)
    return [name for name in _BESIDE if name in names]


def weight_files(folder: Path, names: Collection[str]) -> list[str]:
    """List the safetensors files that Transformers would read, once `files_beside` are in the folder.

    Raises: ConfigError, if the index names others than there are.
    """
    if INDEX not in names:
        return [SINGLE]
    shards = sorted(set(map(str, _read(folder / INDEX).get("weight_map", {}).values())))
    missing = [name for name in shards if name not in names or "/" in name or not name.endswith(".safetensors")]
    if missing or not shards:
        raise ConfigError(f"{INDEX} names {', '.join(missing[:3]) or 'no weights'}, which is not there")
    return shards


def check_architecture(folder: Path) -> None:
    """Refuse a model that is not a causal language model of the installed Transformers, by `files_beside` alone.

    Raises: ConfigError, with every reason.
    """
    import transformers

    config, tokenizer = _read(folder / CONFIG), _read(folder / TOKENIZER_CONFIG)
    names, classes = _architectures(config), set(dir(transformers))
    own_code = ", ".join(sorted(set(map(str, config.get("auto_map") or ()))))
    problems = list[str]()
    if not names:
        problems.append(f"{CONFIG} names no architecture")
    elif not (names[0] in classes and names[0].endswith(_CAUSAL)):
        problems.append(
            f"{names[0]} is not a causal language model of the installed Transformers"
            + (f"; it needs code from its repository ({own_code}), and such code is never run here" if own_code else "")
        )
    if "quantization_config" in config:
        problems.append("its weights are quantized, which cannot be trained; take the model that it was made from")
    own_tokenizer, kind = "AutoTokenizer" in (tokenizer.get("auto_map") or ()), str(tokenizer.get("tokenizer_class"))
    if own_tokenizer and not {kind, f"{kind}Fast", kind.removesuffix("Fast")} & classes:
        problems.append(f"its tokenizer {kind} needs code from its repository, and such code is never run here")
    problems += [f"{CONFIG} has no {among[0]}" for among in _SIZES.values() if _first(config, among) is None]
    if problems:
        raise ConfigError(*problems)


def described(folder: Path, weights: Collection[str]) -> dict[str, Any]:
    """Describe a model for its record: architecture, sizes, weights, chat template.

    Raises: ConfigError, if weights are not in safetensors, or of a type that is not trained.
    """
    config = _read(folder / CONFIG)
    counts = sum((stored_numbers(folder / name) for name in weights), Counter[str]())
    if other := sorted(counts.keys() - DTYPES.keys()):
        raise ConfigError(f"its weights are of type {', '.join(other)}; training needs {', '.join(DTYPES.values())}")
    sizes = {name: _first(config, among) for name, among in _SIZES.items()}
    template = (folder / "chat_template.jinja").exists() or (folder / "chat_template.json").exists()
    return {
        **sizes,
        "architecture": _architectures(config)[0],
        "parameters": counts.total(),
        "weights_dtype": DTYPES[counts.most_common(1)[0][0]],
        "context_length": _first(config, _CONTEXT),
        "num_kv_heads": _first(config, _KV_HEADS) or sizes["num_heads"],
        "chat_template": template or bool(_read(folder / TOKENIZER_CONFIG).get("chat_template")),
    }


def _architectures(config: Mapping[str, Any]) -> list[str]:
    names: Any = config.get("architectures")
    return list(map(str, names)) if isinstance(names, list) else []


def _first(config: Mapping[str, Any], names: Collection[str]) -> int | None:
    return next((value for name in names if isinstance(value := config.get(name), int)), None)


def stored_numbers(path: Path) -> Counter[str]:
    """Count the numbers of each type that a safetensors file holds, such as BF16, without reading them.

    Raises: ConfigError, if it is not a whole safetensors file.
    """
    counts = Counter[str]()
    try:
        with safe_open(path, framework="numpy") as file:
            for name in file.keys():  # noqa: SIM118 it is no mapping
                tensor = file.get_slice(name)
                counts[tensor.get_dtype()] += prod(tensor.get_shape())
    except SafetensorError as error:
        size = path.stat().st_size
        raise ConfigError(
            f"{path.name}, of {size} bytes, is not a whole safetensors file ({error}); fetch or copy it again"
        ) from error
    return counts


def _read(path: Path) -> dict[str, Any]:
    """Read a JSON object; an empty one, if there is no such file."""
    try:
        value: Any = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise ConfigError(f"{path.name} is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ConfigError(f"{path.name} is not a JSON object")
    return value
