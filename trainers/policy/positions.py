"""Positions of left-padded sequences, for models that look each position up in a table, such as GPT-2's."""

import inspect
from collections.abc import Mapping
from typing import Any

import torch


def give_positions(model: Any) -> None:
    """Make a model count positions from a sequence's first token, as generation does, wherever padding stands before.

    Rotary positions are left alone: only distances count there, and they stay as they are.
    """
    rotary = getattr(model.config.get_text_config(), "rope_parameters", None) is not None
    if not rotary and "position_ids" in inspect.signature(model.forward).parameters:
        model.register_forward_pre_hook(_with_positions, with_kwargs=True)


def _with_positions(_: Any, args: Any, kwargs: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
    mask, changed = kwargs.get("attention_mask"), dict(kwargs)
    if isinstance(mask, torch.Tensor) and mask.dim() == 2 and kwargs.get("position_ids") is None:
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        inputs = kwargs.get("input_ids")
        changed["position_ids"] = positions if inputs is None else positions[:, -inputs.size(1) :]
    return args, changed
