"""What one training run is: `TrainingConfig`, its parts, and how dotted names change it.

Imports no torch, so the API validates configurations without it. Sizes are in the paper's units (prompts per
rollout, completions per prompt, prompts per minibatch); device batches and accumulation follow from them.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from trainers.losses import CEGPPOParams, LossConfig


class Frozen(BaseModel):
    """Base of every part of a configuration: immutable, unknown keys refused, no NaN or infinity."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class ExpressionsTask(Frozen):
    """Write an arithmetic expression with a given value: the prompt is `N=`, the reward 1 if the answer has value N."""

    name: Literal["expressions"] = "expressions"
    smallest: int = Field(default=2, ge=0, description="Smallest N.")
    largest: int = Field(default=99, le=999, description="Largest N.")
    validation_every: int = Field(
        default=5, ge=2, description="Every so many numbers one is kept from training, for validation."
    )

    @model_validator(mode="after")
    def _range(self) -> Self:
        if self.largest - self.smallest < 2 * self.validation_every:
            raise ValueError(
                f"the range {self.smallest}..{self.largest} is too small to keep every "
                f"{self.validation_every}th number for validation; widen it"
            )
        return self


class TinyPolicy(Frozen):
    """A Qwen2 policy made from scratch and warm-started by supervised training; built once, cached by content."""

    name: Literal["tiny_qwen2"] = "tiny_qwen2"
    hidden_size: int = Field(default=64, ge=8, le=1024)
    num_layers: int = Field(default=2, ge=1, le=16)
    num_heads: int = Field(default=4, ge=1, le=16)
    warm_start_steps: int = Field(default=2400, ge=1, le=100_000, description="Supervised steps of 128 expressions.")
    warm_start_seed: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _heads(self) -> Self:
        if self.hidden_size % (2 * self.num_heads):
            raise ValueError(f"hidden_size {self.hidden_size} must be a multiple of 2 x num_heads {self.num_heads}")
        return self


class RolloutConfig(Frozen):
    """How completions are sampled and how a rollout is cut into minibatches."""

    prompts_per_rollout: int = Field(default=32, ge=1)
    completions_per_prompt: int = Field(
        default=16, ge=2, description="The group whose mean and spread give the advantage."
    )
    prompts_per_minibatch: int = Field(default=4, ge=1, description="Prompts of one optimizer update.")
    max_completion_tokens: int = Field(default=12, ge=1, le=65536)
    temperature: float = Field(default=1.0, gt=0, le=5)
    top_p: float = Field(default=1.0, gt=0, le=1)

    @property
    def updates_per_rollout(self) -> int:
        """Optimizer updates made from one rollout."""
        return self.prompts_per_rollout // self.prompts_per_minibatch

    @model_validator(mode="after")
    def _divides(self) -> Self:
        if self.prompts_per_rollout % self.prompts_per_minibatch:
            raise ValueError(
                f"prompts_per_rollout {self.prompts_per_rollout} is not a multiple of "
                f"prompts_per_minibatch {self.prompts_per_minibatch}"
            )
        return self


class OptimizerConfig(Frozen):
    """AdamW with linear warm-up to a constant learning rate."""

    learning_rate: float = Field(default=2e-4, gt=0, le=1)
    adam_beta1: float = Field(default=0.9, ge=0, lt=1)
    adam_beta2: float = Field(default=0.99, ge=0, lt=1)
    adam_epsilon: float = Field(default=1e-8, gt=0)
    warmup_steps: int = Field(default=40, ge=0, description="Optimizer updates.")
    weight_decay: float = Field(default=0.0, ge=0)
    max_grad_norm: float = Field(default=1.0, gt=0)


class EvaluationConfig(Frozen):
    """Sampling on the held-out validation problems. Separate from training's sampling; changes no training state."""

    every_steps: int = Field(
        default=40, ge=1, description="Optimizer updates between evaluations; the last step counts."
    )
    samples_per_problem: int = Field(default=32, ge=1, description="The k of avg@k.")
    pass_k: int = Field(default=8, ge=1, description="The k of the unbiased pass@k.")
    temperature: float = Field(default=1.0, gt=0, le=5)
    top_p: float = Field(default=1.0, gt=0, le=1)
    shown_samples: int = Field(
        default=8, ge=0, le=64, description="Completions kept with their rewards at each evaluation."
    )

    @model_validator(mode="after")
    def _pass_k(self) -> Self:
        if self.pass_k > self.samples_per_problem:
            raise ValueError(f"pass_k {self.pass_k} exceeds samples_per_problem {self.samples_per_problem}")
        return self


class TrainingConfig(Frozen):
    """One training run, complete: the same config and seed on the same machine give the same run."""

    task: ExpressionsTask = ExpressionsTask()
    model: TinyPolicy = TinyPolicy()
    loss: Annotated[LossConfig, Field(discriminator="name")] = CEGPPOParams()
    rollout: RolloutConfig = RolloutConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    steps: int = Field(default=480, ge=1, description="Optimizer updates.")
    device_batch: int = Field(default=64, ge=1, description="Sequences per forward and backward pass.")
    checkpoint_every_rollouts: int = Field(default=10, ge=1)
    seed: int = Field(default=0, ge=0, lt=2**32)

    @property
    def accumulation_steps(self) -> int:
        """Device batches per optimizer update."""
        return self.rollout.prompts_per_minibatch * self.rollout.completions_per_prompt // self.device_batch

    @model_validator(mode="before")
    @classmethod
    def _default_loss(cls, data: Any) -> Any:
        """Let `loss` be given without its name, so that loss.beta1=0.3 alone changes the default loss."""
        if isinstance(data, Mapping) and isinstance(loss := data.get("loss"), Mapping):
            return {**data, "loss": {"name": CEGPPOParams().name, **loss}}
        return data

    @model_validator(mode="after")
    def _runs(self) -> Self:
        """Refuse what cannot run or would train something else than it says; all reasons at once."""
        rollout, reasons = self.rollout, list[str]()
        minibatch = rollout.prompts_per_minibatch * rollout.completions_per_prompt
        if minibatch % self.device_batch:
            reasons.append(
                f"device_batch {self.device_batch} does not divide the minibatch of {minibatch} sequences "
                f"({rollout.prompts_per_minibatch} prompts x {rollout.completions_per_prompt} completions)"
            )
        if rollout.updates_per_rollout == 1:
            reasons.append(
                f"one update per rollout keeps every ratio at 1, so {self.loss.name}'s clip bounds and betas "
                "do nothing; set rollout.prompts_per_minibatch to a fraction of rollout.prompts_per_rollout"
            )
        if self.steps % rollout.updates_per_rollout:
            reasons.append(
                f"steps {self.steps} is not a multiple of the {rollout.updates_per_rollout} updates per rollout; "
                "the last rollout would be paid for and not used"
            )
        if reasons:
            raise ValueError("; ".join(reasons))
        return self


def with_params(base: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the nested mapping `base` with dotted names set, such as {"loss.beta1": 0.3}.

    Raises: ValueError, if a name runs through something that is not a mapping.
    """
    result: dict[str, Any] = {key: _copy(value) for key, value in base.items()}
    for name, value in params.items():
        *path, leaf = name.split(".")
        node = result
        for key in path:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                raise ValueError(f"{name}: {key} is a value, not a group of settings")
        node[leaf] = value
    return result


def _copy(value: Any) -> Any:
    return {key: _copy(inner) for key, inner in value.items()} if isinstance(value, dict) else value
