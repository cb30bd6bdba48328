"""The settings of sampling in training and evaluation."""

from collections.abc import Iterator
from typing import Annotated, Final

from pydantic import Field

from trainers.config.base import Frozen
from trainers.config.engine_config import EngineConfig, TransformersEngine
from trainers.config.nearest import divisors, multiples, nearest
from trainers.losses import OverlongParams
from trainers.losses.base import MAX_STEPS

_PASS_K: Final = 8
MAX_PROMPTS: Final = 100_000
"""Largest number of prompts of a rollout; published trainings have a thousand."""


class DynamicSampling(Frozen):
    """Replace groups without a spread of rewards by new ones before training on a rollout (DAPO, arXiv:2503.14476).

    What is still missing after `max_rounds` is filled with groups without spread, which pass no gradient; with
    `aggregation.denominator: active` that is training on a smaller batch, as the CE-GPPO recipes do.
    """

    prompts_per_round: int = Field(default=32, ge=1, le=MAX_PROMPTS, description="Prompts sampled at a time.")
    max_rounds: int = Field(default=4, ge=1, le=100)


class RolloutConfig(Frozen):
    """Sampling of completions, and the minibatches of a rollout."""

    prompts_per_rollout: int = Field(default=32, ge=1, le=MAX_PROMPTS)
    completions_per_prompt: int = Field(
        default=16, ge=2, le=10_000, description="Size of the group that advantages compare."
    )
    prompts_per_minibatch: int = Field(default=4, ge=1, le=MAX_PROMPTS, description="Prompts of one optimizer update.")
    max_completion_tokens: int = Field(default=12, ge=1, le=65536)
    temperature: float = Field(default=1.0, ge=0.01, le=5)
    top_p: float = Field(default=1.0, gt=0, le=1)
    sampling_batch: int | None = Field(
        default=None,
        ge=1,
        le=1_000_000,
        description="Completions that each process samples at a time, as memory allows; null: a whole round.",
    )
    engine: Annotated[EngineConfig, Field(discriminator="name")] = TransformersEngine()
    dynamic_sampling: DynamicSampling | None = None
    overlong: OverlongParams | None = Field(default=None, description="Penalty on long completions; null for none.")

    @property
    def updates_per_rollout(self) -> int:
        """Number of optimizer updates made from one rollout."""
        return self.prompts_per_rollout // self.prompts_per_minibatch

    @property
    def minibatch(self) -> int:
        """Number of sequences of one optimizer update."""
        return self.prompts_per_minibatch * self.completions_per_prompt

    @property
    def completions_per_rollout(self) -> int:
        """Number of completions that are trained on from one rollout."""
        return self.prompts_per_rollout * self.completions_per_prompt

    def _refusals(self) -> Iterator[str]:
        if self.prompts_per_rollout % self.prompts_per_minibatch:
            whole, part = "rollout.prompts_per_rollout", "rollout.prompts_per_minibatch"
            size, share = self.prompts_per_rollout, self.prompts_per_minibatch
            remedies = [  # with two updates per rollout or more
                nearest(whole, size, multiples(share, size, 2 * share)),
                nearest(part, share, divisors(size)[:-1]),
            ]
            yield f"{whole} {size} is not a multiple of {part} {share}; {', or '.join(filter(None, remedies))}"
        sampling = self.dynamic_sampling
        if sampling and sampling.prompts_per_round * sampling.max_rounds < self.prompts_per_rollout:
            yield (
                f"dynamic_sampling draws at most {sampling.prompts_per_round} x {sampling.max_rounds} prompts, "
                f"fewer than prompts_per_rollout {self.prompts_per_rollout}; raise prompts_per_round or max_rounds"
            )
        if self.overlong and self.overlong.cache_tokens > self.max_completion_tokens:
            yield (
                f"overlong.cache_tokens {self.overlong.cache_tokens} exceeds max_completion_tokens "
                f"{self.max_completion_tokens}: every completion would be penalised; lower it"
            )


class EvaluationConfig(Frozen):
    """Sampling on the held-out validation problems. Separate from training's sampling; changes no training state."""

    every_steps: int = Field(
        default=40, ge=1, le=MAX_STEPS, description="Updates between evaluations; the last step has one, too."
    )
    samples_per_problem: int = Field(default=32, ge=1, le=10_000, description="The k of avg@k.")
    pass_k: int = Field(
        default_factory=lambda fields: min(_PASS_K, fields["samples_per_problem"]),
        ge=1,
        le=10_000,
        description="The k of the unbiased pass@k; by default no more than samples_per_problem.",
        json_schema_extra={"default": _PASS_K},
    )
    temperature: float = Field(default=1.0, ge=0.01, le=5)
    top_p: float = Field(default=1.0, gt=0, le=1)
    max_completion_tokens: int | None = Field(default=None, ge=1, le=131072, description="null: as in the rollout.")
    sampling_batch: int = Field(
        default=512,
        ge=1,
        le=1_000_000,
        description="Completions that each process samples at a time, as memory allows; vLLM makes its own batches. "
        "Other sizes draw other completions.",
    )
    shown_samples: int = Field(default=8, ge=0, le=64, description="Completions recorded with rewards per evaluation.")
    probe_completions: int = Field(
        default=32,
        ge=0,
        le=4096,
        description="Frozen completions of the initial policy to measure entropy on after every rollout; 0: none.",
    )

    def _refusals(self) -> Iterator[str]:
        if self.pass_k > self.samples_per_problem:
            yield (
                f"evaluation.pass_k {self.pass_k} exceeds evaluation.samples_per_problem {self.samples_per_problem}; "
                f"set evaluation.pass_k to {self.samples_per_problem} or less, or evaluation.samples_per_problem to "
                f"{self.pass_k} or more"
            )
