"""The configuration of one training run: `TrainingConfig`, its parts, and how dotted names change it.

Imports no torch, so the API validates configurations without it. Sizes are in the paper's units (prompts per
rollout, completions per prompt, prompts per minibatch); device batches and accumulation follow from them.
"""
# These imports are the package's public names.
# ruff: noqa: F401
# pyright: reportUnusedImport=false

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Final, cast

from pydantic import Field, model_validator

from trainers.config.base import CatalogName, Frozen
from trainers.config.data_config import DataConfig, HeldOutData
from trainers.config.engine_config import EngineConfig, TransformersEngine, VLLMEngine
from trainers.config.model_config import (
    ComputeConfig,
    LoRAConfig,
    ModelConfig,
    OptimizerConfig,
    PretrainedModel,
    TinyPolicy,
)
from trainers.config.nearest import divisors, multiples, nearest
from trainers.config.sampling_config import DynamicSampling, EvaluationConfig, RolloutConfig
from trainers.config.task_config import CountdownTask, ExpressionsTask, TaskConfig, WordProblemsTask
from trainers.losses import AdvantageParams, AggregationParams, AnyLoss, CEGPPOParams, CriticParams, TermsParams
from trainers.losses.base import MAX_STEPS

_SMALLEST_BF16_LEARNING_RATE: Final = 1e-4
_DEVICE_BATCH: Final = 64


def _largest_divisor(number: int, most: int) -> int:
    return next(size for size in range(most, 0, -1) if number % size == 0)


class TrainingConfig(Frozen):
    """One training run, complete: the same config and seed on the same machine give the same run."""

    task: Annotated[TaskConfig, Field(discriminator="name")] = ExpressionsTask()
    model: Annotated[ModelConfig, Field(discriminator="name")] = TinyPolicy()
    loss: AnyLoss = CEGPPOParams()
    advantage: AdvantageParams = AdvantageParams()
    aggregation: AggregationParams = AggregationParams()
    terms: TermsParams = TermsParams()
    critic: CriticParams | None = Field(
        default=None,
        exclude_if=lambda critic: critic is None,  # so that older configurations keep their names
        description="A value head, whose advantages take the place of group-relative ones; null: none.",
    )
    rollout: RolloutConfig = RolloutConfig()
    optimizer: OptimizerConfig = OptimizerConfig()
    compute: ComputeConfig = ComputeConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    steps: int = Field(default=480, ge=1, le=MAX_STEPS, description="Optimizer updates.")
    device_batch: int = Field(
        default_factory=lambda fields: _largest_divisor(fields["rollout"].minibatch, _DEVICE_BATCH),
        ge=1,
        le=1_000_000,
        description="Sequences per forward and backward pass and process; by default up to 64 that divide a minibatch.",
        json_schema_extra={"default": _DEVICE_BATCH},
    )
    checkpoint_every_rollouts: int = Field(default=10, ge=1, le=MAX_STEPS)
    kept_checkpoints: int = Field(
        default=2, ge=1, le=MAX_STEPS, description="Newest checkpoints kept; older ones are removed."
    )
    keep_best: bool = Field(
        default=False, description="Keep the weights of the best evaluation, too; what is reported is the last one."
    )
    seed: int = Field(default=0, ge=0, lt=2**32)

    @property
    def accumulation_steps(self) -> int:
        """Number of device batches per optimizer update, over all processes."""
        return self.rollout.minibatch // self.device_batch

    @model_validator(mode="before")
    @classmethod
    def _default_names(cls, data: Any) -> Any:
        """Let a part be given without its name, so that loss.beta1=0.3 alone changes the default loss."""
        if not isinstance(data, Mapping):
            return data
        if "use_liger_kernel" in data:
            raise ValueError(
                "use_liger_kernel: Liger's fused loss would replace the loss named here without a word; leave it out "
                "(log-probabilities come from a fused head already, without materialised logits)"
            )
        parts = {
            part: {"name": cls.model_fields[part].default.name, **data[part]}
            for part in ("task", "model", "loss")
            if isinstance(data.get(part), Mapping)
        }
        return {**data, **parts}

    def _refusals(self) -> Iterator[str]:
        """Refuse what cannot run or would train something else than it says; all reasons at once."""
        rollout = self.rollout
        if (minibatch := rollout.minibatch) % self.device_batch:
            yield (
                f"device_batch {self.device_batch} does not divide the minibatch of {minibatch} sequences "
                f"({rollout.prompts_per_minibatch} prompts x {rollout.completions_per_prompt} completions); "
                f"{nearest('device_batch', self.device_batch, divisors(minibatch))}"
            )
        if rollout.updates_per_rollout == 1:
            yield (
                f"one update per rollout keeps every ratio at 1, so {self.loss.name}'s clip bounds and betas "
                "do nothing; set rollout.prompts_per_minibatch to a fraction of rollout.prompts_per_rollout"
            )
        if rollout.top_p < 1:
            yield (
                f"rollout.top_p {rollout.top_p:g}: completions would be drawn from a distribution that is cut, while "
                "log-probabilities and ratios are of the whole one; set it to 1 (evaluation.top_p may be less)"
            )
        if self.steps % (updates := rollout.updates_per_rollout):
            yield (
                f"steps {self.steps} is not a multiple of the {updates} updates per rollout, so the last rollout would "
                f"be paid for and not used; {nearest('steps', self.steps, multiples(updates, self.steps, updates))}"
            )
        if (fixed := self.loss.fixed_aggregation) and self.aggregation.mode not in (None, fixed):
            yield (
                f"aggregation.mode {self.aggregation.mode}: {self.loss.name} is defined with {fixed} only; "
                "use that or null"
            )
        if isinstance(self.loss, CEGPPOParams):
            for late in (switch.step for switch in self.loss.schedule if switch.step >= self.steps):
                yield f"loss.schedule: the switch at step {late} comes after all {self.steps} steps; remove it"
        weight = self.advantage.positive_weight
        if weight is not None and weight.rise_until is not None and weight.rise_from >= self.steps:
            yield (
                f"advantage.positive_weight.rise_from {weight.rise_from}: the weight would rise after all {self.steps} "
                "steps; lower it"
            )
        yield from self._inert_bf16()
        chat = isinstance(self.task, WordProblemsTask) and self.task.data.template == "chat"
        if chat and isinstance(self.model, TinyPolicy):
            yield f"task.data.template chat: model {self.model.name} is made from scratch; use raw"
        if isinstance(rollout.engine, VLLMEngine):
            yield from self._vllm(rollout.engine)
        if self.critic is not None:
            yield from self._critic_alone()

    @property
    def copies_initial_model(self) -> bool:
        """True if a run holds the initial model a second time, frozen; below LoRA adapters it is there anyway."""
        return self.terms.kl.coefficient > 0 and self.model.lora is None

    @property
    def longest_completion(self) -> int:
        """Length in tokens of the longest completion that training or evaluation may ask for."""
        return max(self.rollout.max_completion_tokens, self.evaluation.max_completion_tokens or 0)

    def _vllm(self, engine: VLLMEngine) -> Iterator[str]:
        if not isinstance(self.model, PretrainedModel):
            yield (
                f"rollout.engine vllm: model {self.model.name} has one token a character, which vLLM cannot read; "
                "use a pretrained model, or engine transformers"
            )
        prompt = self.task.max_prompt_tokens if isinstance(self.task, WordProblemsTask) else 1
        if engine.max_length is not None and engine.max_length < prompt + self.longest_completion:
            yield (
                f"rollout.engine.max_length {engine.max_length}: prompts of {prompt} tokens and completions of "
                f"{self.longest_completion} would be cut; give {prompt + self.longest_completion} or more, or null"
            )

    def _critic_alone(self) -> Iterator[str]:
        """Refuse settings of group-relative advantages that would do nothing, or harm, beside a critic."""
        if self.advantage != AdvantageParams():
            yield (
                "advantage is about group-relative advantages, and with critic there are none; leave it out, and set "
                "critic.normalize to say whether advantages are divided by their standard deviation"
            )
        if self.aggregation.denominator == "active":
            yield (
                "aggregation.denominator active leaves out groups whose rewards do not differ, which critic learns "
                "from all the same; set it to window, or leave critic out"
            )

    def _inert_bf16(self) -> Iterator[str]:
        model, rate = self.model, self.optimizer.learning_rate
        trains_bf16 = isinstance(model, PretrainedModel) and model.weights_dtype == "bfloat16" and model.lora is None
        if trains_bf16 and rate < _SMALLEST_BF16_LEARNING_RATE:
            yield (
                f"model.weights_dtype bfloat16 with optimizer.learning_rate {rate:g}: updates this small round away in "
                "bfloat16 (at 1e-6 fewer than 1 % of the weights move); keep float32 weights and set compute.autocast "
                "to bfloat16"
            )


def with_params(base: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of the nested mapping `base` with dotted names set, such as {"loss.beta1": 0.3}.

    Raises: ValueError, if a name runs through something that is not a mapping.
    """
    result = _copied(base)
    for name, value in params.items():
        *path, leaf = name.split(".")
        node: Any = result
        for key in path:
            node = node.setdefault(key, {})
            if not isinstance(node, dict):
                form = (
                    f"; write it as {{{'ref' if key == 'data' else 'name'}: {node}}}" if isinstance(node, str) else ""
                )
                raise ValueError(f"{name}: {key} is a value, not a group of settings{form}")
        node[leaf] = value
    return result


def _copied(node: Mapping[str, Any]) -> dict[str, Any]:
    """Copy the groups of settings and share their values, which nobody changes; a deep copy takes ten times as long."""
    return {
        key: _copied(cast("dict[str, Any]", value)) if isinstance(value, dict) else value for key, value in node.items()
    }
