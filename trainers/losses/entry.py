"""A policy loss by its two parts, and the faults that one of an installed package may have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_args

from pydantic import PydanticUserError

from trainers.losses.base import REGIONS, ClipParams, LossOutput

if TYPE_CHECKING:
    from collections.abc import Callable

    from trainers.losses.batch import TokenBatch


class LossEntry(NamedTuple):
    """A policy loss: a row of `LOSSES`, or the target of an entry point of the group `sweeps.losses`."""

    params: type[ClipParams]
    function: Callable[[TokenBatch, Any], LossOutput]
    """A pure function of a batch and parameters. Its output has each token's loss, (B, T), and the region masks."""


def entry_fault(entry: object, name: str) -> str | None:
    """Say why an object that a package names cannot be the loss `name`, and what to do; None if it can."""
    if not isinstance(entry, LossEntry):
        return f"it is {entry!r:.100}, not a trainers.losses.LossEntry; name a LossEntry(params, function)"
    params = cast("object", entry.params)
    if not isinstance(params, type) or not issubclass(params, ClipParams):
        return (
            f"its params {params!r:.100} lack the bounds low and high; make them a subclass of "
            "trainers.losses.ClipParams, or of TokenRatioParams"
        )
    field = params.model_fields.get("name")
    if field is None or get_args(field.annotation) != (name,) or field.default != name:
        return (
            f"its params do not have the name of its entry point; give them `name: Literal[{name!r}] = {name!r}`, or "
            "give the entry point their name"
        )
    if not callable(entry.function):
        return f"its function is {entry.function!r:.100}; give one that takes a TokenBatch and the params"
    if params.clips_like_ppo and params.epsilon_below > 1:
        return "clips_like_ppo promises PPO's bounds, which epsilon_below above 1 is not; leave one of them out"
    try:
        params.model_json_schema()
    except PydanticUserError as error:
        return f"its params have no JSON schema: {error}; use numbers, texts, lists and models of them"
    return None


def output_fault(output: object, batch: TokenBatch) -> str | None:
    """Say what is wrong with the output of a package's function for a batch; None if nothing is.

    Shapes, names and gradients are checked, values are not: `trainers.losses.contract` judges those.
    """
    if not isinstance(output, LossOutput):
        return f"{type(output).__name__}, not a LossOutput"
    if set(output.regions) != set(REGIONS):
        return f"the regions {', '.join(output.regions) or 'of nothing'}, not {', '.join(REGIONS)}"
    parts = {"loss_BT": output.loss_BT, "ratio_BT": output.ratio_BT, **output.regions}
    if output.selected_BT is not None:
        parts["selected_BT"] = output.selected_BT
    for name, part_BT in parts.items():
        if part_BT.shape != batch.mask_BT.shape:
            return f"{name} of shape {tuple(part_BT.shape)}, not {tuple(batch.mask_BT.shape)} as logprobs_BT"
    if batch.logprobs_BT.requires_grad and not output.loss_BT.requires_grad:
        return "a loss_BT that carries no gradient of logprobs_BT"
    if output.ratio_BT.requires_grad:
        return "a ratio_BT that carries a gradient; detach it"
    return None
