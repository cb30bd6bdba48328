"""The cost probe measures a run before it starts: a few updates with texts as long as the run allows.

It is a separate run with the same model, data, batches, optimizer and processes; it keeps no checkpoint and evaluates
one batch. Every completion reaches the longest length allowed, so time and memory are upper bounds for training.
"""

import math
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, Final

from accelerate.utils import gather_object
from torch import Tensor
from transformers import GenerationConfig

from trainers.config import TinyPolicy, TrainingConfig, VLLMEngine, with_params
from trainers.cost.cost_figures import PHASES, CostFigures
from trainers.cost.cost_meter import CostMeter, process_age_s, settle
from trainers.losses import CEGPPOParams
from trainers.losses.base import MAX_STEPS
from trainers.policy.checkpoints import checkpoint_folder
from trainers.process.device import device
from trainers.process.events import EventWriter, NoEvents
from trainers.process.parallel import process_state
from trainers.record.recorder import Outcome, Recorder
from trainers.rollouts.rollout import Collected, Group
from trainers.tasks.base import Problem, Task
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import Folders
from trainers.training.train import train

UPDATES: Final = 3


def measure_cost(
    config: TrainingConfig, output: Path, events: EventWriter, *, cache: Path, stopping: Callable[[], bool]
) -> Outcome:
    """Measure what `config` costs and write the event `cost`. Arguments and errors are those of `train`."""
    make = partial(CostProbeTrainer, full_run=config, events=events, age_s=process_age_s())
    short = shortened(config, process_state().num_processes)
    return train(short, output, events, cache=cache, stopping=stopping, make=make)


def shortened(config: TrainingConfig, processes: int) -> TrainingConfig:
    """Cut the run to one rollout of `UPDATES` updates, or as few more as the processes can share equally."""
    minibatch = config.rollout.prompts_per_minibatch
    updates = next(n for n in range(UPDATES, UPDATES + processes) if n * minibatch % processes == 0)
    changes: dict[str, Any] = {
        "steps": updates,
        "rollout.prompts_per_rollout": updates * minibatch,
        "rollout.dynamic_sampling": None,
        "evaluation.every_steps": MAX_STEPS,
        "evaluation.probe_completions": 0,
        "keep_best": False,
    }
    if isinstance(config.loss, CEGPPOParams):
        changes["loss.schedule"] = []
    return TrainingConfig.model_validate(with_params(config.model_dump(mode="json"), changes))


class CostProbeTrainer(PolicyTrainer):
    """Trains at full length and measures the cost. Training itself is not recorded.

    Args:
        full_run: the run whose cost is measured.
        events: gets the phases as `progress` and in the end `cost`.
        age_s: seconds from the start of this process to that of the run.
    """

    def __init__(
        self,
        config: TrainingConfig,
        task: Task,
        folders: Folders,
        _recorder: Recorder,
        stopping: Callable[[], bool],
        state: Mapping[str, Any],
        *,
        full_run: TrainingConfig,
        events: EventWriter,
        age_s: float,
        **_: Any,
    ) -> None:
        began = time.perf_counter()
        self._full_run, self._events = full_run, events
        self._meter = CostMeter(
            lambda phase: events.write("progress", phase=phase, done=PHASES.index(phase), total=len(PHASES))
        )
        self._updates_s: list[float] = []
        self._figures: dict[str, float] = {}
        self._meter.begin("loading")
        super().__init__(config, task, folders, Recorder(NoEvents(), config.steps, 0, {}), stopping, state)
        made_s = age_s + time.perf_counter() - began  # leaves out a warm start, which is made only once
        self._start_s = made_s if isinstance(full_run.model, TinyPolicy) else process_age_s()

    def run(self, resume_from: Path | None) -> None:
        """Measure. A run that was stopped early reports no figures."""
        super().run(resume_from)
        self._meter.end()
        if self.interrupted or self.state.global_step < self._config.steps:
            return
        peaks: list[dict[str, float]] = gather_object([self._meter.peak_mib])
        if not self.accelerator.is_main_process:
            return
        highest = {phase: max(peak[phase] for peak in peaks) for phase in self._meter.peak_mib}
        name, memory_mib = device()
        seconds, rollout = self._meter.seconds, self._config.rollout
        figures = CostFigures.model_validate(
            {
                **self._figures,
                "device": name,
                "device_memory_mib": memory_mib,
                "processes": self._processes,
                "start_s": self._start_s,
                "sampling_s": seconds["sampling"],
                "scored_completions": rollout.completions_per_rollout,
                "scoring_s": seconds["scoring"],
                "minibatch_completions": rollout.completions_per_rollout // self._config.steps,
                "update_s": median(self._updates_s),
                "updates": len(self._updates_s),
                "validation_problems": len(self._task.validation),
                "validation_groups": len({problem.group_text for problem in self._task.validation}),
                "evaluation_s": seconds["evaluation"],
                "checkpoint_s": seconds["checkpoint"],
                "peak_mib": highest,
            }
        )
        self._events.write("cost", figures=figures.model_dump(mode="json"))

    # sampling

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        """Let no completion end early."""
        if isinstance(self._full_run.rollout.engine, VLLMEngine):
            engine: Any = self.vllm_generation
            before = engine.generation_kwargs
            engine.generation_kwargs = {**before, "ignore_eos": True, "stop_token_ids": []}
            try:
                return super()._generate_single_turn(*args, **kwargs)
            finally:
                engine.generation_kwargs = before
        config, settings = self.generation_config, self.generation_kwargs
        longest = {**settings, "min_new_tokens": settings["max_new_tokens"]}
        self.generation_config = GenerationConfig(**longest, disable_compile=True)
        try:
            return super()._generate_single_turn(*args, **kwargs)
        finally:
            self.generation_config = config

    def _sampled_groups(self, indices: list[int], seed: int) -> list[Group]:
        """Sample the longest prompts, as many at a time as the run would; only the requested ones are trained on."""
        self._meter.begin("sampling")
        size = self._config.rollout.completions_per_prompt
        number = max(len(indices), math.ceil(self._at_once() / size))
        groups = super()._sampled_groups(self._longest(self._task.training, number), seed)
        self._figures |= {
            "prompt_tokens": max(len(group[0].prompt_ids) for group in groups),
            "completion_tokens": max(len(sample.completion_ids) for group in groups for sample in group),
            "sampled_completions": len(groups) * size * self._processes,
        }
        return groups[: len(indices)]

    def _at_once(self) -> int:
        """Return the number of completions that each process samples at a time; 0 with vLLM, which decides itself."""
        rollout = self._full_run.rollout
        if rollout.sampling_batch is not None:
            return rollout.sampling_batch
        if isinstance(rollout.engine, VLLMEngine):
            return 0
        dynamic = rollout.dynamic_sampling
        prompts = dynamic.prompts_per_round if dynamic else rollout.prompts_per_rollout
        return prompts // self._processes * rollout.completions_per_prompt

    def _longest(self, problems: Sequence[Problem], number: int) -> list[int]:
        """Return the indices of the problems with the longest prompts, repeated if there are too few."""
        lengths = [len(ids) for ids in self._token_ids(problems)]
        order = sorted(range(len(problems)), key=lambda index: -lengths[index])[:number]
        return [order[place % len(order)] for place in range(number)]

    def _scored(self, collected: Collected) -> dict[str, Any]:
        self._meter.begin("scoring")
        tensors = super()._scored(collected)
        self._meter.begin("update")
        return tensors

    # updates, and what comes after them

    def training_step(self, *args: Any, **kwargs: Any) -> Tensor:
        """Run forward and backward on a device batch."""
        loss = super().training_step(*args, **kwargs)
        settle()  # so that an error of the GPU is raised in this update
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        """Note how long an update took."""
        if "grad_norm" in logs:
            settle()
            self._updates_s.append(time.perf_counter() - self._step_started - self._generation_s)
        super().log(logs, start_time)

    def evaluate(self, *_: Any, **__: Any) -> dict[str, float]:
        """Sample and judge one batch after the last update; nothing before the first."""
        if not self.state.global_step:
            return {}
        self._meter.begin("evaluation")
        problems = self._task.validation
        everything = len(problems) * self._full_run.evaluation.samples_per_problem
        at_once = self._full_run.evaluation.sampling_batch * self._processes
        batch = [problems[index] for index in self._longest(problems, min(everything, at_once))]
        short, self._config = self._config, self._full_run  # its batch sizes are to be measured
        try:
            completions = [completion for completion, _ in self._judged(batch)]
        finally:
            self._config = short
        self.control = self.callback_handler.on_evaluate(self.args, self.state, self.control, {})
        self._figures |= {
            "evaluated_completions": len(batch),
            "eval_completion_tokens": max(completion.tokens for completion in completions),
        }
        return {}

    def _save_checkpoint(self, *args: Any, **kwargs: Any) -> None:
        self._meter.begin("checkpoint")
        super()._save_checkpoint(*args, **kwargs)

    def publish_checkpoint(self) -> None:
        """Save as a run does, take the size, and remove it."""
        super().publish_checkpoint()
        self._meter.end()
        folder = checkpoint_folder(self._folders.output, self.state.global_step)
        if self.accelerator.is_main_process:
            sizes = {path: path.stat().st_size for path in folder.rglob("*") if path.is_file()}
            self._figures["checkpoint_bytes"] = sum(sizes.values())
            self._figures["model_bytes"] = sum(sizes[path] for path in sizes if path.suffix == ".safetensors")
            shutil.rmtree(folder)
