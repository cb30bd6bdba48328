"""Writes a run's policy as an ordinary Hugging Face model folder, without the parts that only training needs.

python -m trainers.export CHECKPOINT DIR
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from trainers.catalog.entries import ENTRY_FILE
from trainers.catalog.model_check import DTYPES, stored_numbers
from trainers.config import TrainingConfig
from trainers.errors import CheckpointError, ConfigError
from trainers.policy.checkpoints import run_config
from trainers.policy.model_folder import model_digest
from trainers.process.durable import move_whole
from trainers.process.environment import ENVIRONMENT, EXIT_CODES, UMASK
from trainers.process.lifeline import follow_parent

_ADAPTER: Final = "adapter_config.json"
_ADAPTER_FILES: Final = ("adapter_model.safetensors", _ADAPTER)
_SPARE_BYTES: Final = 64 * 2**20
_EPILOG: Final = """\
prints JSON: what was exported, its parameters, type and bytes.

exit codes:
  0 exported   1 unexpected error   2 refused, with the reason
"""


def export(checkpoint: Path, target: Path, *, dtype: str = "float32", adapter: bool = False) -> dict[str, Any]:
    """Write a run's model (`step-N`, `best-N`, `model-N`) with its tokenizer and the sampling of its evaluations.

    LoRA adapters are merged into their base in float32, unless `adapter` is true. The folder appears whole or not at
    all.

    Args:
        dtype: type of the stored weights, float32 or bfloat16; adapters alone stay as they are.
        adapter: write the adapters alone; they name their base model.
    Returns: `parameters`, `dtype`, `bytes`, `merged`, and of adapters `base`, the folder they were trained on.
    Raises: CheckpointError or ConfigError, if the folders are not as they have to be, or the disk is too small.
    """
    config, target = run_config(checkpoint), target.absolute()
    if target.exists():
        raise ConfigError(f"{target} exists already; name a folder that does not")
    if not target.parent.is_dir():
        raise ConfigError(f"{target.parent} is not a directory; make it first")
    model_digest(checkpoint)  # raises if there is no model, or the base of its adapters is missing
    has_adapters = (checkpoint / _ADAPTER).is_file()
    if adapter and not has_adapters:
        raise ConfigError(f"{checkpoint} holds a whole model, not adapters; export it without --adapter")
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{target.name}-", ignore_cleanup_errors=True) as made:
        unfinished = Path(made) / "model"
        unfinished.mkdir()
        stored = _copy_adapters(checkpoint, unfinished) if adapter else _save_model(checkpoint, unfinished, dtype)
        tokenizer = _saved_tokenizer(checkpoint, unfinished)
        _save_sampling(config, checkpoint, tokenizer, unfinished)
        for file in unfinished.iterdir():
            file.chmod(0o644)  # safetensors writes its files for their owner only
        size = sum(file.stat().st_size for file in unfinished.iterdir())
        move_whole(unfinished, target)
    base = {"base": _base(checkpoint)} if has_adapters else {}
    return {**stored, "bytes": size, "merged": has_adapters and not adapter, **base}


def _base(checkpoint: Path) -> str:
    return json.loads((checkpoint / _ADAPTER).read_text(encoding="utf-8"))["base_model_name_or_path"]


def _save_model(checkpoint: Path, folder: Path, dtype: str) -> dict[str, Any]:
    import torch

    sys.stderr.write(f"reading {checkpoint}\n")
    if (checkpoint / _ADAPTER).is_file():
        from peft import PeftModel

        base = _base(checkpoint)
        sys.stderr.write(f"merging adapters into {base}\n")
        adapted: Any = PeftModel.from_pretrained(_loaded(Path(base)), str(checkpoint))
        model = adapted.merge_and_unload(safe_merge=True)
    else:
        model = _loaded(checkpoint)
    model = model.to(getattr(torch, dtype))
    tensors = {tensor.data_ptr(): tensor for tensor in model.state_dict().values()}  # tied ones are stored once
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    _check_room(folder, size)
    model.config.use_cache = True  # training switches it off
    sys.stderr.write(f"writing {size / 2**30:.2f} GiB\n")
    model.save_pretrained(folder)
    return {"parameters": sum(tensor.numel() for tensor in tensors.values()), "dtype": dtype}


def _loaded(folder: Path) -> Any:
    import torch
    from safetensors import SafetensorError
    from transformers import AutoModelForCausalLM

    try:
        return AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, use_safetensors=True, trust_remote_code=False
        )
    except (OSError, ValueError, SafetensorError) as error:
        raise CheckpointError(f"{folder} does not hold a whole model: {error}") from error


def _copy_adapters(checkpoint: Path, folder: Path) -> dict[str, Any]:
    """Copy adapters, naming their base by repository and commit where the catalog knows them."""
    _check_room(folder, sum((checkpoint / name).stat().st_size for name in _ADAPTER_FILES))
    for name in _ADAPTER_FILES:
        shutil.copyfile(checkpoint / name, folder / name)
    path = folder / _ADAPTER
    content = json.loads(path.read_text(encoding="utf-8"))
    record, origin = Path(content["base_model_name_or_path"]) / ENTRY_FILE, dict[str, Any]()
    with suppress(FileNotFoundError):
        origin = json.loads(record.read_text(encoding="utf-8"))["origin"]
    if origin.get("repository"):
        content |= {"base_model_name_or_path": origin["repository"], "revision": origin.get("revision")}
    path.write_text(json.dumps(content, indent=2, sort_keys=True), encoding="utf-8")
    counts = stored_numbers(folder / _ADAPTER_FILES[0])
    return {"parameters": counts.total(), "dtype": " and ".join(sorted(DTYPES.get(dtype, dtype) for dtype in counts))}


def _saved_tokenizer(checkpoint: Path, folder: Path) -> Any:
    """Save the tokenizer and return it."""
    from transformers import AutoTokenizer

    tokenizer: Any = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=False)
    tokenizer.save_pretrained(folder)
    path = folder / "tokenizer_config.json"
    content = json.loads(path.read_text(encoding="utf-8"))
    own = {
        name: value for name, value in content.items() if name not in ("is_local", "local_files_only", "name_or_path")
    }
    path.write_text(json.dumps(own, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return tokenizer


def _save_sampling(config: TrainingConfig, checkpoint: Path, tokenizer: Any, folder: Path) -> None:
    """Save the evaluations' sampling settings, so that `generate` uses them by default."""
    from transformers import GenerationConfig

    # the special tokens of the policy; of adapters, those of their base
    policy = Path(_base(checkpoint)) if (checkpoint / _ADAPTER).is_file() else checkpoint
    path = policy / "generation_config.json"
    special: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    evaluation = config.evaluation
    GenerationConfig(
        do_sample=True,
        temperature=evaluation.temperature,
        top_p=evaluation.top_p,
        top_k=0,
        max_new_tokens=evaluation.max_completion_tokens or config.rollout.max_completion_tokens,
        bos_token_id=special.get("bos_token_id", tokenizer.bos_token_id),
        eos_token_id=_ends(special.get("eos_token_id"), tokenizer.eos_token_id),
        pad_token_id=tokenizer.pad_token_id,
    ).save_pretrained(folder)


def _ends(of_model: int | list[int] | None, of_tokenizer: int) -> int | list[int]:
    """Return the tokens that end a completion in training: the model's, and the tokenizer's."""
    ends = [] if of_model is None else [of_model] if isinstance(of_model, int) else of_model
    ends = ends if of_tokenizer in ends else [of_tokenizer, *ends]
    return ends[0] if len(ends) == 1 else ends


def _check_room(folder: Path, size: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < size + _SPARE_BYTES:
        raise ConfigError(
            f"{folder.parents[1]}: the model needs {size / 2**30:.2f} GiB and {free / 2**30:.2f} GiB are free; make "
            "room, or name a folder on another disk"
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code."""
    os.umask(UMASK)
    parser = argparse.ArgumentParser(
        "python -m trainers.export",
        description="Write a run's policy as an ordinary Hugging Face model folder.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("checkpoint", type=Path, metavar="CHECKPOINT", help="a folder step-N, best-N or model-N")
    parser.add_argument("target", type=Path, metavar="DIR", help="the folder to make")
    parser.add_argument("--adapter", action="store_true", help="write LoRA adapters alone, not merged into their base")
    parser.add_argument(
        "--dtype", choices=("float32", "bfloat16"), default="float32", help="type of the stored weights"
    )
    parser.add_argument("--parent-fd", type=int, metavar="N", help="exit when this inherited pipe reaches its end")
    options = parser.parse_args(arguments)
    if options.parent_fd is not None:
        follow_parent(options.parent_fd)
    os.environ.update(ENVIRONMENT)
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    # PEFT 0.21 uses names that transformers changed
    warnings.filterwarnings("ignore", message=r"`is_gradient_checkpointing` is", category=FutureWarning)
    try:
        from transformers.utils import logging

        logging.disable_progress_bar()
        exported = export(options.checkpoint, options.target, dtype=options.dtype, adapter=options.adapter)
    except (CheckpointError, ConfigError) as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_CODES["BAD_CONFIG"]
    sys.stdout.write(f"{json.dumps(exported)}\n")
    return EXIT_CODES["SUCCEEDED"]


if __name__ == "__main__":
    sys.exit(main())
