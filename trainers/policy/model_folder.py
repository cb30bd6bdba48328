"""Recognises a Hugging Face model folder, and digests what the model samples from. Imports no torch."""

import hashlib
import json
from pathlib import Path
from typing import Any, Final

from trainers.errors import ConfigError

_LOADED_FILES: Final = (
    "*.safetensors",
    "*.safetensors.index.json",
    "adapter_config.json",
    "chat_template*",
    "config.json",
    "generation_config.json",
    "merges.txt",
    "special_tokens_map.json",
    "tokenizer*",
    "vocab*",
)
"""Files that are read when a model is loaded; a checkpoint holds others besides."""


def model_digest(folder: Path) -> str:
    """Return the sha256 of a model's weights, configuration and tokenizer; of LoRA adapters, with their base model.

    Raises: ConfigError, if the folder holds no such model.
    """
    files = sorted({file for pattern in _LOADED_FILES for file in folder.glob(pattern) if file.is_file()})
    names = {file.name for file in files}
    if not {"config.json", "adapter_config.json"} & names or not any(name.endswith(".safetensors") for name in names):
        raise ConfigError(f"{folder}: not a Hugging Face model (config.json and *.safetensors)")
    digest = hashlib.sha256()
    for file in files:
        with file.open("rb") as content:
            digest.update(f"{file.name}\0{hashlib.file_digest(content, 'sha256').hexdigest()}\n".encode())
    if "adapter_config.json" in names:
        digest.update(model_digest(weights_folder(folder)).encode())
    return digest.hexdigest()


def weights_folder(folder: Path) -> Path:
    """Return the folder of the whole model: this one, or of LoRA adapters their base.

    Raises: ConfigError, if adapters name no base, or one that is not a whole model.
    """
    if not (folder / "adapter_config.json").exists():
        return folder
    try:
        adapter: dict[str, Any] = json.loads((folder / "adapter_config.json").read_text(encoding="utf-8"))
        base = Path(str(adapter["base_model_name_or_path"]))
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise ConfigError(f"{folder / 'adapter_config.json'} names no base model ({error})") from error
    if (base / "adapter_config.json").exists():
        raise ConfigError(f"{folder}: adapters of {base}, which holds adapters itself; name a whole model")
    if not base.is_dir():
        raise ConfigError(f"{folder}: adapters of {base}, which is not a directory; set base_model_name_or_path to one")
    return base
