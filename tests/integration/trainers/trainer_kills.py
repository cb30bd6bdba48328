"""Runs one training command again and again in forked children, each of which signals itself at a planted moment.

python -m tests.integration.trainers.trainer_kills MOMENTS.json COMMAND... prints how each child ended, as JSON. A
moment is [place, count, signal]: the signal is raised when the place is reached for the count-th time; null means that
none is. Torch is imported once, before the forks.
"""

import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import trainers.evaluation.evaluate
import trainers.policy.checkpoints
import trainers.training.train
from trainers.command_line import main
from trainers.process.environment import ENVIRONMENT
from trainers.training.policy_trainer import PolicyTrainer

PLACES: dict[str, tuple[Any, str]] = {
    "sampling": (PolicyTrainer, "_before_forward"),  # before each token of rollouts and evaluations
    "loss": (PolicyTrainer, "_compute_loss"),
    "update": (torch.optim.AdamW, "step"),
    "state": (trainers.policy.checkpoints, "move_whole"),  # all files are written, the checkpoint has no name yet
    "removal": (trainers.policy.checkpoints, "_remove"),  # the new checkpoint has its name, old ones are there
}


def plant(place: str, count: int, number: int) -> None:
    """Raise the signal when the place is reached for the count-th time."""
    owner, name = PLACES[place]
    original: Callable[..., Any] = getattr(owner, name)
    reached = 0

    def replacement(*args: Any, **kwargs: Any) -> Any:
        nonlocal reached
        sampling = place != "sampling" or args[0]._sampling
        reached += sampling
        if sampling and reached == count:
            os.kill(os.getpid(), number)
        return original(*args, **kwargs)

    setattr(owner, name, replacement)


def child(moment: tuple[str, int, int] | None, command: list[str]) -> int:
    """Run the command in a fork; returns its exit code, or minus the signal that ended it."""
    pid = os.fork()
    if not pid:
        if moment is not None:
            plant(*moment)
        os._exit(main(command))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


if __name__ == "__main__":
    os.environ.update(ENVIRONMENT)
    torch.set_num_threads(1)
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    moments = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print(json.dumps([child(moment and tuple(moment), sys.argv[2:]) for moment in moments]))
