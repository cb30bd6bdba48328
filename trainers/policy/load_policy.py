"""Loads the policy, its reference and its tokenizer, and refuses what cannot be trained as configured."""

import inspect
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
    Its positions are counted as `give_positions` says.
    """
    dtype = getattr(torch, model.weights_dtype) if isinstance(model, PretrainedModel) else torch.float32
    policy: Any = AutoModelForCausalLM.from_pretrained(
        folder, dtype=dtype, use_safetensors=True, trust_remote_code=False
    )
    own = policy.generation_config
    policy.generation_config = GenerationConfig(
        bos_token_id=own.bos_token_id, eos_token_id=own.eos_token_id, pad_token_id=own.pad_token_id
    )
    give_positions(policy)
    return policy


def give_positions(model: Any) -> None:
    """Make a model count positions from a sequence's first token, as generation does, wherever padding stands before.

    This is for models that look each position up in a table, such as GPT-2. Rotary positions are left alone: only
    distances count there, and they stay as they are.
    """

    def with_positions(_: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        mask, changed = kwargs.get("attention_mask"), dict(kwargs)
        if isinstance(mask, torch.Tensor) and mask.dim() == 2 and kwargs.get("position_ids") is None:
            positions = (mask.cumsum(1) - 1).clamp(min=0)
            inputs = kwargs.get("input_ids")
            changed["position_ids"] = positions if inputs is None else positions[:, -inputs.size(1) :]
        return args, changed

    rotary = getattr(model.config.get_text_config(), "rope_parameters", None) is not None
    if not rotary and "position_ids" in inspect.signature(model.forward).parameters:
        model.register_forward_pre_hook(with_positions, with_kwargs=True)


def load_reference(folder: Path, config: TrainingConfig, accelerator: Any) -> Any:
    """Load the initial model once more, frozen and in evaluation mode, to be scored exactly as the policy is.

    Returns: None, where no copy is needed: without a KL term, and with LoRA, below whose adapters that model lies.
    """
    if not config.copies_initial_model:
        return None
    from trl.trainer.utils import add_fused_lm_head

    model = load_policy(folder, config.model).eval().requires_grad_(requires_grad=False)
    add_fused_lm_head(model, temperature=config.rollout.temperature, outputs=("log_probs", "entropy"))
    return accelerator.prepare_model(model, evaluation_mode=True)


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
    problems, settings, context = list[str](), model.config, getattr(model.config, "max_position_embeddings", None)
    installed = version("trl")
    if not Version("1.16") <= Version(installed) < Version("1.17"):
        problems.append(f"trl {installed}: private methods of TRL 1.16 are overridden; install trl>=1.16,<1.17")
    dropouts = [
        f"{name} {value}"
        for name, value in settings.to_dict().items()
        if "dropout" in name and isinstance(value, float) and value > 0
    ]
    modules = dict(model.named_modules())
    dropouts += [f"{name} {one.p}" for name, one in modules.items() if isinstance(one, torch.nn.Dropout) and one.p > 0]
    if dropouts:
        problems.append(
            f"model: dropout is on ({', '.join(dropouts)}), so the ratio of an unchanged policy would differ from 1; "
            "set it to 0 in the model's config.json"
        )
    balancing = getattr(settings, "router_aux_loss_coef", 0.0)
    if getattr(settings, "output_router_logits", False) and balancing:
        problems.append(
            f"model: router_aux_loss_coef {balancing}: the loss that balances experts is not part of any loss here; "
            "set output_router_logits to false in the model's config.json to train without it"
        )
    targets = config.model.lora.target_modules if config.model.lora else ()
    linear = dict.fromkeys(name.rpartition(".")[2] for name, one in modules.items() if isinstance(one, torch.nn.Linear))
    problems += [
        f"model.lora.target_modules {target}: the model has no such module; its linear ones are {', '.join(linear)}"
        for target in (() if isinstance(targets, str) else targets)
        if not any(f".{name}".endswith(f".{target}") for name in modules)
    ]
    problems += [*beyond_context(config, max(map(len, prompts)), context), *others]
    if problems:
        raise ConfigError(*problems)
