"""The engine that samples completions: Transformers in the trainer, or vLLM beside it; see `docs/rollouts.md`."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal, cast

from pydantic import BeforeValidator, Field, model_validator

from trainers.config.base import Frozen


class TransformersEngine(Frozen):
    """Generation by Transformers with the very weights that are trained: exact, everywhere, slow for long texts."""

    name: Literal["transformers"] = "transformers"


class VLLMEngine(Frozen):
    """Generation by vLLM on GPUs. It gets the trained weights before it samples with new ones."""

    name: Literal["vllm"] = "vllm"
    mode: Literal["colocate", "server"] = Field(
        default="colocate", description="colocate: on the GPUs of training, in turns; server: on GPUs of its own."
    )
    memory_share: float = Field(
        default=0.3,
        gt=0,
        lt=1,
        description="Share of each GPU's memory that vLLM takes for weights, keys, values; default: 0.3, server 0.9.",
    )
    tensor_parallel: int = Field(
        default=1, ge=1, le=64, description="GPUs that hold one copy of the model together; server: all of server_gpus."
    )
    max_length: int | None = Field(
        default=None,
        ge=2,
        le=1_048_576,
        description="Longest prompt and completion, tokens; null: the longest that the run asks for.",
    )
    sleep: bool = Field(default=True, description="colocate: free the memory during updates, at the cost of a copy.")
    server_gpus: int = Field(
        default=0, ge=0, le=64, description="server: how many of the trial's GPUs it has for itself; default there: 1."
    )
    correction: Annotated[
        Literal["off", "token_truncate"],
        BeforeValidator(lambda value: "off" if value is False else value),  # YAML 1.1 has false for a bare `off`
    ] = Field(
        default="off",
        description="token_truncate: weigh tokens by the trainer's probability over vLLM's, up to correction_cap.",
    )
    correction_cap: float | None = Field(
        default=None, ge=1, le=100, description="Largest weight of a token; default with token_truncate: 2."
    )

    @model_validator(mode="before")
    @classmethod
    def _defaults(cls, data: Any) -> Any:
        """Fill in settings that follow from mode and correction, so that the record has them."""
        if not isinstance(data, Mapping):
            return data
        values = dict(cast("Mapping[str, Any]", data))
        if values.get("mode") == "server":
            gpus = values.get("server_gpus", values.get("tensor_parallel", 1))
            values = {"memory_share": 0.9, "sleep": False, "server_gpus": gpus, "tensor_parallel": gpus, **values}
        if values.get("correction") == "token_truncate" and values.get("correction_cap") is None:
            values["correction_cap"] = 2.0
        return values

    def _refusals(self) -> Iterator[str]:
        if self.mode == "colocate" and self.server_gpus:
            yield f"server_gpus {self.server_gpus}: only mode server has GPUs of its own; leave it out"
        if self.mode == "server" and self.tensor_parallel != self.server_gpus:
            yield (
                f"tensor_parallel {self.tensor_parallel}: a server holds one copy of the model on all of its "
                f"{self.server_gpus} server_gpus; give both the same number, 1 or more"
            )
        if self.mode == "server" and self.sleep:
            yield "sleep true: a server shares its GPUs with nobody; leave it out"
        if self.correction == "off" and self.correction_cap is not None:
            yield (
                f"correction_cap {self.correction_cap:g} caps nothing while correction is off; leave it out, or set "
                "correction to token_truncate"
            )


EngineConfig = TransformersEngine | VLLMEngine
"""Use it as a field with `Field(discriminator="name")`."""
