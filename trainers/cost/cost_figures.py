"""The figures that a cost probe measures, from which the cost of whole runs follows. Imports no torch."""

from pydantic import Field

from trainers.config.base import Frozen

PHASES = ("loading", "sampling", "scoring", "update", "evaluation", "checkpoint")
"""Phases of a training run, in their order."""


class CostFigures(Frozen):
    """One process group's seconds, tokens and memory with every prompt and completion as long as the run allows.

    Counts are over all processes together; seconds are of the clock.
    """

    device: str = Field(description="Name of the GPU, or of the processor.")
    device_memory_mib: float = Field(description="Memory of one such device.")
    processes: int
    prompt_tokens: int = Field(description="Of the longest training prompt, which every prompt was.")
    completion_tokens: int = Field(description="Of every completion in training.")
    eval_completion_tokens: int = Field(description="Of every completion in evaluation.")
    start_s: float = Field(description="From the process's start to its first sampling, without a warm start.")
    sampled_completions: int
    sampling_s: float = Field(description="Sampling and judging them.")
    scored_completions: int
    scoring_s: float = Field(description="Their log-probabilities before the first update.")
    minibatch_completions: int = Field(description="Completions of one update.")
    update_s: float = Field(description="Median of the updates.")
    updates: int
    validation_problems: int
    validation_groups: int | None = Field(default=None, description="Independent ones among them; null: not counted.")
    evaluated_completions: int
    evaluation_s: float = Field(description="Sampling and judging them.")
    checkpoint_s: float
    checkpoint_bytes: int = Field(description="With all that is needed to go on.")
    model_bytes: int = Field(description="The weights alone; of LoRA: the adapters.")
    peak_mib: dict[str, float] = Field(description="By phase: of the process that needed most.")

    @property
    def sampled_tokens_per_second(self) -> float:
        """Completion tokens sampled in a second."""
        return self.sampled_completions * self.completion_tokens / self.sampling_s

    @property
    def trained_tokens_per_second(self) -> float:
        """Completion tokens trained on in a second."""
        return self.minibatch_completions * self.completion_tokens / self.update_s

    @property
    def peak_phase(self) -> str:
        """Name of the phase that needed the most memory."""
        return max(self.peak_mib, key=self.peak_mib.__getitem__)
