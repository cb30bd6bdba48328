"""A training run small enough for tests, that learns: 3 rollouts a second, rewards neither all 0 nor all 1."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors.torch import load_file

from trainers.config import TrainingConfig, with_params
from trainers.process.events import EventWriter, read_events
from trainers.training.train import train

SMALL: dict[str, Any] = {
    "task": {"smallest": 2, "largest": 12},
    "model": {"hidden_size": 32, "num_layers": 1, "num_heads": 2, "warm_start_steps": 400},
    "loss": {"name": "ce_gppo", "epsilon": 0.05},
    "rollout": {"prompts_per_rollout": 8, "completions_per_prompt": 8, "prompts_per_minibatch": 2},
    "optimizer": {"learning_rate": 1e-3, "warmup_steps": 0},
    "evaluation": {"every_steps": 8, "samples_per_problem": 4, "pass_k": 2},
    "device_batch": 16,
    "checkpoint_every_rollouts": 2,
    "steps": 16,
}


class Run(NamedTuple):
    outcome: str
    events: list[dict[str, Any]]
    output: Path

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    def weights(self, step: int) -> dict[str, torch.Tensor]:
        return load_file(self.output / f"step-{step}" / "model.safetensors")

    def metrics(self, after: int = 0) -> list[dict[str, float | None]]:
        """Each step's metrics past a step, without the machine's."""
        return [
            {name: value for name, value in event["metrics"].items() if not name.startswith(OF_THE_MACHINE)}
            for event in self.of("step")
            if event["step"] > after
        ]

    @property
    def steps_done(self) -> int:
        return max((event["step"] for event in self.of("step")), default=0)


OF_THE_MACHINE = ("time/", "memory/", "tokens/per_second")


def run_so_far(output: Path) -> Run:
    """What the record in a folder says by now."""
    path = output / "events.jsonl"
    return Run("", read_events(path) if path.exists() else [], output)


def small_config(**params: Any) -> TrainingConfig:
    """The small run with dotted names changed; a dot is written as two underscores."""
    return TrainingConfig.model_validate(
        with_params(SMALL, {name.replace("__", "."): value for name, value in params.items()})
    )


def run(
    config: TrainingConfig,
    output: Path,
    cache: Path,
    resume_from: Path | None = None,
    stopping: Callable[[], bool] = lambda: False,
) -> Run:
    """Train in this process."""
    with EventWriter(output / "events.jsonl") as events:
        outcome = train(config, output, events, cache=cache, resume_from=resume_from, stopping=stopping)
    return Run(outcome, read_events(output / "events.jsonl"), output)
