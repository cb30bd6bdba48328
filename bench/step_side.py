"""One side of `step_time.py`: a trainer that repeats recorded updates, some at a time, when asked to.

python bench/step_side.py ours|trl FOLDER. FOLDER holds what `step_recording.py` writes, and gets the losses and the
last gradient of the first turn. Each line read asks for a turn, whose updates are the recorded batches, one each; its
answer is what it took, as JSON.
"""

import gc
import json
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Final, TextIO

import numpy as np
import torch
import trl.trainer.utils
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import TrainerCallback
from trl.trainer.grpo_trainer import GRPOTrainer

from trainers.config import TrainingConfig
from trainers.policy.load_policy import load_policy, load_tokenizer
from trainers.process.events import EventWriter
from trainers.record.recorder import Recorder
from trainers.record.rollout_stats import rollout_stats
from trainers.tasks import make_task
from trainers.tasks.base import Completion, Judgement
from trainers.training.policy_trainer import PolicyTrainer
from trainers.training.sampling_trainer import Folders
from trainers.training.training_arguments import training_arguments


class _Recorded(GRPOTrainer):
    """Trains on `batches`, over and over, instead of sampling, and loads no data."""

    batches: list[dict[str, torch.Tensor]]
    losses: list[torch.Tensor]
    probe = np.zeros(2)
    """What our probe took in this turn, as `_now` counts."""

    def get_train_dataloader(self) -> Any:
        return DataLoader([{}] * self.args.max_steps, batch_size=None)

    def _prepare_inputs(self, generation_batch: Any) -> dict[str, torch.Tensor]:
        return self.batches[self._step % len(self.batches)]

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        loss = super()._compute_loss(model, inputs)
        if len(self.losses) < len(self.batches):
            self.losses.append(loss.detach())
        return loss


class _Ours(_Recorded, PolicyTrainer):
    def measure_frozen_completions(self) -> None:
        started = _now()
        super().measure_frozen_completions()
        self.probe = _now() - started


class _Turns(TrainerCallback):
    """Lets the trainer make a turn of updates for each line read; the first warms up and is compared, not timed."""

    def __init__(self, trainer: _Recorded, folder: Path, name: str, out: TextIO) -> None:
        self._trainer, self._folder, self._name, self._out = trainer, folder, name, out
        self._began = _now()

    def on_pre_optimizer_step(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step == len(self._trainer.batches) - 1:
            gradient = torch.cat([p.grad.flatten() for p in self._trainer.model.parameters() if p.grad is not None])
            losses = torch.stack(self._trainer.losses)
            torch.save({"losses": losses, "gradient": gradient}, self._folder / f"{self._name}.pt")

    def on_step_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % len(self._trainer.batches):
            return
        if state.global_step:
            self._answer()
        if state.global_step == len(self._trainer.batches):  # warm: from here on peaks count
            gc.collect()
            Path("/proc/self/clear_refs").write_text("5")
        if not sys.stdin.readline():
            os._exit(0)
        self._began = _now()

    def _answer(self) -> None:
        wall_s, cpu_s = _now() - self._began - self._trainer.probe
        taken = {
            "wall_s": wall_s,
            "cpu_s": cpu_s,
            "probe_s": self._trainer.probe[1],
            "peak_mib": _mib("VmHWM"),
            "libraries_mib": _LIBRARIES_MIB,
        }
        self._out.write(json.dumps(taken) + "\n")
        self._out.flush()


def _now() -> np.ndarray:
    """Wall clock and CPU time, in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def _mib(name: str) -> float:
    found = re.search(rf"{name}:\s+([0-9]+) kB", Path("/proc/self/status").read_text())
    assert found
    return int(found[1]) / 1024


_LIBRARIES_MIB: Final = _mib("VmRSS")


def _ours(config: TrainingConfig, folder: Path) -> _Ours:
    recorder = Recorder(EventWriter(folder / "events.jsonl"), config.steps, 0, {})
    folders = Folders(folder / "model", folder / "ours", folder)
    trainer = _Ours(config, make_task(config.task, folder), folders, recorder, lambda: False, {"evaluated_step": 0})
    group = [(Completion("1+1", 4, truncated=False), Judgement(reward, reward > 0)) for reward in (0.0, 1.0)]
    trainer._rollout_metrics = rollout_stats([group], 1, trainer.accelerator)
    return trainer


def _stock(config: TrainingConfig, folder: Path) -> _Recorded:
    model = load_policy(folder / "model", config.model)
    trl.trainer.utils._CHUNKED_LOGPROB_CHUNK_SIZE = min(model.config.vocab_size, 32768)  # as ours
    arguments = training_arguments(config, folder / "trl", 1)
    arguments.loss_type, arguments.epsilon, arguments.epsilon_high = "dapo", 1 - config.loss.low, config.loss.high - 1
    arguments.delta = config.loss.dual_clip
    return _Recorded(
        model=model,
        processing_class=load_tokenizer(folder / "model"),
        reward_funcs=lambda prompts, **_: [0.0] * len(prompts),
        args=arguments,
        train_dataset=Dataset.from_dict({"prompt": [""]}),
    )


def main(name: str, folder: Path) -> None:
    """Wait for turns until standard input ends."""
    out, sys.stdout = sys.stdout, open(os.devnull, "w")  # noqa: SIM115 the libraries' logs; turns are answered on `out`
    config = TrainingConfig.model_validate_json((folder / "config.json").read_text())
    trainer = {"ours": _ours, "trl": _stock}[name](config, folder)
    trainer.batches, trainer.losses = torch.load(folder / "batches.pt"), []
    trainer.add_callback(_Turns(trainer, folder, name, out))
    trainer.train()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
