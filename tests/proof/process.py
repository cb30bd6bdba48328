"""One of two processes that train together in float64: python -m tests.proof.process FOLDER CACHE.

Each compares its loss with TRL's and leaves what it was given, so that one process can make the same updates alone.
"""

import sys
import warnings
from pathlib import Path

import torch

from tests.proof.trl_comparison import PARITIES, compared


def main(folder: Path, cache: Path) -> None:
    # TRL 1.16 uses names that transformers 5.23 changed.
    warnings.filterwarnings("ignore", message=r"`\w*gradient_checkpointing\w*` is", category=FutureWarning)
    for name in PARITIES:
        trainer, _ = compared(name, folder, cache, device_batch=4, steps=20)
        assert trainer.accelerator.num_processes == 2
        parts = ("loss_gaps", "gradient_gaps", "largest", "batches", "losses", "initial")
        left = {part: getattr(trainer, part) for part in parts} | {"final": trainer.model.state_dict()}
        torch.save(left, folder / f"{name}-{trainer.accelerator.process_index}.pt")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
