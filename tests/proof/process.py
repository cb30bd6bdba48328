"""One of two processes that train together: python -m tests.proof.process FOLDER CACHE.

In float64 each compares its loss with TRL's, and leaves what it was given so that one process can make the same updates
alone. Then both run the command line: a whole run, and its end again from a checkpoint.
"""

import sys
import warnings
from pathlib import Path

import torch

from tests.proof.trl_comparison import PARITIES, compared
from trainers.command_line import main as command
from trainers.process.launch import end_process

UPDATES = 10


def main(folder: Path, cache: Path) -> None:
    # TRL 1.16 uses names that transformers 5.23 changed.
    warnings.filterwarnings("ignore", message=r"`\w*gradient_checkpointing\w*` is", category=FutureWarning)
    for name in PARITIES:
        trainer, _ = compared(name, folder, cache, device_batch=4, steps=UPDATES)
        parts = ("loss_gaps", "gradient_gaps", "largest", "batches", "losses", "initial")
        left = {part: getattr(trainer, part) for part in parts} | {"final": trainer.model.state_dict()}
        torch.save(left, folder / f"{name}-{trainer.accelerator.process_index}.pt")
    run = [str(folder / "run.yaml"), "--cache", str(cache), "--output"]
    assert command([*run, str(folder / "whole")]) == 0
    assert command([*run, str(folder / "half"), "--resume-from", str(folder / "whole" / "step-5")]) == 0
    end_process(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
