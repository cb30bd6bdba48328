"""Loads the policy's weights and tokenizer, and refuses what cannot be trained as configured."""

from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from packaging.version import Version
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from trainers.catalog.entries import ModelEntry, entry_folder, read_entry
from trainers.config import LoRAConfig, ModelConfig, PretrainedModel, TrainingConfig
from trainers.errors import ConfigError
from trainers.tasks.prompts import beyond_context

if TYPE_CHECKING:
    from peft import LoraConfig


def pretrained_folder(model: PretrainedModel, cache: Path) -> Path:
    """Return the folder of a model that is not made from scratch.

    Raises: ConfigError, if it is not in the catalog.
    """
    try:
        read_entry(cache, ModelEntry, model.model)
    except ConfigError as error:
        raise ConfigError(f"model.model: {error}") from error
    return entry_folder(cache, ModelEntry, model.model)


def load_policy(folder: Path, model: ModelConfig) -> Any:
    """Load the causal language model in a folder, safetensors only, without running code from it.

    The model's own sampling settings are dropped, except special tokens; others, such as min_p, would join ours unseen.
    """
    dtype = getattr(torch, model.weights_dtype) if isinstance(model, PretrainedModel) else torch.float32
    policy: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, use_safetensors=True, trust_remote_code=False
    )
    own = policy.generation_config
    policy.generation_config = GenerationConfig(
        bos_token_id=own.bos_token_id, eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id
    )
    return policy


def load_tokenizer(folder: Path) -> Any:
    """Load the model's tokenizer, padding on the left as sampling needs.

    Raises: ConfigError, if the folder holds none (Transformers then makes one that cannot read text), or one that
        cannot end a completion.
    """
    tokenizer: Any = AutoTokenizer.from_pretrained(folder, padding_side="left", trust_remote_code=False)
    if len(tokenizer) <= len(tokenizer.all_special_ids):
        raise ConfigError(f"{folder}: there is no tokenizer; put its files, such as tokenizer.json, beside the weights")
    if tokenizer.eos_token is None:
        raise ConfigError(f"{folder}: the tokenizer has no end token; name one as eos_token in tokenizer_config.json")
    if tokenizer.pad_token is None:
        tokenizer.pad_token = tokenizer.eos_token
    return tokenizer


def lora(config: LoRAConfig | None) -> "LoraConfig | None":
    """Translate the adapters' configuration into PEFT's."""
    if config is None:
        return None
    from peft import LoraConfig

    targets = config.target_modules
    return LoraConfig(
        r=config.rank,
        lora_alpha=config.alpha,  # pyright: ignore[reportArgumentType] PEFT takes any number
        target_modules=targets if isinstance(targets, str) else list(targets),
        lora_dropout=0.0,
        task_type="CAUSAL_LM",
    )


def refuse(model: Any, config: TrainingConfig, prompts: Sequence[Sequence[int]], others: Sequence[str] = ()) -> None:
    """Refuse a run that would not train this model as the configuration says.

    Args:
        prompts: token ids of all prompts.
        others: further reasons to refuse the run, reported with these.
    Raises: ConfigError, with every reason.
    """
    problems = [
        *_trl(),
        *_dropout(model),
        *_balancing(model),
        *_targets(model, config.model.lora),
        *beyond_context(config, max(map(len, prompts)), getattr(model.config, "max_position_embeddings", None)),
        *others,
    ]
    if problems:
        raise ConfigError(*problems)


def _trl() -> list[str]:
    installed = version("trl")
    if Version("1.16") <= Version(installed) < Version("1.17"):
        return []
    return [f"trl {installed}: private methods of TRL 1.16 are overridden; install trl>=1.16,<1.17"]


def _dropout(model: Any) -> list[str]:
    settings: Mapping[str, Any] = model.config.to_dict()
    active = [
        f"{name} {value}"
        for name, value in settings.items()
        if "dropout" in name and isinstance(value, float) and value > 0
    ]
    active += [f"{n} {m.p}" for n, m in model.named_modules() if isinstance(m, torch.nn.Dropout) and m.p > 0]
    if not active:
        return []
    return [
        f"model: dropout is on ({', '.join(active)}), so the ratio of an unchanged policy would differ from 1; "
        "set it to 0 in the model's config.json"
    ]


def _balancing(model: Any) -> list[str]:
    coefficient = getattr(model.config, "router_aux_loss_coef", 0.0)
    if not getattr(model.config, "output_router_logits", False) or not coefficient:
        return []
    return [
        f"model: router_aux_loss_coef {coefficient}: the loss that balances experts is not part of any loss here; set "
        "output_router_logits to false in the model's config.json to train without it"
    ]


def _targets(model: Any, adapters: LoRAConfig | None) -> list[str]:
    targets = adapters.target_modules if adapters else ()
    names = [name for name, _ in model.named_modules()]
    linear = dict.fromkeys(n.rpartition(".")[2] for n, m in model.named_modules() if isinstance(m, torch.nn.Linear))
    return [
        f"model.lora.target_modules {target}: the model has no such module; its linear ones are {', '.join(linear)}"
        for target in (() if isinstance(targets, str) else targets)
        if not any(f".{name}".endswith(f".{target}") for name in names)
    ]
