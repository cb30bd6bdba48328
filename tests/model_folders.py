"""Model folders without a model: what the catalog looks at, written in a moment and without torch."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

CONFIG: Mapping[str, Any] = {
    "architectures": ["Qwen2ForCausalLM"],
    "model_type": "qwen2",
    "vocab_size": 8,
    "hidden_size": 4,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 2048,
}


def safetensors(tensors: Mapping[str, Sequence[int]], dtype: str = "BF16", width: int = 2) -> bytes:
    """A file of zeros with these shapes."""
    header, end = dict[str, Any](), 0
    for name, shape in tensors.items():
        size = width
        for length in shape:
            size *= length
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
        end += size
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(end)


def model_files(
    *, chat: bool = False, tensors: Mapping[str, Sequence[int]] | None = None, **config: Any
) -> dict[str, bytes]:
    """The files of a model, by name.

    Args:
        config: what differs in its config.json; None leaves a setting out.
    """
    settings = {name: value for name, value in {**CONFIG, **config}.items() if value is not None}
    template = {"chat_template": "{{ messages }}"} if chat else {}
    return {
        "config.json": json.dumps(settings).encode(),
        "model.safetensors": safetensors(tensors or {"model.embed_tokens.weight": [8, 4], "model.norm.weight": [4]}),
        "tokenizer.json": b"{}",
        "tokenizer_config.json": json.dumps(template).encode(),
    }


def write_model(folder: Path, files: Mapping[str, bytes] | None = None) -> Path:
    """Write a model's folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (files or model_files()).items():
        (folder / name).write_bytes(content)
    return folder
